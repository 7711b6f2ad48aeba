/*
 * What packagers do to images: tools that strip, shrink or change them, on the image before the
 * split and on the stripped one after it. Either way the program does the same as one that was only
 * treated with the tool, and so do reports; the tool has nothing more to say; and nothing is joined
 * that the split has not written. Nor do tools that only read images find anything wrong with a
 * stripped one that is not wrong with the image as it was linked.
 *
 * Usage: other_tools CLANG
 *
 * Each tool meets each kind of image; these take turns, unless everything is asked for (suite.h).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/compile_cache.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define NO_SYMBOLS "no symbol table: run covsplit before strip"
#define MOVED      "BOLT has moved the image's code; run covsplit before BOLT"

struct care {
    const char *commands; /* with ; between them, IMAGE for the file, VERSION for that of LLVM, and
                             LIEF for the program that reads and writes by that library */
    const char *warning;  /* of a split after it; NULL: none */
    bool changes_id;      /* the image's build ID, which then is that of its profiles */
    unsigned daily;       /* the kind that it meets each day; 0: they take turns */
    bool is_rare;         /* not run each day, as another one shows most of what it does */
};

#define PIE_KIND      4
#define RETAINED_KIND 7
#define RUST_KIND     12

static const struct care cares[] = {
    {.commands = "strip IMAGE", .warning = NO_SYMBOLS, .is_rare = true},
    {.commands = "strip -g IMAGE", .daily = RUST_KIND},
    {.commands = "llvm-strip-VERSION IMAGE", .warning = NO_SYMBOLS},
    {.commands = "llvm-strip-VERSION -g IMAGE", .is_rare = true},
    {.commands = "eu-strip -f IMAGE.debug IMAGE", .warning = NO_SYMBOLS},
    {.commands = "objcopy --only-keep-debug IMAGE IMAGE.debug;objcopy --strip-debug IMAGE;"
                 "objcopy --add-gnu-debuglink=IMAGE.debug IMAGE"},
    {.commands = "llvm-objcopy-VERSION --only-keep-debug IMAGE IMAGE.debug;"
                 "llvm-objcopy-VERSION --strip-debug --add-gnu-debuglink=IMAGE.debug IMAGE",
     .is_rare = true},
    {.commands = "objcopy --compress-debug-sections IMAGE", .is_rare = true},
    {.commands = "dwz IMAGE"},
    {.commands =
         "patchelf --set-rpath $ORIGIN:/a/directory/with/a/name/that/takes/more/than/what/is/there "
         "IMAGE"},
    {.commands = "patchelf --add-needed libm.so.6 IMAGE"},
    {.commands = "patchelf --set-interpreter /lib64/../lib64/ld-linux-x86-64.so.2 IMAGE",
     .is_rare = true},
    {.commands = "patchelf --set-rpath $ORIGIN IMAGE;patchelf --remove-rpath IMAGE",
     .is_rare = true},
    {.commands = "patchelf --print-interpreter --print-needed IMAGE", .is_rare = true},
    {.commands = "sh " COVSPLIT_FIXTURE_DIRECTORY "/dh_strip.sh IMAGE", .warning = NO_SYMBOLS},
    {.commands = "debugedit -b /usr -d /opt -l IMAGE.list IMAGE"},
    {.commands =
         "patchelf --set-rpath $ORIGIN:/a/directory/with/a/name/that/takes/more/than/what/is/there "
         "IMAGE;strip -g IMAGE",
     .is_rare = true},
    {.commands =
         "llvm-bolt-19 IMAGE -o IMAGE.bolted --reorder-functions=hfsort;mv IMAGE.bolted IMAGE",
     .warning = MOVED,
     .changes_id = true,
     .daily = RETAINED_KIND},
#ifdef COVSPLIT_WITH_LIEF
    {.commands = "LIEF IMAGE", .daily = PIE_KIND},
#endif
};

#define CARE_COUNT     (sizeof cares / sizeof *cares)

#define RUST           "rustc"
#define RUST_FUNCTIONS 400

/* Kinds of image: what linkers make for different purposes, and of different sizes. */
static const struct kind {
    const char *linker;
    enum link_kind link;
    unsigned functions;
    const char *compile_options, *link_options;
} kinds[] = {
    {"bfd", LINK_SHARED, 0, "-gdwarf-4", "-g"},
    {"lld", LINK_SHARED, 0, "-gdwarf-4", "-g"},
    {"gold", LINK_SHARED, 0, "-gdwarf-4", "-g"},
    {"mold", LINK_SHARED, 0, "-gdwarf-4", "-g"},
    [PIE_KIND] = {"lld", LINK_PIE, 0, NULL, NULL},
    {"lld", LINK_NO_PIE, 300, NULL, NULL},
    {"bfd", LINK_PIE, 20, NULL, NULL},
    [RETAINED_KIND] = {"bfd", LINK_PIE, 0, "-gdwarf-4", "-g -Wl,--emit-relocs"},
    {"lld", LINK_STATIC, 0, NULL, NULL},
    {"bfd", LINK_STATIC, 300, "-gdwarf-4", "-g"},
    {"mold", LINK_STATIC_PIE, 0, NULL, NULL},
    {"lld", LINK_PIE, 1000, NULL, "-Wl,-z,now"},
    [RUST_KIND] = {RUST, LINK_PIE, RUST_FUNCTIONS, NULL, NULL},
};

#define KIND_COUNT (sizeof kinds / sizeof *kinds)

static const char *const images[] = {PROGRAM_NAME, PROGRAM_LIBRARY};

static const char *clang_version;
static const char *lief = ""; /* the program that is called so above */
static bool has_rust;         /* rustc is there, and of the same LLVM as clang */

/* One test: directories with the same images. */
struct place {
    const struct care *care; /* NULL: none */
    const struct kind *kind;
    size_t image_count;
    const char *label;
    char *scratch;
    char *plain;          /* as linked */
    char *treated;        /* by the tool alone */
    char *split;          /* by covsplit, and by the tool before or after it */
    const char *emulator; /* words that run the program; empty: this machine runs it */
};

static char *new_directory(const char *scratch, const char *name)
{
    char *path = path_join(scratch, name);
    directory_create(path);
    return path;
}

static void copy_images(const struct place *place, const char *from, const char *to)
{
    for (size_t i = 0; i < place->image_count; i++) {
        file_copy(path_join(from, images[i]), path_join(to, images[i]));
    }
}

/* Returns what the tools say, or NULL if one of them takes no such image. */
static const char *treat(const struct place *place, const char *directory)
{
    const char *words = "";
    for (size_t i = 0; i < place->image_count; i++) {
        const char *commands =
            text_replace(text_replace(text_replace(place->care->commands, "IMAGE", images[i]),
                                      "VERSION", clang_version),
                         "LIEF", lief);
        const char *next;
        for (const char *rest = commands; rest != NULL; rest = next) {
            const char *end = strchr(rest, ';');
            int length = end != NULL ? (int)(end - rest) : (int)strlen(rest);
            struct command command = command_words(directory, "%.*s", length, rest);
            struct outcome outcome = command_run(&command);
            if (!outcome_exited(&outcome, 0)) {
                return NULL;
            }
            words = text_format("%s%s%s", words, outcome.output, outcome.errors);
            next = end != NULL ? end + 1 : NULL;
        }
    }
    return words;
}

/* Fails if a line is among those found and not among those expected. */
static void assert_no_new_line(const struct place *place, const char *tool, const char *expected,
                               const char *found)
{
    const char *all = text_format("\n%s\n", expected);
    for (const char *line = found; *line != 0;) {
        const char *end = line + strcspn(line, "\n");
        const char *one = text_format("\n%.*s\n", (int)(end - line), line);
        ck_assert_msg(strstr(all, one) != NULL,
                      "%s, %s says what it does not of the unsplit image:%s", place->label, tool,
                      one);
        line = *end == 0 ? end : end + 1;
    }
}

/* Splits what is in `from` into place->split. */
static const char *split(const struct place *place, const char *from)
{
    const char *errors = "";
    for (size_t i = 0; i < place->image_count; i++) {
        errors = text_format("%s%s", errors,
                             covsplit_assert(0, place->scratch, "split", "--store", "sidecars",
                                             "-o", path_join(place->split, images[i]),
                                             path_join(from, images[i]), NULL));
    }
    return errors;
}

#define NO_PROFILE "/dev/null/none"

/* Runs the program of the directory, whose profiles go to `profiles` there, or to NO_PROFILE. */
static struct outcome run(const struct place *place, const char *directory, const char *profiles)
{
    bool has_profile = strcmp(profiles, NO_PROFILE) != 0;
    struct command command = {.directory = place->scratch};
    text_list_add_words(&command.arguments, place->emulator);
    text_list_add(&command.arguments, path_join(directory, PROGRAM_NAME));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s%s",
                         has_profile ? path_join(directory, profiles) : profiles,
                         has_profile ? "/%m.profraw" : "");
    return command_run(&command);
}

static void check_same(const struct place *place, const char *profiles)
{
    struct outcome expected = run(place, place->treated, profiles);
    struct outcome found = run(place, place->split, profiles);
    ck_assert_msg(outcome_exited(&expected, 3), "%s, treated alone: exit %d, signal %d: %s",
                  place->label, expected.exit_code, expected.signal, expected.errors);
    ck_assert_msg(outcome_exited(&found, 3), "%s: exit %d, signal %d: %s", place->label,
                  found.exit_code, found.signal, found.errors);
    ck_assert_str_eq(expected.output, found.output);
    ck_assert_str_eq(expected.errors, found.errors);
}

/* Whether notes are not as far from the ELF header in memory as in the file. */
static bool has_lost_notes(const struct place *place, const char *directory)
{
    bool is_lost = false;
    for (size_t i = 0; i < place->image_count; i++) {
        struct elf_file elf = elf_file_read(path_join(directory, images[i]));
        uint64_t start = UINT64_MAX;
        for (unsigned j = 0; j < elf.header->e_phnum; j++) {
            const Elf64_Phdr *segment = &elf.segments[j];
            start =
                segment->p_type == PT_LOAD && segment->p_vaddr < start ? segment->p_vaddr : start;
        }
        for (unsigned j = 0; j < elf.header->e_phnum; j++) {
            const Elf64_Phdr *segment = &elf.segments[j];
            is_lost |= segment->p_type == PT_NOTE && segment->p_vaddr - start != segment->p_offset;
        }
        elf_file_free(&elf);
    }
    return is_lost;
}

static bool crashes(const struct place *place, const char *directory)
{
    struct outcome outcome = run(place, directory, "tried");
    return outcome.signal == SIGBUS || outcome.signal == SIGSEGV;
}

/* False if no profiles can be had. When it writes one, LLVM's runtime looks for the notes where
 * they are in the file; where patchelf has moved them, it reads what is there in memory, and
 * crashes or not, with and without a split. Then the program runs without a profile. */
static bool check_runs(const struct place *place)
{
    if (has_lost_notes(place, place->treated) || has_lost_notes(place, place->split)) {
        check_same(place, NO_PROFILE);
        if (crashes(place, place->treated) || crashes(place, place->split)) {
            printf("%s: the runtime crashes where the notes were\n", place->label);
            return false;
        }
    }
    check_same(place, "profiles");
    return true;
}

/* What the profiles of the images that the tool alone has treated give, and those of the split
 * ones by their sidecars. */
static void check_profiles(const struct place *place)
{
    bool has_lost_id =
        has_lost_notes(place, place->split) && !has_lost_notes(place, place->treated);
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    run_or_abort(place->scratch, profdata, "merge", "-o", "expected.profdata",
                 path_join(place->treated, "profiles"), NULL);
    covsplit_assert(0, place->scratch, "merge", "--store", "sidecars", "--llvm-profdata", profdata,
                    "-o", "found.profdata", path_join(place->split, "profiles"), NULL);
    /* Where the runtime does not find the notes, its profiles have no binary ID; and those of split
     * images get the one that the image had when it was split. */
    if (!has_lost_id && (place->care == NULL || !place->care->changes_id)) {
        files_assert_equal(path_join(place->scratch, "expected.profdata"),
                           path_join(place->scratch, "found.profdata"), place->label);
    }
}

static const char *report_words(const struct place *place, const char *directory,
                                const char *profile)
{
    const char *library =
        place->image_count > 1 ? text_format(" -object %s/" PROGRAM_LIBRARY, directory) : "";
    return text_format("%s report %s/" PROGRAM_NAME "%s -instr-profile=%s",
                       versioned_tool("llvm-cov", clang_version), directory, library, profile);
}

/* The report on the images as they were linked, and that on the split ones under `covsplit run`. */
static void check_reports(const struct place *place)
{
    struct command plain =
        command_words(place->scratch, "%s", report_words(place, "plain", "expected.profdata"));
    struct command of_split =
        covsplit_words(place->scratch, text_format("run --store sidecars -- %s",
                                                   report_words(place, "split", "found.profdata")));
    struct outcome expected = command_expect(&plain, 0), found = command_expect(&of_split, 0);
    ck_assert_msg(strcmp(expected.output, found.output) == 0, "%s: another report:\n%s\n%s",
                  place->label, expected.output, found.output);
}

/* A program in Rust that does what those in C do: calls functions, and ends with 3. */
static const char *rust_source(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 0; i < RUST_FUNCTIONS; i++) {
        fprintf(file,
                "#[inline(never)]\n"
                "fn function_%u_with_a_name_that_is_%u_long(n: usize) -> usize {\n"
                "    if n > %u { n / 2 } else { n + %u }\n}\n",
                i, i * 7919, i % 5, i);
    }
    fprintf(file, "fn main() {\n    let n = std::env::args().len();\n    let mut sum = 0;\n");
    for (unsigned i = 0; i < RUST_FUNCTIONS; i++) {
        fprintf(file, "    sum += function_%u_with_a_name_that_is_%u_long(n);\n", i, i * 7919);
    }
    fprintf(file, "    println!(\"{}\", sum.to_string().to_uppercase());\n"
                  "    std::process::exit(3);\n}\n");
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

static void build_rust(const char *directory, const char *clang)
{
    (void)clang;
    file_write_text(path_join(directory, "main.rs"), rust_source());
    run_or_abort(directory, "rustc", "-O", "-g", "-C", "instrument-coverage", "-C",
                 "link-arg=-Wl,--build-id=sha1", "-o", PROGRAM_NAME, "main.rs", NULL);
}

static const char *kind_label(const struct kind *kind)
{
    return text_format("%s %s %u %s", kind->linker,
                       program_kind(&(struct program){.kind = kind->link}), kind->functions,
                       kind->link_options != NULL ? kind->link_options : "");
}

static struct place prepare(const struct kind *kind, const struct care *care, const char *order)
{
    struct place place = {.care = care,
                          .kind = kind,
                          .image_count = kind->link == LINK_SHARED ? 2 : 1,
                          .emulator = "",
                          .scratch = scratch_create("other-tools")};
    struct program program = {.clang = clang_version,
                              .linker = kind->linker,
                              .kind = kind->link,
                              .language = LANGUAGE_C,
                              .optimization = "-O1",
                              .functions = kind->functions,
                              .compile_options = kind->compile_options,
                              .link_options = kind->link_options};
    place.label = text_format("%s %s the split, %s", care != NULL ? care->commands : "readers",
                              order, kind_label(kind));
    place.plain = new_directory(place.scratch, "plain");
    place.treated = new_directory(place.scratch, "treated");
    place.split = new_directory(place.scratch, "split");
    if (strcmp(kind->linker, RUST) == 0) {
        const char *inputs =
            text_format("%s%s", run_or_abort(NULL, "rustc", "-vV", NULL), rust_source());
        const char *made = cache_directory("rust", clang_version, inputs, build_rust);
        file_copy(path_join(made, PROGRAM_NAME), path_join(place.plain, PROGRAM_NAME));
    } else {
        program_build(&program, place.plain);
    }
    copy_images(&place, place.plain, place.treated);
    return place;
}

/* Whether there are such images: rustc's have the profiles of its own LLVM. */
static bool is_made(const struct kind *kind)
{
    return strcmp(kind->linker, RUST) != 0 || has_rust;
}

/* Kinds take turns with each tool, and other ones for each compiler. */
static bool is_chosen(int number)
{
    int care = number % (int)CARE_COUNT, kind = number / (int)CARE_COUNT;
    if (!is_made(&kinds[kind])) {
        return false;
    }
    int daily = cares[care].daily != 0 ? (int)cares[care].daily
                                       : (5 * care + atoi(clang_version)) % (int)KIND_COUNT;
    return rounds_are_all() || (kind == daily && !cares[care].is_rare);
}

/* True if the tool takes images of this kind at all, and they still run. */
static bool is_taken(const struct place *place, const char *words)
{
    bool runs = false;
    if (words != NULL) {
        struct outcome outcome = run(place, place->treated, NO_PROFILE);
        runs = outcome_exited(&outcome, 3);
    }
    if (!runs) {
        printf("%s: not taken\n", place->label);
    }
    return runs;
}

/* A static image may keep what looks like a reference in the C library's code. */
static bool may_stay(const struct place *place)
{
    return place->kind->link == LINK_STATIC || place->kind->link == LINK_STATIC_PIE;
}

START_TEST(test_before)
{
    if (!is_chosen(_i) || !rounds_have((unsigned)_i % CARE_COUNT, 2)) {
        return;
    }
    struct place place =
        prepare(&kinds[(size_t)_i / CARE_COUNT], &cares[(size_t)_i % CARE_COUNT], "before");
    if (!is_taken(&place, treat(&place, place.treated))) {
        return;
    }
    const char *errors = split(&place, place.treated);
    ck_assert_msg(
        (place.care->warning == NULL && (may_stay(&place) || strstr(errors, " stays") == NULL)) ||
            (place.care->warning != NULL && strstr(errors, place.care->warning) != NULL),
        "%s: %s", place.label, errors);
    bool has_profiles = check_runs(&place);
    if (has_profiles) {
        check_profiles(&place);
    }
    if (has_profiles && place.care->warning == NULL) {
        check_reports(&place);
    }
    for (size_t i = 0; i < place.image_count && place.care->warning == NULL; i++) {
        covsplit_assert(0, place.scratch, "join", "--store", "sidecars", "-o", "joined",
                        path_join(place.split, images[i]), NULL);
        files_assert_equal(path_join(place.scratch, "joined"), path_join(place.treated, images[i]),
                           place.label);
    }
}
END_TEST

START_TEST(test_after)
{
    if (!is_chosen(_i)) {
        return;
    }
    struct place place =
        prepare(&kinds[(size_t)_i / CARE_COUNT], &cares[(size_t)_i % CARE_COUNT], "after");
    const char *expected = treat(&place, place.treated), *found;
    if (!is_taken(&place, expected)) {
        return;
    }
    const char *errors = split(&place, place.plain);
    ck_assert_msg(may_stay(&place) || strstr(errors, " stays") == NULL, "%s: %s", place.label,
                  errors);
    char *untreated = new_directory(place.scratch, "untreated");
    copy_images(&place, place.split, untreated);
    found = treat(&place, place.split);
    ck_assert_msg(found != NULL, "%s: takes the unsplit image alone", place.label);
    assert_no_new_line(&place, place.care->commands, expected, found);
    if (check_runs(&place)) {
        check_profiles(&place);
        check_reports(&place);
    }
    for (size_t i = 0; i < place.image_count; i++) {
        struct verdict verdict;
        if (files_equal(path_join(untreated, images[i]), path_join(place.split, images[i]),
                        &verdict)) {
            continue;
        }
        errors = covsplit_assert(1, place.scratch, "join", "--store", "sidecars", "-o", "joined",
                                 path_join(place.split, images[i]), NULL);
        ck_assert_msg(strstr(errors, "not the stripped image that ") != NULL, "%s: %s", place.label,
                      errors);
        errors = covsplit_assert(0, place.scratch, "split", "--store", "sidecars", "-o", "again",
                                 path_join(place.split, images[i]), NULL);
        ck_assert_msg(strstr(errors, "split already") != NULL, "%s: %s", place.label, errors);
        files_assert_equal(path_join(place.scratch, "again"), path_join(place.split, images[i]),
                           place.label);
    }
}
END_TEST

/* ---- tools that only read ---- */

/* Known of a stripped image: the pool of value nodes, of which the file has a part; and sections
 * without bytes in the file, for which eu-elflint looks in the first segment with their offset. */
#define KNOWN_LINT                                                                                 \
    "symtab.*\\(__stop___llvm_prf_vnds\\): st_value out of bounds"                                 \
    "|\\(lprofValueProfNodes\\) does not fit completely in referenced section.*__llvm_prf_vnds"    \
    "|'(\\.bss|__llvm_prf_(cnts|vnds))' not fully contained in segment of program header"

/* And of those by single linkers: GNU ld exports the ends of sections from libraries, and gold has
 * constants in the segment of the code, which is split. */
static const char *const known_lint[][2] = {
    {"bfd", "|dynsym.*\\(__stop___llvm_prf_(data|names)\\): st_value out of bounds"},
    {"gold", "|executable but contains no executable sections"},
};

/* Retained relocations refer to symbols by number, so those of the mapping stay with them. */
static const char *lint_words(const struct kind *kind)
{
    const char *more = "";
    for (size_t i = 0; i < sizeof known_lint / sizeof *known_lint; i++) {
        more = strcmp(kind->linker, known_lint[i][0]) == 0 ? known_lint[i][1] : more;
    }
    bool has_relocations =
        kind->link_options != NULL && strstr(kind->link_options, "--emit-relocs") != NULL;
    return text_format("eu-elflint --gnu-ld IMAGE 2>&1 | grep -vE \"" KNOWN_LINT "%s%s\"", more,
                       has_relocations ? "|__covrec_" : "");
}

/* What the command says of the image, without the numbers of sections, segments and symbols. Only
 * that from `stream` on, which is "2>&1" for all or "2>&1 >/dev/null" for errors. */
static const char *complaints(const char *directory, const char *tool, const char *stream)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, "sh");
    text_list_add(&command.arguments, "-c");
    text_list_add_format(&command.arguments,
                         "%s %s | sed -E 's/(section|entry|phdr|symbol) ?\\[? *[0-9]+\\]?/\\1/g'",
                         tool, stream);
    return command_expect(&command, 0).output;
}

/* Notes are in the first page, which is all that kernel cores have of the file, and sections are in
 * the order of their offsets, which patchelf relies on. */
static void check_order(const struct place *place, const char *image)
{
    struct elf_file elf = elf_file_read(image);
    uint64_t last = 0;
    for (unsigned i = 1; i < elf.header->e_shnum; i++) {
        const Elf64_Shdr *section = &elf.sections[i];
        if ((section->sh_flags & SHF_ALLOC) == 0 || section->sh_type == SHT_NOBITS) {
            continue;
        }
        ck_assert_msg(section->sh_offset >= last,
                      "%s: section %u is before that of the number before", place->label, i);
        ck_assert_msg(section->sh_type != SHT_NOTE || section->sh_offset + section->sh_size <= 4096,
                      "%s: a note is at %llu", place->label,
                      (unsigned long long)section->sh_offset);
        last = section->sh_offset;
    }
    elf_file_free(&elf);
}

START_TEST(test_readers)
{
    const char *const readers[][2] = {
        {"readelf -aW IMAGE", "2>&1 >/dev/null"},
        {"eu-readelf -a IMAGE", "2>&1 >/dev/null"},
        {"llvm-readelf-19 -a IMAGE", "2>&1 >/dev/null"},
        {"objdump -x IMAGE", "2>&1 >/dev/null"},
        {"nm IMAGE", "2>&1 >/dev/null"},
        {lint_words(&kinds[_i]), ""},
    };
    if (!is_made(&kinds[_i]) || (!rounds_are_all() && (_i + atoi(clang_version)) % 4 != 3)) {
        return;
    }
    struct place place = prepare(&kinds[_i], NULL, "after");
    split(&place, place.plain);
    for (size_t i = 0; i < place.image_count; i++) {
        check_order(&place, path_join(place.plain, images[i]));
        check_order(&place, path_join(place.split, images[i]));
    }
    for (size_t i = 0; i < place.image_count * sizeof readers / sizeof *readers; i++) {
        const char *const *reader = readers[i / place.image_count];
        const char *tool = text_replace(reader[0], "IMAGE", images[i % place.image_count]);
        assert_no_new_line(&place, tool, complaints(place.plain, tool, reader[1]),
                           complaints(place.split, tool, reader[1]));
    }
}
END_TEST

/* ---- what was reported of single tools ---- */

/* Those with which eu-strip takes an image with retained relocations at all. */
static const char *const linkers[] = {"bfd", "lld", "mold"};

/* eu-strip takes no section of relocations that is empty: then it strips nothing, with status 0. */
START_TEST(test_retained)
{
    if (!rounds_have((unsigned)_i, 3)) {
        return;
    }
    struct kind kind = {linkers[_i], LINK_PIE, 0, "-gdwarf-4", "-g -Wl,--emit-relocs"};
    struct care care = {.commands = "eu-strip -f IMAGE.debug IMAGE"};
    struct place place = prepare(&kind, &care, "after");
    split(&place, place.plain);
    off_t before = file_status(path_join(place.split, PROGRAM_NAME)).st_size;
    const char *expected = treat(&place, place.treated), *found = treat(&place, place.split);
    ck_assert_ptr_nonnull(expected);
    ck_assert_ptr_nonnull(found);
    assert_no_new_line(&place, care.commands, expected, found);
    ck_assert_int_lt(file_status(path_join(place.split, PROGRAM_NAME)).st_size, before);
    ck_assert(file_exists(path_join(place.split, PROGRAM_NAME ".debug")));
    check_same(&place, "profiles");
    check_profiles(&place);
}
END_TEST

/* Images that were linked for larger pages than this machine's. */
static const struct paged {
    struct kind kind;
    const char *size;
} paged[] = {
    {{"lld", LINK_PIE, 1500, NULL, "-Wl,-z,max-page-size=16384"}, "16384"},
    {{"bfd", LINK_STATIC, 1500, NULL, "-Wl,-z,max-page-size=65536"}, "65536"},
    {{"gold", LINK_SHARED, 1500, NULL, "-Wl,-z,max-page-size=16384"}, "16384"},
    {{"mold", LINK_PIE, 1500, NULL, "-Wl,-z,max-page-size=65536"}, "65536"},
    {{"lld", LINK_STATIC_PIE, 1500, NULL, "-Wl,-z,max-page-size=65536"}, "65536"},
    {{"bfd", LINK_SHARED, 1500, NULL, "-Wl,-z,max-page-size=65536"}, "16384"},
};

/* They run where pages are as large, split and unsplit. */
START_TEST(test_pages)
{
    if (!rounds_have((unsigned)_i, sizeof paged / sizeof *paged)) {
        return;
    }
    struct place place = prepare(&paged[_i].kind, NULL, text_format("of %s", paged[_i].size));
    place.emulator = text_format("qemu-x86_64 -p %s", paged[_i].size);
    split(&place, place.plain);
    for (size_t i = 0; i < place.image_count; i++) {
        ck_assert_int_lt(file_status(path_join(place.split, images[i])).st_size,
                         file_status(path_join(place.plain, images[i])).st_size - 0x20000);
    }
    check_same(&place, "profiles");
    check_profiles(&place);
}
END_TEST

#ifdef COVSPLIT_WITH_LIEF
static void build_lief(const char *directory, const char *clang)
{
    (void)clang;
    run_or_abort(directory, "g++", COVSPLIT_FIXTURE_DIRECTORY "/lief_write.cc", "-o", "lief_write",
                 "-lLIEF", NULL);
}
#endif

/* Once for all tests: there are hundreds, of which few are run each day. */
static void find_tools(void)
{
    const char *release = rust_llvm_release();
    has_rust = release != NULL && strcmp(release, clang_version) == 0;
#ifdef COVSPLIT_WITH_LIEF
    struct contents source = file_read(COVSPLIT_FIXTURE_DIRECTORY "/lief_write.cc");
    const char *inputs = text_format("%.*s", (int)source.size, (const char *)source.data);
    lief = path_join(cache_directory("lief", clang_version, inputs, build_lief), "lief_write");
#endif
}

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("tools", 300, find_tools);
    suite_loops(test_case, CARE_COUNT * KIND_COUNT, test_before, test_after);
    suite_loops(test_case, KIND_COUNT, test_readers);
    suite_loops(test_case, sizeof linkers / sizeof *linkers, test_retained);
    suite_loops(test_case, sizeof paged / sizeof *paged, test_pages);
    return suite_main(text_format("other tools clang-%s", clang_version), test_case);
}
