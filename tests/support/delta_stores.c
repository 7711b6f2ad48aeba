/*
 * The stores behind delta_stores.h.
 */
#include "tests/support/delta_stores.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"

#define SUFFIX      ".covsplit"
#define SMALL_SIZE  2600
#define BASE_SUFFIX ".base"

/* The ch_type of a delta's sections, in the byte order of each machine. */
#define DELTA_TYPE     "\x01\x07\x76\x6c"
#define DELTA_TYPE_BIG "\x6c\x76\x07\x01"

/* RFC 8878, 3.1.1 */
#define ZSTD_MAGIC      "\x28\xb5\x2f\xfd"
#define ZSTD_UNUSED_BIT 0x10

bool stores_have_deltas(void)
{
    const char *value = getenv("COVSPLIT_TEST_DELTAS");
    return value != NULL && strcmp(value, "1") == 0;
}

/* Whether the file has the compression type of deltas. */
static bool file_is_delta(const char *path)
{
    struct contents file = file_read(path);
    bool found = memmem(file.data, file.size, DELTA_TYPE, 4) != NULL ||
                 memmem(file.data, file.size, DELTA_TYPE_BIG, 4) != NULL;
    contents_free(&file);
    return found;
}

/* ---- twins ---- */

static char *bases_of(const char *store)
{
    return path_join(store, ".build-id/bases");
}

static void make_deltas(const char *store)
{
    struct command command = covsplit_command(NULL, "store", "delta", store, NULL);
    struct outcome outcome = command_run(&command);
    /* Some stores have damaged files on purpose, about which it complains. */
    ck_assert_msg(outcome_exited(&outcome, 0) || outcome_exited(&outcome, 1), "%s",
                  outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
}

/* Writes another file with the same contents: in the descriptor of its last zstd frame, which is
 * that of the inverse, it has set a bit that stands for nothing. Returns false if it has no frame.
 */
static bool write_twin(const char *entry, const char *twin)
{
    struct contents file = file_read(entry);
    size_t at = 0;
    for (size_t i = 0; i + 5 <= file.size; i++) {
        at = memcmp(file.data + i, ZSTD_MAGIC, 4) == 0 ? i + 4 : at;
    }
    if (at != 0) {
        file.data[at] |= ZSTD_UNUSED_BIT;
        file_write(twin, file.data, file.size);
    }
    contents_free(&file);
    return at != 0;
}

/* Writes twins of all whole sidecars; the paths of both are added to the lists. */
static void write_twins(const char *store, const char *to, struct text_list *entries,
                        struct text_list *twins)
{
    char *root = path_join(store, ".build-id");
    struct text_list firsts = directory_list(root);
    for (size_t i = 0; i < firsts.count; i++) {
        const char *first = firsts.items[i];
        char *directory = path_join(root, first);
        if (strlen(first) != 2 || !S_ISDIR(file_status(directory).st_mode)) {
            continue;
        }
        char *there = text_format("%s/.build-id/%s", to, first);
        struct text_list rests = directory_list(directory);
        directory_create(there);
        for (size_t j = 0; j < rests.count; j++) {
            char *entry = path_join(directory, rests.items[j]);
            char *twin = path_join(there, rests.items[j]);
            if (strstr(rests.items[j], SUFFIX) != NULL && rests.items[j][0] != '.' &&
                file_exists(entry) && S_ISREG(file_status(entry).st_mode) &&
                !file_is_delta(entry) && write_twin(entry, twin)) {
                text_list_add(entries, entry);
                text_list_add(twins, twin);
            }
        }
    }
}

/* Copies the bases of a store into another one. */
static void copy_bases(const char *from, const char *to)
{
    struct text_list names = {0};
    if (file_exists(bases_of(from))) {
        directory_create(bases_of(to));
        names = directory_list(bases_of(from));
    }
    for (size_t i = 0; i < names.count; i++) {
        if (strstr(names.items[i], BASE_SUFFIX) != NULL) {
            file_copy(path_join(bases_of(from), names.items[i]),
                      path_join(bases_of(to), names.items[i]));
        }
    }
}

/* ---- stores ---- */

void store_settle(const char *store)
{
    if (!stores_have_deltas() || !file_exists(path_join(store, ".build-id"))) {
        return;
    }
    char *other = scratch_create("twins");
    struct text_list entries = {0}, twins = {0};
    directory_create(path_join(other, ".build-id"));
    write_twins(store, other, &entries, &twins);
    if (entries.count != 0) {
        make_deltas(other);
        copy_bases(other, store);
        make_deltas(store);
    }
    for (size_t i = 0; i < entries.count; i++) {
        /* Of so small a sidecar the headers of a delta take more than it saves. */
        bool may_be_whole = file_status(entries.items[i]).st_size < SMALL_SIZE;
        ck_assert_msg(!file_is_delta(twins.items[i]) || may_be_whole ||
                          file_is_delta(entries.items[i]),
                      "%s is whole", entries.items[i]);
    }
    scratch_remove(other);
}

/* ---- commands ---- */

/* The place of the subcommand in a command line of covsplit; 0: it is none. */
static size_t subcommand_place(const struct text_list *words)
{
    for (size_t i = 0; i + 1 < words->count && i < 8; i++) {
        const char *name = strrchr(words->items[i], '/');
        name = name != NULL ? name + 1 : words->items[i];
        if (strcmp(words->items[i], covsplit_path()) == 0 || strcmp(name, "covsplit") == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* The store that a split or link adds to; NULL: none. */
static const char *store_of_split(const struct text_list *words, size_t place)
{
    const char *subcommand = words->items[place];
    if (strcmp(subcommand, "split") != 0 && strcmp(subcommand, "link") != 0) {
        return NULL;
    }
    for (size_t i = place + 1; i < words->count && strcmp(words->items[i], "--") != 0; i++) {
        const char *word = words->items[i];
        if (strncmp(word, "--store=", 8) == 0) {
            return word + 8;
        }
        if (strcmp(word, "--store") == 0) {
            return words->items[i + 1];
        }
    }
    return NULL;
}

/* The store that `store add` or `store copy` fills; NULL: it is neither. */
static const char *store_of_copy(const struct text_list *words, size_t place)
{
    if (strcmp(words->items[place], "store") != 0 || place + 3 >= words->count) {
        return NULL;
    }
    bool is_add = strcmp(words->items[place + 1], "add") == 0;
    if (!is_add && strcmp(words->items[place + 1], "copy") != 0) {
        return NULL;
    }
    unsigned operand = is_add ? 1 : 2;
    for (size_t i = place + 2; i < words->count; i++) {
        operand -= words->items[i][0] != '-';
        if (operand == 0) {
            return words->items[i];
        }
    }
    return NULL;
}

/* The path of the store for this process; NULL stays so. */
static char *reach(const struct command *command, const char *store)
{
    return store == NULL                                   ? NULL
           : store[0] == '/' || command->directory == NULL ? text_format("%s", store)
                                                           : path_join(command->directory, store);
}

void delta_stores_settle_after(const struct command *command)
{
    size_t place = stores_have_deltas() ? subcommand_place(&command->arguments) : 0;
    if (place == 0) {
        return;
    }
    const char *store = store_of_split(&command->arguments, place);
    store = reach(command, store != NULL ? store : store_of_copy(&command->arguments, place));
    if (store != NULL) {
        store_settle(store);
    }
}

void stored_assert_equal(const char *entry, const char *whole, const char *label)
{
    if (!file_is_delta(entry)) {
        files_assert_equal(entry, whole, label);
        return;
    }
    char *other = scratch_create("whole");
    const char *store = text_format("%.*s", (int)(strstr(entry, "/.build-id/") - entry), entry);
    const char *there = text_format("%s/store%s", other, entry + strlen(store));
    run_or_abort(other, "cp", "-a", store, "store", NULL);
    covsplit_run_words(other, 0, "store undelta store");
    if (file_size(there) != file_size(whole)) { /* made with --fast */
        file_copy(entry, there);
        covsplit_run_words(other, 0, "store undelta --level 1 store");
    }
    files_assert_equal(there, whole, label);
    scratch_remove(other);
}
