/*
 * The inputs of fault_inputs.h.
 */
#include "tests/end_to_end/faults/fault_inputs.h"

#include <check.h>
#include <stdlib.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/crash.h"
#include "tests/support/darwin_program.h"
#include "tests/support/raw_profile.h"
#include "tests/support/sample.h"
#include "tests/support/windows_image.h"

#define CLANG      "22"
#define GONE_HOURS 100

static void shell(const char *directory, const char *script)
{
    run_or_abort(directory, "sh", "-ec", script, NULL);
}

/* Sidecars of two builds of one UUID, and a profile of one of them. */
static void make_twins(const char *directory)
{
    static const char *const gaps[] = {"", " "};

    directory_create(directory);
    for (int i = 0; i < 2; i++) {
        file_write_text(path_join(directory, "twin.c"),
                        text_format("int main(int count) { %sreturn count > 1; }\n", gaps[i]));
        shell(directory, "clang-" CLANG " -fprofile-instr-generate -fcoverage-mapping"
                         " -Wl,--build-id=0x00112233445566778899aabbccddeeff twin.c -o twin");
        covsplit_run_words(directory, 0,
                           text_format("split -o stripped --sidecar %d.covsplit twin", i));
    }
    shell(directory, "LLVM_PROFILE_FILE=light.profraw ./stripped");
}

/* A plain copy of the counters of light.profraw. */
static void write_counters(const char *inputs)
{
    struct raw_profile light;
    struct verdict verdict = {0};

    raw_profile_read(path_join(inputs, "light.profraw"), &light, &verdict);
    verdict_assert(&verdict, "light.profraw");
    file_write(path_join(inputs, "counters"), light.counters.data, light.counters.size);
    raw_profile_free(&light);
}

/* A core, compressed; and one without its notes. */
static void make_dumps(const char *directory)
{
    const struct program program = {.clang = CLANG,
                                    .linker = "lld",
                                    .kind = LINK_PIE,
                                    .language = LANGUAGE_C,
                                    .optimization = "-O1",
                                    .functions = RUN_FILES_FUNCTIONS};

    directory_create(directory);
    crash_create(&program, true, directory);
    shell(directory, "zstd -q program.core -o core.zst\n"
                     "head -c -$(($(readelf -lW program.core | awk '$1 == \"NOTE\" {print $5}')))"
                     " program.core >cut.core\n"
                     "rm program");
}

/* An image of a packed object and an ordinary one that share a function. */
static void make_packed(const char *inputs)
{
    char *directory = path_join(inputs, "objects");

    directory_create(directory);
    file_write_text(path_join(directory, "shared.h"),
                    "inline int shared(int value) { return value > 3 ? value * 2 : 1; }\n");
    file_write_text(path_join(directory, "one.cc"),
                    "#include \"shared.h\"\nint one(int value) { return shared(value) + 1; }\n");
    file_write_text(path_join(directory, "main.cc"),
                    "#include \"shared.h\"\nint one(int value);\n"
                    "int main(int count, char **) { return one(count) + shared(count) == 77; }\n");
    shell(directory, "clang++-" CLANG " " INSTRUMENT_COVERAGE " -O1 -c one.cc main.cc");
    file_copy(path_join(directory, "main.o"), path_join(inputs, "main.o"));
    shell(directory, "ar rcs ../archive.a one.o main.o; cd .. && ar rcsT thin.a main.o");
    covsplit_run_words(directory, 0, "pack one.o");
    shell(directory, "clang++-" CLANG " -fuse-ld=lld " INSTRUMENT_COVERAGE
                     " -Wl,--build-id=sha1 one.o main.o -o ../packed");
    covsplit_run_words(inputs, 0, "split -o packed.stripped --sidecar packed.side packed");
}

/* A store with a base and a delta; the same in which both are old and the base is no link; and
 * one with old bases that nobody needs, of which a gc that was killed has put one aside. */
static void make_deltas(const char *inputs)
{
    shell(inputs, "cp -a store bundle");
    covsplit_run_words(inputs, 0, "store delta bundle");
    shell(inputs, "test $(ls bundle/.build-id/bases/*.base | wc -l) = 1\n"
                  "cp -r --preserve=timestamps bundle spare\n"
                  "cp -a spare idle && rm idle/.build-id/*/*.covsplit\n"
                  "cd idle/.build-id/bases\n"
                  "cp *.base 00000000000000000000000000000000.base.aside\n"
                  "touch -d '4 days ago' * ../../../spare/.build-id/bases/*");
}

static void make_elf(const char *inputs)
{
    struct run_files files = run_files_create("fault-inputs");
    struct program shared = {.clang = CLANG,
                             .linker = "lld",
                             .kind = LINK_SHARED,
                             .language = LANGUAGE_CXX,
                             .optimization = "-O1",
                             .functions = RUN_FILES_FUNCTIONS};
    struct variant other;

    program_build(&shared, inputs);
    shared.kind = LINK_PIE;
    shared.build_id = "none";
    directory_create(path_join(inputs, "nameless"));
    program_build(&shared, path_join(inputs, "nameless"));
    other = variant_create(files.sample.image, inputs, "other", 1, 1);
    variant_create(files.sample.image, inputs, "third", 2, 2);
    run_or_abort(inputs, "mv", files.sample.image, "app", NULL);
    run_or_abort(inputs, "mv", files.sample.stripped, "stripped", NULL);
    run_or_abort(inputs, "mv", files.sample.sidecar, "side", NULL);
    run_or_abort(inputs, "mv", files.light, files.full, files.object, files.store, ".", NULL);
    covsplit_run_words(inputs, 0, "split --store store -o other.stripped other");
    covsplit_run_words(inputs, 0, "split --portable -o portable --sidecar portable.side app");
    covsplit_run_words(inputs, 0, "split --fast --store plain -o x --replace app");
    covsplit_run_words(inputs, 0, "split --fast --store plain -o x other");
    /* Another run of the program, and one of the other image. */
    shell(inputs, "LLVM_PROFILE_FILE=second.profraw ./stripped one two || test $? = 3\n"
                  "LLVM_PROFILE_FILE=other.profraw ./other.stripped || test $? = 3\n"
                  "mkdir dist profiles && cp app other dist && cp *.profraw profiles\n"
                  "rm profiles/full.profraw\n"
                  "llvm-profdata-19 merge -o full.profdata full.profraw\n"
                  "printf 'cp \"$1\" \"$3\"\\n' >linker");
    shell(inputs, "python3 " COVSPLIT_FIXTURE_DIRECTORY
                  "/../support/sparse_profile.py make other.profraw sparse");
    write_counters(inputs);
    shell(inputs, "mkdir loose && cp store/.build-id/*/*.covsplit loose && cp light.profraw loose");
    /* Cores of an image that is there, and of one that is gone. */
    shell(inputs,
          "cp stripped gone && for i in stripped gone; do\n"
          "LLVM_PROFILE_FILE=/dev/null gdb -q -batch -ex 'catch syscall exit_group' -ex run "
          "-ex \"gcore $i.core\" ./$i; done\nrm gone");
    make_twins(path_join(inputs, "twins"));
    make_dumps(path_join(inputs, "dumps"));
    make_packed(inputs);
    covsplit_run_words(inputs, 0, "export --store store --debug-dir debug");
    covsplit_run_words(inputs, 0, "export --union --store store -o all.a");
    covsplit_run_words(inputs, 0, "merge --store store --into sums profiles");
    state_leave_batch(inputs, "sums", "light.profraw second.profraw");
    file_write_text(path_join(inputs, "list"), "../in/portable.side\n../in/store\n");
    file_write_text(path_join(inputs, "keep"), text_format("%s\n", other.uuid));
    file_set_age(store_entry(path_join(inputs, "store"), other.uuid), GONE_HOURS);
    make_deltas(inputs);
}

static void make_coff(const char *inputs)
{
    static const char *const names[WINDOWS_IMAGES] = {"msvc", "arm64", "i686", "mingw", "merged"};

    windows_images_build();
    for (size_t i = 0; i < WINDOWS_IMAGES; i++) {
        char *map = text_format("%s.map", windows_images[i]);

        file_copy(windows_images[i], path_join(inputs, text_format("%s.exe", names[i])));
        if (file_exists(map))
            file_copy(map, path_join(inputs, text_format("%s.exe.map", names[i])));
    }
    covsplit_run_words(inputs, 0, "split -o merged.stripped --sidecar merged.side merged.exe");
}

static void make_macho(const char *inputs)
{
    struct darwin_program program = {
        .clang = CLANG, .architecture = "arm64", .functions = RUN_FILES_FUNCTIONS};

    darwin_program_build(&program, inputs, "chained");
    program.architecture = "x86_64";
    program.opcodes = true;
    program.late_section = true;
    darwin_program_build(&program, inputs, "opcodes");
    shell(inputs, "llvm-lipo-" CLANG " -create chained opcodes -output universal");
    covsplit_run_words(inputs, 0, "split --store fat -o universal.stripped universal");
}

void fault_inputs_create(const char *inputs)
{
    directory_create(inputs);
    make_elf(inputs);
    make_coff(inputs);
    make_macho(inputs);
}
