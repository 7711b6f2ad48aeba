/*
 * Finds records that the linker put among the program's own data.
 *
 * LLVM's own runtime for MSVC tells the linker to merge .lprfd and .lprfb into .data, so no header
 * says where they are. Records are recognized by their contents: they follow each other between two
 * markers of zeros, and each has counters in .lprfc and the hash of a name in .lprfn, which no
 * other data has by chance. If there is just one such run of records it is treated like a section
 * from here on, and all checks of a section apply to it as well: among others, one function must
 * return its start, and one its end.
 */
#include "formats/coff/coff.h"

#include <string.h>

#include "common/llvm/names.h"

#define WORD_SIZE 8

/* A run of records; its place is an offset in the section that contains it. */
struct run {
    uint64_t start;
    uint64_t size;
    size_t record_size;
};

struct finding {
    const struct coff_image *image;
    const struct coff_section *host;
    const struct coff_section *counters;
    struct bytes bytes; /* of the host */
    struct profile_record_layout layout;
};

static bool start_finding(const struct coff_state *state, struct finding *finding)
{
    const struct coff_image *image = &state->image;
    size_t host = coff_section_find(image, ".data", NO_INDEX);
    size_t counters = state->base.section_index[SECTION_COUNTERS];

    if (host == NO_INDEX || counters == NO_INDEX)
        return false;
    *finding = (struct finding){.image = image,
                                .host = &image->sections[host],
                                .counters = &image->sections[counters],
                                .bytes = coff_section_bytes(image, host)};
    return true;
}

/* The next layout of records, from the version on, in which they may be among other data. */
static bool next_layout(struct finding *finding, uint64_t *version)
{
    while (++*version <= PROFILE_VERSION_MAX) {
        if (profile_record_layout(*version, finding->image->pointer_size, &finding->layout) &&
            finding->layout.relative)
            return true;
    }
    return false;
}

/* Makes a part of the host a section of the image. */
static void add_part(struct coff_state *state, const struct coff_section *host,
                     enum section_kind kind, uint64_t start, uint64_t size)
{
    size_t index = state->image.section_count + state->image.part_count++;

    state->image.sections[index] = (struct coff_section){
        .name = section_kinds[kind].coff_name,
        .address = host->address + start,
        .VirtualAddress = host->VirtualAddress + (uint32_t)start,
        .VirtualSize = (uint32_t)size,
        .PointerToRawData = host->PointerToRawData + (uint32_t)start,
        .SizeOfRawData = (uint32_t)size,
        .Characteristics = host->Characteristics,
    };
    planning_add_section(&state->base, kind, index);
    image_plan_sort(state->base.plan);
}

/* ---- records ---- */

/* True if a record at that place has counters of the image; *count is their number. A counter is
 * taken to be one byte at least: its size depends on the raw version, which is not known yet. */
static bool is_record(const struct finding *finding, uint64_t place, uint64_t *count)
{
    const struct profile_record_layout *layout = &finding->layout;
    const struct coff_section *counters = finding->counters;
    struct bytes record;
    uint64_t start;

    if (!bytes_slice(finding->bytes, place, layout->record_size, &record))
        return false;
    start = (uint32_t)(finding->host->address + place +
                       load_u32(record.data + layout->counter_ptr, false) - counters->address);
    *count = load_u32(record.data + layout->num_counters, false);
    return *count != 0 && range_within(start, *count, 0, counters->VirtualSize);
}

static bool is_marker(const struct finding *finding, uint64_t place)
{
    return bytes_zero_at(finding->bytes, place, finding->layout.record_size);
}

/* Measures the run of records that starts there. False if no marker follows it, if it would have
 * more counters than the image, or a record has not the hash of a name. */
static bool measure_run(const struct finding *finding, uint64_t start, const struct names *names,
                        struct run *run)
{
    uint64_t end = start, count, counters = 0;

    for (; is_record(finding, end, &count); end += finding->layout.record_size)
        counters += count;
    *run = (struct run){start, end - start, finding->layout.record_size};
    if (run->size == 0 || counters > finding->counters->VirtualSize || !is_marker(finding, end))
        return false;
    for (uint64_t i = start; i < end; i += run->record_size) {
        if (names_find(names, load_u64(finding->bytes.data + i, false)) == NULL)
            return false;
    }
    return true;
}

/* Looks for the only run of records. The layouts of two versions may agree in all that is checked.
 */
static bool find_run(struct finding *finding, const struct names *names, struct run *run)
{
    *run = (struct run){0};
    for (uint64_t version = PROFILE_VERSION_MIN - 1; next_layout(finding, &version);) {
        uint64_t zeros = 0;

        for (uint64_t i = 0; i + WORD_SIZE <= finding->bytes.size; i += WORD_SIZE) {
            struct run found;

            if (load_u64(finding->bytes.data + i, false) == 0) {
                zeros += WORD_SIZE;
                continue;
            }
            if (zeros >= finding->layout.record_size && measure_run(finding, i, names, &found)) {
                if (run->size != 0 && (found.start != run->start || found.size != run->size ||
                                       found.record_size != run->record_size))
                    return false;
                *run = found;
            }
            zeros = 0;
        }
    }
    return run->size != 0;
}

/* The bytes between the runtime's markers in .lprfn; false if there are none. */
static bool find_names(const struct coff_state *state, struct bytes *between)
{
    size_t index = state->base.section_index[SECTION_NAMES];
    struct bytes section;

    if (index == NO_INDEX)
        return false;
    section = coff_section_bytes(&state->image, index);
    return section.size > 2 && bytes_slice(section, 1, section.size - 2, between);
}

/* Reads the names; *names is empty if there are none or they are damaged. False if memory runs
 * out. */
static bool read_names(const struct coff_state *state, struct names *names, struct error *error)
{
    struct bytes between;

    *names = (struct names){0};
    if (!find_names(state, &between) || names_read(names, between, state->image.path, error))
        return true;
    names_free(names);
    return !error_is_of_memory(error);
}

bool coff_merged_find_records(struct coff_state *state, struct error *error)
{
    struct names names;
    struct finding finding;
    struct run run;

    if (state->base.section_index[SECTION_DATA] != NO_INDEX || !start_finding(state, &finding))
        return true;
    if (!read_names(state, &names, error))
        return false;
    if (find_run(&finding, &names, &run)) {
        state->data_host = (size_t)(finding.host - state->image.sections);
        add_part(state, finding.host, SECTION_DATA, run.start - run.record_size,
                 run.size + 2 * run.record_size);
    }
    names_free(&names);
    input_release_pages(state->image.input, finding.host->PointerToRawData, finding.bytes.size);
    return true;
}

void coff_merged_explain(struct coff_state *state)
{
    struct image_plan *plan = state->base.plan;
    struct bytes names;

    if (state->base.section_index[SECTION_DATA] != NO_INDEX ||
        state->base.section_index[SECTION_COVDATA] != NO_INDEX || !find_names(state, &names) ||
        (state->base.options->sections & SECTION_BIT(SECTION_DATA)) == 0)
        return;
    image_plan_add(plan, &(struct section){.kind = SECTION_DATA,
                                           .name = section_kinds[SECTION_DATA].coff_name});
    image_plan_keep(plan, SECTION_DATA, "%s",
                    state->base.section_index[SECTION_COUNTERS] == NO_INDEX
                        ? "the linker merged it and the counters into other data, as runtimes up "
                          "to LLVM 17 tell it to; link with a later runtime"
                        : "the linker merged it into other data, and it cannot be told apart from "
                          "that");
    image_plan_sort(plan);
}

/* ---- the bitmap ---- */

/* The bitmap bytes of all records, which follow each other: [*start, *end) in the host. */
static bool bitmap_of_records(const struct coff_state *state, const struct finding *finding,
                              uint64_t *start, uint64_t *end)
{
    const struct profile_record_layout *layout = &state->base.record_layout;
    const struct section *data = image_plan_section(state->base.plan, SECTION_DATA);
    uint64_t first = data->offset - finding->host->PointerToRawData, sum = 0;

    *start = UINT64_MAX;
    *end = 0;
    /* The first and the last one are the runtime's markers. */
    for (uint64_t place = first + layout->record_size;
         place + 2 * layout->record_size <= first + data->size; place += layout->record_size) {
        const uint8_t *record = finding->bytes.data + place;
        uint64_t size = load_u32(record + layout->num_bitmap_bytes, false);
        uint64_t bitmap = (uint32_t)(place + load_u32(record + layout->bitmap_ptr, false));

        if (size == 0)
            continue;
        if (!range_within(bitmap, size, 0, finding->bytes.size))
            return false;
        *start = bitmap < *start ? bitmap : *start;
        *end = bitmap + size > *end ? bitmap + size : *end;
        sum += size;
    }
    return sum != 0 && sum == *end - *start;
}

void coff_merged_find_bitmap(struct coff_state *state)
{
    struct finding finding;
    uint64_t start, end;

    if (state->data_host != NO_INDEX && state->base.section_index[SECTION_BITMAP] == NO_INDEX &&
        state->base.has_record_layout && state->base.record_layout.bitmap_ptr != 0 &&
        start_finding(state, &finding) && bitmap_of_records(state, &finding, &start, &end) &&
        start != 0 && bytes_zero_at(finding.bytes, start - 1, end - start + 2))
        add_part(state, finding.host, SECTION_BITMAP, start - 1, end - start + 2);
}

/* ---- the stub ---- */

/* True if a record with `count` counters from the address `first` on covers all of the section,
 * except for the runtime's markers around the counters and the padding before them. */
static bool covers_all(const struct coff_section *counters, uint64_t first, uint64_t count)
{
    uint64_t begin = counters->address + 1, end = counters->address + counters->VirtualSize - 1;

    return (first == begin && count == end - begin) ||
           (first == align_up(begin, 8) && count * 8 == end - first);
}

/* True if the record has only what a stub has: the UUID, counters and bitmap. */
static bool is_stub(const struct finding *finding, uint64_t place)
{
    const struct profile_record_layout *layout = &finding->layout;
    uint8_t stub[STUB_RECORD_MAX];
    uint64_t count, distance;

    if (place < layout->record_size || !is_record(finding, place, &count))
        return false;
    memcpy(stub, finding->bytes.data + place, layout->record_size);
    /* It may lead somewhere even if there is no bitmap. */
    if (layout->bitmap_ptr != 0)
        memset(stub + layout->bitmap_ptr, 0, layout->pointer_size);
    distance = (uint64_t)(int64_t)(int32_t)load_u32(stub + layout->counter_ptr, false);
    return profile_record_is_bare(layout, stub, false) &&
           is_marker(finding, place - layout->record_size) &&
           covers_all(finding->counters, finding->host->address + place + distance, count);
}

bool coff_find_stub(const struct coff_state *state, struct bytes *stub)
{
    size_t data = state->base.section_index[SECTION_DATA];
    size_t counters = state->base.section_index[SECTION_COUNTERS];
    struct finding finding = {.image = &state->image};

    if (data == NO_INDEX || counters == NO_INDEX)
        return false;
    finding.host = &state->image.sections[data];
    finding.counters = &state->image.sections[counters];
    finding.bytes = coff_section_bytes(&state->image, data);
    for (uint64_t version = PROFILE_VERSION_MIN - 1; next_layout(&finding, &version);) {
        uint64_t size = finding.layout.record_size;

        if (is_stub(&finding, size) && bytes_slice(finding.bytes, size, size, stub) &&
            bytes_zero_at(finding.bytes, 2 * size, finding.bytes.size - 2 * size))
            return true;
    }
    return false;
}

/* The bitmap of a stub has the runtime's markers around it. */
static void add_stub(struct coff_state *state, const struct finding *finding, uint64_t place)
{
    const struct profile_record_layout *layout = &finding->layout;
    const uint8_t *stub = finding->bytes.data + place;
    uint64_t bitmap, size;

    state->data_host = (size_t)(finding->host - state->image.sections);
    add_part(state, finding->host, SECTION_DATA, place - layout->record_size,
             2 * layout->record_size);
    if (layout->bitmap_ptr == 0 || state->base.section_index[SECTION_BITMAP] != NO_INDEX)
        return;
    bitmap = (uint32_t)(place + load_u32(stub + layout->bitmap_ptr, false));
    size = load_u32(stub + layout->num_bitmap_bytes, false);
    if (size != 0 && bitmap != 0 && range_within(bitmap - 1, size + 2, 0, finding->bytes.size))
        add_part(state, finding->host, SECTION_BITMAP, bitmap - 1, size + 2);
}

void coff_merged_find_stub(struct planning *planning)
{
    struct coff_state *state = coff_state_of(planning);
    struct finding finding;

    if (state->base.section_index[SECTION_DATA] != NO_INDEX || !start_finding(state, &finding))
        return;
    for (uint64_t version = PROFILE_VERSION_MIN - 1;
         state->data_host == NO_INDEX && next_layout(&finding, &version);) {
        uint64_t i = 0;

        while (i + finding.layout.record_size <= finding.bytes.size && !is_stub(&finding, i))
            i += WORD_SIZE;
        if (i + finding.layout.record_size <= finding.bytes.size)
            add_stub(state, &finding, i);
    }
    input_release_pages(state->image.input, finding.host->PointerToRawData, finding.bytes.size);
}

bool coff_merged_is_nameless(const struct coff_state *state, struct bytes record, bool *nameless,
                             struct error *error)
{
    struct names names;

    if (!read_names(state, &names, error))
        return false;
    *nameless = names.count != 0 && names_find(&names, load_u64(record.data, false)) == NULL;
    names_free(&names);
    return true;
}
