/*
 * Firmware: images by a linker script for a processor without a system, as in
 * share/examples/device, with that example's sources and many forms of its script.
 *
 * QEMU emulates the board, and runs what a debugger would load (the segments, at their load
 * addresses) and what would be written to flash (objcopy -O binary), of the image and of the split
 * one. The two behave alike, and their profiles and reports are the same. What is left out of the
 * split image reads as erased flash, 0xff.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define EXAMPLE COVSPLIT_FIXTURE_DIRECTORY "/../../share/examples/device"
#define DEVICE  COVSPLIT_FIXTURE_DIRECTORY "/../../device"
#define COMMON                                                                                     \
    "-Os -g -ffreestanding -ffunction-sections -fdata-sections -fno-unwind-tables "                \
    "-fno-asynchronous-unwind-tables -I" DEVICE " -I" EXAMPLE
#define NONE "--target=thumbv7m-none-eabi -mcpu=cortex-m3"
/* Before LLVM 19 only targets with a system have records to which no code refers. */
#define LINUX   "--target=armv7m-linux-gnueabi -fno-pie -mcpu=cortex-m3"
#define COVERED "-fprofile-instr-generate -fcoverage-mapping"
#define EMULATOR                                                                                   \
    "qemu-system-arm -M mps2-an385 -nodefaults -display none "                                     \
    "-semihosting-config enable=on,target=native -serial stdio"

/* What the emulator has as flash, all of it erased. */
#define FLASH_SIZE (256u << 10)
#define ERASED     0xff
/* Where the board has it again. */
#define MIRROR 0x00400000

/* Where the script has names and records: from here to its end. */
#define LAST_PART "    /* For covsplit"

struct change {
    const char *part;
    const char *replacement;
};

#define CHANGES_MAX 6

struct row {
    const char *name;
    bool is_rare; /* only run where everything is asked for (suite.h) */
    const char *clang;
    const char *linker;       /* "lld" or "bfd" */
    const char *target;       /* words; NULL: NONE */
    const char *options;      /* words for compiling all; NULL: none */
    const char *covered;      /* words for what is covered; NULL: COVERED */
    const char *link_options; /* NULL: -n and a build ID */
    const char *others;       /* compiler and words for the rest but the runtime; NULL: the same */
    const char *runtime;      /* and for that */
    const char
        *before; /* the part of the script that names and records are put before; NULL: none */
    struct change changes[CHANGES_MAX];
    size_t distance;    /* from where what is in flash is loaded to where it runs */
    const char *source; /* one more; NULL: none */
    unsigned functions; /* covered ones, beside those of the example */
    const char *names;  /* why names and data stay; NULL: they go */
    const char *data;
    const char *says;  /* a part of what else the split says; NULL: none */
    size_t flash_min;  /* the flash image ends so many bytes earlier, at least */
    size_t load_min;   /* so many bytes fewer are loaded, at least */
    const char *error; /* the image is refused; NULL: it is split */
};

#define COPIED "the image copies it from flash to RAM"

static const struct row rows[] = {
    {.name = "example", .clang = "19", .linker = "lld", .flash_min = 1000, .load_min = 1000},
    {.name = "600 functions",
     .clang = "19",
     .linker = "lld",
     .link_options = "-n --build-id=sha1 -u many_run",
     .functions = 600,
     .flash_min = 60000,
     .load_min = 60000},
    {.name = "600 functions, pages of 64 KiB",
     .is_rare = true,
     .clang = "22",
     .linker = "lld",
     .link_options = "--build-id=sha1 -u many_run",
     .functions = 600,
     .flash_min = 60000,
     .load_min = 60000,
     .says = "bytes of zeros stay in the file, but are not in flash: the image's segments are "
             "aligned to 65536 bytes; link with -n"},
    {.name = "pages of 64 KiB, MC/DC",
     .clang = "22",
     .linker = "lld",
     .options = "-O2",
     .covered = COVERED " -fcoverage-mcdc",
     .link_options = "--build-id=sha1",
     .flash_min = 1000,
     .load_min = 1000},
    {.name = "clang 14",
     .clang = "14",
     .linker = "lld",
     .target = LINUX,
     .options = "-O1",
     .flash_min = 800,
     .load_min = 800},
    {.name = "clang 16",
     .is_rare = true,
     .clang = "16",
     .linker = "lld",
     .target = LINUX,
     .options = "-O0",
     .flash_min = 800,
     .load_min = 800},
    {.name = "clang 16 without a system",
     .clang = "16",
     .linker = "lld",
     .changes = {{".rodata : {", ".init : { KEEP(*(.init_array*)) } > FLASH\n    .rodata : {"}},
     .names = "refers to it",
     .data = "refers to it"},
    {.name = "GNU ld", .clang = "19", .linker = "bfd", .flash_min = 1000, .load_min = 1000},
    {.name = "GNU ld, pages of 64 KiB",
     .is_rare = true,
     .clang = "22",
     .linker = "bfd",
     .link_options = "--build-id=sha1 -z max-page-size=65536",
     .flash_min = 1000},
    /* The segment of zeros has the offset 0. */
    {.name = "GNU ld, zeros last",
     .clang = "19",
     .linker = "bfd",
     .before = "    .bss (NOLOAD)",
     .flash_min = 1000,
     .load_min = 1000},
    {.name = "no build ID",
     .clang = "19",
     .linker = "lld",
     .link_options = "-n --build-id=none",
     .flash_min = 1000,
     .load_min = 1000},
    {.name = "Cortex-M0",
     .clang = "19",
     .linker = "lld",
     .others = "clang-19 --target=thumbv6m-none-eabi -mcpu=cortex-m0",
     .runtime = "clang-19 --target=thumbv6m-none-eabi -mcpu=cortex-m0",
     .flash_min = 1000,
     .load_min = 1000},
    {.name = "start-up code by gcc",
     .clang = "22",
     .linker = "bfd",
     .others = "arm-linux-gnueabihf-gcc -mcpu=cortex-m3 -mthumb -mfloat-abi=soft -fno-pie",
     .flash_min = 1000,
     .load_min = 1000},
    /* The load address of .data is the end of the records. */
    {.name = "before what is copied",
     .clang = "19",
     .linker = "lld",
     .before = "    .data : {",
     .load_min = 900},
    /* The end of the notes, which the writer uses, is the start of the records. */
    {.name = "behind what has an end",
     .is_rare = true,
     .clang = "19",
     .linker = "lld",
     .before = "    .data : {",
     .changes = {{"    .before_profile : { LONG(0) } > FLASH\n", ""}},
     .names = "refers to the first one",
     .data = "refers to it"},
    {.name = "one segment, with code behind",
     .clang = "22",
     .linker = "lld",
     .before = "    .ARM.exidx",
     .changes =
         {{"SECTIONS\n{",
           "PHDRS { flash PT_LOAD FLAGS(7); ram PT_LOAD FLAGS(6); bss PT_LOAD FLAGS(6); }\n\n"
           "SECTIONS\n{"},
          {"KEEP(*(.vectors)) } > FLASH", "KEEP(*(.vectors)) } > FLASH :flash"},
          {"> RAM AT > FLASH", "> RAM AT > FLASH :ram"},
          {"*(.bss .bss.* COMMON) } > RAM", "*(.bss .bss.* COMMON) } > RAM AT > RAM :bss"},
          {".ARM.exidx : {", ".behind : { *(.text.thermostat_*) } > FLASH\n    .ARM.exidx : {"},
          {"*(.text .text.*)", "*(.text EXCLUDE_FILE(*thermostat.o) .text.*) *(.text.[a-su-z]*)"}},
     .load_min = 900},
    {.name = "counters from flash",
     .clang = "19",
     .linker = "lld",
     .changes = {{"__llvm_prf_cnts (NOLOAD) : ALIGN(8)", "__llvm_prf_cnts : ALIGN(8)"},
                 {"__stop___llvm_prf_cnts = .;\n    } > RAM",
                  "__stop___llvm_prf_cnts = .;\n        data_end = .;\n    } > RAM AT > FLASH\n"
                  "    .bss (NOLOAD) : { zeroed_start = .; *(.bss .bss.* COMMON) } > RAM"},
                 {".bss (NOLOAD) : { . = ALIGN(8); zeroed_start = .; *(.bss .bss.* COMMON) } > RAM",
                  ""},
                 {". = ALIGN(4);\n        data_end = .;", ". = ALIGN(8);"}},
     .flash_min = 1000,
     .load_min = 1000},
    {.name = "records in RAM",
     .clang = "19",
     .linker = "lld",
     .before = "    .bss (NOLOAD)",
     .changes = {{"        data_end = .;\n", ""},
                 {"    .before_profile : { LONG(0) } > FLASH\n", ""},
                 {"__stop___llvm_prf_data = .;\n    } > FLASH",
                  "__stop___llvm_prf_data = .;\n    } > RAM AT > FLASH"},
                 {"__stop___llvm_prf_names = .;\n    } > FLASH",
                  "__stop___llvm_prf_names = .;\n        data_end = .;\n    } > RAM AT > FLASH"},
                 {"COMMON) } > RAM", "COMMON) } > RAM AT > RAM"}},
     .names = COPIED,
     .data = COPIED},
    /* Code that knows the end of what is in flash may look at all of it. */
    {.name = "an end of flash",
     .clang = "19",
     .linker = "lld",
     .link_options = "-n --build-id=sha1 -u flash_end_of",
     .changes = {{"__stop___llvm_prf_names = .;", "__stop___llvm_prf_names = .;\n"
                                                  "        flash_end = .;"}},
     .source = "extern const char flash_end[];\n"
               "const char *flash_end_of(void);\n"
               "const char *flash_end_of(void) { return flash_end; }\n",
     .names = "refers to it",
     .data = "the names stay"},
    /* Nothing joins what stays of them, and the image ends with the records. */
    {.name = "names before the records",
     .is_rare = true,
     .clang = "19",
     .linker = "lld",
     .changes = {{"__llvm_prf_names", "__llvm_prf_other"},
                 {"__llvm_prf_data", "__llvm_prf_names"},
                 {"__llvm_prf_other", "__llvm_prf_data"}},
     .flash_min = 1000,
     .load_min = 1000},
    /* As kernels: all runs elsewhere, and the entry point is where it is loaded. The board has the
     * flash at both addresses. */
    {.name = "a kernel",
     .clang = "19",
     .linker = "lld",
     .before = "    .data : {",
     .distance = MIRROR,
     .changes = {{"    RAM   (rwx)", "    MIRROR (rx) : ORIGIN = 0x00400000, LENGTH = 256K\n"
                                     "    RAM   (rwx)"},
                 {"    .data : {", "    .behind : { LONG(0) } > FLASH\n    .data : {"},
                 {"> FLASH\n", "> MIRROR AT > FLASH\n"},
                 {"> RAM AT > MIRROR AT > FLASH", "> RAM AT > FLASH"},
                 {"ENTRY(reset)", "ENTRY(reset_loaded)\nreset_loaded = reset - 0x00400000;"}},
     .load_min = 900},
    {.name = "the runtime too is compiled for LTO",
     .clang = "19",
     .linker = "lld",
     .options = "-flto",
     .names = "keep __llvm_profile_raw_version, and link without LTO of the runtime",
     .data = "keep __llvm_profile_raw_version, and link without LTO of the runtime"},
    {.name = "an overlay",
     .clang = "19",
     .linker = "lld",
     .link_options = "-n --build-id=sha1 --no-check-sections",
     .changes = {{"    /* For covsplit", "    .overlay 0x20000000 : AT(0x8000) { LONG(1) }\n"
                                         "    /* For covsplit"}},
     .error = "its segments overlap"},
};

#define ROWS (sizeof rows / sizeof *rows)

/* ---- building ---- */

static const char *tool(const struct row *row, const char *name)
{
    return text_format("%s-%s", name, row->clang);
}

static void run_words(const char *directory, const char *words)
{
    struct command command = {.directory = directory};
    text_list_add_words(&command.arguments, words);
    command_run_or_abort(&command);
}

static const char *script_of(const struct row *row)
{
    const char *script = (const char *)file_read(EXAMPLE "/device.ld").data;

    if (row->before != NULL) {
        const char *start = strstr(script, LAST_PART), *end = strrchr(script, '}');
        const char *part = text_format("%.*s", (int)(end - start), start);
        assert_contains(script, row->before);
        script = text_replace(text_replace(script, part, ""), row->before,
                              text_format("%s%s", part, row->before));
    }
    for (size_t i = 0; i < CHANGES_MAX && row->changes[i].part != NULL; i++) {
        assert_contains(script, row->changes[i].part);
        script = text_replace(script, row->changes[i].part, row->changes[i].replacement);
    }
    return script;
}

/* Compiles with the compiler and words of `own`, or with the row's if it is NULL. */
static void compile(const struct row *row, const char *directory, const char *source,
                    const char *name, const char *own, const char *more)
{
    const char *compiler = own != NULL ? own
                                       : text_format("clang-%s %s", row->clang,
                                                     row->target != NULL ? row->target : NONE);
    run_words(directory, text_format("%s " COMMON " %s %s -c -o %s.o %s", compiler,
                                     row->options != NULL ? row->options : "", more, name, source));
}

/* Makes app.elf. */
static void build(const struct row *row, const char *directory)
{
    static const char *const covered[] = {"main", "thermostat"};
    static const char *const others[] = {"start", "board", "profile"};
    const char *link_options = row->link_options != NULL ? row->link_options : "-n --build-id=sha1";
    const char *linker =
        strcmp(row->linker, "lld") == 0 ? tool(row, "ld.lld") : "arm-linux-gnueabihf-ld";
    const char *objects = "start.o board.o profile.o main.o thermostat.o stream.o runtime.o";

    for (size_t i = 0; i < sizeof covered / sizeof *covered; i++) {
        compile(row, directory, text_format(EXAMPLE "/%s.c", covered[i]), covered[i], NULL,
                row->covered != NULL ? row->covered : COVERED);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        compile(row, directory, text_format(EXAMPLE "/%s.c", others[i]), others[i], row->others,
                "");
    }
    compile(row, directory, DEVICE "/stream.c", "stream", row->runtime, "");
    compile(row, directory, DEVICE "/runtime.c", "runtime", row->runtime, "");
    if (row->source != NULL) {
        file_write_text(path_join(directory, "more.c"), row->source);
        compile(row, directory, "more.c", "more", NULL, "");
        objects = text_format("%s more.o", objects);
    }
    if (row->functions != 0) {
        source_generate(path_join(directory, "many.c"), LANGUAGE_C, "many", row->functions);
        compile(row, directory, "many.c", "many", NULL, COVERED);
        objects = text_format("%s many.o", objects);
    }
    file_write_text(path_join(directory, "device.ld"), script_of(row));
    run_words(directory, text_format("%s %s --gc-sections -T device.ld -o app.elf %s", linker,
                                     link_options, objects));
}

/* ---- what a device gets ---- */

/* Runs a file: the user's output. The profile is PROFILE. */
static const char *emulate(const char *directory, const char *image, const char *profile)
{
    struct command command =
        command_words(directory, EMULATOR " -serial file:%s -kernel %s", profile, image);
    struct outcome outcome = command_expect(&command, 0);
    assert_contains(outcome.output, "cooling at 24.2");
    return outcome.output;
}

/* The flash after objcopy: what is not in the image is erased. Returns where it ends. */
static size_t write_flash(const char *directory, const char *image, const char *flash)
{
    uint8_t *bytes = malloc(FLASH_SIZE);
    struct contents binary;

    run_words(directory,
              text_format("llvm-objcopy-22 -O binary --gap-fill=0xff %s %s", image, flash));
    binary = file_read(path_join(directory, flash));
    ck_assert_uint_le(binary.size, FLASH_SIZE);
    memset(bytes, ERASED, FLASH_SIZE);
    memcpy(bytes, binary.data, binary.size);
    file_write(path_join(directory, flash), bytes, FLASH_SIZE);
    return binary.size;
}

/* The memory that a loader fills: which bytes, and with what. Returns how many they are. */
struct memory {
    uint8_t bytes[FLASH_SIZE];
    bool is_loaded[FLASH_SIZE];
};

static size_t load(const char *path, struct memory *memory)
{
    struct elf_file elf = elf_file_read(path);
    size_t loaded = 0;

    memset(memory, 0, sizeof *memory);
    for (size_t i = 0; i < elf.header->e_phnum; i++) {
        const Elf64_Phdr *segment = &elf.segments[i];
        if (segment->p_type != PT_LOAD || segment->p_filesz == 0) {
            continue;
        }
        ck_assert_uint_le(segment->p_paddr + segment->p_filesz, FLASH_SIZE);
        for (size_t j = 0; j < segment->p_filesz; j++) {
            ck_assert_msg(!memory->is_loaded[segment->p_paddr + j], "loaded twice: 0x%zx",
                          (size_t)segment->p_paddr + j);
            memory->is_loaded[segment->p_paddr + j] = true;
            memory->bytes[segment->p_paddr + j] = elf.file.data[segment->p_offset + j];
        }
        loaded += segment->p_filesz;
    }
    elf_file_free(&elf);
    return loaded;
}

static bool is_in(const Elf64_Shdr *section, uint64_t address)
{
    return section != NULL && address - section->sh_addr < section->sh_size;
}

/* Two accessors are rewritten, each in the few bytes of an address. */
#define REWRITTEN_MAX 16

/* Outside the names and records, everything is loaded to where it was, and is the same except for
 * the accessors. Returns how many bytes fewer are loaded. */
static size_t check_memory(const struct row *row, const char *directory)
{
    static struct memory before, after;
    const char *original = path_join(directory, "app.elf");
    struct elf_file elf = elf_file_read(original);
    const Elf64_Shdr *names = elf_file_section(&elf, "__llvm_prf_names");
    const Elf64_Shdr *data = elf_file_section(&elf, "__llvm_prf_data");
    size_t all = load(original, &before), left = load(path_join(directory, "split.elf"), &after);
    size_t rewritten = 0;

    for (size_t i = 0; i < FLASH_SIZE; i++) {
        if (is_in(names, i + row->distance) || is_in(data, i + row->distance)) {
            ck_assert_msg(before.is_loaded[i] || !after.is_loaded[i], "0x%zx", i);
            continue;
        }
        ck_assert_msg(before.is_loaded[i] == after.is_loaded[i], "0x%zx", i);
        rewritten += before.bytes[i] != after.bytes[i];
    }
    elf_file_free(&elf);
    ck_assert_uint_le(rewritten, REWRITTEN_MAX);
    ck_assert_uint_le(left, all);
    return all - left;
}

/* ---- profiles and reports ---- */

static const char *report(const struct row *row, const char *directory, bool is_split)
{
    const char *words =
        text_format("%s export --format=lcov %s -instr-profile=%s.profdata", tool(row, "llvm-cov"),
                    is_split ? "split.elf" : "app.elf", is_split ? "split" : "app");
    struct command command =
        is_split ? covsplit_words(directory, text_format("run --sidecar side -- %s", words))
                 : command_words(directory, "%s", words);
    return command_expect(&command, 0).output;
}

static void check_profiles(const struct row *row, const char *directory)
{
    const char *profdata = tool(row, "llvm-profdata");

    run_words(directory, text_format("%s merge -o app.profdata app.profraw", profdata));
    covsplit_run_words(directory, 0,
                       text_format("merge --sidecar side --llvm-profdata %s -o split.profdata "
                                   "split.profraw",
                                   profdata));
    files_assert_equal(path_join(directory, "app.profdata"), path_join(directory, "split.profdata"),
                       row->name);
    ck_assert_str_eq(report(row, directory, false), report(row, directory, true));
}

/* ---- the test ---- */

static void check_reason(const char *messages, const char *section, const char *reason)
{
    const char *stays = text_format("%s stays: ", section);
    const char *found = strstr(messages, stays);

    if (reason == NULL) {
        ck_assert_msg(found == NULL, "%s", messages);
        return;
    }
    ck_assert_msg(found != NULL, "%s: %s", stays, messages);
    assert_contains(text_list_of_lines(found).items[0], reason);
}

static void check_split(const struct row *row, const char *directory)
{
    const char *expected = emulate(directory, "app.elf", "app.profraw");
    struct outcome split =
        covsplit_run_words(directory, 0, "split -v -o split.elf --sidecar side app.elf");
    const char *messages = split.errors, *ends = strstr(split.output, "; flash ends at ");
    size_t flash, split_flash;
    unsigned long end, end_before;

    check_reason(messages, "__llvm_prf_names", row->names);
    check_reason(messages, "__llvm_prf_data", row->data);
    if (row->says != NULL) {
        assert_contains(messages, row->says);
    }
    ck_assert_str_eq(expected, emulate(directory, "split.elf", "split.profraw"));
    check_profiles(row, directory);
    ck_assert_uint_ge(check_memory(row, directory), row->load_min);

    flash = write_flash(directory, "app.elf", "app.bin");
    split_flash = write_flash(directory, "split.elf", "split.bin");
    ck_assert_uint_le(split_flash + row->flash_min, flash);
    ck_assert_msg(ends != NULL &&
                      sscanf(ends, "; flash ends at %lx, before at %lx", &end, &end_before) == 2,
                  "%s", split.output);
    /* objcopy goes by sections; segments end at the next unit of flash. */
    ck_assert_uint_le(flash - split_flash - (end_before - end), 31);
    ck_assert_str_eq(expected, emulate(directory, "app.bin", "app.profraw"));
    ck_assert_str_eq(expected, emulate(directory, "split.bin", "split.profraw"));
    check_profiles(row, directory);

    covsplit_run_words(directory, 0, "join --sidecar side -o joined split.elf");
    files_assert_equal(path_join(directory, "joined"), path_join(directory, "app.elf"), row->name);
    run_words(directory, text_format("%s -g split.elf", tool(row, "llvm-strip")));
    ck_assert_str_eq(expected, emulate(directory, "split.elf", "split.profraw"));
}

START_TEST(test_firmware)
{
    const struct row *row = &rows[_i];
    char *scratch;

    if (row->is_rare && !rounds_are_all()) {
        return;
    }
    scratch = scratch_create("firmware");
    build(row, scratch);
    if (row->error == NULL) {
        check_split(row, scratch);
    } else {
        assert_contains(
            covsplit_run_words(scratch, 1, "split -o split.elf --sidecar side app.elf").errors,
            row->error);
        ck_assert(!file_exists(path_join(scratch, "split.elf")));
    }
}
END_TEST

/* A script that puts data and names among others is no build with -profile-correlate=debug-info. */
START_TEST(test_hidden)
{
    static const struct row row = {
        .name = "hidden",
        .clang = "19",
        .linker = "lld",
        .changes = {{"__llvm_prf_data : ALIGN(8)", ".data_too : ALIGN(8)"},
                    {"__llvm_prf_names : ALIGN(8)", ".names : ALIGN(8)"}}};
    char *scratch = scratch_create("firmware");

    build(&row, scratch);
    assert_contains(
        covsplit_run_words(scratch, 0, "split -o split.elf --sidecar side app.elf").errors,
        "or a linker script puts them into others");
}
END_TEST

/* Where the kernels of 64-bit processors are, addresses are sign-extended, in code too. */
START_TEST(test_upper_half)
{
    char *scratch = scratch_create("firmware");

    file_write_text(path_join(scratch, "kernel.c"), "void start(void) { for (;;); }\n");
    run_words(scratch, "clang-19 -ffreestanding -fno-pic -mcmodel=kernel -Wno-everything " COVERED
                       " -c kernel.c");
    run_words(scratch, "ld.lld-19 --build-id=sha1 -e start --image-base=0xffffffff80000000 "
                       "-z undefs -o app.elf kernel.o");
    assert_contains(
        covsplit_run_words(scratch, 1, "split -o split.elf --sidecar side app.elf").errors,
        "app.elf: runs in the upper half of the address space");
    ck_assert(!file_exists(path_join(scratch, "split.elf")));
    ck_assert(!file_exists(path_join(scratch, "side")));
}
END_TEST

int main(void)
{
    TCase *all = suite_case("firmware", 120, NULL);

    suite_loops(all, ROWS, test_firmware);
    suite_tests(all, test_upper_half, test_hidden);
    return suite_main("firmware", all);
}
