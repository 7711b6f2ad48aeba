/*
 * The symbol index of an archive: see archive_index.h.
 *
 * All forms are a table with an entry for each symbol, and the names of the symbols, each with a
 * NUL. They differ in what an entry is:
 *
 *   GNU        the offset of the member's header, big-endian
 *   BSD        the offset of the name among the names, and the offset of the header
 *
 * Without BSD's offsets, names are in the order of the entries.
 */
#include "formats/object/archive_index.h"

#include <string.h>

#include "common/base/array.h"
#include "common/base/numbers.h"

/* ---- reading ---- */

struct walk {
    const struct archive *archive;
    enum archive_role role;
    unsigned width; /* bytes of the numbers: counts, sizes and offsets */
    bool big_endian;
    struct bytes entries; /* those not visited yet */
    struct bytes names;
    struct bytes names_left; /* those not visited yet; of BSD: only the size, see take_name */
    bool names_have_padding; /* BSD: the padding belongs to the names */
};

struct entry {
    struct bytes name; /* with its NUL */
    size_t member;     /* index in archive->members */
};

static bool is_bsd(enum archive_role role)
{
    return role == ARCHIVE_INDEX_BSD || role == ARCHIVE_INDEX_BSD64;
}

static size_t entry_size(const struct walk *walk)
{
    return is_bsd(walk->role) ? 2 * walk->width : walk->width;
}

/* Takes a number, and a table of so many items off the front of *rest. */
static bool take_table(const struct walk *walk, struct bytes *rest, size_t item_size,
                       struct bytes *table)
{
    const uint8_t *number = take_bytes(rest, walk->width);
    uint64_t count;

    if (number == NULL)
        return false;
    count = load_number(number, walk->width, walk->big_endian);
    if (count > rest->size / item_size)
        return false;
    *table = (struct bytes){rest->data, count * item_size};
    return bytes_slice(*rest, table->size, rest->size - table->size, rest);
}

/* BSD: the table and the names are preceded by their sizes in bytes. */
static bool start_bsd(struct walk *walk, struct bytes rest)
{
    if (!take_table(walk, &rest, 1, &walk->entries) || walk->entries.size % entry_size(walk) != 0 ||
        !take_table(walk, &rest, 1, &walk->names))
        return false;
    walk->names_have_padding = rest.size == 0;
    walk->names_left = walk->names;
    return true;
}

static bool start_walk(struct walk *walk, const struct archive *archive,
                       const struct archive_member *index)
{
    bool is_wide = index->role == ARCHIVE_INDEX_GNU64 || index->role == ARCHIVE_INDEX_BSD64;
    struct bytes rest = index->contents;
    bool done;

    *walk = (struct walk){.archive = archive,
                          .role = index->role,
                          .width = is_wide ? sizeof(uint64_t) : sizeof(uint32_t),
                          .big_endian = !is_bsd(index->role)};
    if (is_bsd(index->role)) {
        done = start_bsd(walk, rest);
        walk->big_endian = !done; /* BSD: in the byte order of the machine */
        return done || start_bsd(walk, rest);
    }
    done = take_table(walk, &rest, entry_size(walk), &walk->entries);
    walk->names = rest;
    walk->names_left = walk->names;
    return done;
}

/* Names of BSD could overlap; together they must not be larger than all of them are, so that the
 * new index is not larger than the old one. */
static bool take_name(struct walk *walk, const uint8_t *entry, struct bytes *name)
{
    struct bytes from = walk->names_left;
    const uint8_t *end;

    if (is_bsd(walk->role)) {
        uint64_t place = load_number(entry, walk->width, walk->big_endian);
        if (place > walk->names.size)
            return false;
        bytes_slice(walk->names, place, walk->names.size - place, &from);
    }
    end = from.size == 0 ? NULL : memchr(from.data, '\0', (size_t)from.size);
    if (end == NULL)
        return false;
    *name = (struct bytes){from.data, (uint64_t)(end - from.data) + 1};
    return take_bytes(&walk->names_left, name->size) != NULL;
}

static bool find_member(const struct archive *archive, uint64_t offset, size_t *member)
{
    size_t up_to =
        array_count_up_to(archive->members, archive->count, sizeof(*archive->members), offset);

    *member = up_to - 1;
    return up_to != 0 && archive->members[*member].offset == offset &&
           archive->members[*member].role == ARCHIVE_FILE;
}

/* Takes the next entry; there must be one. */
static bool take_entry(struct walk *walk, struct entry *entry)
{
    const uint8_t *taken = take_bytes(&walk->entries, entry_size(walk));
    uint64_t offset;

    /* The offset of the header of the member that the entry is of. */
    offset =
        load_number(taken + (is_bsd(walk->role) ? walk->width : 0), walk->width, walk->big_endian);
    return take_name(walk, taken, &entry->name) &&
           find_member(walk->archive, offset, &entry->member);
}

/* ---- which symbols go ---- */

/* The symbol of a coverage record, "__covrec_" with the NameRef in hexadecimal, and for used
 * functions a "u". Some machines put another '_' before all names. The name ends in a NUL. */
static bool is_of_record(struct bytes name)
{
    static const char digits[] = "0123456789ABCDEF", start[] = "__covrec_";
    const char *text = (const char *)name.data;
    size_t count;

    text += text[0] == '_' && strncmp(text + 1, start, strlen(start)) == 0;
    if (strncmp(text, start, strlen(start)) != 0)
        return false;
    text += strlen(start);
    count = strspn(text, digits);
    text += count;
    return count != 0 && strcmp(text, text[0] == 'u' ? "u" : "") == 0;
}

static bool entry_goes(const struct archive *archive, const struct entry *entry)
{
    return archive->members[entry->member].has_no_records && is_of_record(entry->name);
}

static bool fail_damaged(const struct archive *archive, struct error *error)
{
    return error_set(error, "%s: the archive's symbol index is damaged; run 'ranlib' on it first",
                     archive->path);
}

bool archive_index_check(const struct archive *archive, const struct archive_member *index,
                         bool *goes, struct error *error)
{
    struct walk walk;
    struct entry entry = {0};

    *goes = false;
    if (!start_walk(&walk, archive, index))
        return fail_damaged(archive, error);
    while (walk.entries.size != 0) {
        if (!take_entry(&walk, &entry))
            return fail_damaged(archive, error);
        *goes = *goes || entry_goes(archive, &entry);
    }
    return true;
}

/* ---- writing ---- */

static bool append_number(const struct walk *walk, struct buffer *to, uint64_t number)
{
    uint8_t bytes[sizeof(uint64_t)];

    store_number(bytes, number, walk->width, walk->big_endian);
    return buffer_append(to, bytes, walk->width);
}

static bool append_entry(const struct walk *walk, const struct entry *entry, struct buffer *entries,
                         struct buffer *names)
{
    return (!is_bsd(walk->role) || append_number(walk, entries, names->size)) &&
           append_number(walk, entries, walk->archive->members[entry->member].new_offset) &&
           buffer_append(names, entry->name.data, (size_t)entry->name.size);
}

static bool append_entries(struct walk *walk, struct buffer *entries, struct buffer *names)
{
    struct entry entry = {0};

    while (walk->entries.size != 0) {
        if (take_entry(walk, &entry) && !entry_goes(walk->archive, &entry) &&
            !append_entry(walk, &entry, entries, names))
            return false;
    }
    return true;
}

/* Writers pad the index with NULs to an even size or to a multiple of 8, or not at all; ours gets
 * what the old one has. */
static uint64_t padding_for(const struct archive_member *index, uint64_t size)
{
    bool may_be_8 = index->role != ARCHIVE_INDEX_GNU;
    uint64_t alignment = index->contents.size % 2 != 0               ? 1
                         : may_be_8 && index->contents.size % 8 == 0 ? 8
                                                                     : 2;

    return align_up(size, alignment) - size;
}

static bool append_parts(const struct walk *walk, const struct archive_member *index,
                         const struct buffer *entries, const struct buffer *names,
                         struct buffer *contents)
{
    bool sizes = is_bsd(walk->role);
    uint64_t padding;

    if (!append_number(walk, contents, sizes ? entries->size : entries->size / entry_size(walk)) ||
        !buffer_append(contents, entries->data, entries->size))
        return false;
    padding = padding_for(index, contents->size + (sizes ? walk->width : 0) + names->size);
    return (!sizes || append_number(walk, contents,
                                    names->size + (walk->names_have_padding ? padding : 0))) &&
           buffer_append(contents, names->data, names->size) &&
           buffer_append_zeros(contents, (size_t)padding);
}

bool archive_index_make(const struct archive *archive, const struct archive_member *index,
                        struct buffer *contents, struct error *error)
{
    struct buffer entries = {0}, names = {0};
    struct walk walk;
    bool done = start_walk(&walk, archive, index) && append_entries(&walk, &entries, &names) &&
                append_parts(&walk, index, &entries, &names, contents);

    buffer_free(&entries);
    buffer_free(&names);
    return done || error_out_of_memory(error, archive->path, index->contents.size);
}
