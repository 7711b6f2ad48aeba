/*
 * Writing the profiles of snapshots: see place.h.
 *
 * A later snapshot of a process replaces the one before, or its counts would be merged twice. But
 * numbers of processes are used again, and each container counts its own, so the file that is there
 * may be the profile of another process, whose counts must not be lost. The two are told apart by
 * where the names are in memory, which the header says: what is loaded anew gets a new random
 * address.
 */
#include "split/snapshot/place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/output.h"

/* Digits of the UUID, and characters of the module's name, in the name of an output. */
#define UUID_DIGITS     8
#define NAME_LENGTH_MAX 180

static bool is_written(const struct place *place, const char *path)
{
    for (size_t i = 0; i < place->written.count; i++) {
        if (strcmp(place->written.paths[i], path) == 0)
            return true;
    }
    return false;
}

/* DIR/NAME.UUID.PROCESS.profraw, where what is not known is left out. If another process, or
 * another copy of the module in the same one, has that name: with a number before "profraw". */
static bool name_output(const struct place *place, const struct memory *memory,
                        const struct module *module, unsigned time, char path[PATH_MAX],
                        struct error *error)
{
    const char *slash = strrchr(module->listed->path, '/');
    const char *name = slash == NULL ? module->listed->path : slash + 1;
    char uuid[UUID_HEX_MAX], middle[64] = "", number[32] = "", times[16] = "";
    int length;

    if (module->uuid.size != 0)
        snprintf(middle, sizeof(middle), ".%.*s", UUID_DIGITS, uuid_format(&module->uuid, uuid));
    if (memory->process != 0)
        snprintf(number, sizeof(number), ".%" PRIu64, memory->process);
    if (time > 1)
        snprintf(times, sizeof(times), ".%u", time);
    length = snprintf(path, PATH_MAX, "%s/%.*s%s%s%s.profraw", place->directory, NAME_LENGTH_MAX,
                      name[0] == '\0' || name[0] == '.' ? "module" : name, middle, number, times);
    return (length >= 0 && length < PATH_MAX) ||
           error_set_errno(error, ENAMETOOLONG, "%s", place->directory);
}

/* Whether the file is an earlier profile of the same copy of the module. What is no regular file is
 * left to output_create, which refuses it. */
static bool check_existing(const char *path, const struct profile *profile, bool *exists,
                           bool *is_earlier, struct error *error)
{
    struct profile earlier;
    struct stat status;
    struct input file;

    *exists = lstat(path, &status) == 0;
    *is_earlier = *exists && !S_ISREG(status.st_mode);
    if (!*exists || *is_earlier)
        return true;
    if (!input_open(&file, path, error))
        return false;
    *is_earlier = profile_parse(file.bytes, 0, path, &earlier, error) &&
                  earlier.header.version == profile->header.version &&
                  earlier.header.num_counters == profile->header.num_counters &&
                  earlier.header.names_delta == profile->header.names_delta &&
                  bytes_equal(earlier.binary_ids, profile->binary_ids);
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
    bool exists, is_earlier, is_taken = true;

    *is_done = false;
    while (is_taken && !is_written(place, path)) {
        struct error why = {0};

        if (!check_existing(path, profile, &exists, &is_earlier, &why)) {
            *error = why;
            return false;
        }
        if (exists && !is_earlier)
            return true;
        if (!write_profile(path, profile, exists, &is_taken, error))
            return false;
        *is_done = !is_taken;
    }
    return true;
}

bool place_profile(struct place *place, const struct memory *memory, const struct module *module,
                   const struct profile *profile, char path[PATH_MAX], struct error *error)
{
    bool is_done = false;

    for (unsigned time = 1; !is_done; time++) {
        if (!name_output(place, memory, module, time, path, error) ||
            !try_name(place, path, profile, &is_done, error))
            return false;
    }
    return path_list_add(&place->written, path, error);
}
