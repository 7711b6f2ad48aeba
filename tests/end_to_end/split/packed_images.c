/*
 * Images that were linked from packed objects, all or some of them. What a split makes of such an
 * image is what it makes of the image of ordinary objects: the same sections in the sidecar, the
 * same program. And join gives back the image that was linked.
 *
 * Usage: packed_images CLANG LINKER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/random.h"
#include "tests/support/windows_program.h"

#define DAMAGES 60
#define SEED    21

static const char *clang, *linker;
static char *directory;

/* ---- the images ---- */

static const char shared_header[] =
    "inline int halved(int value) { return value % 3 == 0 ? value / 3 : value + 1; }\n"
    "template <typename T> T total(T first, T last) {\n"
    "  T all = 0;\n"
    "  for (T i = first; i < last; i++)\n"
    "    all += i & 1 ? i : halved(static_cast<int>(i));\n"
    "  return all;\n"
    "}\n"
    "inline int never_called(int value) { return value * 2; }\n"
    "inline int called_once(int value) { return value > 3 ? value * 2 : 1; }\n";

static const char *const units[][2] = {
    {"one", "static int local(int value) { return value > 1 ? 1 : 2; }\n"
            "int one(int value) { return local(value) + total(0, value) + "
            "called_once(value); }\n"},
    {"two", "static int local(int value) { return value > 2 ? 1 : 2; }\n"
            "int two(int value) { return local(value) + total(0, value) + "
            "(int)total(1L, (long)value); }\n"},
    {"main", "int one(int); int two(int);\n"
             "int main(int count, char **) { return one(count) + two(count) == 77; }\n"},
};
#define UNIT_COUNT (sizeof units / sizeof *units)

/* The objects of each image: those in `packed` are packed. */
static const struct {
    const char *name, *objects;
} images[] = {
    {"plain-image", "plain/main.o plain/one.o plain/two.o"},
    {"packed-image", "packed/main.o packed/one.o packed/two.o"},
    {"first", "packed/main.o plain/one.o plain/two.o"},
    {"middle", "plain/main.o packed/one.o plain/two.o"},
    {"last", "plain/main.o plain/one.o packed/two.o"},
    {"ends", "packed/main.o plain/one.o packed/two.o"},
};
#define IMAGE_COUNT  (sizeof images / sizeof *images)
#define PACKED       1
#define PACKED_COUNT (IMAGE_COUNT - 1) /* from PACKED on */

/* With it, all images and their sidecars have the same UUID. */
#define UUID "--uuid 00112233445566778899aabbccddeeff"

static void run(const char *words)
{
    covsplit_run_words(directory, 0, words);
}

static void build_objects(void)
{
    directory_create(path_join(directory, "plain"));
    directory_create(path_join(directory, "packed"));
    file_write_text(path_join(directory, "shared.h"), shared_header);
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        const char *plain = text_format("plain/%s.o", units[i][0]);
        const char *packed = text_format("packed/%s.o", units[i][0]);
        struct command command =
            command_words(directory, "%s -O1 " INSTRUMENT_COVERAGE " -c %s.cc -o %s",
                          versioned_tool("clang++", clang), units[i][0], plain);
        file_write_text(path_join(directory, text_format("%s.cc", units[i][0])),
                        text_format("#include \"shared.h\"\n%s", units[i][1]));
        command_run_or_abort(&command);
        file_copy(path_join(directory, plain), path_join(directory, packed));
    }
    run("pack packed/main.o packed/one.o packed/two.o");
}

static void prepare(void)
{
    scratch_use_memory();
    directory = scratch_create("packed-images");
    build_objects();
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        struct command command = command_words(
            directory, "%s -fuse-ld=%s " INSTRUMENT_COVERAGE " %s -o %s",
            versioned_tool("clang++", clang), linker, images[i].objects, images[i].name);
        /* Profiles have addresses. */
        text_list_add_words(&command.arguments, "-no-pie -Wl,--build-id=none");
        command_run_or_abort(&command);
    }
    run("split " UUID " -o ordinary.out --sidecar ordinary plain-image");
}

/* ---- comparing ---- */

static const char *const sections[] = {"__llvm_covmap", "__llvm_covfun", "__llvm_prf_names"};

/* Asserts that tools get the same of a sidecar as of that of an ordinary image. */
static void assert_same_sections(const char *sidecar, const char *ordinary)
{
    run(text_format("export --sidecar %s -o object", sidecar));
    run(text_format("export --sidecar %s -o ordinary-object", ordinary));
    struct elf_file object = elf_file_read(path_join(directory, "object"));
    struct elf_file expected = elf_file_read(path_join(directory, "ordinary-object"));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const Elf64_Shdr *section = elf_file_section(&object, sections[i]);
        const Elf64_Shdr *other = elf_file_section(&expected, sections[i]);
        ck_assert_msg(section != NULL && other != NULL && other->sh_size != 0 &&
                          section->sh_size == other->sh_size &&
                          section->sh_addr == other->sh_addr &&
                          memcmp(object.file.data + section->sh_offset,
                                 expected.file.data + other->sh_offset, other->sh_size) == 0,
                      "%s: %s differs", sidecar, sections[i]);
    }
    elf_file_free(&object);
    elf_file_free(&expected);
}

static void assert_same(const char *name, const char *other)
{
    files_assert_equal(path_join(directory, name), path_join(directory, other), name);
}

static void assert_joins(const char *image)
{
    run("join --sidecar side -o joined out");
    assert_same("joined", image);
}

/* A command that must refuse, and leave no file that it was to make. */
static void assert_refuses(const char *words, const char *text)
{
    struct command command = covsplit_words(directory, words);
    struct verdict verdict = {0};
    remove(path_join(directory, "out"));
    remove(path_join(directory, "side"));
    struct outcome outcome = command_run(&command);
    covsplit_refused(&command, &outcome, &verdict);
    verdict_assert(&verdict, words);
    assert_contains(outcome.errors, text);
    ck_assert(!file_exists(path_join(directory, "out")));
    ck_assert(!file_exists(path_join(directory, "side")));
}

static const char *shown(const char *file)
{
    return covsplit_run_words(directory, 0, text_format("show --json %s", file)).output;
}

/* ---- what is in the sidecar ---- */

static const char *const forms[] = {"", "--portable", "--fast", "--level 19 -j2"};

/* All images in all forms; daily each image in two of them. */
START_TEST(test_split)
{
    size_t image_number = (size_t)_i % PACKED_COUNT, form_number = (size_t)_i / PACKED_COUNT;
    if (!rounds_have((unsigned)(image_number + form_number), 2)) {
        return;
    }
    const char *image = images[PACKED + image_number].name;
    const char *form = forms[form_number];
    run(text_format("split " UUID " %s -o out --sidecar side %s", form, image));
    assert_joins(image);
    assert_same_sections("side", "ordinary");
    run("verify --image out side");
    assert_contains(shown("side"), "\"format_version\": 5");
}
END_TEST

/* Quickly now, small later. */
START_TEST(test_repack)
{
    static const char *const quick[] = {"--fast", "--portable"};
    run("split " UUID " -o out --sidecar compact packed-image");
    run(text_format("split " UUID " %s -o out --sidecar side packed-image", quick[_i]));
    run("repack side");
    assert_same("side", "compact");
    assert_joins("packed-image");
}
END_TEST

/* One split keeps what another one has put into the store. */
START_TEST(test_store)
{
    static const char split[] = "split --json " UUID " --store store -o out ends";
    const char *one = covsplit_run_words(directory, 0, split).output;
    const char *other = covsplit_run_words(directory, 0, split).output;
    ck_assert_str_eq(one, other);
    assert_contains(one, "\"kind\": \"linked-covmap\"");
    assert_contains(one, "\"kind\": \"linked-covfun\"");
    ck_assert_uint_eq(text_count(one, "\"status\": \"made\""), 2);
    run("store check store");
    run("store add copy store");
    run("join --store copy -o joined out");
    assert_same("joined", "ends");
    run("store gc --older-than 1 store");
    run("join --store store -o joined out");
}
END_TEST

START_TEST(test_show)
{
    run("split " UUID " -o out --sidecar side ends");
    assert_contains(shown("ends"), "\"kind\": \"linked-covfun\"");
    ck_assert_ptr_null(strstr(shown("plain-image"), "linked"));
    ck_assert_ptr_null(strstr(shown("out"), "linked"));
    assert_contains(shown("side"), "\".covsplit.covfun\"");
    assert_contains(shown("side"), "\"status\": \"made\"");
    ck_assert_ptr_null(strstr(shown("ordinary"), "made"));
}
END_TEST

/* ---- the stripped image ---- */

/* Without what tells of sections that only one of them had, it is the same program. */
static void take_sections_out(const char *from, const char *to)
{
    const char *objcopy = versioned_tool("llvm-objcopy", clang);
    run_or_abort(directory, objcopy, "--strip-all", "-R", "__llvm_covmap", "-R", "__llvm_covfun",
                 from, to, NULL);
}

/* The stub record's FuncHash is a digest that covers the mapping, which only one of them has
 * packed.
 */
static void clear_digest(const char *image, const char *file)
{
    struct elf_file elf = elf_file_read(path_join(directory, image));
    const uint8_t *record = elf.file.data + elf_file_section(&elf, "__llvm_prf_data")->sh_offset;
    struct contents contents = file_read(path_join(directory, file));
    uint8_t *copy = memmem(contents.data, contents.size, record, 16);
    ck_assert_ptr_nonnull(copy);
    memset(copy + 8, 0, 8);
    file_write(path_join(directory, file), contents.data, contents.size);
}

static void run_image(const char *image, const char *profile)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, path_join(directory, image));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    command_run_or_abort(&command);
}

START_TEST(test_stripped)
{
    run(text_format("split " UUID " -o out --sidecar side %s", images[PACKED + _i].name));
    take_sections_out("out", "bare");
    take_sections_out("ordinary.out", "ordinary-bare");
    clear_digest("out", "bare");
    clear_digest("ordinary.out", "ordinary-bare");
    assert_same("bare", "ordinary-bare");
    run_image("out", "light.profraw");
    run_image("ordinary.out", "ordinary.profraw");
    clear_digest("out", "light.profraw");
    clear_digest("ordinary.out", "ordinary.profraw");
    assert_same("light.profraw", "ordinary.profraw");
}
END_TEST

/* It says that its mapping is elsewhere, as ever. */
START_TEST(test_tripwire)
{
    run("split " UUID " -o out --sidecar side packed-image");
    struct elf_file stripped = elf_file_read(path_join(directory, "out"));
    const Elf64_Shdr *covmap = elf_file_section(&stripped, "__llvm_covmap");
    ck_assert_ptr_nonnull(covmap);
    ck_assert_uint_eq(covmap->sh_size, 16);
    ck_assert_uint_eq(elf_file_number(&stripped, covmap->sh_offset + 12, 4), 0x7fffffff);
}
END_TEST

START_TEST(test_split_before)
{
    run("split " UUID " -o once --sidecar once.side packed-image");
    const char *errors =
        covsplit_run_words(directory, 0, "split -o out --sidecar once.side once").errors;
    assert_contains(errors, "split already");
    assert_same("out", "once");
    run("join --sidecar once.side -o joined out");
    assert_same("joined", "packed-image");
}
END_TEST

/* ---- what cannot be done ---- */

START_TEST(test_sections)
{
    static const char *const halves[] = {"covmap", "covfun", "covfun,names,data"};
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        assert_refuses(text_format("split --sections %s -o out --sidecar side ends", halves[i]),
                       "give --sections covmap and covfun, or none of the two");
    }
    run("split " UUID " --sections covmap,covfun -o out --sidecar side ends");
    assert_joins("ends");
    assert_same_sections("side", "ordinary");
    run("split " UUID " --sections names,data -o out --sidecar side ends");
    assert_joins("ends");
    ck_assert_ptr_null(strstr(shown("side"), "linked"));
}
END_TEST

START_TEST(test_memory_limit)
{
    assert_refuses("split --memory-limit 100 -o out --sidecar side packed-image", "--memory-limit");
    run("split " UUID " --memory-limit 1M -o out --sidecar side packed-image");
}
END_TEST

/* A packed unit that is damaged is refused, or is the same unit still. */
START_TEST(test_damage)
{
    struct random_state random = random_start(SEED);
    struct elf_file image = elf_file_read(path_join(directory, "packed-image"));
    const Elf64_Shdr *covmap = elf_file_section(&image, "__llvm_covmap");
    unsigned refused = 0;
    for (unsigned i = 0; i < rounds(DAMAGES); i++) {
        uint8_t *byte =
            image.file.data + covmap->sh_offset + 16 + random_below(&random, covmap->sh_size - 16);
        uint8_t change = (uint8_t)(1 << random_below(&random, 8));
        struct command command =
            covsplit_words(directory, "split " UUID " -o out --sidecar side damaged");
        struct verdict verdict = {0};
        *byte ^= change;
        file_write(path_join(directory, "damaged"), image.file.data, image.file.size);
        *byte ^= change;
        struct outcome outcome = command_run(&command);
        if (outcome.exit_code == 0) {
            assert_joins("damaged");
        } else {
            covsplit_refused(&command, &outcome, &verdict);
            verdict_assert(&verdict, "damaged");
            refused++;
        }
        outcome_free(&outcome);
        command_free(&command);
    }
    ck_assert_uint_gt(refused, rounds(DAMAGES) / 3);
}
END_TEST

/* ---- others ---- */

/* docs/format.md tells enough. */
START_TEST(test_page)
{
    static const char reader[] = COVSPLIT_FIXTURE_DIRECTORY "/../support/sidecar_reader.py";
    run(text_format("split " UUID " %s -o out --sidecar side ends", forms[_i]));
    run_or_abort(directory, "python3", reader, "check", "side", NULL);
    run_or_abort(directory, "python3", reader, "join", "side", "out", "joined", NULL);
    assert_same("joined", "ends");
}
END_TEST

START_TEST(test_batch)
{
    directory_create(path_join(directory, "tree"));
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        file_copy(path_join(directory, images[i].name),
                  path_join(directory, text_format("tree/%s", images[i].name)));
    }
    run("split --store tree-store -r tree");
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        run(text_format("join --store tree-store -o joined tree/%s", images[i].name));
        assert_same("joined", images[i].name);
    }
    run("export --union --store tree-store -o all");
}
END_TEST

/* With the link itself. */
START_TEST(test_link)
{
    run(text_format("link --sidecar side -- %s -fuse-ld=%s " INSTRUMENT_COVERAGE
                    " %s -no-pie -Wl,--build-id=none -o out",
                    versioned_tool("clang++", clang), linker, images[PACKED + _i].objects));
    assert_joins(images[PACKED + _i].name);
    assert_same_sections("side", "ordinary");
}
END_TEST

/* Two objects with an inline function, of which the second one is packed. If the first is bitcode,
 * and was compiled from other text, the program has its code, but the packed object's record comes
 * first. */
static const struct {
    const char *compile, *compile_packed, *objects;
    bool is_refused;
} bitcode[] = {
    {"-flto", "", "other.o object.o", false},
    {"-flto -DOTHER", "", "other.o object.o", true},
    {"-flto", "-DOTHER", "other.o object.o", true}, /* the hash of the code is 0 */
    {"-flto -DOTHER", "", "object.o other.o", false},
    {"-flto", "-DOTHER", "object.o other.o", false},
    {"-DOTHER", "", "other.o object.o", false},
    {"-DOTHER", "", "object.o other.o", false},
};
#define BITCODE_COUNT (sizeof bitcode / sizeof *bitcode)

static void run_clang(const char *words)
{
    struct command command =
        command_words(directory, "%s -O0 " INSTRUMENT_COVERAGE " -Wl,--build-id=none %s",
                      versioned_tool("clang++", clang), words);
    command_run_or_abort(&command);
}

START_TEST(test_bitcode)
{
    file_write_text(path_join(directory, "inline.h"),
                    "inline void shared(int *value) {\n"
                    "#ifdef OTHER\n  if (*value > 5)\n    return;\n#endif\n"
                    "  ++*value;\n}\n");
    file_write_text(
        path_join(directory, "other.cc"),
        "#include \"inline.h\"\nint other(int value) { return shared(&value), value; }\n");
    file_write_text(path_join(directory, "object.cc"),
                    "#include \"inline.h\"\nint other(int);\n"
                    "int main() {\n  int value = 2;\n  shared(&value);\n"
                    "  return other(1) + value == 77;\n}\n");
    run_clang(text_format("%s -c other.cc -o other.o", bitcode[_i].compile));
    run_clang(text_format("%s -c object.cc -o object.o", bitcode[_i].compile_packed));
    run("pack object.o");
    run_clang(text_format("-flto -fuse-ld=lld %s -o mixed", bitcode[_i].objects));
    if (bitcode[_i].is_refused)
        assert_refuses("split -o out --sidecar side mixed", "different records");
    else
        run("split -o out --sidecar side mixed");
}
END_TEST

int main(int count, char **words)
{
    suite_arguments(count, words, "CLANG LINKER", &clang, &linker);
    TCase *test_case = suite_case("packed images", 120, prepare);
    size_t form_count = sizeof forms / sizeof *forms;
    suite_loops(test_case, PACKED_COUNT * form_count, test_split);
    suite_loops(test_case, PACKED_COUNT, test_stripped, test_link);
    suite_loops(test_case, 2, test_repack, test_page);
    suite_loops(test_case, BITCODE_COUNT, test_bitcode);
    suite_tests(test_case, test_store, test_show, test_tripwire, test_split_before, test_sections,
                test_memory_limit, test_damage, test_batch);
    return suite_main("packed images", test_case);
}
