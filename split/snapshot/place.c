/*
 * Writing the profiles of snapshots: see place.h.
 *
 * A later snapshot of a process replaces the one before, or its counts would be merged twice. But
 * numbers of processes are used again, and each container counts its own, so the file that is there
 * may be the profile of another process, whose counts must not be lost. The two are told apart by
 * where the names are in memory, which the header says: what is loaded anew gets a new random
 * address.
 *
 * The file is looked for under every name that ends in UUID and process: a core may not say what
 * its modules are called, and files are renamed.
 */
#include "split/snapshot/place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/directory.h"
#include "common/base/file.h"
#include "common/base/output.h"

/* Digits of the UUID, and characters of the module's name, in the name of an output. */
#define UUID_DIGITS     8
#define NAME_LENGTH_MAX 180
#define MIDDLE_MAX      64

static bool is_written(const struct place *place, const char *path)
{
    for (size_t i = 0; i < place->written.count; i++) {
        if (strcmp(place->written.paths[i], path) == 0)
            return true;
    }
    return false;
}

/* DIR/NAME.UUID.PROCESS.profraw, where what is not known is left out. If another process, or
 * another copy of the module in the same one, has that name: with a number before "profraw".
 * `middle` becomes ".UUID.PROCESS", or "" if not both are known. */
static bool name_output(const struct place *place, const struct memory *memory,
                        const struct module *module, unsigned time, char path[PATH_MAX],
                        char middle[MIDDLE_MAX], struct error *error)
{
    const char *slash = strrchr(module->listed->path, '/');
    const char *name = slash == NULL ? module->listed->path : slash + 1;
    bool has_uuid = module->uuid.size != 0, has_process = memory->process != 0;
    char uuid[UUID_HEX_MAX], number[32] = "", times[16] = "";
    int length;

    middle[0] = '\0';
    if (has_uuid)
        snprintf(middle, MIDDLE_MAX, ".%.*s", UUID_DIGITS, uuid_format(&module->uuid, uuid));
    if (has_process)
        snprintf(number, sizeof(number), ".%" PRIu64, memory->process);
    if (time > 1)
        snprintf(times, sizeof(times), ".%u", time);
    strcat(middle, number);
    length = snprintf(path, PATH_MAX, "%s/%.*s%s%s.profraw", place->directory, NAME_LENGTH_MAX,
                      name[0] == '\0' || name[0] == '.' ? "module" : name, middle, times);
    if (!has_uuid || !has_process)
        middle[0] = '\0';
    return (length >= 0 && length < PATH_MAX) ||
           error_set_errno(error, ENAMETOOLONG, "%s", place->directory);
}

/* True if one profile has no counter that is less than in the other, as it must be if both are of
 * one process. A byte is 0 once the code was reached. */
static bool has_all_counts(const struct profile *profile, const struct profile *other)
{
    uint64_t size = profile_counter_size(profile->header.version);
    struct bytes a = profile_whole_counters(profile), b = profile_whole_counters(other);

    for (uint64_t i = 0; i < a.size && i < b.size; i += size) {
        if (size == 1 ? a.data[i] > b.data[i]
                      : load_u64(a.data + i, profile->big_endian) <
                            load_u64(b.data + i, other->big_endian))
            return false;
    }
    return true;
}

/* What a file is that has the name. */
struct existing {
    bool exists;
    bool is_same;             /* a profile of the same copy of the module */
    bool has_all, lacks_none; /* and no counter is less in that profile, or in this one */
};

/* What is no regular file is left to output_create, which refuses it. */
static bool check_existing(const char *path, const struct profile *profile,
                           struct existing *existing, struct error *error)
{
    struct profile earlier;
    struct stat status;
    struct input file;

    *existing = (struct existing){.exists = lstat(path, &status) == 0};
    existing->is_same = existing->exists && !S_ISREG(status.st_mode);
    if (!existing->exists || existing->is_same)
        return true;
    if (!input_open(&file, path, error))
        return false;
    existing->is_same = profile_parse(file.bytes, 0, path, &earlier, error) &&
                        earlier.header.version == profile->header.version &&
                        earlier.header.num_counters == profile->header.num_counters &&
                        earlier.header.names_delta == profile->header.names_delta &&
                        bytes_equal(earlier.binary_ids, profile->binary_ids);
    existing->has_all = existing->is_same && has_all_counts(&earlier, profile);
    existing->lacks_none = existing->is_same && has_all_counts(profile, &earlier);
    input_close(&file);
    return !error_is_of_memory(error);
}

/* *is_taken: another process has created a file of that name meanwhile. */
static bool write_profile(const char *path, const struct profile *profile, bool replace,
                          bool *is_taken, struct error *error)
{
    struct output_options options = {.mode = file_new_mode()};
    enum output_result result;
    struct output output;

    *is_taken = false;
    if (!output_create(&output, path, &options, error))
        return false;
    if (!profile_write(profile, output_sink, &output, error)) {
        output_discard(&output);
        return false;
    }
    if (replace)
        return output_commit(&output, &result, error);
    if (!output_try_commit(&output, false, &result, error))
        return false;
    *is_taken = result == OUTPUT_NAME_TAKEN;
    output_discard(&output);
    return result != OUTPUT_NO_DIRECTORY || error_set_errno(error, ENOENT, "%s", path);
}

/* Writes it under that name, unless that is the name of another profile. */
static bool try_name(const struct place *place, const char *path, const struct profile *profile,
                     bool *is_done, struct error *error)
{
    bool is_taken = true;

    *is_done = false;
    while (is_taken && !is_written(place, path)) {
        struct existing existing;
        struct error why = {0};

        if (!check_existing(path, profile, &existing, &why)) {
            *error = why;
            return false;
        }
        if (existing.exists && !existing.is_same)
            return true;
        if (!write_profile(path, profile, existing.exists, &is_taken, error))
            return false;
        *is_done = !is_taken;
    }
    return true;
}

/* True for NAME.UUID.PROCESS.profraw, and if a number stands before "profraw". */
static bool is_of_process(const char *file, const char *middle)
{
    const char *found = strstr(file, middle);

    if (found == NULL)
        return false;
    found += strlen(middle);
    if (found[0] == '.' && found[1] != 'p')
        found += 1 + strspn(found + 1, "0123456789");
    return strcmp(found, ".profraw") == 0;
}

/* Replaces the earlier profile of this copy of the module, if there is one. Of two from one command
 * the one with more counts stays, since cores come in any order. Both stay if neither has all
 * counts of the other, and if the module is where it was linked to be, which proves nothing. */
static bool replace_earlier(const struct place *place, const struct module *module,
                            const char *middle, const struct profile *profile, char path[PATH_MAX],
                            bool *is_done, struct error *error)
{
    struct directory_names files = {0};
    bool done = directory_names_read(place->directory, NULL, &files, error);

    for (size_t i = 0; done && !*is_done && i < files.count; i++) {
        struct existing existing;
        struct stat status;
        struct error why = {0};
        char candidate[PATH_MAX];
        bool is_ours, is_taken;

        if (!is_of_process(files.items[i], middle) ||
            snprintf(candidate, PATH_MAX, "%s/%s", place->directory, files.items[i]) >= PATH_MAX)
            continue;
        is_ours = is_written(place, candidate);
        if ((is_ours && module->bias == 0) || lstat(candidate, &status) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        if (!check_existing(candidate, profile, &existing, &why)) {
            done = !error_is_of_memory(&why);
            if (!done)
                *error = why;
        } else if (existing.is_same && (!is_ours || existing.has_all || existing.lacks_none)) {
            memcpy(path, candidate, strlen(candidate) + 1);
            *is_done = true;
            done = (is_ours && existing.has_all) ||
                   write_profile(path, profile, true, &is_taken, error);
        }
    }
    directory_names_free(&files);
    return done;
}

bool place_profile(struct place *place, const struct memory *memory, const struct module *module,
                   const struct profile *profile, char path[PATH_MAX], struct error *error)
{
    char middle[MIDDLE_MAX];
    bool is_done = false;

    if (!name_output(place, memory, module, 1, path, middle, error) ||
        (middle[0] != '\0' &&
         !replace_earlier(place, module, middle, profile, path, &is_done, error)))
        return false;
    for (unsigned time = 1; !is_done; time++) {
        if (!name_output(place, memory, module, time, path, middle, error) ||
            !try_name(place, path, profile, &is_done, error))
            return false;
    }
    return is_written(place, path) || path_list_add(&place->written, path, error);
}
