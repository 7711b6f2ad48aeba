/*
 * Reading and writing archives: see archive.h.
 */
#include "formats/object/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "formats/object/archive_index.h"

#define MAGIC_SIZE 8

/* The fields of a header: name, date, owner, group, mode, size, and two characters. */
#define NAME_FIELD_SIZE   16
#define SIZE_FIELD_OFFSET 48
#define SIZE_FIELD_SIZE   10
#define END_OFFSET        58
#define END_TEXT          "`\n"
#define SIZE_MAX_DIGITS   UINT64_C(9999999999)

#define BSD_NAME_PREFIX   "#1/"
#define BSD_ALIGNMENT     8

static const char magic_plain[] = "!<arch>\n", magic_thin[] = "!<thin>\n";

bool archive_recognize(struct bytes bytes)
{
    return bytes.size >= MAGIC_SIZE && (memcmp(bytes.data, magic_plain, MAGIC_SIZE) == 0 ||
                                        memcmp(bytes.data, magic_thin, MAGIC_SIZE) == 0);
}

/* ---- headers ---- */

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
    return text.size == strlen(string) && memcmp(text.data, string, strlen(string)) == 0;
}

static bool text_starts(struct bytes text, const char *string)
{
    return text.size >= strlen(string) && memcmp(text.data, string, strlen(string)) == 0;
}

static struct bytes without_front(struct bytes text, size_t size)
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

/* ---- names and roles ---- */

/* The roles of the members whose name begins with a slash and is no number. */
static enum archive_role special_role(const struct archive *archive, struct bytes name)
{
    if (text_is(name, "//"))
        return ARCHIVE_NAMES;
    if (text_is(name, "/SYM64/") && archive->count == 0)
        return ARCHIVE_INDEX_GNU64;
    if (text_is(name, "/") && archive->count == 0)
        return ARCHIVE_INDEX_GNU;
    return ARCHIVE_UNKNOWN;
}

static enum archive_role bsd_role(const struct archive *archive, struct bytes name)
{
    if (archive->count != 0)
        return ARCHIVE_FILE;
    if (text_is(name, "__.SYMDEF") || text_is(name, "__.SYMDEF SORTED"))
        return ARCHIVE_INDEX_BSD;
    return text_is(name, "__.SYMDEF_64") || text_is(name, "__.SYMDEF_64 SORTED")
               ? ARCHIVE_INDEX_BSD64
               : ARCHIVE_FILE;
}

/* "/PLACE": a name in the member "//", where it ends in "/\n" (GNU) or a NUL (COFF). In a thin
 * archive, "/PLACE:OFFSET" is a member of the archive of that name. */
static bool find_long_name(const struct archive *archive, struct archive_member *member,
                           struct bytes field)
{
    struct bytes number = up_to(without_front(field, 1), ':'), rest;
    uint64_t place;

    if (!read_number(number, &place) || place >= archive->names.size)
        return false;
    member->is_nested = archive->is_thin && number.size + 1 != field.size;
    rest = without_front(archive->names, (size_t)place);
    member->name = without_slash(up_to(up_to(rest, '\n'), '\0'));
    return true;
}

/* "#1/SIZE": the name is the first bytes of the member, padded with NULs. */
static bool take_bsd_name(struct archive_member *member, struct bytes field)
{
    uint64_t size;

    if (!read_number(without_front(field, strlen(BSD_NAME_PREFIX)), &size) || size > member->size)
        return false;
    member->name_area = (struct bytes){member->contents.data, size};
    member->name = up_to(member->name_area, '\0');
    member->contents = without_front(member->contents, (size_t)size);
    member->size -= size;
    return true;
}

static bool read_name(const struct archive *archive, struct archive_member *member,
                      struct bytes field)
{
    if (text_starts(field, BSD_NAME_PREFIX) && member->has_contents) {
        if (!take_bsd_name(member, field))
            return false;
        member->role = bsd_role(archive, member->name);
        return true;
    }
    if (field.size > 1 && field.data[0] == '/' && field.data[1] >= '0' && field.data[1] <= '9')
        return find_long_name(archive, member, field);
    if (field.size != 0 && field.data[0] == '/') {
        member->role = special_role(archive, field);
        member->name = field;
        return true;
    }
    member->name = without_slash(field);
    member->role = bsd_role(archive, member->name);
    return true;
}

/* ---- members ---- */

static bool fail_at(const struct archive *archive, uint64_t offset, struct error *error)
{
    return error_set(error,
                     "%s: the archive is damaged: no member at offset %" PRIu64 "; make it again",
                     archive->path, offset);
}

/* Whether a member of a thin archive has contents: only the special ones do. */
static bool has_contents(const struct archive *archive, struct bytes name)
{
    return !archive->is_thin || (name.size != 0 && name.data[0] == '/' &&
                                 (name.size == 1 || name.data[1] < '0' || name.data[1] > '9'));
}

/* Reads the member at the offset; *end is where it ends. */
static bool read_member(const struct archive *archive, uint64_t offset,
                        struct archive_member *member, uint64_t *end)
{
    struct bytes header, field;

    *member = (struct archive_member){.offset = offset, .role = ARCHIVE_FILE};
    if (!bytes_slice(archive->bytes, offset, ARCHIVE_HEADER_SIZE, &header) ||
        memcmp(header.data + END_OFFSET, END_TEXT, strlen(END_TEXT)) != 0 ||
        !read_number(field_text(header.data + SIZE_FIELD_OFFSET, SIZE_FIELD_SIZE), &member->size))
        return false;
    field = field_text(header.data, NAME_FIELD_SIZE);
    member->has_contents = has_contents(archive, field);
    *end = offset + ARCHIVE_HEADER_SIZE;
    if (member->has_contents) {
        if (!bytes_slice(archive->bytes, *end, member->size, &member->contents))
            return false;
        *end += member->size;
    }
    return read_name(archive, member, field);
}

static bool add_member(struct archive *archive, const struct archive_member *member,
                       struct error *error)
{
    if (!ARRAY_ROOM_FOR_ONE(archive->members, archive->capacity, archive->count))
        return error_out_of_memory(error, archive->path, sizeof(*member));
    archive->members[archive->count++] = *member;
    if (member->role == ARCHIVE_NAMES)
        archive->names = member->contents;
    return true;
}

/* Members begin at even offsets; some writers leave out the padding at the very end. */
static bool read_members(struct archive *archive, struct error *error)
{
    uint64_t offset = MAGIC_SIZE;

    while (offset < archive->bytes.size) {
        struct archive_member member;
        uint64_t end;

        if (!read_member(archive, offset, &member, &end))
            return fail_at(archive, offset, error);
        if (!add_member(archive, &member, error))
            return false;
        offset = align_up(end, 2);
    }
    return true;
}

static bool check_indexes(const struct archive *archive, bool *goes, struct error *error)
{
    *goes = false;
    for (size_t i = 0; i < archive->count; i++) {
        const struct archive_member *member = &archive->members[i];
        bool some = false;

        if (archive_role_is_index(member->role) &&
            !archive_index_check(archive, member, &some, error))
            return false;
        *goes = *goes || some;
    }
    return true;
}

bool archive_read(struct archive *archive, struct bytes bytes, const char *path,
                  struct error *error)
{
    bool goes;

    *archive = (struct archive){.bytes = bytes,
                                .path = path,
                                .is_thin = archive_recognize(bytes) &&
                                           memcmp(bytes.data, magic_thin, MAGIC_SIZE) == 0};
    if (!archive_recognize(bytes))
        return fail_at(archive, 0, error);
    return read_members(archive, error) && check_indexes(archive, &goes, error);
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

struct writing {
    struct archive *archive;
    bytes_sink write;
    void *context;
};

static uint64_t new_size_of(const struct archive_member *member)
{
    return member->has_changed && member->has_contents ? member->new_contents.size
           : member->has_changed                       ? member->new_size
                                                       : member->size;
}

/* The size of the area for the name, at the new offset. Where the padding of the name had aligned
 * the contents, it does so again. */
static uint64_t name_area_size(const struct archive_member *member)
{
    uint64_t old_start = member->offset + ARCHIVE_HEADER_SIZE + member->name_area.size;
    uint64_t start = member->new_offset + ARCHIVE_HEADER_SIZE;

    if (member->name_area.size == 0 || old_start % BSD_ALIGNMENT != 0)
        return member->name_area.size;
    return align_up(start + member->name.size, BSD_ALIGNMENT) - start;
}

/* Sets the new offsets; `limit` is what the index can hold. */
static bool lay_out(struct archive *archive, uint64_t limit, struct error *error)
{
    uint64_t offset = MAGIC_SIZE;

    for (size_t i = 0; i < archive->count; i++) {
        struct archive_member *member = &archive->members[i];

        member->new_offset = offset;
        if (offset > limit || name_area_size(member) + new_size_of(member) > SIZE_MAX_DIGITS)
            return error_set(error, "%s: the archive would be too large for its format",
                             archive->path);
        offset += ARCHIVE_HEADER_SIZE;
        if (member->has_contents)
            offset = align_up(offset + name_area_size(member) + new_size_of(member), 2);
    }
    return true;
}

/* Makes all indexes anew, in `contents`, one for each member. */
static bool make_indexes(struct archive *archive, struct buffer *contents, struct error *error)
{
    for (size_t i = 0; i < archive->count; i++) {
        struct archive_member *member = &archive->members[i];

        if (!archive_role_is_index(member->role))
            continue;
        contents[i].size = 0;
        if (!archive_index_make(archive, member, &contents[i], error))
            return false;
        member->has_changed = true;
        member->new_contents = buffer_view(&contents[i]);
    }
    return true;
}

static uint64_t offset_limit(const struct archive *archive)
{
    for (size_t i = 0; i < archive->count; i++) {
        enum archive_role role = archive->members[i].role;

        if (archive_role_is_index(role) && role != ARCHIVE_INDEX_GNU64 &&
            role != ARCHIVE_INDEX_BSD64)
            return UINT32_MAX;
    }
    return UINT64_MAX;
}

/* A number as a field of a header: left-justified, without a NUL. */
static void put_number(uint8_t *field, size_t size, uint64_t number)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%" PRIu64, number);

    memset(field, ' ', size);
    memcpy(field, text, (size_t)length < size ? (size_t)length : size);
}

static bool write_header(const struct writing *writing, const struct archive_member *member,
                         struct error *error)
{
    uint8_t header[ARCHIVE_HEADER_SIZE];
    uint64_t area = name_area_size(member);

    memcpy(header, writing->archive->bytes.data + member->offset, sizeof(header));
    if (area != member->name_area.size)
        put_number(header + strlen(BSD_NAME_PREFIX), NAME_FIELD_SIZE - strlen(BSD_NAME_PREFIX),
                   area);
    if (area + new_size_of(member) != member->name_area.size + member->size)
        put_number(header + SIZE_FIELD_OFFSET, SIZE_FIELD_SIZE, area + new_size_of(member));
    return writing->write(writing->context, (struct bytes){header, sizeof(header)}, error);
}

static bool write_name(const struct writing *writing, const struct archive_member *member,
                       struct error *error)
{
    static const uint8_t zeros[BSD_ALIGNMENT];
    uint64_t area = name_area_size(member);

    if (area == member->name_area.size)
        return area == 0 || writing->write(writing->context, member->name_area, error);
    return writing->write(writing->context, member->name, error) &&
           writing->write(writing->context, (struct bytes){zeros, area - member->name.size}, error);
}

static bool write_member(const struct writing *writing, const struct archive_member *member,
                         struct error *error)
{
    static const uint8_t newline[] = {'\n'};
    struct bytes contents = member->has_changed ? member->new_contents : member->contents;

    if (!write_header(writing, member, error) || !write_name(writing, member, error))
        return false;
    if (!member->has_contents)
        return true;
    return writing->write(writing->context, contents, error) &&
           ((name_area_size(member) + contents.size) % 2 == 0 ||
            writing->write(writing->context, (struct bytes){newline, 1}, error));
}

bool archive_write(struct archive *archive, bytes_sink write, void *context, struct error *error)
{
    const struct writing writing = {archive, write, context};
    struct buffer *indexes = calloc(archive->count + 1, sizeof(*indexes));
    uint64_t limit = offset_limit(archive);
    bool done;

    if (indexes == NULL)
        return error_out_of_memory(error, archive->path, archive->count * sizeof(*indexes));
    /* First for the sizes, then with the offsets that follow from them. */
    done = make_indexes(archive, indexes, error) && lay_out(archive, limit, error) &&
           make_indexes(archive, indexes, error) &&
           write(context, (struct bytes){archive->bytes.data, MAGIC_SIZE}, error);
    for (size_t i = 0; done && i < archive->count; i++)
        done = write_member(&writing, &archive->members[i], error);
    for (size_t i = 0; i < archive->count; i++)
        buffer_free(&indexes[i]);
    free(indexes);
    return done;
}
