/*
 * covsplit correlate: makes full raw profiles from lightweight ones and their sidecars. Profiles
 * that lack nothing are written unchanged, expanded if they are sparse.
 *
 * With --counters the profile is made of a dump (common/sidecar/correlate.h). Nothing in a dump
 * says what it is a dump of, so its size must be exactly that of the section.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/output.h"
#include "common/base/stream.h"
#include "common/llvm/profile_reader.h"
#include "common/llvm/profile_sum.h"
#include "common/sidecar/correlate.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/profiles/merge.h"

/* ---- profiles ---- */

static bool correlate_one(const struct profile *profile, const char *name,
                          struct profile_sidecars *sidecars, struct output *output,
                          struct error *error)
{
    struct profile_sidecar *sidecar = NULL;
    bool done;

    if (profile_needs_sidecar(profile)) {
        sidecar = profile_sidecars_find(sidecars, profile, name, error);
        if (sidecar == NULL)
            return false;
    } else if (!profile_check_functions(profile, name, error)) {
        return false;
    }
    /* Behind the checks of the sidecar: where bytes are missing, those that follow look like
     * counts. */
    done = profile_check_counters(profile, name, error) &&
           (profile_sidecar_write(sidecar, profile, name, output, error) ||
            report_if_truncated(name, error));
    profile_sidecars_release(sidecars, sidecar);
    return done;
}

/* Adds to the error about the sidecar of the last profile which others are missing for those that
 * follow. */
static void tell_missing(struct profile_reader *reader, struct profile_sidecars *sidecars,
                         struct error *error)
{
    struct lacking_images lacking = {0};
    struct profile profile;
    struct error why;
    bool found;

    while (profile_reader_next(reader, &profile, &found, &why) && found) {
        struct profile_sidecar *sidecar = NULL;
        enum profile_uuid_source source;
        struct uuid uuid = profile_uuid(&profile, &source);

        if (!profile_needs_sidecar(&profile))
            continue;
        sidecar = profile_sidecars_find(sidecars, &profile, reader->name, &why);
        if (sidecar == NULL && why.number == ENODATA)
            lacking_images_note(&lacking, &uuid, 1, reader->name);
        profile_sidecars_release(sidecars, sidecar);
    }
    lacking_images_tell(&lacking, error);
    lacking_images_free(&lacking);
}

/* The first profile is checked before the output is created. */
static bool correlate_file(const struct parsed_options *options, struct profile_sidecars *sidecars,
                           struct error *error)
{
    uint64_t limit = option_number(options, OPTION_MEMORY_LIMIT);
    struct output_options output_options = {.mode = file_new_mode()};
    struct profile_stream stream = {.limit = limit};
    struct profile_reader reader = {.limit = limit};
    enum output_result result;
    struct output output = {.fd = -1};
    struct profile profile;
    struct input file;
    bool done, found = true;

    if (!stream_read_input(&file, options->operands[0], memory_limit_given(limit),
                           profile_stream_check, &stream, error))
        return false;
    reader.file = file.bytes;
    reader.name = file.path;
    done = profile_reader_first(&reader, &profile, error) &&
           output_create(&output, option_text(options, OPTION_OUTPUT), &output_options, error);
    while (done && found)
        done = correlate_one(&profile, reader.name, sidecars, &output, error) &&
               profile_reader_next(&reader, &profile, &found, error);
    if (!done)
        profile_reader_explain(&reader, error);
    if (!done && error->number == ENODATA)
        tell_missing(&reader, sidecars, error);
    done = done && output_commit(&output, &result, error);
    output_discard(&output);
    profile_reader_free(&reader);
    input_close(&file);
    return done;
}

/* ---- the sidecar of a dump ---- */

static struct profile_sidecar *find_sidecar(const struct parsed_options *options,
                                            struct profile_sidecars *sidecars, struct error *error)
{
    const struct sidecar *given = sidecars->given.sidecar;
    struct uuid uuid = option_uuid(options, OPTION_UUID);
    char hex[UUID_HEX_MAX], wanted[UUID_HEX_MAX];

    if (given == NULL && uuid.size != 0)
        return profile_sidecars_find_uuid(sidecars, &uuid, NULL, error);
    if (given != NULL && uuid.size <= given->facts.uuid.size &&
        memcmp(uuid.bytes, given->facts.uuid.bytes, uuid.size) == 0)
        return &sidecars->given;
    if (given != NULL) {
        error_set(error, "%s: has the UUID %s, not %s; give the sidecar of that image", given->name,
                  uuid_format(&given->facts.uuid, hex), uuid_format(&uuid, wanted));
        return NULL;
    }
    error_set(error,
              "%s: nothing in it says which image it was copied from; give --uuid, or the sidecar "
              "by --sidecar",
              stream_name(option_text(options, OPTION_COUNTERS)));
    return NULL;
}

/* ---- the sizes of a dump ---- */

static uint64_t section_size(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct section *section = sidecar_find(sidecar, kind);

    return section == NULL ? 0 : section->size;
}

/* The images in the stores whose counters have that size, as a part of a message. */
struct fitting {
    uint64_t size;
    char text[512];
};

/* A store_visitor. A sidecar that cannot be read is passed over. */
static bool note_fitting(void *context, const char *path, const struct uuid *uuid,
                         struct error *error)
{
    struct fitting *fitting = context;
    size_t length = strlen(fitting->text), room = sizeof(fitting->text) - length;
    struct sidecar *sidecar;
    char hex[UUID_HEX_MAX];
    struct input input;
    struct error why = {0};

    if (!input_open(&input, path, &why))
        return !error_is_of_memory(&why) || (*error = why, false);
    sidecar = sidecar_open(input.bytes, path, &why);
    if (sidecar != NULL && section_size(sidecar, SECTION_COUNTERS) == fitting->size &&
        (size_t)snprintf(fitting->text + length, room, "%s%s %s", length == 0 ? "" : ", ",
                         sidecar->image_name, uuid_format(uuid, hex)) >= room)
        fitting->text[length] = '\0';
    sidecar_close(sidecar);
    input_close(&input);
    return !error_is_of_memory(&why) || (*error = why, false);
}

/* The name of the format, if it is another one that a debugger or loader writes. */
static const char *other_format(struct bytes bytes)
{
    if (bytes.size >= 4 && memcmp(bytes.data,
                                  "\x7f"
                                  "ELF",
                                  4) == 0)
        return "an ELF file";
    if (bytes.size >= 2 && bytes.data[0] == ':' && bytes.data[bytes.size - 1] == '\n')
        return "Intel HEX";
    if (bytes.size >= 2 && bytes.data[0] == 'S' && bytes.data[bytes.size - 1] == '\n')
        return "S-records";
    return NULL;
}

/* One file of a dump, and the section that it must be a copy of. */
struct part {
    const struct profile_sidecars *sidecars;
    const struct sidecar *sidecar;
    enum section_kind kind;
    const char *label; /* "counters", "bitmap" */
    uint64_t size;     /* of the section */
};

static bool has_wrong_size(const struct part *part, const struct input *file, struct error *error)
{
    const char *format = other_format(file->bytes);
    const char *sidecar = part->sidecar->name;
    struct fitting fitting = {.size = file->bytes.size};

    if (format != NULL)
        return error_set(error,
                         "%s: is %s, not a plain copy of the %s section; copy it with 'dump binary "
                         "memory' (covsplit show --map %s)",
                         file->path, format, part->label, sidecar);
    if (part->kind == SECTION_COUNTERS &&
        (!store_list_walk(&part->sidecars->places.store, note_fitting, &fitting, error) ||
         !store_list_walk(&part->sidecars->places.environment, note_fitting, &fitting, error)))
        return false;
    return error_set(error,
                     "%s: has %" PRIu64 " bytes, but the %s section of %s (%s) has %" PRIu64
                     "; copy exactly these ('covsplit show --map')%s%s",
                     file->path, file->bytes.size, part->label, part->sidecar->image_name, sidecar,
                     part->size,
                     fitting.text[0] == '\0' ? "" : ", or give the --uuid of an image that fits: ",
                     fitting.text);
}

/* A stream_check. */
static bool check_stream(void *context, const char *name, struct bytes so_far, struct error *error)
{
    const struct part *part = context;

    if (profile_reader_recognize(so_far) || so_far.size <= part->size)
        return true; /* a profile is refused when it is whole, or too large */
    return error_set(error,
                     "%s: has more bytes than the %" PRIu64 " of the %s section of %s; copy "
                     "exactly these ('covsplit show --map')",
                     name, part->size, part->label, part->sidecar->image_name);
}

/* ---- dumps ---- */

static bool read_part(const struct parsed_options *options, enum option_id id, struct part *part,
                      struct input *file, struct error *error)
{
    uint64_t limit = option_number(options, OPTION_MEMORY_LIMIT);
    const char *path = option_text(options, id);

    part->size = section_size(part->sidecar, part->kind);
    if (path == NULL && part->size == 0)
        return true;
    if (path == NULL)
        return error_set(error,
                         "%s: its image also has a bitmap (MC/DC), of %" PRIu64
                         " bytes; copy it too, and give the copy with --bitmap",
                         part->sidecar->name, part->size);
    if (part->size == 0)
        return error_set(error, "%s: its image has no %s; %s", part->sidecar->name, part->label,
                         id == OPTION_BITMAP ? "leave --bitmap out"
                                             : "give the sidecar of an image with coverage");
    if (!stream_read_input(file, path, memory_limit_given(limit), check_stream, part, error))
        return false;
    if (profile_reader_recognize(file->bytes))
        return error_set(
            error, "%s: is a raw profile, not a copy of the %s section; name it without --counters",
            file->path, part->label);
    return file->bytes.size == part->size || has_wrong_size(part, file, error);
}

static bool correlate_dump(const struct parsed_options *options, struct profile_sidecars *sidecars,
                           struct error *error)
{
    struct profile_sidecar *sidecar = find_sidecar(options, sidecars, error);
    struct part counters = {sidecars, NULL, SECTION_COUNTERS, "counters", 0};
    struct part bitmap = {sidecars, NULL, SECTION_BITMAP, "bitmap", 0};
    struct output_options output_options = {.mode = file_new_mode()};
    struct input counters_file = {0}, bitmap_file = {0};
    struct output output = {.fd = -1};
    enum output_result result;
    struct dump dump = {0};
    bool done;

    if (sidecar == NULL)
        return false;
    counters.sidecar = bitmap.sidecar = sidecar->sidecar;
    done = sidecar_is_real(sidecar->sidecar, error) &&
           read_part(options, OPTION_COUNTERS, &counters, &counters_file, error) &&
           read_part(options, OPTION_BITMAP, &bitmap, &bitmap_file, error);
    /* A debugger shows the contents of the file, too, before the program has been started. */
    if (done && profile_counter_size(sidecar->sidecar->facts.raw_version) != 1 &&
        bytes_all_zero(counters_file.bytes))
        message_warning("%s: all counters are zero, as they are before the program runs",
                        counters_file.path);
    dump.counters = counters_file.bytes;
    dump.bitmap = bitmap_file.bytes;
    done = done && dump_make(&dump, sidecar, counters_file.path, error) &&
           output_create(&output, option_text(options, OPTION_OUTPUT), &output_options, error) &&
           profile_sidecar_write(sidecar, &dump.profile, counters_file.path, &output, error) &&
           output_commit(&output, &result, error);
    output_discard(&output);
    dump_free(&dump);
    input_close(&counters_file);
    input_close(&bitmap_file);
    profile_sidecars_release(sidecars, sidecar);
    return done;
}

/* ---- the command ---- */

/* The reason why the command line makes no sense; NULL if it does. */
static const char *find_misuse(const struct parsed_options *options)
{
    const char *counters = option_text(options, OPTION_COUNTERS);
    const char *bitmap = option_text(options, OPTION_BITMAP);

    if (counters == NULL)
        return bitmap != NULL || option_given(options, OPTION_UUID)
                   ? "'--bitmap' and '--uuid' are for '--counters'"
               : options->operand_count == 0 ? "PROFILE is missing"
                                             : NULL;
    if (options->operand_count != 0)
        return "a PROFILE and '--counters' exclude each other";
    return bitmap != NULL && stream_is_standard_input(bitmap) && stream_is_standard_input(counters)
               ? "'--counters' and '--bitmap' cannot both be standard input"
               : NULL;
}

int command_correlate(const struct parsed_options *options)
{
    struct profile_sidecars sidecars = {0};
    const char *misuse = find_misuse(options);
    struct error error = {0};
    bool done;

    if (misuse != NULL)
        return message_usage("correlate", "%s", misuse);
    done = profile_sidecars_open(&sidecars, options, &error) &&
           (option_given(options, OPTION_COUNTERS) ? correlate_dump
                                                   : correlate_file)(options, &sidecars, &error);
    if (!done)
        message_error(&error);
    profile_sidecars_close(&sidecars);
    return done ? STATUS_DONE : STATUS_FAILED;
}
