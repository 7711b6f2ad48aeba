/*
 * Descriptions of each kind of file: see show.h.
 *
 * Each kind has a function that fills in a sheet of facts, which is printed when no more errors are
 * possible.
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
#include "common/sidecar/exported.h"
#include "common/sidecar/sidecar.h"
#include "common/sidecar/union.h"
#include "formats/image.h"
#include "formats/object/packing.h"
#include "split/cli/images.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

/* ---- facts that several kinds share ---- */

/* The source of the UUID in stripped images and their profiles. */
static const char uuid_from_tripwire[] = "tripwire";
static const char uuid_from_stub[] = "stub record (first 8 bytes)";

static void add_machine(struct fact_sheet *sheet, const struct sidecar_facts *facts)
{
    char text[MACHINE_TEXT_MAX];

    facts_text(&sheet->facts, "machine", "machine", machine_text(facts, text));
}

static void add_uuid(struct fact_sheet *sheet, const struct uuid *uuid, const char *source)
{
    char hex[UUID_HEX_MAX];

    if (uuid->size == 0) {
        sheet_none(sheet, "uuid", "UUID", "none");
        sheet_none(sheet, "uuid_source", "UUID from", NULL);
        return;
    }
    facts_text(&sheet->facts, "uuid", "UUID", uuid_format(uuid, hex));
    facts_text(&sheet->facts, "uuid_source", "UUID from", source);
}

static void add_raw_version(struct fact_sheet *sheet, uint64_t raw_version)
{
    if (raw_version == 0) {
        sheet_none(sheet, "raw_version", "raw profile version", "none: no profile runtime");
    } else {
        facts_number(&sheet->facts, "raw_version", "raw profile version",
                     PROFILE_VERSION(raw_version));
    }
    sheet_list(sheet, "raw_variants", "variants");
    for (unsigned bit = PROFILE_VARIANT_BIT_FIRST; bit <= PROFILE_VARIANT_BIT_LAST; bit++) {
        const char *name = profile_variant_name(bit);
        char number[16];

        if ((raw_version >> bit & 1) == 0)
            continue;
        snprintf(number, sizeof(number), "bit %u", bit);
        sheet_list_word(sheet, name != NULL ? name : number);
    }
    sheet_list_end(sheet);
}

static void add_digest(struct fact_sheet *sheet, const char *key, const char *label,
                       const struct digest *digest)
{
    char hex[DIGEST_HEX_MAX];

    facts_text(&sheet->facts, key, label, digest_format(digest, hex));
}

static uint64_t address_unless_zero(uint64_t address)
{
    return address != 0 ? address : NUMBER_UNKNOWN;
}

/* ---- images ---- */

/* The UUID that profiles and stores use. A UUID that a split would derive from the image's digest
 * does not belong to the image yet. That of a stripped image is the one with which it was split,
 * though other tools may have given it another build ID. */
static bool add_image_uuid(struct fact_sheet *sheet, const struct input *input,
                           const struct image_plan *plan, struct error *error)
{
    static const struct uuid none = {.size = 0};
    const struct sidecar_facts *facts = &plan->facts;
    struct split_image split;
    char hex[UUID_HEX_MAX];

    if (plan->already_split && image_read_stripped_id(input, &split, error)) {
        bool is_own = split.own_uuid.size != 0 && uuid_equal(&split.uuid, &split.own_uuid);

        add_uuid(sheet, &split.uuid,
                 is_own               ? uuid_source_name(facts->uuid_source)
                 : split.uuid_is_stub ? uuid_from_stub
                                      : uuid_from_tripwire);
        if (!is_own && split.own_uuid.size != 0)
            facts_text(&sheet->facts, "changed_uuid", "changed UUID",
                       uuid_format(&split.own_uuid, hex));
    } else if (plan->already_split && error_is_of_memory(error)) {
        return false;
    } else if (facts->uuid_source != UUID_FROM_DIGEST) {
        add_uuid(sheet, &facts->uuid, uuid_source_name(facts->uuid_source));
    } else {
        add_uuid(sheet, &none, "");
    }
    return true;
}

/* Says of an image of packed objects, which LLVM's tools cannot read, how they can. */
static bool add_packing(struct fact_sheet *sheet, const struct input *input,
                        const struct image_plan *plan, const char *advice, struct error *error)
{
    struct packed_counts counts;

    if (plan->already_split || !plan->is_packed)
        return true;
    if (!ordinary_count(input, plan, &counts, error))
        return false;
    facts_number(&sheet->facts, "packed_units", "packed units", counts.units);
    facts_number(&sheet->facts, "packed_records", "packed records", counts.records);
    facts_text(&sheet->facts, "packed_advice", "for reports", advice);
    return true;
}

static void add_image_sections(struct fact_sheet *sheet, const struct image_plan *plan)
{
    sheet_begin_sections(sheet);
    for (size_t i = 0; i < plan->section_count; i++) {
        struct section_row row = section_row_of_image(plan, &plan->sections[i]);

        sheet_section(sheet, &row);
    }
    sheet_end_sections(sheet);
}

/* An object that `covsplit pack` made, which was never linked. */
static bool describe_packed_object(const struct input *input, struct fact_sheet *sheet,
                                   struct error *error)
{
    struct image_plan *plan = image_describe(input, error);
    bool done;

    if (plan == NULL)
        return false;
    facts_text(&sheet->facts, "kind", "kind", "packed object");
    facts_text(&sheet->facts, "format", "format", image_format_name(plan->facts.format));
    add_machine(sheet, &plan->facts);
    facts_size(&sheet->facts, "file_size", "file size", input->bytes.size);
    done = add_packing(sheet, input, plan,
                       "link it, or read it with 'covsplit run' or 'covsplit export'", error);
    add_image_sections(sheet, plan);
    image_plan_free(plan);
    return done;
}

static bool describe_image(const struct input *input, struct fact_sheet *sheet, struct error *error)
{
    struct image_options options = {.sections = SECTION_DEFAULT, .drop_signature = true};
    struct image_plan *plan = image_plan_make(input, &options, error);
    bool done;

    if (plan == NULL)
        return false;
    facts_text(&sheet->facts, "kind", "kind", "image");
    facts_text(&sheet->facts, "format", "format", image_format_name(plan->facts.format));
    add_machine(sheet, &plan->facts);
    done = add_image_uuid(sheet, input, plan, error);
    add_raw_version(sheet, plan->facts.raw_version);
    facts_size(&sheet->facts, "file_size", "file size", input->bytes.size);
    sheet_boolean(sheet, "already_split", "already split", plan->already_split);
    if (plan->already_split)
        sheet_none(sheet, "size_after_split", "size after a split", NULL);
    else
        facts_size(&sheet->facts, "size_after_split", "size after a split",
                   edit_script_result_size(&plan->edits));
    if (plan->zeros_size != 0)
        facts_size(&sheet->facts, "zeros_size", "zeros taken out", plan->zeros_size);
    done =
        done && add_packing(sheet, input, plan,
                            "split it, or read it with 'covsplit run' or 'covsplit export'", error);
    add_image_sections(sheet, plan);
    image_plan_free(plan);
    return done;
}

/* ---- sidecars ---- */

static void add_sidecar_facts(struct fact_sheet *sheet, const struct sidecar *sidecar)
{
    const struct sidecar_facts *facts = &sidecar->facts;

    facts_text(&sheet->facts, "kind", "kind", "sidecar");
    facts_number(&sheet->facts, "format_version", "format version", sidecar->format_version);
    facts_text(&sheet->facts, "image_name", "image", sidecar->image_name);
    facts_text(&sheet->facts, "format", "image format", image_format_name(facts->format));
    add_machine(sheet, facts);
    add_uuid(sheet, &facts->uuid, uuid_source_name(facts->uuid_source));
    add_raw_version(sheet, facts->raw_version);
    facts_size(&sheet->facts, "original_size", "original size", facts->original_size);
    add_digest(sheet, "original_digest", "original digest", &facts->original_digest);
    facts_size(&sheet->facts, "stripped_size", "stripped size", facts->stripped_size);
    add_digest(sheet, "stripped_digest", "stripped digest", &facts->stripped_digest);
    sheet_boolean(sheet, "has_stub", "lightweight profiles", facts->has_stub);
    sheet_boolean(sheet, "exact", "gives the original back", !facts->is_placeholder);
    if (facts->is_assumed)
        sheet_boolean(sheet, "assumed_unreferenced", "assumed unreferenced", true);
}

static const char *status_in_sidecar(const struct section *section, bool is_packed)
{
    bool is_mapping = section->kind == SECTION_COVMAP || section->kind == SECTION_COVFUN;

    return section->fate == FATE_COPIED ? "copied"
           : section->form == 0         ? "recorded"
           : is_packed && is_mapping    ? "made"
                                        : "stored";
}

static void add_sidecar_sections(struct fact_sheet *sheet, const struct sidecar *sidecar)
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
        sheet_section(sheet, &row);
    }
    for (size_t i = 0; i < sidecar->kept_count; i++) {
        const struct section *kept = &sidecar->kept[i];
        const struct section *copy = sidecar_find(sidecar, kept->kind);
        struct section_row row = section_row_make(kept->kind, kept->size, "kept");

        row.reason = kept->reason;
        if (copy == NULL || copy->fate != FATE_COPIED)
            sheet_section(sheet, &row);
    }
}

static bool describe_sidecar(const struct input *input, struct fact_sheet *sheet,
                             struct error *error)
{
    struct sidecar *sidecar = sidecar_open(input->bytes, input->path, error);

    if (sidecar == NULL)
        return false;
    add_sidecar_facts(sheet, sidecar);
    facts_size(&sheet->facts, "file_size", "file size", input->bytes.size);
    if (sidecar->base.is_needed) {
        facts_size(&sheet->facts, "whole_size", "size if whole", sidecar->base.whole_size);
        add_digest(sheet, "base", "base", &sidecar->base.digest);
        facts_size(&sheet->facts, "base_size", "base size", sidecar->base.size);
    }
    sheet_begin_sections(sheet);
    add_sidecar_sections(sheet, sidecar);
    sheet_end_sections(sheet);
    sidecar_close(sidecar);
    return true;
}

/* ---- objects ---- */

static bool describe_object(const struct input *input, struct fact_sheet *sheet,
                            struct error *error)
{
    struct export_facts facts;
    char uuid[UUID_HEX_MAX];
    bool done = export_read(input->bytes, input->path, &facts, error);

    if (done) {
        facts_text(&sheet->facts, "kind", "kind", "object");
        facts_number(&sheet->facts, "format_version", "format version", facts.format_version);
        facts_text(&sheet->facts, "image_name", "image", facts.image_name);
        facts_text(&sheet->facts, "format", "image format", image_format_name(facts.image.format));
        add_machine(sheet, &facts.image);
        facts_text(&sheet->facts, "uuid", "UUID", uuid_format(&facts.image.uuid, uuid));
        facts_size(&sheet->facts, "original_size", "original size", facts.image.original_size);
        add_digest(sheet, "original_digest", "original digest", &facts.image.original_digest);
        facts_size(&sheet->facts, "file_size", "file size", input->bytes.size);
        sheet_begin_sections(sheet);
        for (size_t i = 0; i < facts.section_count; i++) {
            struct section_row row =
                section_row_make(facts.sections[i].kind, facts.sections[i].size, "present");

            row.address = address_unless_zero(facts.sections[i].address);
            sheet_section(sheet, &row);
        }
        sheet_end_sections(sheet);
    }
    return done;
}

/* ---- unions ---- */

/* Checks all members, so that nothing is printed of a damaged union. */
static bool describe_union(const struct input *input, struct fact_sheet *sheet, struct error *error)
{
    struct union_member_view member;
    struct bytes members;
    uint64_t count = 0;
    bool found, done = union_open(input->bytes, input->path, &members, error);

    while (done && (done = union_next(&members, input->path, &member, &found, error)) && found) {
        struct export_facts facts;

        done = export_read(member.object, input->path, &facts, error);
        count++;
    }
    if (!done)
        return false;
    facts_text(&sheet->facts, "kind", "kind", "union");
    facts_text(&sheet->facts, "format", "format", "archive of objects");
    facts_size(&sheet->facts, "file_size", "file size", input->bytes.size);
    facts_number(&sheet->facts, "member_count", "images", count);
    return true;
}

/* ---- raw profiles ---- */

static void add_profile_section(struct fact_sheet *sheet, enum section_kind kind,
                                struct bytes content, const char *status)
{
    struct section_row row = section_row_make(kind, content.size, status);

    if (content.size != 0)
        sheet_section(sheet, &row);
}

static void add_binary_ids(struct fact_sheet *sheet, const struct profile *profile)
{
    struct bytes rest = profile->binary_ids;
    struct bytes binary_id;

    sheet_list(sheet, "binary_ids", "binary IDs");
    while (profile_take_binary_id(profile, &rest, &binary_id)) {
        struct uuid uuid = {.size = 0};
        char hex[UUID_HEX_MAX];

        /* Longer ones are not build IDs; their beginning identifies them well enough. */
        uuid.size = binary_id.size < UUID_SIZE_MAX ? (size_t)binary_id.size : UUID_SIZE_MAX;
        memcpy(uuid.bytes, binary_id.data, uuid.size);
        sheet_list_word(sheet, uuid_format(&uuid, hex));
    }
    sheet_list_end(sheet);
}

static void describe_profile(const struct profile_reader *reader, const struct profile *profile,
                             struct fact_sheet *sheet)
{
    static const char *const sources[] = {
        [PROFILE_UUID_NONE] = "",
        [PROFILE_UUID_TRIPWIRE] = uuid_from_tripwire,
        [PROFILE_UUID_BINARY_ID] = "binary ID",
        [PROFILE_UUID_STUB] = uuid_from_stub,
    };
    enum profile_uuid_source source;
    struct uuid uuid = profile_uuid(profile, &source);

    sheet_none(sheet, "machine", "machine", "not recorded");
    facts_number(&sheet->facts, "pointer_bits", "pointer bits", profile->is_64_bit ? 64 : 32);
    facts_text(&sheet->facts, "byte_order", "byte order", profile->big_endian ? "big" : "little");
    add_uuid(sheet, &uuid, sources[source]);
    add_binary_ids(sheet, profile);
    add_raw_version(sheet, profile->header.version);
    sheet_boolean(sheet, "lightweight", "lightweight", profile->lightweight);
    facts_size(&sheet->facts, "size", "size", profile->size);
    sheet_boolean(sheet, "sparse", "sparse", reader->is_sparse);
    if (reader->is_sparse)
        facts_size(&sheet->facts, "sparse_size", "sparse size", reader->stored_size);
    facts_number(&sheet->facts, "records", "records", profile->header.num_data);
    facts_number(&sheet->facts, "counters", "counters", profile->header.num_counters);
    facts_size(&sheet->facts, "value_data_size", "value data", profile->value_data.size);
    sheet_begin_sections(sheet);
    add_profile_section(sheet, SECTION_DATA, profile->data, "present");
    add_profile_section(sheet, SECTION_COUNTERS, profile->counters, "present");
    add_profile_section(sheet, SECTION_BITMAP, profile->bitmap, "present");
    add_profile_section(sheet, SECTION_NAMES, profile->names,
                        profile->has_tripwire ? "tripwire" : "present");
    sheet_end_sections(sheet);
}

/* A file may contain any number of profiles, so they are not all collected in one sheet: all are
 * parsed here to check them, and again when they are printed. */
static bool describe_profiles(const struct input *input, uint64_t limit, struct fact_sheet *sheet,
                              struct error *error)
{
    struct profile_reader reader = {.file = input->bytes, .name = input->path, .limit = limit};
    uint64_t count = 0;
    struct profile profile;
    bool found, done;

    while ((done = profile_reader_next(&reader, &profile, &found, error)) && found)
        count++;
    profile_reader_free(&reader);
    if (!done)
        return false;
    facts_text(&sheet->facts, "kind", "kind", "raw profile");
    facts_text(&sheet->facts, "format", "format", "LLVM raw profile");
    facts_size(&sheet->facts, "file_size", "file size", input->bytes.size);
    facts_number(&sheet->facts, "profile_count", "profiles", count);
    return true;
}

static bool print_profiles(const struct input *input, const struct showing *showing,
                           struct error *error)
{
    struct profile_reader reader = {
        .file = input->bytes, .name = input->path, .limit = showing->limit};
    struct profile profile;
    bool found, done;

    if (showing->json != NULL)
        json_begin_array(showing->json, "profiles");
    while ((done = profile_reader_next(&reader, &profile, &found, error)) && found) {
        struct fact_sheet sheet;

        sheet_begin(&sheet, showing->json);
        describe_profile(&reader, &profile, &sheet);
        if (showing->json == NULL)
            printf("\n");
        sheet_print(&sheet);
        sheet_end(&sheet);
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

static void add_place(struct fact_sheet *sheet, const struct section *section, const char *label,
                      const char *key_address, const char *key_size)
{
    char text[COUNT_TEXT_MAX + 32], bytes[COUNT_TEXT_MAX];

    if (section == NULL || section->size == 0) {
        sheet_none(sheet, key_address, label, "none");
        if (sheet->facts.json != NULL)
            sheet_none(sheet, key_size, NULL, NULL);
    } else if (sheet->facts.json != NULL) {
        facts_number(&sheet->facts, key_address, NULL, section->address);
        facts_number(&sheet->facts, key_size, NULL, section->size);
    } else {
        snprintf(text, sizeof(text), "%s at 0x%" PRIx64, count_text(section->size, "byte", bytes),
                 section->address);
        facts_text(&sheet->facts, key_address, label, text);
    }
}

/* Adds the command that copies a section into a file. */
static void add_copy(struct fact_sheet *sheet, const struct section *section, const char *key,
                     const char *file, const char *load)
{
    char text[256];

    if (section == NULL || section->size == 0)
        return;
    snprintf(text, sizeof(text), "dump binary memory %s %s0x%" PRIx64 " %s0x%" PRIx64, file, load,
             section->address, load, section->address + section->size);
    facts_text(&sheet->facts, key, "in gdb", text);
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

static void add_map(struct fact_sheet *sheet, const struct sidecar *sidecar)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct section *counters = sidecar_find(sidecar, SECTION_COUNTERS);
    const struct section *bitmap = sidecar_find(sidecar, SECTION_BITMAP);
    bool is_fixed = facts->format == IMAGE_ELF && facts->elf_type == ET_EXEC;
    bool has_bitmap = bitmap != NULL && bitmap->size != 0;
    char hex[UUID_HEX_MAX], *correlate, *name = shell_word(sidecar->name);

    facts_text(&sheet->facts, "kind", "kind", "memory map");
    facts_text(&sheet->facts, "image_name", "image", sidecar->image_name);
    add_machine(sheet, facts);
    facts_text(&sheet->facts, "uuid", "UUID", uuid_format(&facts->uuid, hex));
    if (sheet->facts.json != NULL)
        sheet_boolean(sheet, "fixed", NULL, is_fixed);
    else
        facts_text(&sheet->facts, "fixed", "loaded",
                   is_fixed ? "at the linked address"
                   : facts->format == IMAGE_ELF
                       ? "anywhere: LOAD is its first address in gdb's 'info proc mappings', less "
                         "the linked one (usually 0)"
                       : "perhaps elsewhere: LOAD is the distance from the linked address");
    add_place(sheet, counters, "counters", "counters_address", "counters_size");
    add_place(sheet, bitmap, "bitmap", "bitmap_address", "bitmap_size");
    if (!is_fixed)
        facts_text(&sheet->facts, "gdb_load", "in gdb", "set $load = LOAD");
    add_copy(sheet, counters, "gdb_counters", "counters.bin", is_fixed ? "" : "$load+");
    add_copy(sheet, bitmap, "gdb_bitmap", "bitmap.bin", is_fixed ? "" : "$load+");
    correlate =
        command_text("covsplit correlate --counters counters.bin%s --sidecar %s -o OUT.profraw",
                     has_bitmap ? " --bitmap bitmap.bin" : "", name);
    facts_text(&sheet->facts, "correlate", "then", correlate);
    free(correlate);
    free(name);
}

static bool describe_map(const struct input *input, struct fact_sheet *sheet, struct error *error)
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
        add_map(sheet, sidecar);
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
    bool (*describe)(const struct input *input, struct fact_sheet *sheet, struct error *error);
} file_kinds[] = {
    {sidecar_recognize, describe_sidecar},
    {export_recognize, describe_object},
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
    struct fact_sheet sheet;
    bool shown;

    if (kind == NULL && !showing->is_map)
        return false;
    sheet_begin(&sheet, showing->json);
    if (showing->json != NULL)
        facts_text(&sheet.facts, "file", NULL, input->path);
    shown = showing->is_map          ? describe_map(input, &sheet, error)
            : kind->describe != NULL ? kind->describe(input, &sheet, error)
                                     : describe_profiles(input, showing->limit, &sheet, error);
    if (shown && showing->json == NULL) {
        if (!showing->is_first)
            printf("\n");
        message_line(stdout, "%s", input->path);
    }
    if (shown) {
        showing->is_first = false;
        sheet_print(&sheet);
        if (kind != NULL && kind->describe == NULL)
            shown = print_profiles(input, showing, error);
    }
    sheet_end(&sheet);
    return shown;
}
