/*
 * Makes the profile runtime work without names and data: decides which of the two can go, and adds
 * the edits to the runtime's functions.
 *
 * Nothing is taken on trust. A section goes only if every function that returns its bounds is
 * found, has a body that is understood, and returns exactly the section's bounds, and if nothing
 * else in the image refers to the section: no other code, no pointer, no retained relocation. The
 * functions that return the bounds of a section are then made to return those of the stub or of the
 * tripwire.
 *
 * At the end are small functions that all formats use.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "formats/format.h"

#define OUTLINE_LINE_MAX 256

static struct section *section_of(struct planning *planning, enum section_kind kind)
{
    return image_plan_section(planning->plan, kind);
}

static bool has_contents(struct planning *planning, enum section_kind kind)
{
    const struct section *section = section_of(planning, kind);

    return section != NULL && section->size != 0;
}

/* ---- bounds ---- */

static enum runtime_symbol begin_of(enum section_kind kind)
{
    return kind == SECTION_NAMES      ? RUNTIME_BEGIN_NAMES
           : kind == SECTION_DATA     ? RUNTIME_BEGIN_DATA
           : kind == SECTION_COUNTERS ? RUNTIME_BEGIN_COUNTERS
                                      : RUNTIME_BEGIN_BITMAP;
}

static enum runtime_symbol end_of(enum section_kind kind)
{
    return begin_of(kind) + 1;
}

static bool find_bounds(struct planning *planning, enum section_kind kind, enum section_kind victim,
                        struct bounds *bounds)
{
    return rules_returned(&planning->code, victim, begin_of(kind), &bounds->begin) &&
           rules_returned(&planning->code, victim, end_of(kind), &bounds->end);
}

/* True if the section has the bounds that the runtime's functions return. If not, the section
 * `victim` stays. */
static bool check_bounds(struct planning *planning, enum section_kind kind,
                         enum section_kind victim)
{
    const struct format *format = planning->format;
    struct section *section = section_of(planning, kind);
    struct bounds bounds;

    if (!find_bounds(planning, kind, victim, &bounds))
        return false;
    if (format->are_bounds != NULL
            ? !format->are_bounds(planning, kind, &bounds)
            : bounds.begin != section->address || bounds.end != section->address + section->size) {
        planning->has_other_bounds = true;
        return image_plan_keep(
            planning->plan, victim, "%s and %s do not return the bounds of the section",
            runtime_symbol_name(begin_of(kind)), runtime_symbol_name(end_of(kind)));
    }
    section->offset += bounds.begin - section->address;
    section->address = bounds.begin;
    section->size = bounds.end - bounds.begin;
    return true;
}

/* The counters and bitmap bytes that profiles hold must be known, or no sidecar could complete
 * them. */
static bool check_counted(struct planning *planning, enum section_kind victim)
{
    const struct format *format = planning->format;

    if (format->check_counted != NULL && !format->check_counted(planning, victim))
        return false;
    if (section_of(planning, SECTION_COUNTERS) == NULL)
        return image_plan_keep(planning->plan, victim,
                               "the image's counters do not fit one record");
    return check_bounds(planning, SECTION_COUNTERS, victim) &&
           (!has_contents(planning, SECTION_BITMAP) ||
            check_bounds(planning, SECTION_BITMAP, victim));
}

/* ---- what names and data have in common ---- */

/* True if enough is known about the image's profiles. */
static bool check_known(struct planning *planning, enum section_kind kind)
{
    uint64_t raw_version = planning->plan->facts.raw_version;
    unsigned version = PROFILE_VERSION(raw_version);
    const struct runtime_symbols *symbols = &planning->code.symbols;

    if (!planning->format->check_known(planning, kind))
        return false;
    if (!symbols->is_linked &&
        (symbols->from_symbol_table || (raw_version == 0 && symbols->has_functions)))
        return image_plan_keep(
            planning->plan, kind,
            "no profile runtime is in the image, so it writes no profiles; link "
            "it with -fprofile-instr-generate (IR PGO: -fprofile-generate), too");
    if (raw_version == 0 && !symbols->from_symbol_table)
        return image_plan_keep(planning->plan, kind,
                               "the version of its raw profiles is not known; link with /map and "
                               "give the file with --map");
    if (planning->has_record_layout)
        return true;
    if (version == 0)
        return image_plan_keep(planning->plan, kind,
                               "the image does not tell the version of its raw profiles; keep "
                               "__llvm_profile_raw_version, and link without LTO of the runtime");
    if (version < PROFILE_VERSION_MIN || version > PROFILE_VERSION_MAX)
        return image_plan_keep(planning->plan, kind, PROFILE_VERSION_UNKNOWN, version,
                               PROFILE_VERSION_MIN, PROFILE_VERSION_MAX);
    return image_plan_keep(planning->plan, kind,
                           "the version of its raw profiles is not known to covsplit");
}

/* Keeps a section because something at an address seems to refer to it, or lets it go if the user
 * knows better: then true. */
static bool keep_referenced(struct planning *planning, enum section_kind kind, const char *what,
                            uint64_t from, const char *how)
{
    struct section *section = section_of(planning, kind);

    image_plan_keep(planning->plan, kind,
                    "%s0x%" PRIx64 " %s if nothing refers to it, give --assume-unreferenced", what,
                    from, how);
    if (!planning->options->assume_unreferenced)
        return false;
    planning->plan->assumed = section->reason;
    section->reason = "";
    section->fate = FATE_REMOVED;
    return true;
}

static bool check_references(struct planning *planning, enum section_kind kind)
{
    const struct bounds *whole = &planning->whole[kind];
    const char *reason;
    uint64_t from;

    switch (rules_find_reference(&planning->code, whole->begin, whole->end - whole->begin, true,
                                 kind == SECTION_DATA, &from, &reason)) {
    case REFERENCE_POINTER:
        return keep_referenced(planning, kind, "a pointer at ", from,
                               "refers to it, other than the runtime's;");
    case REFERENCE_CODE:
        return keep_referenced(planning, kind, "code at ", from,
                               "refers to it, other than the runtime's accessors; link without LTO "
                               "of the runtime, or");
    case REFERENCE_UNKNOWN:
        return image_plan_keep(planning->plan, kind, "%s", reason);
    default:
        break;
    }
    return !rules_find_distance(&planning->code, whole->begin, whole->end - whole->begin, &from) ||
           keep_referenced(planning, kind, "the number at ", from,
                           "may be a distance that leads to it, and has no relocation;");
}

/* A program that reads its own names and records through the runtime's functions, by a call or a
 * pointer, keeps both. */
static void keep_sections_program_reads(struct planning *planning)
{
    static const enum section_kind kinds[] = {SECTION_NAMES, SECTION_DATA};
    uint64_t from;

    if ((!image_plan_removes(planning->plan, SECTION_NAMES) &&
         !image_plan_removes(planning->plan, SECTION_DATA)) ||
        !rules_find_foreign_caller(&planning->code, &from))
        return;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (image_plan_removes(planning->plan, kinds[i]))
            image_plan_keep(planning->plan, kinds[i],
                            "the program looks at its own records: at 0x%" PRIx64
                            " it calls the profile runtime's functions for that",
                            from);
    }
}

/* ---- records ---- */

/* True if the test holds for any of the records, which must be whole. */
static bool have_one(const struct planning *planning, struct bytes records,
                     bool (*test)(const struct profile_record_layout *layout, const uint8_t *record,
                                  bool big_endian))
{
    const struct profile_record_layout *layout = &planning->record_layout;

    for (uint64_t start = 0; start + layout->fields_size <= records.size;
         start += layout->record_size) {
        if (test(layout, records.data + start, planning->big_endian))
            return true;
    }
    return false;
}

/* True if the image has the counters and bitmap that its records have. A section whose name is
 * damaged is none of them, but profiles have its bytes. */
static bool check_hidden(struct planning *planning, enum section_kind victim)
{
    const struct profile_record_layout *layout = &planning->record_layout;
    struct bytes records = image_plan_bytes(planning->plan, planning->input, SECTION_DATA);
    bool has_counters = has_contents(planning, SECTION_COUNTERS);
    bool has_bitmap = layout->bitmap_ptr == 0 || has_contents(planning, SECTION_BITMAP);

    for (uint64_t start = 0; start + layout->fields_size <= records.size;
         start += layout->record_size) {
        const uint8_t *record = records.data + start;

        if ((!has_counters && load_u32(record + layout->num_counters, planning->big_endian) != 0) ||
            (!has_bitmap && load_u32(record + layout->num_bitmap_bytes, planning->big_endian) != 0))
            return image_plan_keep(planning->plan, victim,
                                   "its records have counters that are in no section of the image; "
                                   "link it again");
    }
    return true;
}

/* ---- names ---- */

/* Chooses the place of the tripwire in the names; code must be able to form its bounds. False if
 * there is no such place. */
static bool place_tripwire(struct planning *planning)
{
    const struct section *names = section_of(planning, SECTION_NAMES);
    uint64_t unit = planning->code.machine->address_unit;

    unit = unit == 0 ? 1 : unit;
    planning->tripwire_padding = (size_t)(align_up(names->address, unit) - names->address);
    if (names->size <= planning->tripwire_padding)
        return false;
    planning->tripwire_size = tripwire_size(names->size - planning->tripwire_padding,
                                            planning->plan->facts.uuid.size, (size_t)unit);
    return planning->tripwire_size != 0;
}

static bool check_names(struct planning *planning)
{
    const struct format *format = planning->format;
    const struct section *names = section_of(planning, SECTION_NAMES);
    enum section_kind kind = SECTION_NAMES;
    uint64_t address;

    /* With markers, profiles begin with bytes that are not counters; the sidecar says how many. */
    if (!check_known(planning, kind) ||
        !(format->check_claims == NULL || format->check_claims(planning, kind)) ||
        !check_bounds(planning, kind, kind) ||
        !(format->has_markers ? check_counted : check_hidden)(planning, kind))
        return false;
    if (!place_tripwire(planning))
        return image_plan_keep(planning->plan, kind, "it is too small to gain anything");
    address = names->address + planning->tripwire_padding;
    return (planning->tripwire_padding == 0 ||
            rules_check_rewrite(&planning->code, kind, RUNTIME_BEGIN_NAMES, address)) &&
           rules_check_rewrite(&planning->code, kind, RUNTIME_END_NAMES,
                               address + planning->tripwire_size) &&
           check_references(planning, kind) &&
           (format->settle_relocations == NULL || format->settle_relocations(planning, kind));
}

/* ---- data ---- */

static bool check_records(struct planning *planning)
{
    const struct section *data = section_of(planning, SECTION_DATA);
    const struct profile_record_layout *layout = &planning->record_layout;
    uint64_t rest = data->size % layout->record_size;
    struct bytes records;

    if (data->size < layout->record_size || (rest != 0 && rest < layout->fields_size) ||
        !bytes_slice(planning->input->bytes, data->offset, data->size, &records))
        return image_plan_keep(planning->plan, SECTION_DATA,
                               "its size is not a whole number of records");
    if (have_one(planning, records, profile_record_has_value_sites))
        return image_plan_keep(planning->plan, SECTION_DATA,
                               "value profiling is on, and uses it at run time");
    if (have_one(planning, records, profile_record_is_of_device))
        return image_plan_keep(planning->plan, SECTION_DATA,
                               "its records are of a GPU's code, with uniform counters");
    return true;
}

static void digest_sections(const struct planning *planning, struct digest digests[STUB_KIND_COUNT])
{
    static const enum section_kind kinds[STUB_KIND_COUNT] = STUB_KINDS;

    for (size_t i = 0; i < STUB_KIND_COUNT; i++)
        digests[i] = input_digest_of(planning->input,
                                     image_plan_bytes(planning->plan, planning->input, kinds[i]));
}

/* The stub covers whole counters: with markers, those behind the padding that aligns the first
 * one. */
static bool encode_stub(struct planning *planning, uint64_t address)
{
    struct sidecar_facts *facts = &planning->plan->facts;
    struct digest digests[STUB_KIND_COUNT];
    const struct section *counters = section_of(planning, SECTION_COUNTERS);
    const struct section *bitmap = section_of(planning, SECTION_BITMAP);
    uint64_t end = counters->address + counters->size;
    struct stub_place place = {
        .has_narrow_distances = facts->format == IMAGE_COFF,
        .record = address,
        .counters = counters->address,
    };

    if (planning->format->has_markers)
        place.counters = align_up(counters->address, profile_counter_size(facts->raw_version));
    if (place.counters < end)
        place.counters_size = end - place.counters;
    if (has_contents(planning, SECTION_BITMAP)) {
        place.bitmap = bitmap->address;
        place.bitmap_size = bitmap->size;
    }
    digest_sections(planning, digests);
    facts_make_stub_id(facts->stub_id, &facts->uuid, digests);
    if (!stub_encode(&planning->record_layout, facts->raw_version, &place, facts->stub_id,
                     planning->big_endian, planning->stub))
        return image_plan_keep(planning->plan, SECTION_DATA,
                               "the image's counters do not fit one record");
    return true;
}

/* Records may go only if the names go too: the names leave the tripwire, and only that shows that a
 * profile lacks its records. */
static bool check_data(struct planning *planning, bool names_go)
{
    const struct format *format = planning->format;
    enum section_kind kind = SECTION_DATA;

    if (!check_known(planning, kind) || !check_bounds(planning, kind, kind) ||
        !check_records(planning) || !(format->has_markers || check_hidden(planning, kind)) ||
        !check_counted(planning, kind) ||
        !encode_stub(planning, section_of(planning, kind)->address) ||
        !(format->check_claims == NULL || format->check_claims(planning, kind)) ||
        !rules_check_rewrite(&planning->code, kind, RUNTIME_END_DATA,
                             section_of(planning, kind)->address +
                                 planning->record_layout.record_size) ||
        !check_references(planning, kind))
        return false;
    if (!names_go)
        return image_plan_keep(planning->plan, kind,
                               "the names stay, so nothing would show that a profile lacks its "
                               "records; remove both");
    return (format->settle_relocations == NULL || format->settle_relocations(planning, kind));
}

/* ---- names without data ---- */

/* If names go and records stay, the first record gets a new NameRef, so that runtime and sidecar
 * tell the image from others (facts_make_record_change). So that record must be known (*records
 * begins with it), and no code may look at it. (With value profiling, code passes it to the
 * runtime, which only counts.) */
static bool check_first_record(struct planning *planning, struct bytes *records)
{
    const struct format *format = planning->format;
    const struct section *section = section_of(planning, SECTION_DATA);
    struct bounds data;
    enum reference_kind found;
    const char *reason;
    uint64_t from;

    if (!find_bounds(planning, SECTION_DATA, SECTION_NAMES, &data))
        return false;
    /* With markers they need not be in a section of their own. */
    if ((!format->has_markers && (section == NULL || section->address != data.begin)) ||
        data.end - data.begin < planning->record_layout.record_size ||
        !format->bytes_at(planning, data.begin, data.end - data.begin, records))
        return image_plan_keep(planning->plan, SECTION_NAMES, "the image has no records beside it");
    if (format->check_first_record != NULL && !format->check_first_record(planning))
        return image_plan_keep(planning->plan, SECTION_NAMES,
                               "the records beside it are not where expected");
    if (have_one(planning, *records, profile_record_has_value_sites))
        return true;
    found = rules_find_reference(&planning->code, data.begin, sizeof(uint64_t), false, true, &from,
                                 &reason);
    if (found != REFERENCE_POINTER && found != REFERENCE_CODE &&
        !rules_find_distance(&planning->code, data.begin, data.end - data.begin, &from))
        return true;
    return keep_referenced(planning, SECTION_NAMES, "the program looks at its own records: ", from,
                           "refers to the first one;");
}

static bool change_first_record(struct planning *planning, struct bytes records)
{
    struct sidecar_facts *facts = &planning->plan->facts;
    struct digest digests[STUB_KIND_COUNT];
    uint8_t name_ref[sizeof(uint64_t)];
    struct bytes file = planning->input->bytes;

    digest_sections(planning, digests);
    facts->record_change = facts_make_record_change(digests);
    store_u64(name_ref, load_u64(records.data, planning->big_endian) + facts->record_change,
              planning->big_endian);
    return edit_overwrite_differences(&planning->plan->edits, file,
                                      (uint64_t)(records.data - file.data),
                                      (struct bytes){name_ref, sizeof(name_ref)});
}

/* ---- the edits ---- */

/* After all the checks, an edit can fail only for lack of memory. */
static bool check_edited(const struct planning *planning, bool done, struct error *error)
{
    if (done && !planning->plan->edits.has_no_memory)
        return true;
    if (planning->plan->edits.has_no_memory)
        return error_out_of_memory(error, planning->input->path,
                                   planning->plan->edits.literals.size);
    return error_set(error,
                     "%s: an accessor cannot be rewritten; use --sections without names and data",
                     planning->input->path);
}

bool names_move(struct planning *planning, uint64_t address, struct error *error)
{
    const struct image_code *code = &planning->code;
    bool done = (address == section_of(planning, SECTION_NAMES)->address ||
                 rules_rewrite(code, RUNTIME_BEGIN_NAMES, address)) &&
                rules_rewrite(code, RUNTIME_END_NAMES, address + planning->tripwire_size);

    return check_edited(planning, done, error);
}

bool data_move(struct planning *planning, uint64_t address, struct error *error)
{
    const struct image_code *code = &planning->code;
    uint64_t end = address + planning->record_layout.record_size;
    bool done =
        (address == section_of(planning, SECTION_DATA)->address ||
         (encode_stub(planning, address) && rules_rewrite(code, RUNTIME_BEGIN_DATA, address))) &&
        rules_rewrite(code, RUNTIME_END_DATA, end);

    return check_edited(planning, done, error);
}

/* The runtime fills up a record that is not whole with whatever follows it. */
static void note_records(struct planning *planning, struct bytes records)
{
    const struct profile_record_layout *layout = &planning->record_layout;
    uint64_t rest;

    if (!planning->has_record_layout || records.size == 0)
        return;
    rest = records.size % layout->record_size;
    if (rest == 0 || rest >= layout->fields_size)
        planning->plan->facts.records =
            profile_records_digest(layout, records, 0, planning->big_endian);
}

static bool rewrite_names(struct planning *planning, bool data_goes, struct bytes records,
                          struct error *error)
{
    tripwire_write(planning->tripwire, planning->tripwire_size, &planning->plan->facts.uuid);
    if (!data_goes && !check_edited(planning, change_first_record(planning, records), error))
        return false;
    return planning->format->moves_names ||
           names_move(planning,
                      section_of(planning, SECTION_NAMES)->address + planning->tripwire_padding,
                      error);
}

bool names_and_data_plan(struct planning *planning, struct error *error)
{
    struct image_plan *plan = planning->plan;
    struct bytes records = {0};
    bool data, names;

    keep_sections_program_reads(planning);
    names = image_plan_removes(plan, SECTION_NAMES) && check_names(planning);
    data = image_plan_removes(plan, SECTION_DATA) && check_data(planning, names);
    names = names && (data || check_first_record(planning, &records));
    /* Profiles have exactly the records of the section if these go, or if it can hold no others. */
    if (data || (!names && !planning->format->has_markers && !planning->has_other_bounds))
        records = image_plan_bytes(plan, planning->input, SECTION_DATA);
    note_records(planning, records);
    planning->tripwire_size = names ? planning->tripwire_size : 0;
    planning->tripwire_padding = names ? planning->tripwire_padding : 0;
    plan->facts.is_assumed = plan->assumed != NULL && (names || data);
    return check_edited(planning, true, error) &&
           (!data || planning->format->moves_data ||
            data_move(planning, section_of(planning, SECTION_DATA)->address, error)) &&
           (!names || rewrite_names(planning, data, records, error));
}

/* ---- what formats use ---- */

void planning_add_section(struct planning *planning, enum section_kind kind, size_t index)
{
    const struct format *format = planning->format;
    struct section section = {.kind = kind, .name = format->section_name(kind), .fate = FATE_STAYS};

    format->describe_section(planning, index, &section);
    planning->section_index[kind] = index;
    planning->whole[kind] = (struct bounds){section.address, section.address + section.size};
    image_plan_add(planning->plan, &section);
}

bool planning_is_described(const struct planning *planning, size_t index)
{
    for (size_t kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        if (planning->section_index[kind] == index)
            return true;
    }
    return false;
}

struct bytes planning_remnant(const struct planning *planning, enum section_kind kind,
                              uint64_t size)
{
    switch (kind) {
    case SECTION_DATA:
        return (struct bytes){planning->stub, planning->record_layout.record_size};
    case SECTION_NAMES:
        return (struct bytes){planning->tripwire, planning->tripwire_size};
    case SECTION_COVMAP:
        return (struct bytes){planning->mapping_tripwire,
                              size < TRIPWIRE_MAPPING_SIZE ? 0 : TRIPWIRE_MAPPING_SIZE};
    default:
        return (struct bytes){0};
    }
}

bool planning_empty(struct planning *planning, const struct section *section, struct bytes rest,
                    uint64_t cut, uint64_t cut_end)
{
    struct edit_script *edits = &planning->plan->edits;
    uint64_t behind = section->offset + rest.size, end = section->offset + section->size;

    return edit_replace(edits, section->offset, rest.size, rest) &&
           edit_replace_by_zeros(edits, behind, cut - behind, cut - behind) &&
           edit_cut(edits, cut, cut_end - cut) &&
           (cut_end >= end || edit_replace_by_zeros(edits, cut_end, end - cut_end, end - cut_end));
}

void outline_append(struct buffer *outline, const char *format, ...)
{
    char line[OUTLINE_LINE_MAX];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    buffer_append(outline, line, (size_t)size < sizeof(line) ? (size_t)size : sizeof(line) - 1);
}
