/*
 * Descriptions of each kind of file: see show.h.
 *
 * Each kind has a function that fills in a report (report.h), which is printed when no more errors
 * are possible.
 */
#include "split/sidecars/show.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/uuid.h"
#include "common/llvm/profile_reader.h"
#include "common/llvm/section.h"
#include "common/sidecar/object.h"
#include "common/sidecar/sidecar.h"
#include "common/sidecar/union.h"
#include "formats/image.h"
#include "formats/object/object.h"
#include "split/cli/images.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

/* ---- facts that several kinds share ---- */

/* The source of the UUID in stripped images and their profiles. */
static const char uuid_from_tripwire[] = "tripwire";
static const char uuid_from_stub[] = "stub record (first 8 bytes)";

static void add_machine(struct fact_sheet *report, const struct sidecar_facts *facts)
{
    char text[MACHINE_TEXT_MAX];

    report_text(report, "machine", "machine", machine_text(facts, text));
}

static void add_uuid(struct fact_sheet *report, const struct uuid *uuid, const char *source)
{
    char hex[UUID_HEX_MAX];

    if (uuid->size == 0) {
        report_none(report, "uuid", "UUID", "none");
        report_none(report, "uuid_source", "UUID from", NULL);
        return;
    }
    report_text(report, "uuid", "UUID", uuid_format(uuid, hex));
    report_text(report, "uuid_source", "UUID from", source);
}

static void add_raw_version(struct fact_sheet *report, uint64_t raw_version)
{
    if (raw_version == 0) {
        report_none(report, "raw_version", "raw profile version", "none: no profile runtime");
    } else {
        report_number(report, "raw_version", "raw profile version", PROFILE_VERSION(raw_version));
    }
    report_list(report, "raw_variants", "variants");
    for (unsigned bit = PROFILE_VARIANT_BIT_FIRST; bit <= PROFILE_VARIANT_BIT_LAST; bit++) {
        const char *name = profile_variant_name(bit);
        char number[16];

        if ((raw_version >> bit & 1) == 0)
            continue;
        snprintf(number, sizeof(number), "bit %u", bit);
        report_list_word(report, name != NULL ? name : number);
    }
    report_list_end(report);
}

static void add_digest(struct fact_sheet *report, const char *key, const char *label,
                       const struct digest *digest)
{
    char hex[DIGEST_HEX_MAX];

    report_text(report, key, label, digest_format(digest, hex));
}

static uint64_t address_unless_zero(uint64_t address)
{
    return address != 0 ? address : NUMBER_UNKNOWN;
}

/* ---- images ---- */

/* The UUID that profiles and stores use. A UUID that a split would derive from the image's digest
 * does not belong to the image yet. That of a stripped image is the one with which it was split,
 * though other tools may have given it another build ID. */
static bool add_image_uuid(struct fact_sheet *report, const struct input *input,
                           const struct image_plan *plan, struct error *error)
{
    static const struct uuid none = {.size = 0};
    const struct sidecar_facts *facts = &plan->facts;
    struct split_image split;
    char hex[UUID_HEX_MAX];

    if (plan->already_split && image_read_stripped_id(input, &split, error)) {
        bool is_own = split.own_uuid.size != 0 && uuid_equal(&split.uuid, &split.own_uuid);

        add_uuid(report, &split.uuid,
                 is_own               ? uuid_source_name(facts->uuid_source)
                 : split.uuid_is_stub ? uuid_from_stub
                                      : uuid_from_tripwire);
        if (!is_own && split.own_uuid.size != 0)
            report_text(report, "changed_uuid", "changed UUID", uuid_format(&split.own_uuid, hex));
    } else if (plan->already_split && error_is_of_memory(error)) {
        return false;
    } else if (facts->uuid_source != UUID_FROM_DIGEST) {
        add_uuid(report, &facts->uuid, uuid_source_name(facts->uuid_source));
    } else {
        add_uuid(report, &none, "");
    }
    return true;
}

/* Says of an image of packed objects, which LLVM's tools cannot read, how they can. */
static bool add_packing(struct fact_sheet *report, const struct input *input,
                        const struct image_plan *plan, const char *advice, struct error *error)
{
    struct packed_counts counts;

    if (plan->already_split || !plan->is_packed)
        return true;
    if (!ordinary_count(input, plan, &counts, error))
        return false;
    report_number(report, "packed_units", "packed units", counts.units);
    report_number(report, "packed_records", "packed records", counts.records);
    report_text(report, "packed_advice", "for reports", advice);
    return true;
}

static void add_image_sections(struct fact_sheet *report, const struct image_plan *plan)
{
    report_begin_sections(report);
    for (size_t i = 0; i < plan->section_count; i++) {
        struct section_row row = section_row_of_image(plan, &plan->sections[i]);

        report_section(report, &row);
    }
    report_end_sections(report);
}

/* An object that `covsplit pack` made, which was never linked. */
static bool describe_packed_object(const struct input *input, struct fact_sheet *report,
                                   struct error *error)
{
    struct image_plan *plan = image_describe(input, error);
    bool done;

    if (plan == NULL)
        return false;
    report_text(report, "kind", "kind", "packed object");
    report_text(report, "format", "format", image_format_name(plan->facts.format));
    add_machine(report, &plan->facts);
    report_size(report, "file_size", "file size", input->bytes.size);
    done = add_packing(report, input, plan,
                       "link it, or read it with 'covsplit run' or 'covsplit export'", error);
    add_image_sections(report, plan);
    image_plan_free(plan);
    return done;
}

static bool describe_image(const struct input *input, struct fact_sheet *report,
                           struct error *error)
{
    struct image_options options = {.sections = SECTION_DEFAULT, .drop_signature = true};
    struct image_plan *plan = image_plan_make(input, &options, error);
    bool done;

    if (plan == NULL)
        return false;
    report_text(report, "kind", "kind", "image");
    report_text(report, "format", "format", image_format_name(plan->facts.format));
    add_machine(report, &plan->facts);
    done = add_image_uuid(report, input, plan, error);
    add_raw_version(report, plan->facts.raw_version);
    report_size(report, "file_size", "file size", input->bytes.size);
    report_boolean(report, "already_split", "already split", plan->already_split);
    if (plan->already_split)
        report_none(report, "size_after_split", "size after a split", NULL);
    else
        report_size(report, "size_after_split", "size after a split",
                    edit_script_result_size(&plan->edits));
    if (plan->zeros_size != 0)
        report_size(report, "zeros_size", "zeros taken out", plan->zeros_size);
    done =
        done && add_packing(report, input, plan,
                            "split it, or read it with 'covsplit run' or 'covsplit export'", error);
    add_image_sections(report, plan);
    image_plan_free(plan);
    return done;
}

/* ---- sidecars ---- */

static void add_sidecar_facts(struct fact_sheet *report, const struct sidecar *sidecar)
{
    const struct sidecar_facts *facts = &sidecar->facts;

    report_text(report, "kind", "kind", "sidecar");
    report_number(report, "format_version", "format version", sidecar->format_version);
    report_text(report, "image_name", "image", sidecar->image_name);
    report_text(report, "format", "image format", image_format_name(facts->format));
    add_machine(report, facts);
    add_uuid(report, &facts->uuid, uuid_source_name(facts->uuid_source));
    add_raw_version(report, facts->raw_version);
    report_size(report, "original_size", "original size", facts->original_size);
    add_digest(report, "original_digest", "original digest", &facts->original_digest);
    report_size(report, "stripped_size", "stripped size", facts->stripped_size);
    add_digest(report, "stripped_digest", "stripped digest", &facts->stripped_digest);
    report_boolean(report, "has_stub", "lightweight profiles", facts->has_stub);
    report_boolean(report, "exact", "gives the original back", !facts->is_placeholder);
    if (facts->is_assumed)
        report_boolean(report, "assumed_unreferenced", "assumed unreferenced", true);
}

static const char *status_in_sidecar(const struct section *section, bool is_packed)
{
    bool is_mapping = section->kind == SECTION_COVMAP || section->kind == SECTION_COVFUN;

    return section->fate == FATE_COPIED ? "copied"
           : section->form == 0         ? "recorded"
           : is_packed && is_mapping    ? "made"
                                        : "stored";
}

static void add_sidecar_sections(struct fact_sheet *report, const struct sidecar *sidecar)
{
    bool is_packed = sidecar_find(sidecar, SECTION_LINKED_COVMAP) != NULL;

    for (size_t i = 0; i < sidecar->section_count; i++) {
        const struct section *section = &sidecar->sections[i];
        struct section_row row =
            section_row_make(section->kind, section->size, status_in_sidecar(section, is_packed));

        row.address = address_unless_zero(section->address);
        if (section->form != 0)
            row.stored_size = section->stored_size;
        if ((SECTION_BIT(section->kind) & SECTION_LINKED) != 0)
            row.reason = "as it was linked, with packed units; only join needs it";
        for (size_t kept = 0; section->fate == FATE_COPIED && kept < sidecar->kept_count; kept++) {
            if (sidecar->kept[kept].kind == section->kind)
                row.reason = sidecar->kept[kept].reason;
        }
        report_section(report, &row);
    }
    for (size_t i = 0; i < sidecar->kept_count; i++) {
        const struct section *kept = &sidecar->kept[i];
        const struct section *copy = sidecar_find(sidecar, kept->kind);
        struct section_row row = section_row_make(kept->kind, kept->size, "kept");

        row.reason = kept->reason;
        if (copy == NULL || copy->fate != FATE_COPIED)
            report_section(report, &row);
    }
}

static bool describe_sidecar(const struct input *input, struct fact_sheet *report,
                             struct error *error)
{
    struct sidecar *sidecar = sidecar_open(input->bytes, input->path, error);

    if (sidecar == NULL)
        return false;
    add_sidecar_facts(report, sidecar);
    report_size(report, "file_size", "file size", input->bytes.size);
    if (sidecar->base.is_needed) {
        report_size(report, "whole_size", "size if whole", sidecar->base.whole_size);
        add_digest(report, "base", "base", &sidecar->base.digest);
        report_size(report, "base_size", "base size", sidecar->base.size);
    }
    report_begin_sections(report);
    add_sidecar_sections(report, sidecar);
    report_end_sections(report);
    sidecar_close(sidecar);
    return true;
}

/* ---- objects ---- */

static bool describe_object(const struct input *input, struct fact_sheet *report,
                            struct error *error)
{
    struct object_facts facts;
    char uuid[UUID_HEX_MAX];
    bool done = object_read(input->bytes, input->path, &facts, error);

    if (done) {
        report_text(report, "kind", "kind", "object");
        report_number(report, "format_version", "format version", facts.format_version);
        report_text(report, "image_name", "image", facts.image_name);
        report_text(report, "format", "image format", image_format_name(facts.image.format));
        add_machine(report, &facts.image);
        report_text(report, "uuid", "UUID", uuid_format(&facts.image.uuid, uuid));
        report_size(report, "original_size", "original size", facts.image.original_size);
        add_digest(report, "original_digest", "original digest", &facts.image.original_digest);
        report_size(report, "file_size", "file size", input->bytes.size);
        report_begin_sections(report);
        for (size_t i = 0; i < facts.section_count; i++) {
            struct section_row row =
                section_row_make(facts.sections[i].kind, facts.sections[i].size, "present");

            row.address = address_unless_zero(facts.sections[i].address);
            report_section(report, &row);
        }
        report_end_sections(report);
    }
    return done;
}

/* ---- unions ---- */

/* Checks all members, so that nothing is printed of a damaged union. */
static bool describe_union(const struct input *input, struct fact_sheet *report,
                           struct error *error)
{
    struct union_member_view member;
    struct bytes members;
    uint64_t count = 0;
    bool found, done = union_open(input->bytes, input->path, &members, error);

    while (done && (done = union_next(&members, input->path, &member, &found, error)) && found) {
        struct object_facts facts;

        done = object_read(member.object, input->path, &facts, error);
        count++;
    }
    if (!done)
        return false;
    report_text(report, "kind", "kind", "union");
    report_text(report, "format", "format", "archive of objects");
    report_size(report, "file_size", "file size", input->bytes.size);
    report_number(report, "member_count", "images", count);
    return true;
}

/* ---- raw profiles ---- */

static void add_profile_section(struct fact_sheet *report, enum section_kind kind,
                                struct bytes content, const char *status)
{
    struct section_row row = section_row_make(kind, content.size, status);

    if (content.size != 0)
        report_section(report, &row);
}

static void add_binary_ids(struct fact_sheet *report, const struct profile *profile)
{
    struct bytes rest = profile->binary_ids;
    struct bytes binary_id;

    report_list(report, "binary_ids", "binary IDs");
    while (profile_take_binary_id(profile, &rest, &binary_id)) {
        struct uuid uuid = {.size = 0};
        char hex[UUID_HEX_MAX];

        /* Longer ones are not build IDs; their beginning identifies them well enough. */
        uuid.size = binary_id.size < UUID_SIZE_MAX ? (size_t)binary_id.size : UUID_SIZE_MAX;
        memcpy(uuid.bytes, binary_id.data, uuid.size);
        report_list_word(report, uuid_format(&uuid, hex));
    }
    report_list_end(report);
}

static void describe_profile(const struct profile_reader *reader, const struct profile *profile,
                             struct fact_sheet *report)
{
    static const char *const sources[] = {
        [PROFILE_UUID_NONE] = "",
        [PROFILE_UUID_TRIPWIRE] = uuid_from_tripwire,
        [PROFILE_UUID_BINARY_ID] = "binary ID",
        [PROFILE_UUID_STUB] = uuid_from_stub,
    };
    enum profile_uuid_source source;
    struct uuid uuid = profile_uuid(profile, &source);

    report_none(report, "machine", "machine", "not recorded");
    report_number(report, "pointer_bits", "pointer bits", profile->is_64_bit ? 64 : 32);
    report_text(report, "byte_order", "byte order", profile->big_endian ? "big" : "little");
    add_uuid(report, &uuid, sources[source]);
    add_binary_ids(report, profile);
    add_raw_version(report, profile->header.version);
    report_boolean(report, "lightweight", "lightweight", profile->lightweight);
    report_size(report, "size", "size", profile->size);
    report_boolean(report, "sparse", "sparse", reader->is_sparse);
    if (reader->is_sparse)
        report_size(report, "sparse_size", "sparse size", reader->stored_size);
    report_number(report, "records", "records", profile->header.num_data);
    report_number(report, "counters", "counters", profile->header.num_counters);
    report_size(report, "value_data_size", "value data", profile->value_data.size);
    report_begin_sections(report);
    add_profile_section(report, SECTION_DATA, profile->data, "present");
    add_profile_section(report, SECTION_COUNTERS, profile->counters, "present");
    add_profile_section(report, SECTION_BITMAP, profile->bitmap, "present");
    add_profile_section(report, SECTION_NAMES, profile->names,
                        profile->has_tripwire ? "tripwire" : "present");
    report_end_sections(report);
}

static struct profile_reader reader_of(const struct input *input, uint64_t limit)
{
    return (struct profile_reader){.file = input->bytes, .name = input->path, .limit = limit};
}

/* A file may contain any number of profiles, so they are not all collected in one report: all are
 * parsed here to check them, and again when they are printed. */
static bool describe_profiles(const struct input *input, uint64_t limit, struct fact_sheet *report,
                              struct error *error)
{
    struct profile_reader reader = reader_of(input, limit);
    uint64_t count = 0;
    struct profile profile;
    bool found, done;

    while ((done = profile_reader_next(&reader, &profile, &found, error)) && found)
        count++;
    profile_reader_free(&reader);
    if (!done)
        return false;
    report_text(report, "kind", "kind", "raw profile");
    report_text(report, "format", "format", "LLVM raw profile");
    report_size(report, "file_size", "file size", input->bytes.size);
    report_number(report, "profile_count", "profiles", count);
    return true;
}

static bool print_profiles(const struct input *input, const struct showing *showing,
                           struct error *error)
{
    struct profile_reader reader = reader_of(input, showing->limit);
    struct profile profile;
    bool found, done;

    if (showing->json != NULL)
        json_begin_array(showing->json, "profiles");
    while ((done = profile_reader_next(&reader, &profile, &found, error)) && found) {
        struct fact_sheet report;

        report_begin(&report, showing->json);
        describe_profile(&reader, &profile, &report);
        if (showing->json == NULL)
            printf("\n");
        report_print(&report);
        report_end(&report);
    }
    profile_reader_free(&reader);
    if (showing->json != NULL)
        json_end_array(showing->json);
    return done;
}

/* ---- memory maps: --map ----
 *
 * An image that is not loaded where it was linked has its counters at the linked address plus the
 * distance. In gdb, the first address of an ELF image in `info proc mappings` is that distance, if
 * the image was linked from 0 on; it is there for processes and for core files, and needs no
 * symbols, which may have been stripped. */

static void add_place(struct fact_sheet *report, const struct section *section, const char *label,
                      const char *key_address, const char *key_size)
{
    char text[COUNT_TEXT_MAX + 32], bytes[COUNT_TEXT_MAX];

    if (section == NULL || section->size == 0) {
        report_none(report, key_address, label, "none");
        if (report->json != NULL)
            report_none(report, key_size, NULL, NULL);
    } else if (report->json != NULL) {
        report_number(report, key_address, NULL, section->address);
        report_number(report, key_size, NULL, section->size);
    } else {
        snprintf(text, sizeof(text), "%s at 0x%" PRIx64, count_text(section->size, "byte", bytes),
                 section->address);
        report_text(report, key_address, label, text);
    }
}

/* Adds the command that copies a section into a file. */
static void add_copy(struct fact_sheet *report, const struct section *section, const char *key,
                     const char *file, const char *load)
{
    char text[256];

    if (section == NULL || section->size == 0)
        return;
    snprintf(text, sizeof(text), "dump binary memory %s %s0x%" PRIx64 " %s0x%" PRIx64, file, load,
             section->address, load, section->address + section->size);
    report_text(report, key, "in gdb", text);
}

/* The text as a word of a shell. */
static char *shell_word(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "%+,-./:@_";
    struct buffer word = {0};

    if (text[strspn(text, plain)] == '\0')
        return command_copy(text);
    buffer_append(&word, "'", 1);
    for (; *text != '\0'; text++)
        buffer_append(&word, *text == '\'' ? "'\\''" : text, *text == '\'' ? 4 : 1);
    exit_unless_allocated(buffer_append(&word, "'", 2), word.size);
    return (char *)word.data;
}

static void add_map(struct fact_sheet *report, const struct sidecar *sidecar)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct section *counters = sidecar_find(sidecar, SECTION_COUNTERS);
    const struct section *bitmap = sidecar_find(sidecar, SECTION_BITMAP);
    bool is_fixed = facts->format == IMAGE_ELF && facts->elf_type == ET_EXEC;
    bool has_bitmap = bitmap != NULL && bitmap->size != 0;
    char hex[UUID_HEX_MAX], *correlate, *name = shell_word(sidecar->name);

    report_text(report, "kind", "kind", "memory map");
    report_text(report, "image_name", "image", sidecar->image_name);
    add_machine(report, facts);
    report_text(report, "uuid", "UUID", uuid_format(&facts->uuid, hex));
    if (report->json != NULL)
        report_boolean(report, "fixed", NULL, is_fixed);
    else
        report_text(report, "fixed", "loaded",
                    is_fixed ? "at the linked address"
                    : facts->format == IMAGE_ELF
                        ? "anywhere: LOAD is its first address in gdb's 'info proc mappings', less "
                          "the linked one (usually 0)"
                        : "perhaps elsewhere: LOAD is the distance from the linked address");
    add_place(report, counters, "counters", "counters_address", "counters_size");
    add_place(report, bitmap, "bitmap", "bitmap_address", "bitmap_size");
    if (!is_fixed)
        report_text(report, "gdb_load", "in gdb", "set $load = LOAD");
    add_copy(report, counters, "gdb_counters", "counters.bin", is_fixed ? "" : "$load+");
    add_copy(report, bitmap, "gdb_bitmap", "bitmap.bin", is_fixed ? "" : "$load+");
    correlate =
        command_text("covsplit correlate --counters counters.bin%s --sidecar %s -o OUT.profraw",
                     has_bitmap ? " --bitmap bitmap.bin" : "", name);
    report_text(report, "correlate", "then", correlate);
    free(correlate);
    free(name);
}

static bool describe_map(const struct input *input, struct fact_sheet *report, struct error *error)
{
    struct sidecar *sidecar;
    const struct section *counters;
    bool done = false;

    if (!sidecar_recognize(input->bytes))
        return error_set(error, "%s: not a sidecar; for --map, give that of the image",
                         input->path);
    sidecar = sidecar_open(input->bytes, input->path, error);
    if (sidecar != NULL && sidecar_is_real(sidecar, error)) {
        counters = sidecar_find(sidecar, SECTION_COUNTERS);
        done =
            (counters != NULL && counters->size != 0) ||
            error_set(error, "%s: its image has no counters; give one with coverage", input->path);
    }
    if (done)
        add_map(report, sidecar);
    sidecar_close(sidecar);
    return done;
}

/* ---- kinds of files ---- */

static bool is_image(struct bytes bytes)
{
    const char *format_name;

    return image_recognize(bytes, &format_name);
}

/* Sidecars and objects are ELF files too, so they are tested before images. */
static const struct file_kind {
    bool (*recognize)(struct bytes bytes);
    bool (*describe)(const struct input *input, struct fact_sheet *report, struct error *error);
} file_kinds[] = {
    {sidecar_recognize, describe_sidecar},
    {object_recognize, describe_object},
    {union_recognize, describe_union},
    {profile_reader_recognize, NULL}, /* any number of profiles */
    {object_is_packed, describe_packed_object},
    {is_image, describe_image}, /* also what is neither linked nor packed, with an error */
};

/* NULL, with an error, if the file is of no kind that can be described. */
static const struct file_kind *find_kind(const struct input *input, struct error *error)
{
    for (size_t i = 0; i < sizeof(file_kinds) / sizeof(file_kinds[0]); i++) {
        if (file_kinds[i].recognize(input->bytes))
            return &file_kinds[i];
    }
    if (input->bytes.size == 0)
        error_set(error,
                  "%s: is empty; give an image, a sidecar or a raw profile (it is empty if the "
                  "program was killed, or called _exit)",
                  input->path);
    else if (profile_recognize_indexed(input->bytes))
        error_set(error, "%s: an indexed profile, which covsplit does not read; use llvm-profdata",
                  input->path);
    else
        error_set(error, "%s: neither an image nor a sidecar nor a raw profile; give one of these",
                  input->path);
    return NULL;
}

bool check_described(struct profile_stream *stream, const char *name, struct bytes so_far,
                     struct error *error)
{
    const struct input input = {.path = (char *)(uintptr_t)name, .bytes = so_far};
    const struct file_kind *kind = find_kind(&input, error);

    return kind != NULL &&
           (kind->describe != NULL || profile_stream_check(stream, name, so_far, error));
}

bool describe_file(const struct input *input, struct showing *showing, struct error *error)
{
    const struct file_kind *kind = showing->is_map ? NULL : find_kind(input, error);
    struct fact_sheet report;
    bool shown;

    if (kind == NULL && !showing->is_map)
        return false;
    report_begin(&report, showing->json);
    if (showing->json != NULL)
        report_text(&report, "file", NULL, input->path);
    shown = showing->is_map          ? describe_map(input, &report, error)
            : kind->describe != NULL ? kind->describe(input, &report, error)
                                     : describe_profiles(input, showing->limit, &report, error);
    if (shown && showing->json == NULL) {
        if (!showing->is_first)
            printf("\n");
        message_line(stdout, "%s", input->path);
    }
    if (shown) {
        showing->is_first = false;
        report_print(&report);
        if (kind != NULL && kind->describe == NULL)
            shown = print_profiles(input, showing, error);
    }
    report_end(&report);
    return shown;
}
