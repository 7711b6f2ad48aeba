/*
 * covsplit snapshot: writes the profiles that running processes, or those that left a core, would
 * write at this moment, one for each module with coverage.
 *
 * A later snapshot of a process replaces the one before, or its counts would be merged twice. But
 * numbers of processes are used again, and each container counts its own, so the file that is there
 * may be the profile of another process, whose counts must not be lost. The two are told apart by
 * where the names are in memory, which the header says: what is loaded anew gets a new random
 * address. The file is looked for under every name that ends in UUID and process: a core may not
 * say what its modules are called, and files are renamed.
 *
 * When a program crashes that qemu's user mode runs, there are two cores of one process: qemu dumps
 * the program, and the kernel dumps qemu, where the program is at other addresses. Its counts are
 * taken once.
 *
 * The JSON is an array with one object for each module: process (null: unknown), module, address,
 * uuid, status ("written", "no coverage", "not examined", "failed"), file (null: none), counters,
 * size and reason (null: none).
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/path_list.h"
#include "split/snapshot/snapshot.h"

/* Digits of the UUID, and characters of the module's name, in the name of an output. */
#define UUID_DIGITS     8
#define NAME_LENGTH_MAX 180
#define MIDDLE_MAX      64

struct snapshot {
    const struct parsed_options *options;
    const char *directory;
    struct path_list profiles;  /* that this command has written */
    struct path_list emulators; /* those of them that are from the core of an emulator */
    struct sidecar_places places;
    struct json_writer array, *json; /* NULL: no --json */
    uint64_t written;
    uint64_t unknown;
    bool has_failed;
};

/* ---- writing profiles ---- */

static bool is_in(const struct path_list *list, const char *path)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->paths[i], path) == 0)
            return true;
    }
    return false;
}

/* True for a core of qemu's user mode, in which a program of another machine was run. */
static bool is_emulator(const struct target *memory, const struct module *module)
{
    return memory->machine != 0 && module->machine != 0 && memory->machine != module->machine;
}

/* DIR/NAME.UUID.PROCESS.profraw, where what is not known is left out. If another process, or
 * another copy of the module in the same one, has that name: with a number before "profraw".
 * `middle` becomes ".UUID.PROCESS", or "" if not both are known. */
static bool name_output(const struct snapshot *snapshot, const struct target *memory,
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
    length = snprintf(path, PATH_MAX, "%s/%.*s%s%s.profraw", snapshot->directory, NAME_LENGTH_MAX,
                      name[0] == '\0' || name[0] == '.' ? "module" : name, middle, times);
    if (!has_uuid || !has_process)
        middle[0] = '\0';
    return (length >= 0 && length < PATH_MAX) ||
           error_set_errno(error, ENAMETOOLONG, "%s", snapshot->directory);
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

/* A file that has the name of an output. */
struct existing {
    bool exists;
    bool is_alike;            /* a profile of the same image */
    bool is_same;             /* and of the same copy of the module */
    bool has_all, lacks_none; /* alike, and no counter is less in that profile, or in this one */
};

/* What is no regular file is left to output_create, which refuses it. False if the file cannot be
 * read. */
static bool check_existing(const char *path, const struct profile *profile,
                           struct existing *existing, struct error *error)
{
    struct error why = {0};
    struct profile earlier;
    struct stat status;
    struct input file;

    *existing = (struct existing){.exists = lstat(path, &status) == 0};
    existing->is_same = existing->exists && !S_ISREG(status.st_mode);
    if (!existing->exists || existing->is_same)
        return true;
    if (!input_open(&file, path, error)) {
        command_check_memory(error);
        return false;
    }
    existing->is_alike = profile_parse(file.bytes, 0, path, &earlier, &why) &&
                         earlier.header.version == profile->header.version &&
                         earlier.header.num_counters == profile->header.num_counters &&
                         bytes_equal(earlier.binary_ids, profile->binary_ids);
    existing->is_same =
        existing->is_alike && earlier.header.names_delta == profile->header.names_delta;
    existing->has_all = existing->is_alike && has_all_counts(&earlier, profile);
    existing->lacks_none = existing->is_alike && has_all_counts(profile, &earlier);
    input_close(&file);
    command_check_memory(&why);
    return true;
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

/* True if one of both is from the core of an emulator, and the other from that of what it ran, so
 * far as this command knows: cores by qemu do not list files. */
static bool is_emulators_pair(const struct snapshot *snapshot, const struct target *memory,
                              const struct module *module, const char *candidate, bool is_ours)
{
    bool is_new = is_emulator(memory, module);

    return (is_new || memory->is_unlisted) &&
           (!is_ours || is_new != is_in(&snapshot->emulators, candidate));
}

/* Replaces the earlier profile of this copy of the module, if there is one. Of two from one command
 * the one with more counts stays, since cores come in any order. Both stay if neither has all
 * counts of the other, and if the module is where it was linked to be, which proves nothing. */
static bool replace_earlier(const struct snapshot *snapshot, const struct target *memory,
                            const struct module *module, const char *middle,
                            const struct profile *profile, char path[PATH_MAX], bool *is_done,
                            struct error *error)
{
    struct directory_names files = {0};
    bool done = directory_names_read(snapshot->directory, NULL, &files, error);

    for (size_t i = 0; done && !*is_done && i < files.count; i++) {
        struct existing existing;
        struct stat status;
        struct error why;
        char candidate[PATH_MAX];
        bool is_ours, is_pair, is_taken;

        if (!is_of_process(files.items[i], middle) ||
            snprintf(candidate, PATH_MAX, "%s/%s", snapshot->directory, files.items[i]) >= PATH_MAX)
            continue;
        is_ours = is_in(&snapshot->profiles, candidate);
        is_pair = is_emulators_pair(snapshot, memory, module, candidate, is_ours);
        if ((is_ours && !is_pair && module->bias == 0) || lstat(candidate, &status) != 0 ||
            !S_ISREG(status.st_mode) || !check_existing(candidate, profile, &existing, &why))
            continue;
        is_pair &= existing.has_all || existing.lacks_none;
        if (is_pair && (is_ours || !existing.is_same))
            message_warning("%s: %s has the counts of this process already; they are not taken "
                            "twice, since one core is of an emulator, and one of what it ran",
                            memory->name, candidate);
        if (is_pair ||
            (existing.is_same && (!is_ours || existing.has_all || existing.lacks_none))) {
            memcpy(path, candidate, strlen(candidate) + 1);
            *is_done = true;
            done = ((is_ours || is_pair) && existing.has_all) ||
                   write_profile(path, profile, true, &is_taken, error);
        }
    }
    directory_names_free(&files);
    return done;
}

/* Writes the profile of a module; `path` becomes that of the file. */
static bool place_profile(struct snapshot *snapshot, const struct target *memory,
                          const struct module *module, const struct profile *profile,
                          char path[PATH_MAX], struct error *error)
{
    char middle[MIDDLE_MAX];
    bool is_done = false;

    if (!name_output(snapshot, memory, module, 1, path, middle, error) ||
        (middle[0] != '\0' &&
         !replace_earlier(snapshot, memory, module, middle, profile, path, &is_done, error)))
        return false;
    for (unsigned time = 1; !is_done; time++) {
        bool is_taken = true;

        if (!name_output(snapshot, memory, module, time, path, middle, error))
            return false;
        while (is_taken && !is_in(&snapshot->profiles, path)) {
            struct existing existing;

            if (!check_existing(path, profile, &existing, error))
                return false;
            if (existing.exists && !existing.is_same)
                break;
            if (!write_profile(path, profile, existing.exists, &is_taken, error))
                return false;
            is_done = !is_taken;
        }
    }
    if (!is_in(&snapshot->profiles, path))
        path_list_add(&snapshot->profiles, path);
    if (is_emulator(memory, module))
        path_list_add(&snapshot->emulators, path);
    return true;
}

/* ---- reports ---- */

static const char *const statuses[] = {
    [FINDING_PROFILE] = "written",
    [FINDING_NO_COVERAGE] = "no coverage",
    [FINDING_UNKNOWN] = "not examined",
    [FINDING_FAILED] = "failed",
};

static void report_json(struct json_writer *json, const struct target *memory,
                        const struct module *module, enum finding finding,
                        const struct profile *profile, const char *path, const struct error *error)
{
    char uuid[UUID_HEX_MAX] = "";

    json_begin_object(json, NULL);
    if (memory->process != 0)
        json_number(json, "process", memory->process);
    else
        json_null(json, "process");
    json_string_or_null(json, "module", module->listed->path);
    json_number(json, "address", module->listed->base);
    if (module->uuid.size != 0)
        uuid_format(&module->uuid, uuid);
    json_string_or_null(json, "uuid", uuid);
    json_string(json, "status", statuses[finding]);
    json_string_or_null(json, "file", finding == FINDING_PROFILE ? path : NULL);
    json_number(json, "counters", finding == FINDING_PROFILE ? profile->header.num_counters : 0);
    json_number(json, "size", finding == FINDING_PROFILE ? profile->size : 0);
    json_string_or_null(json, "reason", finding == FINDING_PROFILE ? NULL : error->message);
    json_end_object(json);
}

static void report(struct snapshot *snapshot, const struct target *memory,
                   const struct module *module, enum finding finding, const struct profile *profile,
                   const char *path, const struct error *error)
{
    if (finding == FINDING_FAILED)
        message_error(error);
    if (snapshot->json != NULL) {
        report_json(snapshot->json, memory, module, finding, profile, path, error);
    } else if (option_given(snapshot->options, OPTION_VERBOSE)) {
        if (finding == FINDING_PROFILE)
            message_line(stdout, "%s: %" PRIu64 " counters of %s", path,
                         profile->header.num_counters, module->name);
        else if (finding == FINDING_UNKNOWN)
            message_line(stdout, "%s: not examined: %s", module->name, error->message);
        else if (finding == FINDING_NO_COVERAGE)
            message_line(stdout, "%s: no coverage", module->name);
    }
}

/* ---- targets ---- */

static void add_module(struct snapshot *snapshot, struct target *memory, size_t index)
{
    struct taken taken = {0};
    struct error error = {0};
    struct module module;
    char path[PATH_MAX] = "";
    enum finding finding =
        examine_module(memory, &memory->modules[index], &snapshot->places, &module, &taken, &error);

    if (finding == FINDING_PROFILE &&
        !place_profile(snapshot, memory, &module, &taken.profile, path, &error))
        finding = FINDING_FAILED;
    if (finding == FINDING_PROFILE && module.is_newer)
        message_warning("%s: its file was written to after %s had started; if it was loaded "
                        "before that, its counts are lost, and %s is of the new file; start the "
                        "program again, and replace files by a rename",
                        module.name, memory->name, path);
    snapshot->written += finding == FINDING_PROFILE;
    snapshot->unknown += finding == FINDING_UNKNOWN;
    snapshot->has_failed |= finding == FINDING_FAILED;
    if (finding != FINDING_NO_MODULE)
        report(snapshot, memory, &module, finding, &taken.profile, path, &error);
    taken_free(&taken);
    module_free(&module);
}

/* Files that are not here are none of the program's own, as a rule. But what is missing in a target
 * that ends early can be anything. */
static void report_unknown(struct snapshot *snapshot, const struct target *memory, uint64_t count)
{
    struct error error;

    if (count != 0 && memory->is_cut) {
        error_set(&error,
                  "%s: cut short, so that %" PRIu64 " of its files could not be examined (-v names "
                  "them); dump it again",
                  memory->name, count);
        message_error(&error);
        snapshot->has_failed = true;
    } else if (count != 0 && !option_given(snapshot->options, OPTION_VERBOSE)) {
        message_warning("%s: %" PRIu64 " of its files could not be examined, because they are not "
                        "here; -v names them",
                        memory->name, count);
    }
}

static void add_target(struct snapshot *snapshot, struct target *memory, struct error *error)
{
    uint64_t written = snapshot->written, unknown = snapshot->unknown;
    bool had_failed = snapshot->has_failed;

    if (memory == NULL) {
        message_error(error);
        snapshot->has_failed = true;
        return;
    }
    snapshot->has_failed = memory->incomplete_because.message[0] != '\0';
    if (snapshot->has_failed)
        message_error(&memory->incomplete_because);
    for (size_t i = 0; i < memory->module_count; i++)
        add_module(snapshot, memory, i);
    report_unknown(snapshot, memory, snapshot->unknown - unknown);
    if (snapshot->written == written && !snapshot->has_failed) {
        error_set(error, "%s: has no module with coverage in it; give another one, or --store",
                  memory->name);
        message_error(error);
        snapshot->has_failed = true;
    }
    snapshot->has_failed |= had_failed;
    memory_close(memory);
}

/* ---- the command ---- */

int command_snapshot(const struct parsed_options *options)
{
    struct snapshot snapshot = {.options = options,
                                .directory = option_text(options, OPTION_OUTPUT)};
    struct error error = {0};
    const char *text;

    if (!option_given(options, OPTION_PROCESS) && !option_given(options, OPTION_CORE))
        return message_usage(options->command->name, "neither --pid nor --core is given");
    sidecar_places_open(&snapshot.places, options, NULL);
    if (directory_make(snapshot.directory, &error)) {
        snapshot.json = json_begin_if(option_given(options, OPTION_JSON), &snapshot.array);
        for (size_t i = 0; (text = option_text_at(options, OPTION_PROCESS, i)) != NULL; i++)
            add_target(&snapshot, process_open(strtoull(text, NULL, 10), &error), &error);
        for (size_t i = 0; (text = option_text_at(options, OPTION_CORE, i)) != NULL; i++)
            add_target(&snapshot, core_open(text, &error), &error);
        json_end_if(snapshot.json);
    } else {
        message_error(&error);
        snapshot.has_failed = true;
    }
    sidecar_places_close(&snapshot.places);
    path_list_free(&snapshot.profiles);
    path_list_free(&snapshot.emulators);
    return snapshot.has_failed ? STATUS_FAILED : STATUS_DONE;
}
