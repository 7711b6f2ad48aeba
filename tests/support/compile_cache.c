/*
 * The cache behind compile_cache.h: directories that are named after what they were made of.
 *
 * A command has a directory compiled/HASH with its sources and what it made, beside the file
 * HASH.made with the names of the latter. Who makes it holds the lock of HASH.lock; HASH.made gets
 * its name when all is there, so that nobody finds half of it, whoever is killed meanwhile.
 */
#include "tests/support/compile_cache.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* All packages that are installed, with their versions. */
#define PACKAGES "/var/lib/dpkg/status"

/* ---- hashes ---- */

/* As FNV-1a, but by eight bytes, since the list of packages alone has a megabyte: nobody attacks a
 * test. The shift brings down what the product has moved up. */
#define HASH_START UINT64_C(0xcbf29ce484222325)

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 32;
    }
    return hash;
}

/* With its end, so that no two lists of texts are one. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t hash_list(uint64_t hash, const struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        hash = hash_text(hash, list->items[i]);
    }
    return hash_text(hash, "");
}

static uint64_t hash_file(uint64_t hash, const char *path)
{
    struct contents contents = file_read(path);
    hash = hash_text(hash, path);
    hash = hash_bytes(hash, &contents.size, sizeof contents.size);
    hash = hash_bytes(hash, contents.data, contents.size);
    contents_free(&contents);
    return hash;
}

/* What the system's tools, headers and libraries are known by. */
static uint64_t hash_of_system(void)
{
    static uint64_t hash;
    if (hash == 0) {
        hash = hash_file(HASH_START, PACKAGES);
    }
    return hash;
}

/* ---- commands ---- */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Words that name files in other places than the command's directory, the fixtures and the cache
 * are not followed. (What is in the cache was fetched, and has its version in its name.) */
static bool is_plain_word(const char *directory, const char *word)
{
    if (strstr(word, COVSPLIT_FIXTURE_DIRECTORY) != NULL ||
        strstr(word, COVSPLIT_TEST_CACHE) != NULL) {
        return true;
    }
    bool searches = starts_with(word, "-I") || starts_with(word, "-L") || starts_with(word, "-B");
    return (!searches || strcmp(word + 2, ".") == 0) && strstr(word, directory) == NULL &&
           strstr(word, "/tmp") == NULL && strstr(word, "/dev/shm") == NULL &&
           strstr(word, "../") == NULL &&
           (word[0] == '-' || word[0] == '/' || word[0] == '@' || strchr(word, '/') == NULL);
}

/* Whether that is the command of a compiler or linker that makes files, and all that it reads is
 * known. */
static bool is_known(const struct command *command)
{
    static const char *const tools[] = {"clang-", "clang++-", "ld64.lld-", "lld-link-",
                                        "x86_64-w64-mingw32-g++"};
    const struct text_list *words = &command->arguments;
    bool is_tool = false, makes = false;
    if (command->directory == NULL || starts_with(command->directory, COVSPLIT_TEST_CACHE) ||
        !file_exists(PACKAGES)) {
        return false;
    }
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        is_tool |= starts_with(words->items[0], tools[i]);
    }
    for (size_t i = 1; i < words->count && is_tool; i++) {
        is_tool = is_plain_word(command->directory, words->items[i]);
        makes |= strcmp(words->items[i], "-o") == 0 || starts_with(words->items[i], "/out:");
    }
    return is_tool && makes;
}

static bool is_source(const char *name)
{
    return ends_with(name, ".c") || ends_with(name, ".cc") || ends_with(name, ".h");
}

/* All files of the directory: sources include others, and linkers find libraries. */
static struct text_list inputs_of(const struct command *command)
{
    struct text_list names = directory_list(command->directory), inputs = {0};
    for (size_t i = 0; i < names.count; i++) {
        char *path = path_join(command->directory, names.items[i]);
        struct stat status;
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            text_list_add(&inputs, names.items[i]);
        }
        free(path);
    }
    text_list_free(&names);
    return inputs;
}

static uint64_t hash_headers(uint64_t hash, const char *directory)
{
    struct text_list names = directory_list(directory);
    for (size_t i = 0; i < names.count; i++) {
        if (ends_with(names.items[i], ".h")) {
            hash = hash_file(hash, path_join(directory, names.items[i]));
        }
    }
    text_list_free(&names);
    return hash;
}

/* A fixture or a fetched source that a word names, and the headers beside it; or headers that the
 * word says where to find. */
static uint64_t hash_named_file(uint64_t hash, const char *word)
{
    struct stat status;
    const char *path = starts_with(word, "-I") ? word + 2 : word;
    if (path[0] != '/' || stat(path, &status) != 0) {
        return hash;
    }
    if (S_ISDIR(status.st_mode)) {
        return path != word ? hash_headers(hash, path) : hash;
    }
    if (!S_ISREG(status.st_mode)) {
        return hash;
    }
    char *directory = text_format("%.*s", (int)(strrchr(path, '/') - path), path);
    hash = hash_headers(hash_file(hash, path), directory);
    free(directory);
    return hash;
}

static uint64_t hash_command(const struct command *command, const struct text_list *inputs)
{
    uint64_t hash = hash_list(hash_of_system(), &command->arguments);
    hash = hash_list(hash, &command->environment);
    for (size_t i = 0; i < inputs->count; i++) {
        struct contents contents = file_read(path_join(command->directory, inputs->items[i]));
        hash = hash_text(hash, inputs->items[i]);
        hash = hash_bytes(hash, &contents.size, sizeof contents.size);
        hash = hash_bytes(hash, contents.data, contents.size);
        contents_free(&contents);
    }
    for (size_t i = 1; i < command->arguments.count; i++) {
        hash = hash_named_file(hash, command->arguments.items[i]);
    }
    return hash;
}

/* Whether the file has been written since it was copied there. */
static bool is_made(const struct stat *copied, const struct stat *now)
{
    return copied->st_ino != now->st_ino || copied->st_mtim.tv_sec != now->st_mtim.tv_sec ||
           copied->st_mtim.tv_nsec != now->st_mtim.tv_nsec;
}

/* Runs the command in its directory of the cache, and writes the names of what it made to
 * `made_path`. Its sources stay, other inputs go. */
static void make(const struct command *command, const struct text_list *inputs,
                 const char *directory, const char *made_path)
{
    char *made = text_format("%s", "");
    struct stat *copied = calloc(inputs->count + 1, sizeof *copied);
    if (copied == NULL) {
        abort();
    }
    directory_remove(directory);
    directory_create(directory);
    for (size_t i = 0; i < inputs->count; i++) {
        char *copy = path_join(directory, inputs->items[i]);
        file_copy(path_join(command->directory, inputs->items[i]), copy);
        copied[i] = file_status(copy);
        free(copy);
    }

    struct command here = *command;
    here.directory = directory;
    command_run_or_abort(&here);

    struct text_list names = directory_list(directory);
    for (size_t i = 0, input = 0; i < names.count; i++) {
        char *path = path_join(directory, names.items[i]);
        struct stat now = file_status(path);
        /* Both lists are sorted. */
        bool is_input = input < inputs->count && strcmp(inputs->items[input], names.items[i]) == 0;
        if (!is_input || is_made(&copied[input], &now)) {
            made = text_format("%s%s\n", made, names.items[i]);
        } else if (!is_source(names.items[i])) {
            unlink(path);
        }
        input += is_input;
        free(path);
    }
    char *unfinished = text_format("%s.unfinished", directory);
    file_write_text(unfinished, made);
    if (rename(unfinished, made_path) != 0) {
        ck_abort_msg("%s: %s", unfinished, strerror(errno));
    }
    text_list_free(&names);
    free(unfinished);
    free(copied);
    free(made);
}

/* The lock of a result that is not there yet. Returns its descriptor. */
static int lock(const char *directory)
{
    char *path = text_format("%s.lock", directory);
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int failure = descriptor < 0;
    while (!failure && flock(descriptor, LOCK_EX) != 0) {
        failure = errno != EINTR;
    }
    if (failure) {
        ck_abort_msg("%s: %s", path, strerror(errno));
    }
    free(path);
    return descriptor;
}

static void copy_made(const char *directory, const char *made_path, const char *to)
{
    struct contents contents = file_read(made_path);
    char *text = text_format("%.*s", (int)contents.size, (const char *)contents.data);
    struct text_list made = text_list_of_lines(text);
    for (size_t i = 0; i < made.count; i++) {
        char *copy = path_join(to, made.items[i]);
        unlink(copy);
        file_copy(path_join(directory, made.items[i]), copy);
        free(copy);
    }
    text_list_free(&made);
    contents_free(&contents);
    free(text);
}

bool compile_cache_make(const struct command *command)
{
    if (!is_known(command)) {
        return false;
    }
    struct text_list inputs = inputs_of(command);
    char *parent = path_join(COVSPLIT_TEST_CACHE, "compiled");
    char *directory = text_format("%s/%016" PRIx64, parent, hash_command(command, &inputs));
    char *made_path = text_format("%s.made", directory);
    directory_create(COVSPLIT_TEST_CACHE);
    directory_create(parent);
    if (!file_exists(made_path)) {
        int descriptor = lock(directory);
        if (!file_exists(made_path)) {
            make(command, &inputs, directory, made_path);
        }
        close(descriptor);
    }
    copy_made(directory, made_path, command->directory);
    text_list_free(&inputs);
    free(made_path);
    free(directory);
    free(parent);
    return true;
}

/* ---- directories ---- */

const char *cache_directory(const char *label, const char *clang, const char *inputs,
                            cache_maker make_contents)
{
    char *directory = text_format("%s/%s-clang%s-%016" PRIx64, COVSPLIT_TEST_CACHE, label, clang,
                                  hash_text(hash_of_system(), inputs));
    if (file_exists(directory)) {
        return directory;
    }
    /* Renamed when all is there, with the lock, for which others wait that need the same. No
     * ck_assert: benchmarks, which are no Check tests, come here too. */
    directory_create(COVSPLIT_TEST_CACHE);
    int descriptor = lock(directory);
    char *work = text_format("%s-XXXXXX", directory);
    if (!file_exists(directory)) {
        if (mkdtemp(work) == NULL) {
            ck_abort_msg("%s: cannot be made: %s", work, strerror(errno));
        }
        make_contents(work, clang);
        if (rename(work, directory) != 0) {
            ck_abort_msg("%s: cannot be renamed: %s", work, strerror(errno));
        }
    }
    close(descriptor);
    free(work);
    return directory;
}
