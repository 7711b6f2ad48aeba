/*
 * covsplit snapshot: writes the profiles that running processes, or those that left a core, would
 * write at this moment, one for each module with coverage.
 *
 * The JSON is an array with one object for each module: process (null: unknown), module, address,
 * uuid, status ("written", "no coverage", "not examined", "failed"), file (null: none), counters,
 * size and reason (null: none).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/directory.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/snapshot/examine.h"
#include "split/snapshot/place.h"

struct snapshot {
    const struct parsed_options *options;
    struct place place;
    struct sidecar_places places;
    struct json_writer json;
    uint64_t written;
    uint64_t unknown;
    bool has_failed;
};

/* ---- reports ---- */

static const char *const statuses[] = {
    [FINDING_PROFILE] = "written",
    [FINDING_NO_COVERAGE] = "no coverage",
    [FINDING_UNKNOWN] = "not examined",
    [FINDING_FAILED] = "failed",
};

static void report_json(struct json_writer *json, const struct memory *memory,
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

static void report(struct snapshot *snapshot, const struct memory *memory,
                   const struct module *module, enum finding finding, const struct profile *profile,
                   const char *path, const struct error *error)
{
    if (finding == FINDING_FAILED)
        message_error(error);
    if (option_given(snapshot->options, OPTION_JSON)) {
        report_json(&snapshot->json, memory, module, finding, profile, path, error);
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

static void add_module(struct snapshot *snapshot, struct memory *memory, size_t index)
{
    struct taken taken = {0};
    struct error error = {0};
    struct module module;
    char path[PATH_MAX] = "";
    enum finding finding =
        examine_module(memory, &memory->modules[index], &snapshot->places, &module, &taken, &error);

    if (finding == FINDING_PROFILE &&
        !place_profile(&snapshot->place, memory, &module, &taken.profile, path, &error))
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
static void report_unknown(struct snapshot *snapshot, const struct memory *memory, uint64_t count)
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

static void add_target(struct snapshot *snapshot, struct memory *memory, struct error *error)
{
    uint64_t written = snapshot->written, unknown = snapshot->unknown;
    bool had_failed = snapshot->has_failed;

    if (memory == NULL) {
        message_error(error);
        snapshot->has_failed = true;
        return;
    }
    snapshot->has_failed = memory->lack.message[0] != '\0';
    if (snapshot->has_failed)
        message_error(&memory->lack);
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

static void add_targets(struct snapshot *snapshot)
{
    struct error error = {0};
    const char *text;

    for (size_t i = 0; (text = option_text_at(snapshot->options, OPTION_PROCESS, i)) != NULL; i++)
        add_target(snapshot, process_open(strtoull(text, NULL, 10), &error), &error);
    for (size_t i = 0; (text = option_text_at(snapshot->options, OPTION_CORE, i)) != NULL; i++)
        add_target(snapshot, dump_open(text, &error), &error);
}

/* ---- the command ---- */

int command_snapshot(const struct parsed_options *options)
{
    struct snapshot snapshot = {.options = options,
                                .place = {.directory = option_text(options, OPTION_OUTPUT)},
                                .json = {.stream = stdout}};
    struct error error = {0};

    if (!option_given(options, OPTION_PROCESS) && !option_given(options, OPTION_CORE))
        return message_usage(options->command->name, "neither --pid nor --core is given");
    sidecar_places_open(&snapshot.places, options, false);
    if (directory_make(snapshot.place.directory, &error)) {
        if (option_given(options, OPTION_JSON))
            json_begin_array(&snapshot.json, NULL);
        add_targets(&snapshot);
        if (option_given(options, OPTION_JSON))
            json_end_array(&snapshot.json);
    } else {
        message_error(&error);
        snapshot.has_failed = true;
    }
    sidecar_places_close(&snapshot.places);
    path_list_free(&snapshot.place.written);
    return snapshot.has_failed ? STATUS_FAILED : STATUS_DONE;
}
