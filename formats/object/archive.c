/*
 * Reading and writing archives: see packing.h.
 *
 * The symbol index is the number of symbols, for each the offset of its member's header, and their
 * names in the same order, each with a NUL. All numbers are big-endian.
 */
#include "formats/object/packing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"

#define MAGIC_SIZE 8

/* The fields of a header: name, date, owner, group, mode, size, and two characters. */
#define HEADER_SIZE       60
#define NAME_FIELD_SIZE   16
#define SIZE_FIELD_OFFSET 48
#define SIZE_FIELD_SIZE   10
#define END_OFFSET        58
#define END_TEXT          "`\n"
#define SIZE_MAX_DIGITS   UINT64_C(9999999999)

/* Of archives of BSD and Darwin form. */
#define BSD_NAME_PREFIX  "#1/"
#define BSD_INDEX_PREFIX "__.SYMDEF"

static const char magic_plain[] = "!<arch>\n", magic_thin[] = "!<thin>\n";

bool archive_recognize(struct bytes bytes)
{
    return bytes_start_with(bytes, magic_plain) || bytes_start_with(bytes, magic_thin);
}

/* ---- members ---- */

/* A field of text, without the blanks after it. */
static struct bytes field_text(const uint8_t *field, size_t size)
{
    while (size != 0 && field[size - 1] == ' ')
        size--;
    return (struct bytes){field, size};
}

/* A decimal number that is the whole text. */
static bool read_number(struct bytes text, uint64_t *number)
{
    *number = 0;
    for (uint64_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        *number = *number * 10 + (text.data[i] - '0'); /* at most 15 digits */
    }
    return text.size != 0;
}

static bool text_is(struct bytes text, const char *string)
{
    return text.size == strlen(string) && bytes_start_with(text, string);
}

static struct bytes without_front(struct bytes text, uint64_t size)
{
    return (struct bytes){text.data + size, text.size - size};
}

/* Up to the first `end`, or all of it. */
static struct bytes up_to(struct bytes text, char end)
{
    const uint8_t *found = text.size == 0 ? NULL : memchr(text.data, end, (size_t)text.size);

    return (struct bytes){text.data, found == NULL ? text.size : (uint64_t)(found - text.data)};
}

static struct bytes without_slash(struct bytes name)
{
    name.size -= name.size != 0 && name.data[name.size - 1] == '/';
    return name;
}

/* Reads the name in the field, and finds the role that it tells. */
static bool read_name(const struct archive *archive, struct archive_member *member,
                      struct bytes field)
{
    bool is_special = field.size != 0 && field.data[0] == '/';
    struct bytes digits;
    uint64_t number;

    member->name = field;
    if (is_special && field.size > 1 && field.data[1] >= '0' && field.data[1] <= '9') {
        /* "/PLACE": a name in the member "//", where it ends in "/\n". In a thin archive,
         * "/PLACE:OFFSET" is a member of the archive of that name. */
        digits = up_to(without_front(field, 1), ':');
        if (!read_number(digits, &number) || number >= archive->names.size)
            return false;
        member->is_nested = archive->is_thin && digits.size + 1 != field.size;
        member->name = without_slash(up_to(without_front(archive->names, number), '\n'));
    } else if (is_special) {
        member->role = text_is(field, "//")        ? ARCHIVE_NAMES
                       : archive->count != 0       ? ARCHIVE_UNKNOWN
                       : text_is(field, "/SYM64/") ? ARCHIVE_INDEX_64
                       : text_is(field, "/")       ? ARCHIVE_INDEX
                                                   : ARCHIVE_UNKNOWN;
    } else if (bytes_start_with(field, BSD_NAME_PREFIX) ||
               bytes_start_with(field, BSD_INDEX_PREFIX)) {
        /* "#1/SIZE": the name is the first bytes of the member, padded with NULs. */
        member->role = ARCHIVE_UNKNOWN;
        if (bytes_start_with(field, BSD_NAME_PREFIX) &&
            read_number(without_front(field, strlen(BSD_NAME_PREFIX)), &number) &&
            number <= member->contents.size)
            member->contents = without_front(member->contents, number);
    } else {
        member->name = without_slash(field);
    }
    return true;
}

/* Reads the member at the offset; *end is where it ends. */
static bool read_member(const struct archive *archive, uint64_t offset,
                        struct archive_member *member, uint64_t *end)
{
    struct bytes header, field;

    *member = (struct archive_member){.offset = offset, .role = ARCHIVE_FILE};
    if (!bytes_slice(archive->bytes, offset, HEADER_SIZE, &header) ||
        memcmp(header.data + END_OFFSET, END_TEXT, strlen(END_TEXT)) != 0 ||
        !read_number(field_text(header.data + SIZE_FIELD_OFFSET, SIZE_FIELD_SIZE), &member->size))
        return false;
    field = field_text(header.data, NAME_FIELD_SIZE);
    /* Of a thin archive only the special members have contents. */
    member->has_contents =
        !archive->is_thin || (field.size != 0 && field.data[0] == '/' &&
                              (field.size == 1 || field.data[1] < '0' || field.data[1] > '9'));
    *end = offset + HEADER_SIZE;
    if (member->has_contents) {
        if (!bytes_slice(archive->bytes, *end, member->size, &member->contents))
            return false;
        *end += member->size;
    }
    return read_name(archive, member, field);
}

static bool fail_at(const struct archive *archive, uint64_t offset, struct error *error)
{
    return error_set(error,
                     "%s: the archive is damaged: no member at offset %" PRIu64 "; make it again",
                     archive->path, offset);
}

/* ---- the symbol index ---- */

static bool is_index(const struct archive_member *member)
{
    return member->role == ARCHIVE_INDEX || member->role == ARCHIVE_INDEX_64;
}

/* True for the symbol of a coverage record, "__covrec_" with the NameRef in hexadecimal, and for
 * used functions a "u". Some machines put another '_' before all names. The name ends in a NUL. */
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

static void append_number(struct buffer *to, uint64_t number, unsigned width)
{
    uint8_t bytes[sizeof(uint64_t)];

    store_number(bytes, number, width, true);
    buffer_append(to, bytes, width);
}

/* Appends the entries and the names that stay, unless `entries` is NULL, with the new offsets of
 * members. *goes is set if one does not stay. False if the index is damaged, or names a member that
 * does not exist. */
static bool copy_symbols(const struct archive *archive, const struct archive_member *index,
                         bool *goes, struct buffer *entries, struct buffer *names)
{
    bool wide = index->role == ARCHIVE_INDEX_64;
    unsigned width = wide ? sizeof(uint64_t) : sizeof(uint32_t);
    struct cursor at = cursor_open(index->contents, true, wide), names_left;
    uint64_t count = cursor_word(&at);

    if (at.bad || count > cursor_left(&at) / width)
        return false;
    names_left = at;
    cursor_skip(&names_left, count * width);
    for (; count != 0; count--) {
        uint64_t offset = cursor_word(&at);
        size_t number =
            array_count_up_to(archive->members, archive->count, sizeof(*archive->members), offset);
        const struct archive_member *member = number == 0 ? NULL : &archive->members[number - 1];
        struct bytes name = {names_left.at, cursor_left(&names_left)};
        uint64_t length = up_to(name, '\0').size;

        if (length == name.size || member == NULL || member->offset != offset ||
            member->role != ARCHIVE_FILE)
            return false;
        name.size = length + 1;
        cursor_skip(&names_left, name.size);
        if (member->has_no_records && is_of_record(name)) {
            *goes = true;
        } else if (entries != NULL) {
            append_number(entries, member->new_offset, width);
            buffer_append(names, name.data, (size_t)name.size);
        }
    }
    return true;
}

/* Makes an index anew, with the new offsets of the members, in place of what is in `contents`. Its
 * size does not depend on the offsets. False if out of memory. */
static bool make_index(const struct archive *archive, const struct archive_member *member,
                       struct buffer *contents)
{
    unsigned width = member->role == ARCHIVE_INDEX_64 ? sizeof(uint64_t) : sizeof(uint32_t);
    struct buffer entries = {0}, names = {0};
    uint64_t alignment;
    bool goes;

    copy_symbols(archive, member, &goes, &entries, &names);
    contents->size = 0;
    append_number(contents, entries.size / width, width);
    buffer_append(contents, entries.data, entries.size);
    buffer_append(contents, names.data, names.size);
    /* Writers pad the index with NULs to an even size or to a multiple of 8, or not at all; ours
     * gets the padding that the old one has. */
    alignment = member->contents.size % 2 != 0                                       ? 1
                : member->role == ARCHIVE_INDEX_64 && member->contents.size % 8 == 0 ? 8
                                                                                     : 2;
    buffer_append_zeros(contents, (size_t)(align_up(contents->size, alignment) - contents->size));
    contents->failed |= entries.failed || names.failed;
    buffer_free(&entries);
    buffer_free(&names);
    return !contents->failed;
}

/* ---- reading ---- */

/* Fails if an index is damaged. */
static bool check_indexes(const struct archive *archive, bool *goes, struct error *error)
{
    *goes = false;
    for (size_t i = 0; i < archive->count; i++) {
        const struct archive_member *member = &archive->members[i];

        if (is_index(member) && !copy_symbols(archive, member, goes, NULL, NULL))
            return error_set(error,
                             "%s: the archive's symbol index is damaged; run 'ranlib' on it first",
                             archive->path);
    }
    return true;
}

bool archive_read(struct archive *archive, struct bytes bytes, const char *path,
                  struct error *error)
{
    uint64_t offset = MAGIC_SIZE, end;
    bool goes;

    *archive = (struct archive){.bytes = bytes, .path = path};
    if (!archive_recognize(bytes))
        return fail_at(archive, 0, error);
    archive->is_thin = bytes_start_with(bytes, magic_thin);
    /* Members begin at even offsets; some writers leave out the padding at the very end. */
    for (; offset < bytes.size; offset = align_up(end, 2)) {
        struct archive_member *member;

        if (!ARRAY_ROOM_FOR_ONE(archive->members, archive->capacity, archive->count))
            return error_out_of_memory(error, path, sizeof(*member));
        member = &archive->members[archive->count];
        if (!read_member(archive, offset, member, &end))
            return fail_at(archive, offset, error);
        archive->count++;
        if (member->role == ARCHIVE_NAMES)
            archive->names = member->contents;
    }
    return check_indexes(archive, &goes, error);
}

void archive_free(struct archive *archive)
{
    free(archive->members);
    *archive = (struct archive){0};
}

bool archive_index_changes(const struct archive *archive)
{
    struct error error;
    bool goes;

    return check_indexes(archive, &goes, &error) && goes;
}

/* ---- writing ---- */

static uint64_t new_size_of(const struct archive_member *member)
{
    return member->has_changed && member->has_contents ? member->new_contents.size
           : member->has_changed                       ? member->new_size
                                                       : member->size;
}

/* Sets the new offsets, which must fit the index. */
static bool lay_out(struct archive *archive, struct error *error)
{
    uint64_t offset = MAGIC_SIZE, limit = UINT64_MAX;

    for (size_t i = 0; i < archive->count; i++) {
        if (archive->members[i].role == ARCHIVE_INDEX)
            limit = UINT32_MAX;
    }
    for (size_t i = 0; i < archive->count; i++) {
        struct archive_member *member = &archive->members[i];

        member->new_offset = offset;
        if (offset > limit || new_size_of(member) > SIZE_MAX_DIGITS)
            return error_set(error, "%s: the archive would be too large for its format",
                             archive->path);
        offset += HEADER_SIZE;
        if (member->has_contents)
            offset = align_up(offset + new_size_of(member), 2);
    }
    return true;
}

/* Makes all indexes anew, in `contents`, one for each member. */
static bool make_indexes(struct archive *archive, struct buffer *contents, struct error *error)
{
    for (size_t i = 0; i < archive->count; i++) {
        struct archive_member *member = &archive->members[i];

        if (!is_index(member))
            continue;
        if (!make_index(archive, member, &contents[i]))
            return error_out_of_memory(error, archive->path, member->contents.size);
        member->has_changed = true;
        member->new_contents = buffer_view(&contents[i]);
    }
    return true;
}

static bool write_member(const struct archive *archive, const struct archive_member *member,
                         bytes_sink write, void *context, struct error *error)
{
    static const uint8_t newline[] = {'\n'};
    struct bytes contents = member->has_changed ? member->new_contents : member->contents;
    uint8_t header[HEADER_SIZE];
    char size[SIZE_FIELD_SIZE + 1];

    memcpy(header, archive->bytes.data + member->offset, sizeof(header));
    if (new_size_of(member) != member->size) {
        snprintf(size, sizeof(size), "%-10" PRIu64, new_size_of(member));
        memcpy(header + SIZE_FIELD_OFFSET, size, SIZE_FIELD_SIZE);
    }
    if (!write(context, (struct bytes){header, sizeof(header)}, error))
        return false;
    return !member->has_contents ||
           (write(context, contents, error) &&
            (contents.size % 2 == 0 ||
             write(context, (struct bytes){newline, sizeof(newline)}, error)));
}

bool archive_write(struct archive *archive, bytes_sink write, void *context, struct error *error)
{
    struct buffer *indexes = calloc(archive->count + 1, sizeof(*indexes));
    bool done;

    if (indexes == NULL)
        return error_out_of_memory(error, archive->path, archive->count * sizeof(*indexes));
    /* First for the sizes, then with the offsets that follow from them. */
    done = make_indexes(archive, indexes, error) && lay_out(archive, error) &&
           make_indexes(archive, indexes, error) &&
           write(context, (struct bytes){archive->bytes.data, MAGIC_SIZE}, error);
    for (size_t i = 0; done && i < archive->count; i++)
        done = write_member(archive, &archive->members[i], write, context, error);
    for (size_t i = 0; i < archive->count; i++)
        buffer_free(&indexes[i]);
    free(indexes);
    return done;
}
