/*
 * Profiles of dumps: see correlate_dump.h.
 *
 * Nothing in a dump says what it is a dump of, so its size must be exactly that of the section.
 */
#include "split/profiles/correlate_dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/output.h"
#include "common/base/stream.h"
#include "common/llvm/profile_reader.h"
#include "common/sidecar/dump.h"
#include "split/cli/message.h"

const char *correlate_dump_misuse(const struct parsed_options *options)
{
    const char *bitmap = option_text(options, OPTION_BITMAP);

    if (options->operand_count != 0)
        return "a PROFILE and '--counters' exclude each other";
    if (bitmap != NULL && stream_is_standard_input(bitmap) &&
        stream_is_standard_input(option_text(options, OPTION_COUNTERS)))
        return "'--counters' and '--bitmap' cannot both be standard input";
    return NULL;
}

/* ---- the sidecar ---- */

static bool check_given(const struct sidecar *sidecar, const struct uuid *uuid, struct error *error)
{
    const struct uuid *found = &sidecar_facts(sidecar)->uuid;
    char hex[UUID_HEX_MAX], wanted[UUID_HEX_MAX];

    if (uuid->size <= found->size && memcmp(uuid->bytes, found->bytes, uuid->size) == 0)
        return true;
    return error_set(error, "%s: has the UUID %s, not %s; give the sidecar of that image",
                     sidecar_name(sidecar), uuid_format(found, hex), uuid_format(uuid, wanted));
}

static struct profile_sidecar *find_sidecar(const struct parsed_options *options,
                                            struct profile_sidecars *sidecars, struct error *error)
{
    struct uuid uuid = option_uuid(options, OPTION_UUID);

    if (sidecars->given.sidecar != NULL)
        return check_given(sidecars->given.sidecar, &uuid, error) ? &sidecars->given : NULL;
    if (uuid.size != 0)
        return profile_sidecars_find_uuid(sidecars, &uuid, error);
    error_set(error,
              "%s: nothing in it says which image it was copied from; give --uuid, or the sidecar "
              "by --sidecar",
              stream_name(option_text(options, OPTION_COUNTERS)));
    return NULL;
}

/* ---- sizes ---- */

static uint64_t section_size(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

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
                         sidecar_image_name(sidecar), uuid_format(uuid, hex)) >= room)
        fitting->text[length] = '\0';
    sidecar_close(sidecar);
    input_close(&input);
    return !error_is_of_memory(&why) || (*error = why, false);
}

static bool find_fitting(const struct profile_sidecars *sidecars, uint64_t size,
                         struct fitting *fitting, struct error *error)
{
    *fitting = (struct fitting){.size = size};
    return store_list_walk(&sidecars->places.store, note_fitting, fitting, error) &&
           store_list_walk(&sidecars->places.environment, note_fitting, fitting, error);
}

/* What the file is instead, if it is another format that a debugger or loader writes. */
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

/* One file of a dump, and what it must be. */
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
    const char *sidecar = sidecar_name(part->sidecar);
    struct fitting fitting = {0};

    if (format != NULL)
        return error_set(error,
                         "%s: is %s, not a plain copy of the %s section; copy it with 'dump binary "
                         "memory' (covsplit show --map %s)",
                         file->path, format, part->label, sidecar);
    if (part->kind == SECTION_COUNTERS &&
        !find_fitting(part->sidecars, file->bytes.size, &fitting, error))
        return false;
    return error_set(error,
                     "%s: has %" PRIu64 " bytes, but the %s section of %s (%s) has %" PRIu64
                     "; copy exactly these ('covsplit show --map')%s%s",
                     file->path, file->bytes.size, part->label, sidecar_image_name(part->sidecar),
                     sidecar, part->size,
                     fitting.text[0] == '\0' ? "" : ", or give the --uuid of an image that fits: ",
                     fitting.text);
}

static bool check_file(const struct part *part, const struct input *file, struct error *error)
{
    if (profile_reader_recognize(file->bytes))
        return error_set(
            error, "%s: is a raw profile, not a copy of the %s section; name it without --counters",
            file->path, part->label);
    return file->bytes.size == part->size || has_wrong_size(part, file, error);
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
                     name, part->size, part->label, sidecar_image_name(part->sidecar));
}

/* ---- reading ---- */

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
                         sidecar_name(part->sidecar), part->size);
    if (part->size == 0)
        return error_set(error, "%s: its image has no %s; %s", sidecar_name(part->sidecar),
                         part->label,
                         id == OPTION_BITMAP ? "leave --bitmap out"
                                             : "give the sidecar of an image with coverage");
    return stream_read_input(file, path, memory_limit_given(limit), check_stream, part, error) &&
           check_file(part, file, error);
}

/* A debugger shows the contents of the file, too, before the program has been started. */
static void warn_if_unused(const struct sidecar *sidecar, const struct input *counters)
{
    bool are_bytes = profile_counter_size(sidecar_facts(sidecar)->raw_version) == 1;

    if (!are_bytes && bytes_all_zero(counters->bytes))
        message_warning("%s: all counters are zero, as they are before the program runs",
                        counters->path);
}

static bool write_output(const struct parsed_options *options, struct profile_sidecar *sidecar,
                         const struct profile *profile, const char *name, struct error *error)
{
    struct output_options output_options = {.mode = file_new_mode()};
    enum output_result result;
    struct output output;

    if (!output_create(&output, option_text(options, OPTION_OUTPUT), &output_options, error))
        return false;
    if (profile_sidecar_write(sidecar, profile, name, &output, error))
        return output_commit(&output, &result, error);
    output_discard(&output);
    return false;
}

static bool convert(const struct parsed_options *options, const struct profile_sidecars *sidecars,
                    struct profile_sidecar *sidecar, struct error *error)
{
    struct part counters = {sidecars, sidecar->sidecar, SECTION_COUNTERS, "counters", 0};
    struct part bitmap = {sidecars, sidecar->sidecar, SECTION_BITMAP, "bitmap", 0};
    struct input counters_file = {0}, bitmap_file = {0};
    struct dump dump = {0};
    bool done = sidecar_is_real(sidecar->sidecar, error) &&
                read_part(options, OPTION_COUNTERS, &counters, &counters_file, error) &&
                read_part(options, OPTION_BITMAP, &bitmap, &bitmap_file, error) &&
                correlation_need(&sidecar->correlation, sidecar->sidecar, error);

    if (done) {
        warn_if_unused(sidecar->sidecar, &counters_file);
        dump.counters = counters_file.bytes;
        dump.bitmap = bitmap_file.bytes;
        done = dump_make(&dump, &sidecar->correlation, counters_file.path, error) &&
               write_output(options, sidecar, &dump.profile, counters_file.path, error);
    }
    dump_free(&dump);
    input_close(&counters_file);
    input_close(&bitmap_file);
    return done;
}

bool correlate_dump(const struct parsed_options *options, struct profile_sidecars *sidecars,
                    struct error *error)
{
    struct profile_sidecar *sidecar = find_sidecar(options, sidecars, error);
    bool done = sidecar != NULL && convert(options, sidecars, sidecar, error);

    profile_sidecars_release(sidecars, sidecar);
    return done;
}
