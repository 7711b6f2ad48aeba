/*
 * Finding llvm-profdata and llvm-cov: see llvm_tool.h.
 *
 * A raw profile is only read by the LLVM releases that write its version, so a program has to say
 * of which it is. llvm-profdata 14 to 17 have no --version; there the llvm-cov beside it says it,
 * or if there is none, a profile of no functions is tried.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/llvm/profile.h"
#include "split/cli/memory.h"
#include "split/profiles/llvm_tool.h"

static const struct {
    const char *name, *environment, *option;
} tools[] = {
    [LLVM_PROFDATA] = {"llvm-profdata", "LLVM_PROFDATA", "llvm-profdata"},
    [LLVM_COV] = {"llvm-cov", "LLVM_COV", "llvm-cov"},
};

/* The LLVM releases that write and read a raw version, from PROFILE_VERSION_MIN on. */
static const struct releases {
    unsigned first, last;
} releases[] = {{13, 13}, {14, 17}, {18, 18}, {19, 22}, {23, 39 /* known so far */}};

#define RAW_VERSIONS  (sizeof(releases) / sizeof(releases[0]))
#define RELEASE_FIRST 13
#define RELEASE_LAST  39

/* ---- the programs of a directory, and of PATH ---- */

/* Takes the next directory off a list with ':' between them, as a new string. NULL at the end. */
static char *next_directory(const char **list)
{
    while (*list != NULL && **list != '\0') {
        size_t length = strcspn(*list, ":");
        char *directory = command_text("%.*s", (int)length, *list);

        *list += length + ((*list)[length] == ':');
        if (length != 0)
            return directory;
        free(directory);
    }
    return NULL;
}

/* The path of the program, which may be a name in PATH, as a new string; NULL if there is none. */
static char *find_program(const char *program)
{
    const char *path = getenv("PATH");
    char *directory;

    if (strchr(program, '/') != NULL)
        return access(program, X_OK) == 0 ? command_copy(program) : NULL;
    while ((directory = next_directory(&path)) != NULL) {
        char *candidate = command_text("%s/%s", directory, program);

        free(directory);
        if (access(candidate, X_OK) == 0)
            return candidate;
        free(candidate);
    }
    return NULL;
}

/* The program of another name in the same directory: llvm-cov-19 and "llvm-cxxfilt" for
 * llvm-profdata-19. A new string; NULL if there is none. */
static char *find_beside(const char *program, const char *name)
{
    char *path = find_program(program), *beside = NULL;
    const char *file = path == NULL ? NULL : path_file_name(path), *own = NULL;
    size_t tool = 0;

    for (; own == NULL && file != NULL && tool < sizeof(tools) / sizeof(tools[0]); tool++)
        own = strstr(file, tools[tool].name);
    if (own != NULL) {
        beside = command_text("%.*s%s%s", (int)(own - path), path, name,
                              own + strlen(tools[tool - 1].name));
        if (access(beside, X_OK) != 0) {
            free(beside);
            beside = NULL;
        }
    }
    free(path);
    return beside;
}

/* ---- its release ---- */

/* The directories of distributions' packages, one for each release. */
static const char *const packaged[] = {"/usr/lib/llvm-%u/bin", "/usr/lib/llvm%u/bin",
                                       "/usr/lib64/llvm%u/bin"};

/* The release whose package the program is of, which need not be run then; 0: of none. */
static unsigned packaged_release(const char *program)
{
    char *path = find_program(program), *real = path == NULL ? NULL : realpath(path, NULL);
    unsigned release = 0, found;

    exit_unless_allocated(path == NULL || real != NULL || errno != ENOMEM, sizeof(*real));
    for (size_t i = 0; real != NULL && i < sizeof(packaged) / sizeof(packaged[0]); i++) {
        char *directory;

        if (sscanf(real, packaged[i], &found) != 1)
            continue;
        directory = command_text(packaged[i], found);
        if (strncmp(real, directory, strlen(directory)) == 0 && real[strlen(directory)] == '/')
            release = found;
        free(directory);
    }
    free(real);
    free(path);
    return release;
}

/* The release that --version tells; 0: it does not. */
static unsigned ask_release(const char *program)
{
    static const char before[] = "LLVM version ";
    struct llvm_command command = {0};
    struct buffer text = {0};
    unsigned release = 0;
    int status = -1;

    llvm_command_add(&command, "%s", program);
    llvm_command_add(&command, "--version");
    if (llvm_command_spawn(&command, -1, &text, &status) == 0 && buffer_append(&text, "", 1)) {
        const char *found = strstr((const char *)text.data, before);

        if (found != NULL)
            release = (unsigned)strtoul(found + strlen(before), NULL, 10);
    }
    buffer_free(&text);
    llvm_command_free(&command);
    return release;
}

/* The header of every version is shorter than this; all of its sizes are 0. */
#define EMPTY_PROFILE_WORDS 20

bool llvm_profdata_reads(const char *program, unsigned raw_version)
{
    static const uint8_t magic[] = {0x81, 'r', 'f', 'o', 'r', 'p', 'l', 0xff};
    uint8_t profile[EMPTY_PROFILE_WORDS * sizeof(uint64_t)] = {0};
    struct llvm_command command = {0};
    struct output file = {.fd = -1};
    struct buffer text = {0};
    struct error error;
    int status = -1;
    bool reads;

    memcpy(profile, magic, sizeof(magic));
    store_u64(profile + sizeof(magic), raw_version, false);
    reads = output_create_in_memory(&file, "a profile of no functions", &error) &&
            output_write(&file, (struct bytes){profile, sizeof(profile)}, &error) &&
            output_lend(&file, &error);
    if (!reads) {
        command_check_memory(&error);
    } else {
        llvm_command_add(&command, "%s", program);
        llvm_command_add(&command, "show");
        llvm_command_add_file(&command, "", file.fd, file.path);
        reads = llvm_command_spawn(&command, -1, &text, &status) == 0 && WIFEXITED(status) &&
                WEXITSTATUS(status) == 0;
    }
    buffer_free(&text);
    llvm_command_free(&command);
    output_discard(&file);
    return reads;
}

unsigned llvm_tool_release(const char *program)
{
    unsigned release = packaged_release(program);

    if (release == 0)
        release = ask_release(program);
    for (size_t i = 0; release == 0 && i < sizeof(tools) / sizeof(tools[0]); i++) {
        char *beside = find_beside(program, tools[i].name);

        if (beside != NULL)
            release = ask_release(beside);
        free(beside);
    }
    for (unsigned i = RAW_VERSIONS; release == 0 && i-- > 0;) {
        if (llvm_profdata_reads(program, PROFILE_VERSION_MIN + i))
            release = releases[i].first;
    }
    return release;
}

/* ---- all that there are ---- */

struct candidate {
    char *program;
    unsigned release; /* that its name tells; 0: it has to be asked */
};

struct candidates {
    struct candidate *items;
    size_t count, capacity;
};

/* Adds the program if it is there. Takes over the string. */
static void add(struct candidates *candidates, char *program, unsigned release)
{
    if (access(program, X_OK) != 0) {
        free(program);
        return;
    }
    COMMAND_ROOM_FOR_ONE(candidates->items, candidates->capacity, candidates->count);
    candidates->items[candidates->count++] = (struct candidate){program, release};
}

/* Adds the programs in the directories of a list: those without a version, then those with one. */
static void add_list(struct candidates *candidates, const char *name, const char *list)
{
    const char *rest = list;
    char *directory;

    while ((directory = next_directory(&rest)) != NULL) {
        add(candidates, command_text("%s/%s", directory, name), 0);
        free(directory);
    }
    for (unsigned release = RELEASE_FIRST; release <= RELEASE_LAST; release++) {
        for (rest = list; (directory = next_directory(&rest)) != NULL; free(directory))
            add(candidates, command_text("%s/%s-%u", directory, name, release), release);
    }
}

/* Adds those of the packages of distributions, which have a directory for each release. */
static void add_packaged(struct candidates *candidates, const char *name)
{
    for (unsigned release = RELEASE_FIRST; release <= RELEASE_LAST; release++) {
        for (size_t i = 0; i < sizeof(packaged) / sizeof(packaged[0]); i++) {
            char directory[64];

            snprintf(directory, sizeof(directory), packaged[i], release);
            add(candidates, command_text("%s/%s", directory, name), release);
        }
    }
}

/* Adds those of `rustup component add llvm-tools`. */
static void add_rustup(struct candidates *candidates, const char *name)
{
    const char *root = getenv("RUSTUP_HOME"), *home = getenv("HOME");
    glob_t found = {0};
    char *pattern;
    int result;

    if ((root == NULL || root[0] == '\0') && home == NULL)
        return;
    pattern = command_text("%s%s/toolchains/*/lib/rustlib/*/bin/%s",
                           root != NULL && root[0] != '\0' ? root : home,
                           root != NULL && root[0] != '\0' ? "" : "/.rustup", name);
    result = glob(pattern, 0, NULL, &found);
    exit_unless_allocated(result != GLOB_NOSPACE, strlen(pattern));
    for (size_t i = 0; result == 0 && i < found.gl_pathc; i++)
        add(candidates, command_copy(found.gl_pathv[i]), 0);
    globfree(&found);
    free(pattern);
}

/* ---- the one that is wanted ---- */

const char *llvm_tool_given(enum llvm_tool tool, const char *option)
{
    const char *environment = getenv(tools[tool].environment);

    return option != NULL                                  ? option
           : environment != NULL && environment[0] != '\0' ? environment
                                                           : NULL;
}

/* The number of the first candidate that fits; that of candidates: none does. */
static size_t choose(const struct candidates *candidates, const struct releases *wanted)
{
    size_t best = candidates->count;
    unsigned highest = 0;

    for (size_t i = 0; i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->items[i];
        unsigned release =
            candidate->release != 0 ? candidate->release : llvm_tool_release(candidate->program);

        if (wanted != NULL && release >= wanted->first && release <= wanted->last)
            return i;
        if (wanted == NULL && (best == candidates->count || release > highest)) {
            best = i;
            highest = release;
        }
    }
    return best;
}

char *llvm_tool_search(enum llvm_tool tool, unsigned raw_version, struct error *error)
{
    static const char places[] =
        LLVM_BIN_ENVIRONMENT ", PATH, /usr/lib/llvm-*/bin and the toolchains of rustup";
    const char *name = tools[tool].name;
    size_t index = raw_version - PROFILE_VERSION_MIN, chosen;
    const struct releases *wanted =
        raw_version != 0 && index < RAW_VERSIONS ? &releases[index] : NULL;
    struct candidates candidates = {0};
    char *program = NULL;

    add_list(&candidates, name, getenv(LLVM_BIN_ENVIRONMENT));
    add_list(&candidates, name, getenv("PATH"));
    add_packaged(&candidates, name);
    add_rustup(&candidates, name);
    chosen = raw_version != 0 && wanted == NULL ? candidates.count : choose(&candidates, wanted);
    if (chosen != candidates.count)
        program = command_copy(candidates.items[chosen].program);
    else if (wanted == NULL)
        error_set(error, "%s: none in %s; install one, or give --%s", name, places,
                  tools[tool].option);
    else if (wanted->first == wanted->last)
        error_set(error,
                  "%s: none in %s reads raw profiles of version %u (LLVM %u does); install one, or "
                  "give --%s",
                  name, places, raw_version, wanted->first, tools[tool].option);
    else
        error_set(error,
                  "%s: none in %s reads raw profiles of version %u (LLVM %u to %u do); install "
                  "one, or give --%s",
                  name, places, raw_version, wanted->first, wanted->last, tools[tool].option);
    for (size_t i = 0; i < candidates.count; i++)
        free(candidates.items[i].program);
    free(candidates.items);
    return program;
}

char *llvm_tool_find(enum llvm_tool tool, const char *option, unsigned raw_version,
                     struct error *error)
{
    const char *given = llvm_tool_given(tool, option);

    if (given != NULL &&
        (tool != LLVM_PROFDATA || raw_version == 0 || llvm_profdata_reads(given, raw_version)))
        return command_copy(given);
    return llvm_tool_search(tool, raw_version, error);
}

char *llvm_cov_find(const char *cov_option, const char *profdata_option, unsigned raw_version,
                    struct error *error)
{
    const char *given = llvm_tool_given(LLVM_COV, cov_option);
    char *profdata, *program;

    if (given != NULL)
        return command_copy(given);
    profdata = llvm_tool_find(LLVM_PROFDATA, profdata_option, raw_version, error);
    program = profdata == NULL ? NULL : find_beside(profdata, tools[LLVM_COV].name);
    free(profdata);
    return program != NULL ? program : llvm_tool_search(LLVM_COV, raw_version, error);
}

char *llvm_demangler_find(const char *cov, bool for_rust)
{
    char *program = for_rust ? find_program("rustfilt") : NULL;

    if (program == NULL)
        program = find_beside(cov, "llvm-cxxfilt");
    return program != NULL ? program : find_program("c++filt");
}
