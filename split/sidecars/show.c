/*
 * covsplit show: describes images, sidecars, objects, unions, raw profiles and states of merges.
 *
 * The JSON is an array with one object for each FILE that could be described. Keys are stable; what
 * a kind of file does not have is not there, what is unknown is null. A universal image gives an
 * object for each slice, whose file is FILE.ARCH. A union gives one for itself, and then one for
 * each member, whose file is FILE(MEMBER).
 *   all       file, kind ("image", "sidecar", "object", "union", "raw profile"), format, file_size
 *   image     machine, uuid, uuid_source, raw_version, raw_variants, already_split,
 *             size_after_split, sections; zeros_size if a split takes out zeros, too; changed_uuid
 *             if another tool gave a stripped image another build ID; if objects of it were packed,
 *             and it was not split: packed_units, packed_records, packed_advice
 *   sidecar   format_version, image_name, machine, uuid, uuid_source, raw_version, raw_variants,
 *             original_size, original_digest, stripped_size, stripped_digest, has_stub, sections
 *   object    format_version, image_name, machine, uuid, original_size, original_digest, sections
 *   union     member_count
 *   raw profile   profile_count, profiles: an array of objects with machine (null: not recorded),
 *             pointer_bits, byte_order, uuid, uuid_source, binary_ids, raw_version, raw_variants,
 *             lightweight, size, sparse, sparse_size, records, counters, value_data_size, sections
 *   memory map (--map)   image_name, machine, uuid, fixed (it is loaded where it was linked),
 *             counters_address, counters_size, bitmap_address, bitmap_size; commands: gdb_load,
 *             gdb_counters, gdb_bitmap, correlate
 *   state     kind ("state"), profile_count; images: an array of objects with image_name (null: no
 *             sidecar of it was found), uuid, profile_count, size (of its file)
 * An element of sections has name, kind, address, size, stored_size, ratio, status and reason.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/stream.h"
#include "common/llvm/profile_reader.h"
#include "common/sidecar/union.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/sidecars/show.h"

/* ---- members of unions ---- */

/* Describes each member like a file of its own. */
static bool show_members(const struct input *input, struct showing *showing, struct error *error)
{
    struct union_member_view member;
    struct bytes members;
    bool found, done = union_open(input->bytes, input->path, &members, error);

    while (done && (done = union_next(&members, input->path, &member, &found, error)) && found) {
        struct input part = {.bytes = member.object};

        part.path = command_text("%s(%.*s)", input->path, (int)member.name.size,
                                 (const char *)member.name.data);
        done = describe_file(&part, showing, error);
        free(part.path);
    }
    return done;
}

/* ---- all files ---- */

/* A stream_check: what comes must be something that can be shown. */
static bool check_stream(void *context, const char *name, struct bytes so_far, struct error *error)
{
    return container_is_universal(so_far) || union_may_begin(so_far) ||
           check_described(context, name, so_far, error);
}

/* Shows each slice of a universal image like a file of its own, FILE.ARCH, even if another slice
 * cannot be shown. */
static bool show_file(const char *path, struct showing *showing, struct error *error)
{
    struct profile_stream stream = {.limit = showing->limit};
    struct input input;
    struct container container;
    bool done = stream_is(path)
                    ? stream_read_input(&input, path, memory_limit_given(showing->limit),
                                        check_stream, &stream, error)
                    : input_open(&input, path, error);

    if (!done)
        return false;
    if (union_recognize(input.bytes) && !showing->is_map) {
        done = describe_file(&input, showing, error) && show_members(&input, showing, error);
        input_close(&input);
        return done;
    }
    done = container_open(&container, &input, error);
    for (size_t i = 0; done && i < container.count; i++) {
        struct error problem;

        if (describe_file(&container.slices[i].input, showing, &problem))
            continue;
        message_error(&problem);
        showing->status = STATUS_FAILED;
    }
    container_close(&container);
    input_close(&input);
    return done;
}

/* A directory that is no state is an error. */
static bool show_directory(const char *path, struct profile_sidecars *sidecars,
                           struct showing *showing, struct error *error)
{
    char *root = store_root(path);
    bool shown;

    exit_unless_allocated(root != NULL, strlen(path));
    if (showing->json == NULL && !showing->is_first)
        printf("\n");
    shown = show_state(path, sidecars, showing->limit, showing->json, error);
    if (!shown && !error_is_of_memory(error) && path_is_directory(root))
        error_set(error, "%s: is a store; 'covsplit store list' lists it", path);
    free(root);
    showing->is_first = false;
    return shown;
}

/* `if_unknown` is for what cannot be looked at. */
static bool is_state_operand(const struct parsed_options *options, const char *operand,
                             bool if_unknown)
{
    struct stat status;

    if (option_given(options, OPTION_MAP) || stream_is(operand))
        return false;
    if (stat(operand, &status) == 0)
        return S_ISDIR(status.st_mode);
    return if_unknown && errno != ENOENT && errno != ENOTDIR;
}

static bool has_states(const struct parsed_options *options)
{
    for (size_t i = 0; i < options->operand_count; i++) {
        if (is_state_operand(options, options->operands[i], true))
            return true;
    }
    return false;
}

static void show_all(const struct parsed_options *options, struct profile_sidecars *sidecars,
                     struct showing *showing)
{
    for (size_t i = 0; i < options->operand_count; i++) {
        const char *operand = options->operands[i];
        struct error error;

        if (is_state_operand(options, operand, false)
                ? show_directory(operand, sidecars, showing, &error)
                : show_file(operand, showing, &error))
            continue;
        message_error(&error);
        showing->status = STATUS_FAILED;
    }
}

int command_show(const struct parsed_options *options)
{
    struct profile_sidecars sidecars = {.given = {0}};
    struct error problem;
    struct json_writer array;
    struct showing showing = {.is_first = true,
                              .is_map = option_given(options, OPTION_MAP),
                              .limit = option_number(options, OPTION_MEMORY_LIMIT)};
    bool of_state = has_states(options);

    if (option_given(options, OPTION_STORE) && !of_state)
        return message_usage("show", "'--store' is for states");
    if (option_given(options, OPTION_SIDECAR) && !of_state)
        return message_usage("show", "'--sidecar' is for states");
    if (of_state && !profile_sidecars_open(&sidecars, options, &problem)) {
        message_error(&problem);
        showing.status = STATUS_FAILED;
    } else {
        showing.json = json_begin_if(option_given(options, OPTION_JSON), &array);
        show_all(options, &sidecars, &showing);
        json_end_if(showing.json);
    }
    profile_sidecars_close(&sidecars);
    return showing.status;
}
