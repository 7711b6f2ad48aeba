/*
 * Reading unions: see union.h. The archive must be just as union_write.c makes it.
 */
#include <string.h>

#include "common/sidecar/union_archive.h"

/* Where the fields of a member's header are. */
#define NAME_SIZE_AT     3
#define NAME_SIZE_DIGITS 13
#define SIZE_AT          48
#define SIZE_DIGITS      10

/* A decimal number in a field, which is filled up with spaces. */
static bool read_number(const uint8_t *field, size_t size, uint64_t *number)
{
    size_t i;

    *number = 0;
    for (i = 0; i < size && field[i] >= '0' && field[i] <= '9'; i++)
        *number = *number * 10 + (uint64_t)(field[i] - '0');
    if (i == 0)
        return false;
    while (i < size && field[i] == ' ')
        i++;
    return i == size;
}

/* Takes a member off the front. */
static bool take_member(struct bytes *rest, struct union_member_view *member)
{
    uint64_t name_size, size;
    struct bytes header, whole;

    if (!bytes_slice(*rest, 0, UNION_HEADER_SIZE, &header) ||
        memcmp(header.data, UNION_NAME_FOLLOWS, NAME_SIZE_AT) != 0 ||
        memcmp(header.data + SIZE_AT + SIZE_DIGITS, UNION_HEADER_END, 2) != 0 ||
        !read_number(header.data + NAME_SIZE_AT, NAME_SIZE_DIGITS, &name_size) ||
        !read_number(header.data + SIZE_AT, SIZE_DIGITS, &size) ||
        !bytes_slice(*rest, UNION_HEADER_SIZE, size, &whole) ||
        !bytes_slice(whole, 0, name_size, &member->name) || name_size > UNION_NAME_MAX ||
        (UNION_HEADER_SIZE + name_size) % UNION_ALIGNMENT != 0 ||
        (size - name_size) % UNION_ALIGNMENT != 0)
        return false;
    bytes_slice(whole, name_size, size - name_size, &member->object);
    while (member->name.size != 0 && member->name.data[member->name.size - 1] == '\0')
        member->name.size--;
    return bytes_slice(*rest, UNION_HEADER_SIZE + size, rest->size - UNION_HEADER_SIZE - size,
                       rest);
}

static bool take_magic(struct bytes *rest)
{
    return rest->size >= UNION_MAGIC_SIZE &&
           memcmp(rest->data, UNION_MAGIC, UNION_MAGIC_SIZE) == 0 &&
           bytes_slice(*rest, UNION_MAGIC_SIZE, rest->size - UNION_MAGIC_SIZE, rest);
}

bool union_may_begin(struct bytes so_far)
{
    static const char start[] = UNION_MAGIC UNION_NAME_FOLLOWS;
    size_t size = so_far.size < sizeof(start) - 1 ? (size_t)so_far.size : sizeof(start) - 1;

    return size != 0 && memcmp(so_far.data, start, size) == 0;
}

bool union_recognize(struct bytes bytes)
{
    struct union_member_view member;

    return take_magic(&bytes) && take_member(&bytes, &member) && object_recognize(member.object);
}

bool union_open(struct bytes bytes, const char *file, struct bytes *members, struct error *error)
{
    *members = bytes;
    return take_magic(members) || error_set(error, "%s: is not a union; export it again", file);
}

bool union_next(struct bytes *members, const char *file, struct union_member_view *member,
                bool *found, struct error *error)
{
    *found = members->size != 0;
    return !*found || (take_member(members, member) && object_recognize(member->object)) ||
           error_set(error, "%s: a damaged union; export it again", file);
}
