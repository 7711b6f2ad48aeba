/*
 * Takes the bytes of removed sections out of a COFF image, and writes its headers and tables.
 *
 * In memory nothing moves: a section keeps its VirtualSize, and the loader fills with zeros what is
 * not in the file. From the file a removed section is cut in units of FileAlignment, so that
 * everything behind it stays aligned; what the stub record and the tripwires need stays. The same
 * is done with data at the end of another section, and with the zeros at the end of the sections
 * that the program counts in.
 *
 * The mapping's tripwire takes such a unit of its own. Leaving out the section's header, or
 * changing its name, would cost nothing, but then llvm-cov would take the image for one that never
 * had a mapping, and silently leave it out of a report on several images. A section without bytes
 * in the file makes all versions of llvm-cov crash.
 */
#include "formats/coff/coff.h"

#include <string.h>

#include "common/edit/edit.h"

/* ---- what else uses the bytes of a section ---- */

/* True if the image exports something in the section, or the exports cannot be read. */
static bool is_exported(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_EXPORT];
    struct bytes header, addresses;
    uint32_t count;

    if (directory->size == 0)
        return false;
    if (!coff_bytes_at(image, image->image_base + directory->rva, 40, &header))
        return true;
    count = load_u32(header.data + 20, false);
    if (count != 0 && !coff_bytes_at(image, image->image_base + load_u32(header.data + 28, false),
                                     (uint64_t)count * 4, &addresses))
        return true;
    for (uint32_t i = 0; i < count; i++) {
        if (load_u32(addresses.data + i * (size_t)4, false) - section->VirtualAddress <
            section->VirtualSize)
            return true;
    }
    return false;
}

/* True if other parts of the image use the section's bytes in the file: symbols and their names, a
 * directory, or what the debug directory describes, which may be in any section, or outside all. */
static bool is_claimed(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *certificates = &image->directories[DIRECTORY_CERTIFICATE];
    uint64_t offset = section->PointerToRawData, size = section->SizeOfRawData;
    struct bytes entries;

    if (image->symbols_offset != 0 &&
        ranges_overlap(offset, size, image->symbols_offset,
                       (uint64_t)image->symbol_count * COFF_SYMBOL_SIZE + image->strings.size))
        return true;
    for (size_t i = 0; i < DIRECTORY_COUNT; i++) {
        if (i != DIRECTORY_CERTIFICATE &&
            ranges_overlap(image->directories[i].rva, image->directories[i].size,
                           section->VirtualAddress, section->VirtualSize))
            return true;
    }
    if (ranges_overlap(certificates->rva, certificates->size, offset, size) ||
        !coff_directory_bytes(image, DIRECTORY_DEBUG, &entries))
        return true;
    for (uint64_t i = 0; i + COFF_DEBUG_ENTRY_SIZE <= entries.size; i += COFF_DEBUG_ENTRY_SIZE) {
        const uint8_t *entry = entries.data + i;

        if (ranges_overlap(load_u32(entry + DEBUG_POINTER_TO_RAW_DATA, false),
                           load_u32(entry + DEBUG_SIZE_OF_DATA, false), offset, size))
            return true;
    }
    return false;
}

static bool has_relocations(const struct coff_section *section)
{
    return section->PointerToRelocations != 0 || section->PointerToLinenumbers != 0;
}

bool coff_check_claims(struct coff_state *state, enum section_kind kind)
{
    const struct coff_section *section = &state->image.sections[state->base.section_index[kind]];
    const char *why = section->VirtualSize == 0
                          ? "its size in memory is given only by its size in the file"
                      : is_claimed(&state->image, section) ? "it overlaps another part of the image"
                      : is_exported(&state->image, section) ? "the image exports something in it"
                      : has_relocations(section) ? "it has relocations or line numbers of its own"
                                                 : NULL;

    return why == NULL || image_plan_keep(state->base.plan, kind, "%s", why);
}

/* ---- cutting sections ---- */

/* Leaves what is before `section`, `rest`, and zeros up to the next unit of `header`, the section
 * of the file that it is, or is a part of. */
static void cut_behind(struct coff_state *state, const struct section *section, struct bytes rest,
                       struct coff_section *header)
{
    uint64_t start = header->PointerToRawData;
    uint64_t kept = align_up(section->offset + rest.size - start, state->image.file_alignment);

    header->kept_size = kept < header->SizeOfRawData ? (uint32_t)kept : header->SizeOfRawData;
    planning_empty(&state->base, section, rest, start + header->kept_size,
                   start + header->SizeOfRawData);
}

/* True if data that is merged into `host` is followed there only by zeros, which the loader
 * supplies anyway, and nothing else in the image uses those bytes. If the bitmap were among them,
 * it would still be zeros in memory, but be found no more in the stripped image (add_stub in
 * merged.c). */
static bool nothing_follows(const struct coff_state *state, const struct section *data,
                            const struct coff_section *host)
{
    const struct section *bitmap = image_plan_section(state->base.plan, SECTION_BITMAP);
    uint64_t end = data->offset + data->size;
    uint32_t before = (uint32_t)(end - host->PointerToRawData);
    struct coff_section behind = {
        .VirtualAddress = host->VirtualAddress + before,
        .VirtualSize = host->VirtualSize - before,
        .PointerToRawData = (uint32_t)end,
        .SizeOfRawData = host->SizeOfRawData - before,
    };

    if (bitmap != NULL && bitmap->size != 0 && bitmap->offset > data->offset &&
        bitmap->offset - host->PointerToRawData < host->SizeOfRawData)
        return false;
    return bytes_zero_at(state->image.file, end, behind.SizeOfRawData) &&
           !is_claimed(&state->image, &behind);
}

static void take_out(struct coff_state *state, struct section *section)
{
    bool is_merged = section->kind == SECTION_DATA && state->data_host != NO_INDEX;
    struct coff_section *header =
        &state->image
             .sections[is_merged ? state->data_host : state->base.section_index[section->kind]];
    struct bytes rest = planning_remnant(&state->base, section->kind, section->size);
    uint64_t end = section->offset + section->size;

    if (is_merged && !nothing_follows(state, section, header)) {
        section->fate = FATE_ZEROED;
        image_plan_explain(state->base.plan, section,
                           "the linker merged it into %s, where other data follows", header->name);
        planning_empty(&state->base, section, rest, end, end);
    } else if (rest.size != 0) {
        cut_behind(state, section, rest, header);
    } else {
        header->kept_size = 0;
        edit_cut(&state->base.plan->edits, header->PointerToRawData, header->SizeOfRawData);
    }
}

/* Counters, bitmap and value nodes lose the zeros at their ends if nothing else uses these bytes.
 */
static void cut_zeros(struct coff_state *state)
{
    static const char *const names[] = {".lprfc", ".lprfb", ".lprfnd"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        size_t index = coff_section_find(&state->image, names[i], NO_INDEX);
        struct coff_section *section = index == NO_INDEX ? NULL : &state->image.sections[index];
        uint64_t used;
        struct bytes bytes;

        if (section == NULL || section->VirtualSize == 0 || has_relocations(section) ||
            is_claimed(&state->image, section) ||
            !bytes_slice(state->image.file, section->PointerToRawData, section->SizeOfRawData,
                         &bytes))
            continue;
        for (used = bytes.size; used > 0 && bytes.data[used - 1] == 0; used--)
            continue;
        section->kept_size = (uint32_t)align_up(used, state->image.file_alignment);
        edit_cut(&state->base.plan->edits, section->PointerToRawData + section->kept_size,
                 section->SizeOfRawData - section->kept_size);
        state->base.plan->zeros_size += section->SizeOfRawData - section->kept_size;
    }
}

/* ---- what depends on the sections ---- */

static bool drop_certificates(struct coff_state *state, struct error *error)
{
    const struct coff_image *image = &state->image;
    const struct coff_directory *directory = &image->directories[DIRECTORY_CERTIFICATE];

    if (directory->size == 0)
        return true;
    if (!state->base.options->drop_signature)
        return error_set(error,
                         "%s: the image is signed, and a split makes the signature invalid; split "
                         "it before it is signed, or give --drop-signature and sign the stripped "
                         "image",
                         image->path);
    state->drops_certificates = true;
    if (!range_within(directory->rva, directory->size, image->size_of_headers,
                      image->file.size - image->size_of_headers))
        return error_set(error,
                         "%s: damaged COFF image: its signature is not inside the file; link it "
                         "again",
                         image->path);
    edit_cut(&state->base.plan->edits, directory->rva, directory->size);
    return true;
}

/* True for a section of the table that goes, or of which only stub or tripwire stays. */
static bool is_removed(const struct coff_state *state, size_t index)
{
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];

        if (section_goes(section) && state->base.section_index[section->kind] == index)
            return true;
    }
    return false;
}

/* Sections at the end of the table that have no bytes in the file need not even keep their
 * addresses, unless symbols refer to their numbers. One removed section stays in the table, so that
 * the image is recognized as split. */
static size_t count_dropped(const struct coff_state *state)
{
    const struct coff_image *image = &state->image;
    size_t dropped = 0, removed = 0;

    for (size_t i = 0; i < image->section_count; i++)
        removed += is_removed(state, i);
    while (image->symbols_offset == 0 && dropped + 1 < removed) {
        size_t last = image->section_count - 1 - dropped;

        if (!is_removed(state, last) || last == state->base.section_index[SECTION_DATA] ||
            image->sections[last].kept_size != 0)
            break;
        dropped++;
    }
    return dropped;
}

static bool remove_relocations(struct coff_state *state, struct error *error)
{
    const struct image_plan *plan = state->base.plan;
    struct coff_range ranges[SECTION_KIND_MAX];
    const char *reason = NULL;
    size_t count = 0;

    state->base_relocation_size = state->image.directories[DIRECTORY_BASE_RELOCATION].size;
    if ((state->image.characteristics & IMAGE_FILE_RELOCS_STRIPPED) != 0)
        return true;
    for (size_t i = 0; i < plan->section_count; i++) {
        const struct coff_section *header;

        if (!section_goes(&plan->sections[i]))
            continue;
        header = &state->image.sections[state->base.section_index[plan->sections[i].kind]];
        ranges[count++] = (struct coff_range){header->address, header->VirtualSize};
    }
    if (coff_relocations_remove(&state->image, ranges, count, &state->base.plan->edits,
                                &state->base_relocation_size, &reason))
        return true;
    return reason == NULL
               ? error_out_of_memory(error, state->image.path, state->base_relocation_size)
               : error_set(error, "%s: %s; link it again", state->image.path, reason);
}

bool coff_layout(struct planning *planning, struct error *error)
{
    struct coff_state *state = coff_state_of(planning);
    struct image_plan *plan = planning->plan;

    if (!drop_certificates(state, error))
        return false;
    for (size_t i = 0; i < plan->section_count; i++) {
        if (section_goes(&plan->sections[i]))
            take_out(state, &plan->sections[i]);
    }
    if ((planning->options->sections & SECTION_ZEROS) != 0)
        cut_zeros(state);
    state->dropped_sections = count_dropped(state);
    return remove_relocations(state, error);
}

/* ---- headers and tables ---- */

/* Every field that is an offset in the file, or a sum of sizes, is updated; the rest stays as the
 * linker wrote it. */

/* A modified copy of the headers, or of the debug directory, addressed by offsets in it. */
static void set_u32(struct buffer *copy, uint64_t offset, uint32_t value)
{
    store_u32(copy->data + offset, value, false);
}

/* An offset of the original that is not 0 becomes that in the stripped image. */
static void move_offset(const struct coff_state *state, struct buffer *copy, uint64_t field)
{
    uint32_t offset = load_u32(copy->data + field, false);

    if (offset != 0)
        set_u32(copy, field, (uint32_t)edit_script_map(&state->base.plan->edits, offset));
}

/* Adds the bytes of data that the file loses. */
static void change_section(struct coff_state *state, struct buffer *headers, size_t index,
                           uint64_t *less_data)
{
    const struct coff_section *section = &state->image.sections[index];
    bool removed = is_removed(state, index);
    bool is_emptied = section->kept_size == 0 && (section->SizeOfRawData != 0 || removed);
    uint64_t header = section->header_offset;

    if ((section->Characteristics & IMAGE_SCN_CNT_INITIALIZED_DATA) != 0)
        *less_data += section->SizeOfRawData - section->kept_size;
    if (index >= state->image.section_count - state->dropped_sections) {
        memset(headers->data + header, 0, COFF_SECTION_HEADER_SIZE);
        return;
    }
    set_u32(headers, header + COFF_SECTION_SIZE_OF_RAW_DATA, section->kept_size);
    /* GNU strip leaves out empty sections, but not those of uninitialized data. */
    if (is_emptied && !removed)
        set_u32(headers, header + COFF_SECTION_CHARACTERISTICS,
                (section->Characteristics & ~IMAGE_SCN_CNT_INITIALIZED_DATA) |
                    IMAGE_SCN_CNT_UNINITIALIZED_DATA);
    if (is_emptied)
        set_u32(headers, header + COFF_SECTION_POINTER_TO_RAW_DATA, 0);
    move_offset(state, headers, header + COFF_SECTION_POINTER_TO_RAW_DATA);
    move_offset(state, headers, header + COFF_SECTION_POINTER_TO_RELOCATIONS);
    move_offset(state, headers, header + COFF_SECTION_POINTER_TO_LINENUMBERS);
}

static void change_headers(struct coff_state *state, struct buffer *headers)
{
    const struct coff_image *image = &state->image;
    uint64_t data_size = image->optional_header + OPTIONAL_SIZE_OF_INITIALIZED_DATA;
    uint32_t old_size = load_u32(headers->data + data_size, false);
    size_t left = image->section_count - state->dropped_sections;
    const struct coff_section *last = &image->sections[left == 0 ? 0 : left - 1];
    uint64_t less_data = 0;

    move_offset(state, headers, image->coff_header + HEADER_POINTER_TO_SYMBOL_TABLE);
    for (size_t i = 0; i < image->section_count; i++)
        change_section(state, headers, i, &less_data);
    if (less_data <= old_size)
        set_u32(headers, data_size, old_size - (uint32_t)less_data);
    if (state->dropped_sections != 0 && left != 0) {
        uint64_t size = last->VirtualSize != 0 ? last->VirtualSize : last->SizeOfRawData;

        store_u16(headers->data + image->coff_header + HEADER_NUMBER_OF_SECTIONS, (uint16_t)left,
                  false);
        set_u32(headers, image->optional_header + OPTIONAL_SIZE_OF_IMAGE,
                (uint32_t)align_up(last->VirtualAddress + size, image->section_alignment));
    }
    if (image->directories[DIRECTORY_BASE_RELOCATION].size != state->base_relocation_size)
        set_u32(headers, image->directories_offset + DIRECTORY_BASE_RELOCATION * 8 + 4,
                state->base_relocation_size);
    if (state->drops_certificates)
        memset(headers->data + image->directories_offset + DIRECTORY_CERTIFICATE * 8, 0, 8);
}

/* Adds the edits of the headers. The checksum is an edit of its own, which is filled in last. */
static bool add_edits(struct coff_state *state, struct bytes headers, struct bytes debug,
                      uint64_t debug_offset)
{
    struct edit_script *edits = &state->base.plan->edits;
    struct bytes file = state->image.file;
    uint64_t check_sum = state->image.optional_header + OPTIONAL_CHECK_SUM, behind = check_sum + 4;
    static const uint8_t zeros[4];

    state->check_sum_literal = SIZE_MAX;
    if (!edit_overwrite_differences(edits, file, 0, (struct bytes){headers.data, check_sum}) ||
        !edit_overwrite_differences(edits, file, behind,
                                    (struct bytes){headers.data + behind, headers.size - behind}) ||
        !edit_overwrite_differences(edits, file, debug_offset, debug))
        return false;
    if (state->image.check_sum == 0)
        return true;
    state->check_sum_literal = edits->literals.size;
    return edit_replace(edits, check_sum, sizeof(zeros), (struct bytes){zeros, sizeof(zeros)});
}

bool coff_write(struct planning *planning, struct error *error)
{
    struct coff_state *state = coff_state_of(planning);
    const struct coff_image *image = &state->image;
    const struct coff_section *last = &image->sections[image->section_count - 1];
    uint64_t size = last->header_offset + COFF_SECTION_HEADER_SIZE;
    struct buffer headers = {0}, debug = {0};
    struct bytes entries;
    bool done;

    if (size > image->size_of_headers)
        return error_set(error, "%s: damaged COFF image: SizeOfHeaders is wrong; link it again",
                         image->path);
    coff_directory_bytes(image, DIRECTORY_DEBUG, &entries);
    done = buffer_append(&headers, image->file.data, (size_t)size) &&
           buffer_append(&debug, entries.data, (size_t)entries.size);
    if (done) {
        change_headers(state, &headers);
        for (uint64_t i = 0; i + COFF_DEBUG_ENTRY_SIZE <= debug.size; i += COFF_DEBUG_ENTRY_SIZE)
            move_offset(state, &debug, i + DEBUG_POINTER_TO_RAW_DATA);
        done = add_edits(state, buffer_view(&headers), buffer_view(&debug),
                         (uint64_t)(entries.data - image->file.data));
    }
    buffer_free(&headers);
    buffer_free(&debug);
    return done || error_out_of_memory(error, image->path, size);
}

/* ---- the checksum ---- */

/* The checksum in the optional header: the sum of all 16-bit words, with carries added back, plus
 * the size of the file. Drivers and some system libraries must have a correct one. */
struct summing {
    uint64_t words;
    uint64_t position;
};

static bool add_words(void *context, struct bytes part, struct error *error)
{
    struct summing *sum = context;
    uint64_t i = 0;

    (void)error;
    if (sum->position % 2 != 0 && part.size != 0)
        sum->words += (uint64_t)part.data[i++] << 8;
    for (; i + 2 <= part.size; i += 2)
        sum->words += load_u16(part.data + i, false);
    if (i < part.size)
        sum->words += part.data[i];
    sum->position += part.size;
    return true;
}

bool coff_seal(struct planning *planning, struct error *error)
{
    struct coff_state *state = coff_state_of(planning);
    struct edit_script *edits = &planning->plan->edits;
    struct summing sum = {0};

    if (state->check_sum_literal == SIZE_MAX)
        return true;
    /* The checksum's own bytes are zero meanwhile. */
    if (!edit_script_stream(edits, planning->input, add_words, &sum, error))
        return false;
    while (sum.words >> 16 != 0)
        sum.words = (sum.words & 0xffff) + (sum.words >> 16);
    store_u32(edits->literals.data + state->check_sum_literal, (uint32_t)(sum.words + sum.position),
              false);
    return true;
}
