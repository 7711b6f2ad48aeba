/*
 * The tripwire: see tripwire.h.
 */
#include "common/llvm/tripwire.h"

#include <stdio.h>
#include <string.h>

/* The decompressed size that the chunk claims to have. */
#define CLAIMED_SIZE 0x7f
#define HEAD_SIZE    TRIPWIRE_TEXT_OFFSET
#define TEXT_START   TRIPWIRE_TEXT
#define TEXT_MORE    "..."
#define TEXT_END     ": use covsplit merge\n"
#define SHORT_SIZE   3
#define FILLER       0xff

/* LLVM counts its versions from 0. This is the largest 32-bit number that is positive even if a
 * reader takes it as signed. */
#define MAPPING_VERSION 0x7fffffffu

_Static_assert(HEAD_SIZE + sizeof(TEXT_START TEXT_MORE TEXT_END) - 1 + 2 * TRIPWIRE_UUID_MAX <=
                       TRIPWIRE_SIZE_MAX &&
                   TRIPWIRE_SIZE_MAX % TRIPWIRE_UNIT_MAX == 0,
               "the longest text has room, rounded up too");

static size_t text_size(size_t uuid_size)
{
    bool is_cut = uuid_size > TRIPWIRE_UUID_MAX;

    return strlen(TEXT_START) + 2 * (is_cut ? TRIPWIRE_UUID_MAX : uuid_size) +
           (is_cut ? strlen(TEXT_MORE) : 0) + strlen(TEXT_END);
}

size_t tripwire_size(uint64_t names_size, size_t uuid_size, size_t unit)
{
    size_t size = (size_t)align_up(HEAD_SIZE + text_size(uuid_size), unit);
    size_t short_size = (size_t)align_up(SHORT_SIZE, unit);

    if (names_size >= size)
        return size;
    return names_size >= short_size ? short_size : 0;
}

void tripwire_write(uint8_t *to, size_t size, const struct uuid *uuid)
{
    struct uuid shown = *uuid;
    char text[TRIPWIRE_SIZE_MAX], digits[UUID_HEX_MAX];

    memset(to, FILLER, size);
    to[0] = CLAIMED_SIZE;
    to[1] = (uint8_t)(size - HEAD_SIZE);
    if (size < HEAD_SIZE + text_size(uuid->size))
        return;
    if (shown.size > TRIPWIRE_UUID_MAX)
        shown.size = TRIPWIRE_UUID_MAX;
    snprintf(text, sizeof(text), "%s%s%s%s", TEXT_START, uuid_format(&shown, digits),
             shown.size < uuid->size ? TEXT_MORE : "", TEXT_END);
    memcpy(to + HEAD_SIZE, text, text_size(uuid->size));
}

/* Bytes ff, which pad the text to a unit, or replace it if it is too long. */
static bool is_filler(struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        if (bytes.data[i] != FILLER)
            return false;
    }
    return bytes.size < TRIPWIRE_UNIT_MAX;
}

/* Takes this text off the front of *bytes. False if it is not there. */
static bool take_text(struct bytes *bytes, const char *text)
{
    size_t size = strlen(text);

    if (bytes->size < size || memcmp(bytes->data, text, size) != 0)
        return false;
    *bytes = (struct bytes){bytes->data + size, bytes->size - size};
    return true;
}

/* Checks the first two bytes, of which the second must be the size of what follows, *text. */
static bool read_head(struct bytes names, struct bytes *text)
{
    return names.size >= SHORT_SIZE && names.size <= TRIPWIRE_SIZE_MAX &&
           names.data[0] == CLAIMED_SIZE && names.data[1] == names.size - HEAD_SIZE &&
           bytes_slice(names, HEAD_SIZE, names.size - HEAD_SIZE, text);
}

bool tripwire_read_uuid(struct bytes names, struct uuid *uuid, bool *is_prefix)
{
    char digits[TRIPWIRE_SIZE_MAX] = "";
    size_t count = 0;
    struct bytes text;

    *is_prefix = false;
    if (!read_head(names, &text) || !take_text(&text, TEXT_START))
        return false;
    while (count < text.size && text.data[count] != '.' && text.data[count] != ':')
        count++;
    memcpy(digits, text.data, count);
    if (memchr(digits, '\0', count) != NULL || !uuid_parse(digits, uuid) || uuid->size * 2 != count)
        return false;
    text = (struct bytes){text.data + count, text.size - count};
    *is_prefix = take_text(&text, TEXT_MORE);
    return take_text(&text, TEXT_END) && is_filler(text);
}

bool tripwire_recognize(struct bytes names)
{
    struct bytes text;
    struct uuid uuid;
    bool is_prefix;

    if (!read_head(names, &text))
        return false;
    return is_filler(text) || tripwire_read_uuid(names, &uuid, &is_prefix);
}

bool tripwire_find(struct bytes section, struct bytes *tripwire)
{
    return section.size >= HEAD_SIZE &&
           bytes_slice(section, 0, HEAD_SIZE + (uint64_t)section.data[1], tripwire) &&
           tripwire_recognize(*tripwire);
}

void tripwire_write_mapping(uint8_t to[TRIPWIRE_MAPPING_SIZE], bool big_endian)
{
    memset(to, 0, TRIPWIRE_MAPPING_SIZE);
    store_u32(to + TRIPWIRE_MAPPING_SIZE - sizeof(uint32_t), MAPPING_VERSION, big_endian);
}

bool tripwire_recognize_mapping(struct bytes mapping, bool big_endian)
{
    uint8_t wanted[TRIPWIRE_MAPPING_SIZE];

    tripwire_write_mapping(wanted, big_endian);
    return bytes_equal(mapping, (struct bytes){wanted, sizeof(wanted)});
}
