/*
 * Notes: see note.h.
 */
#include "common/elf_file/note.h"

#include <string.h>

#define HEADER_SIZE   12 /* n_namesz, n_descsz, n_type */
#define PADDING(size) ((ELF_NOTE_ALIGNMENT - (size) % ELF_NOTE_ALIGNMENT) % ELF_NOTE_ALIGNMENT)

bool elf_note_append(struct buffer *encoded, bool big_endian, const char *owner, uint32_t type,
                     struct bytes description)
{
    size_t owner_size = strlen(owner) + 1;
    uint8_t header[HEADER_SIZE];

    store_u32(header, (uint32_t)owner_size, big_endian);
    store_u32(header + 4, (uint32_t)description.size, big_endian);
    store_u32(header + 8, type, big_endian);
    return buffer_append(encoded, header, sizeof(header)) &&
           buffer_append(encoded, owner, owner_size) &&
           buffer_append_zeros(encoded, PADDING(owner_size)) &&
           buffer_append(encoded, description.data, (size_t)description.size) &&
           buffer_append_zeros(encoded, PADDING(description.size));
}

/* Takes `size` bytes and the padding after them, which may be missing at the end of the last note.
 */
static bool take_padded(struct bytes *rest, uint64_t size, struct bytes *part)
{
    uint64_t padded = size + PADDING(size);

    if (padded > rest->size)
        padded = rest->size;
    return bytes_slice(*rest, 0, size, part) &&
           bytes_slice(*rest, padded, rest->size - padded, rest);
}

bool elf_note_next(const struct elf_note_list *list, size_t *offset, struct elf_note *note)
{
    const struct bytes all = list->bytes;
    struct bytes rest, header;

    if (!bytes_slice(all, *offset, all.size < *offset ? 0 : all.size - *offset, &rest) ||
        !take_padded(&rest, HEADER_SIZE, &header) ||
        !take_padded(&rest, load_u32(header.data, list->big_endian), &note->owner) ||
        !take_padded(&rest, load_u32(header.data + 4, list->big_endian), &note->description))
        return false;
    note->type = load_u32(header.data + 8, list->big_endian);
    note->description_offset = (uint64_t)(note->description.data - all.data);
    *offset = (size_t)(all.size - rest.size);
    return true;
}

bool elf_note_is_of(const struct elf_note *note, const char *owner)
{
    return bytes_equal(note->owner, (struct bytes){(const uint8_t *)owner, strlen(owner) + 1});
}
