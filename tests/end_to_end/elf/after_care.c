/*
 * What packagers do to images: tools that strip, shrink or change them, on the image before the
 * split and on the stripped one after it. Either way the program does the same as one that was only
 * treated with the tool, and so do reports; and nothing is joined that the split has not written.
 *
 * Usage: after_care CLANG
 *
 * Each tool meets a shared library and its program; linkers take turns, unless everything is asked
 * for (suite.h).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define NO_SYMBOLS "no symbol table: run covsplit before strip"

struct care {
    const char *commands; /* with ; between them, IMAGE for the file and VERSION for that of LLVM */
    const char *warning;  /* of a split after it; NULL: none */
};

static const struct care cares[] = {
    {"strip IMAGE", NO_SYMBOLS},
    {"strip -g IMAGE", NULL},
    {"llvm-strip-VERSION IMAGE", NO_SYMBOLS},
    {"llvm-strip-VERSION -g IMAGE", NULL},
    {"eu-strip -f IMAGE.debug IMAGE", NO_SYMBOLS},
    {"objcopy --only-keep-debug IMAGE IMAGE.debug;objcopy --strip-debug IMAGE;"
     "objcopy --add-gnu-debuglink=IMAGE.debug IMAGE",
     NULL},
    {"llvm-objcopy-VERSION --only-keep-debug IMAGE IMAGE.debug;"
     "llvm-objcopy-VERSION --strip-debug --add-gnu-debuglink=IMAGE.debug IMAGE",
     NULL},
    {"objcopy --compress-debug-sections IMAGE", NULL},
    {"dwz IMAGE", NULL},
    {"patchelf --set-rpath $ORIGIN:/a/directory/with/a/name/that/takes/more/than/what/is/there "
     "IMAGE",
     NULL},
    {"patchelf --add-needed libm.so.6 IMAGE", NULL},
    {"patchelf --set-rpath $ORIGIN:/a/directory/with/a/name/that/takes/more/than/what/is/there "
     "IMAGE;strip -g IMAGE",
     NULL},
};

#define CARE_COUNT (sizeof cares / sizeof *cares)

static const char *const linkers[] = {"bfd", "lld", "gold", "mold"};

#define LINKER_COUNT (sizeof linkers / sizeof *linkers)

static const char *const images[] = {PROGRAM_NAME, PROGRAM_LIBRARY};

#define IMAGE_COUNT (sizeof images / sizeof *images)

static const char *clang_version;

/* One test: directories with the same images. */
struct place {
    const struct care *care;
    const char *label;
    char *scratch;
    char *plain;   /* as linked */
    char *treated; /* by the tool alone */
    char *split;   /* by covsplit, and by the tool before or after it */
};

static char *new_directory(const char *scratch, const char *name)
{
    char *path = path_join(scratch, name);
    directory_create(path);
    return path;
}

static void copy_images(const char *from, const char *to)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        file_copy(path_join(from, images[i]), path_join(to, images[i]));
    }
}

static void treat(const struct place *place, const char *directory)
{
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        const char *commands = text_replace(text_replace(place->care->commands, "IMAGE", images[i]),
                                            "VERSION", clang_version);
        const char *next;
        for (const char *rest = commands; rest != NULL; rest = next) {
            const char *end = strchr(rest, ';');
            int length = end != NULL ? (int)(end - rest) : (int)strlen(rest);
            struct command command = command_words(directory, "%.*s", length, rest);
            struct outcome outcome = command_run(&command);
            ck_assert_msg(outcome_exited(&outcome, 0), "%s: %s", place->label,
                          outcome_describe(&command, &outcome));
            next = end != NULL ? end + 1 : NULL;
        }
    }
}

/* Splits what is in `from` into place->split. */
static const char *split(const struct place *place, const char *from)
{
    const char *errors = "";
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
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
static bool has_lost_notes(const char *directory)
{
    bool is_lost = false;
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
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
    if (has_lost_notes(place->treated) || has_lost_notes(place->split)) {
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
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    run_or_abort(place->scratch, profdata, "merge", "-o", "expected.profdata",
                 path_join(place->treated, "profiles"), NULL);
    covsplit_assert(0, place->scratch, "merge", "--store", "sidecars", "--llvm-profdata", profdata,
                    "-o", "found.profdata", path_join(place->split, "profiles"), NULL);
    files_assert_equal(path_join(place->scratch, "expected.profdata"),
                       path_join(place->scratch, "found.profdata"), place->label);
}

static const char *report_words(const char *directory, const char *profile)
{
    return text_format("%s report %s/" PROGRAM_NAME " -object %s/" PROGRAM_LIBRARY
                       " -instr-profile=%s",
                       versioned_tool("llvm-cov", clang_version), directory, directory, profile);
}

/* The report on the images as they were linked, and that on the split ones under `covsplit run`. */
static void check_reports(const struct place *place)
{
    struct command plain =
        command_words(place->scratch, "%s", report_words("plain", "expected.profdata"));
    struct command of_split =
        covsplit_words(place->scratch, text_format("run --store sidecars -- %s",
                                                   report_words("split", "found.profdata")));
    struct outcome expected = command_expect(&plain, 0), found = command_expect(&of_split, 0);
    ck_assert_msg(strcmp(expected.output, found.output) == 0, "%s: another report:\n%s\n%s",
                  place->label, expected.output, found.output);
}

/* Every pair of a tool and a linker. */
static struct place prepare(int number, const char *order)
{
    const char *linker = linkers[(size_t)number / CARE_COUNT];
    struct place place = {.care = &cares[(size_t)number % CARE_COUNT],
                          .scratch = scratch_create("after-care")};
    struct program program = {.clang = clang_version,
                              .linker = linker,
                              .kind = LINK_SHARED,
                              .language = LANGUAGE_C,
                              .optimization = "-O1",
                              .compile_options = "-gdwarf-4",
                              .link_options = "-g"};
    place.label = text_format("%s %s the split, %s", place.care->commands, order, linker);
    place.plain = new_directory(place.scratch, "plain");
    place.treated = new_directory(place.scratch, "treated");
    place.split = new_directory(place.scratch, "split");
    program_build(&program, place.plain);
    copy_images(place.plain, place.treated);
    treat(&place, place.treated);
    return place;
}

/* On the diagonal: linkers take turns, and so it is for every compiler. */
static bool is_chosen(int number)
{
    int care = number % (int)CARE_COUNT, linker = number / (int)CARE_COUNT;
    return rounds_are_all() || (care + atoi(clang_version)) % (int)LINKER_COUNT == linker;
}

START_TEST(test_before)
{
    if (!is_chosen(_i)) {
        return;
    }
    struct place place = prepare(_i, "before");
    const char *errors = split(&place, place.treated);
    ck_assert_msg((place.care->warning == NULL && strstr(errors, " stays") == NULL) ||
                      (place.care->warning != NULL && strstr(errors, place.care->warning) != NULL),
                  "%s: %s", place.label, errors);
    bool has_profiles = check_runs(&place);
    if (has_profiles) {
        check_profiles(&place);
    }
    if (has_profiles && place.care->warning == NULL) {
        check_reports(&place);
    }
    for (size_t i = 0; i < IMAGE_COUNT && place.care->warning == NULL; i++) {
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
    struct place place = prepare(_i, "after");
    const char *errors = split(&place, place.plain);
    ck_assert_msg(strstr(errors, " stays") == NULL, "%s: %s", place.label, errors);
    treat(&place, place.split);
    if (check_runs(&place)) {
        check_profiles(&place);
        check_reports(&place);
    }
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
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

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("tools", 300, NULL);
    suite_loops(test_case, CARE_COUNT * LINKER_COUNT, test_before, test_after);
    return suite_main(text_format("after care clang-%s", clang_version), test_case);
}
