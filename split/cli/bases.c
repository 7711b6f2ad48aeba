/*
 * The bases of a store: see bases.h.
 */
#include "split/cli/bases.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/llvm/names.h"
#include "common/llvm/profile.h"
#include "common/store/store.h"
#include "split/cli/memory.h"

/* The sections of a delta may take one part in so many of what the whole sidecar takes, and
 * with its headers it must be smaller than that. */
#define SHARE        4
#define HEADERS_SIZE 1300

/* The most bases that are tried for a sidecar. */
#define ATTEMPTS        3

#define SAMPLE_FILE_MAX 4096

/* ---- names ---- */

char *bases_directory(const char *store)
{
    char *root = store_root(store), *directory;

    exit_unless_allocated(root != NULL, strlen(store));
    directory = command_text("%s/" DELTA_BASES_NAME, root);
    free(root);
    return directory;
}

bool bases_parse_name(const char *name, struct digest *digest)
{
    return strlen(name) == 2 * DIGEST_SIZE + strlen(DELTA_BASE_SUFFIX) &&
           strcmp(name + 2 * DIGEST_SIZE, DELTA_BASE_SUFFIX) == 0 &&
           hex_parse(name, 2 * DIGEST_SIZE, digest->bytes, DIGEST_SIZE);
}

static bool is_base_name(const char *name)
{
    struct digest digest;

    return bases_parse_name(name, &digest);
}

bool bases_list(const char *directory, struct directory_names *names, struct error *error)
{
    return store_read_names(directory, is_base_name, names, error);
}

/* The path of a base, or with its suffix that of the sample, as a new string. */
static char *path_of(const struct bases *bases, const struct digest *digest, const char *suffix)
{
    char hex[DIGEST_HEX_MAX];

    return command_text("%s/%s" DELTA_BASE_SUFFIX "%s", bases->directory,
                        digest_format(digest, hex), suffix);
}

/* ---- samples ---- */

/* Adds a hash if it is among the smallest so far. */
static void add_to_sample(struct known_base *base, uint64_t hash)
{
    uint32_t value = (uint32_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    size_t at = base->sample_size;

    while (at != 0 && base->sample[at - 1] > value)
        at--;
    if (at == SAMPLE_SIZE || (at != 0 && base->sample[at - 1] == value))
        return;
    if (base->sample_size < SAMPLE_SIZE)
        base->sample_size++;
    memmove(&base->sample[at + 1], &base->sample[at],
            (base->sample_size - at - 1) * sizeof(base->sample[0]));
    base->sample[at] = value;
}

/* A sample of the hashes of functions, or if the records stay in the image, of the names. */
static bool take_sample(const struct sidecar *sidecar, struct known_base *base, struct error *error)
{
    const struct section *data = sidecar_find(sidecar, SECTION_DATA);
    const struct section *section = sidecar_find(sidecar, SECTION_NAMES);
    bool big = sidecar->facts.elf_data == ELFDATA2MSB, done = true;
    struct profile_record_layout layout;
    struct bytes records = {0};
    struct names names = {.count = 0};

    if (section == NULL)
        section = sidecar_find(sidecar, SECTION_COVNAMES);
    if (data != NULL && data->form != 0 &&
        profile_record_layout(sidecar->facts.raw_version, sidecar->facts.pointer_size, &layout)) {
        /* It is held for what is done with the sidecar next. */
        done = sidecar_hold_section(sidecar, data, &records, error);
        for (size_t at = 0; done && at + layout.record_size <= records.size;
             at += layout.record_size)
            add_to_sample(base, load_u64(records.data + at, big) ^
                                    load_u64(records.data + at + 8, big) * 3);
    } else if (section != NULL && section->form != 0) {
        done =
            sidecar_read_names(sidecar, section, &names, error) &&
            (names_hash(&names, 1) || error_out_of_memory(error, sidecar->name, names.text.size));
        for (size_t i = 0; done && i < names.count; i++)
            add_to_sample(base, names.references[i]);
    }
    names_free(&names);
    return done;
}

static bool describe_base(const struct sidecar *sidecar, struct known_base *base,
                          struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;

    base->target = (uint32_t)facts->machine << 16 | (uint32_t)facts->format << 8 |
                   (uint32_t)facts->elf_class << 4 | facts->elf_data;
    base->image_name = command_copy(sidecar->image_name);
    return take_sample(sidecar, base, error);
}

static size_t count_common(const struct known_base *a, const struct known_base *b)
{
    size_t common = 0;

    for (size_t i = 0, j = 0; i < a->sample_size && j < b->sample_size;) {
        common += a->sample[i] == b->sample[j];
        if (a->sample[i] <= b->sample[j])
            i++;
        else
            j++;
    }
    return common;
}

/* ---- the files of samples ----
 *
 * One beside each base: target and sample in hexadecimal digits, a blank, and the image's name. */

static bool read_sample(const struct bases *bases, struct known_base *base)
{
    char *path = path_of(bases, &base->digest, BASES_SAMPLE_SUFFIX), *text;
    uint8_t numbers[4 * (SAMPLE_SIZE + 1)];
    struct buffer read = {0};
    struct error ignored;
    size_t digits;
    bool done =
        file_read_into(&read, path, SAMPLE_FILE_MAX, &ignored) && buffer_append(&read, "", 1);

    if (done) {
        text = (char *)read.data;
        digits = strcspn(text, " ");
        done = text[digits] == ' ' && digits % 8 == 0 && digits >= 8 &&
               digits <= 2 * sizeof(numbers) && hex_parse(text, digits, numbers, digits / 2);
        base->sample_size = done ? digits / 8 - 1 : 0;
        base->target = done ? load_u32(numbers, true) : 0;
        for (size_t i = 0; i < base->sample_size; i++)
            base->sample[i] = load_u32(numbers + 4 * (i + 1), true);
        if (done)
            base->image_name = command_copy(text + digits + 1);
    }
    buffer_free(&read);
    free(path);
    return done;
}

/* Without it the sample is taken again, so that it does not matter if this fails. */
static void write_sample(const struct bases *bases, const struct known_base *base)
{
    const struct output_options options = {.mode = file_new_mode(), .needs_no_sync = true};
    char *path = path_of(bases, &base->digest, BASES_SAMPLE_SUFFIX),
         text[8 * (SAMPLE_SIZE + 1) + 1], *line;
    struct output output = {.fd = -1};
    enum output_result result;
    struct error ignored;

    snprintf(text, sizeof(text), "%08" PRIx32, base->target);
    for (size_t i = 0; i < base->sample_size; i++)
        snprintf(text + 8 * (i + 1), 9, "%08" PRIx32, base->sample[i]);
    line = command_text("%s %s", text, base->image_name);
    if (store_output_create(&output, path, &options, &ignored) &&
        output_write(&output, (struct bytes){(const uint8_t *)line, strlen(line)}, &ignored))
        output_commit(&output, &result, &ignored);
    output_discard(&output);
    free(line);
    free(path);
}

/* ---- the bases of a store ---- */

bool bases_open(struct bases *bases, const char *store, struct error *error)
{
    struct directory_names names = {0};
    bool done;

    *bases = (struct bases){.directory = bases_directory(store), .read = SIDECAR_BASES_EMPTY};
    done = bases_list(bases->directory, &names, error);
    for (size_t i = 0; done && i < names.count; i++) {
        struct known_base base = {.sample_size = 0};
        char *path = command_text("%s/%s", bases->directory, names.items[i]);
        struct sidecar *sidecar = NULL;
        bool is_known = bases_parse_name(names.items[i], &base.digest) &&
                        stat(path, &base.status) == 0 && read_sample(bases, &base);

        if (!is_known)
            sidecar = sidecar_read(path, error);
        /* One that cannot be read is no candidate; `store check` says why. */
        if (sidecar != NULL && describe_base(sidecar, &base, error)) {
            write_sample(bases, &base);
            is_known = true;
        } else if (!is_known) {
            command_check_memory(error);
        }
        if (is_known) {
            COMMAND_ROOM_FOR_ONE(bases->items, bases->capacity, bases->count);
            bases->items[bases->count++] = base;
        } else {
            free(base.image_name);
        }
        sidecar_close(sidecar);
        free(path);
    }
    directory_names_free(&names);
    return done;
}

void bases_close(struct bases *bases)
{
    for (size_t i = 0; i < bases->count; i++)
        free(bases->items[i].image_name);
    sidecar_bases_free(&bases->read);
    free(bases->items);
    free(bases->directory);
    free(bases->used);
    *bases = (struct bases){.count = 0};
}

/* ---- deltas ---- */

/* The owner and group that an output will have; root alone keeps those of a file that is replaced.
 */
static bool owner_of(const struct output *output, struct stat *own)
{
    if (fstat(output->fd, own) != 0)
        return false;
    if (output->in_place && geteuid() == 0)
        *own = output->replaced;
    return true;
}

/* True if whoever may read the output will be able to read the base. */
static bool is_as_readable(const struct known_base *base, const struct output *output)
{
    mode_t readers = S_IRUSR | S_IRGRP | S_IROTH;
    struct stat own;

    if ((base->status.st_mode & readers) == readers)
        return true;
    return owner_of(output, &own) && own.st_uid == base->status.st_uid &&
           own.st_gid == base->status.st_gid &&
           (output->mode & ~base->status.st_mode & readers) == 0;
}

/* The candidates, best first, with no more than ATTEMPTS of them; returns how many. */
static size_t choose_bases(const struct bases *bases, const struct known_base *wanted,
                           const struct output *output, const struct known_base *chosen[ATTEMPTS])
{
    size_t scores[ATTEMPTS], count = 0;

    for (size_t i = 0; i < bases->count; i++) {
        const struct known_base *base = &bases->items[i];
        bool is_same = strcmp(base->image_name, wanted->image_name) == 0;
        size_t score = count_common(base, wanted) + (is_same ? SAMPLE_SIZE + 1 : 0), at = count;

        if (base->target != wanted->target || score == 0 || !is_as_readable(base, output))
            continue;
        while (at != 0 && scores[at - 1] < score)
            at--;
        if (at == ATTEMPTS)
            continue;
        if (count < ATTEMPTS)
            count++;
        memmove(&scores[at + 1], &scores[at], (count - at - 1) * sizeof(scores[0]));
        memmove(&chosen[at + 1], &chosen[at], (count - at - 1) * sizeof(chosen[0]));
        scores[at] = score;
        chosen[at] = base;
    }
    return count;
}

/* Gives a base a new access time: nobody removes it for a day then. The modification time is when
 * the sidecar was added to the store. False if it is gone, or belongs to somebody else. */
static bool is_held(const char *path)
{
    const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};

    return utimensat(AT_FDCWD, path, now, 0) == 0;
}

bool bases_make_delta(struct bases *bases, const struct sidecar *whole, uint64_t size, int level,
                      bool is_fast, struct output *output, bool *fits, struct error *error)
{
    uint64_t rest = size < HEADERS_SIZE ? 0 : size - HEADERS_SIZE;
    const struct delta_options options = {level, size / SHARE < rest ? size / SHARE : rest,
                                          is_fast};
    const struct known_base *chosen[ATTEMPTS];
    struct known_base wanted = {.sample_size = 0};
    bool done = describe_base(whole, &wanted, error);
    size_t count = done ? choose_bases(bases, &wanted, output, chosen) : 0;

    *fits = false;
    for (size_t i = 0; done && !*fits && i < count; i++) {
        free(bases->used);
        /* Where readers look for it: not in this store if the sidecar is a link to elsewhere. */
        bases->used = delta_base_path(whole->name, &chosen[i]->digest);
        exit_unless_allocated(bases->used != NULL, PATH_MAX);
        if (!is_held(bases->used))
            continue;
        done = delta_write(whole, size, &bases->read, bases->used, &chosen[i]->digest, &options,
                           output, fits, error);
    }
    free(wanted.image_name);
    return done;
}

bool bases_hold(const struct bases *bases, struct error *error)
{
    return is_held(bases->used) ||
           error_set_errno(error, errno, "%s: cannot be used any longer; run again", bases->used);
}

/* ---- new bases ---- */

/* Writes a base, with the owner and the permissions of the output that will need it. The name tells
 * the bytes: if there is such a file, it serves, unless it is damaged. */
static bool write_base(const char *path, struct bytes bytes, const struct output *needs,
                       struct error *error)
{
    const struct output_options options = {.mode = needs->mode};
    struct output output = {.fd = -1};
    struct input input = {.fd = -1};
    enum output_result result;
    struct stat own;
    bool done =
        output_create(&output, path, &options, error) && output_write(&output, bytes, error);

    /* Where that is refused, the base has another owner, and who cannot read it is not given it. */
    if (done && owner_of(needs, &own) && fchown(output.fd, own.st_uid, own.st_gid) != 0)
        errno = 0;
    done = done && store_output_commit(&output, false, &result, error);
    output_discard(&output);
    if (!done || result != OUTPUT_NAME_TAKEN)
        return done;
    done = input_open(&input, path, error);
    if (done && !bytes_equal(input.bytes, bytes)) {
        unlink(path);
        done = error_set(error, "%s: was damaged, and is removed; run again", path);
    }
    /* Another process may be just about to sync it. */
    if (done && (fsync(input.fd) != 0 || !path_sync_name(path)))
        done = error_set_errno(error, errno, "%s: cannot be synced to the disk", path);
    input_close(&input);
    return done;
}

bool bases_are_worth(uint64_t size)
{
    return size >= HEADERS_SIZE + HEADERS_SIZE / 3;
}

bool bases_add(struct bases *bases, const struct sidecar *whole, struct bytes bytes,
               const struct output *needs, struct error *error)
{
    struct known_base base = {.digest = digest_of(bytes)};
    char *path = path_of(bases, &base.digest, "");
    bool done = describe_base(whole, &base, error) &&
                store_make_directory(bases->directory, error) &&
                write_base(path, bytes, needs, error) &&
                (stat(path, &base.status) == 0 ||
                 error_set_errno(error, errno, "%s: cannot be read; run again", path));

    free(path);
    if (!done) {
        free(base.image_name);
        return false;
    }
    COMMAND_ROOM_FOR_ONE(bases->items, bases->capacity, bases->count);
    bases->items[bases->count++] = base;
    write_sample(bases, &base);
    return true;
}
