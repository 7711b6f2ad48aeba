/*
 * The linked __llvm_covmap of an image of packed objects, stored in terms of the ordinary coverage
 * mapping that is made of it: "Linked mapping" in docs/format.md.
 *
 * The units of both are the same, in the same order, so a unit is stored as its form, packed or
 * not, and the list of its records. A packed unit is written again as `covsplit pack` wrote it.
 * (The records of objects that were not packed, the linked __llvm_covfun, are stored as any
 * others.)
 *
 * A packed record is nearly always one of the ordinary ones: the same function, with the same hash,
 * and a mapping that differs only in the numbers of its files, since each translation unit numbers
 * its filenames anew. These follow from the filenames of both units. The records of a translation
 * unit are a list, like its names: headers bring the same records in the same order everywhere
 * (codec/name_lists.h).
 */
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/parallel.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/name_lists.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/codec/records.h"
#include "common/codec/transform.h"
#include "common/llvm/names.h"

enum linked_stream {
    LINKED_UNITS = 0,
    LINKED_LIST_CODES = 1,
    LINKED_LIST_NUMBERS = 2,
    LINKED_NEW = 3,
    LINKED_OTHERS = 4,
    LINKED_FILES = 5,
    LINKED_REST = 6,
    LINKED_STREAMS = 7,
};

/* The streams have a byte or two for a record, of which a section may have one for two bytes. */
#define STREAMS_PER_BYTE 4

/* The codes of units. */
enum {
    UNIT_ORDINARY = 0,
    UNIT_PACKED = 1,
};

/* The code of a new record that is none of the known ones. The codes of others are one more than
 * the zigzag-encoded difference to the record that was expected. */
#define NEW_OTHER 0

/* ---- known records: those of the ordinary sections, and later ones that are not among them ----
 */

struct known_unit {
    uint32_t version;
    struct bytes filenames;
    uint64_t reference;
    uint32_t first;              /* the number of the first unit with the same filenames */
    size_t name_start, name_end; /* its filenames, in known.names */
};

#define NO_UNIT    UINT32_MAX
#define NOT_LISTED UINT64_MAX

struct known_record {
    uint64_t name_reference;
    uint64_t function_hash;
    struct mapping_parts mapping;
    uint32_t unit; /* the first one with its filenames; or NO_UNIT */
    enum packed_group group;
    uint64_t list_number; /* when writing: its number in lists; NOT_LISTED: none yet */
};

/* The state that writer and reader have in common. Initialize to {0}. */
struct known {
    const struct transform_context *context;
    enum result result; /* the first failure */
    struct known_unit *units;
    size_t unit_count, unit_capacity;
    uint32_t *names; /* of all units, behind each other: a number for each distinct filename */
    size_t name_count, name_capacity;
    struct intern_table units_by_reference;
    struct intern_table file_numbers; /* of unit (high half) and name: its number in the unit */
    struct known_record *records;
    size_t count, capacity;
    uint64_t *listed; /* records by their numbers in lists */
    size_t listed_count, listed_capacity;
    uint64_t next;      /* the record after the last new one */
    uint64_t predicted; /* records whose files are as predicted: written since, or to be read until,
                           one whose files are not */
};

static bool fail(struct known *known, enum result result)
{
    if (known->result == RESULT_OK)
        known->result = result;
    return false;
}

static void known_free(struct known *known)
{
    free(known->units);
    free(known->names);
    free(known->records);
    free(known->listed);
    intern_table_free(&known->units_by_reference);
    intern_table_free(&known->file_numbers);
}

static uint64_t file_key(uint32_t unit, uint32_t name)
{
    return (uint64_t)unit << 32 | name;
}

/* The memory for a filename of a unit: its number, and two entries of a table, which may be half
 * empty, of a key and a value each. */
#define NAME_COST (sizeof(uint32_t) + 4 * sizeof(uint64_t))

/* Adds a unit, and its filenames if it is the first that has them. `all` are the distinct filenames
 * of all units. Many small units can each have many filenames, compressed, so these are counted,
 * too. */
static bool add_unit(struct known *known, const struct covmap_unit *unit, struct covmap_names *list,
                     struct names *all)
{
    uint64_t limit = transform_memory_limit(known->context), first = known->unit_count, name;
    struct known_unit *added;
    enum result result;

    if (known->unit_count >= NO_UNIT)
        return fail(known, RESULT_UNFIT);
    if (!ARRAY_ROOM_FOR_ONE(known->units, known->unit_capacity, known->unit_count) ||
        !intern_table_put(&known->units_by_reference, unit->reference, first))
        return fail(known, RESULT_NO_MEMORY);
    intern_table_find(&known->units_by_reference, unit->reference, &first);
    added = &known->units[known->unit_count++];
    *added = (struct known_unit){
        .version = unit->version,
        .filenames = unit->filenames,
        .reference = unit->reference,
        .first = (uint32_t)first,
        .name_start = known->name_count,
        .name_end = known->name_count,
    };
    if (first + 1 != known->unit_count)
        return true;
    result = covmap_names_read(list, unit->filenames, limit);
    if (result != RESULT_OK)
        return result == RESULT_UNFIT || fail(known, result);
    if (known->name_count + list->count > limit / NAME_COST || all->text.size > limit)
        return fail(known, RESULT_OVER_LIMIT);
    if (!array_make_room(&known->names, &known->name_capacity, known->name_count, list->count,
                         sizeof(*known->names)))
        return fail(known, RESULT_NO_MEMORY);
    for (size_t i = 0; i < list->count; i++) {
        if (!names_add(all, list->names[i], &name) ||
            !intern_table_put(&known->file_numbers, file_key(added->first, (uint32_t)name), i))
            return fail(known, RESULT_NO_MEMORY);
        known->names[known->name_count++] = (uint32_t)name;
    }
    added->name_end = known->name_count;
    return known->name_count <= UINT32_MAX || fail(known, RESULT_UNFIT);
}

static bool add_record(struct known *known, const struct known_record *record)
{
    if (!ARRAY_ROOM_FOR_ONE(known->records, known->capacity, known->count))
        return fail(known, RESULT_NO_MEMORY);
    known->records[known->count] = *record;
    known->records[known->count++].list_number = NOT_LISTED;
    return true;
}

/* Reads the ordinary sections, which must outlive the records. Bytes at the end of a section that
 * are no unit, or no record, are ignored. */
static bool known_start(struct known *known, const struct transform_context *context)
{
    struct bytes covmap = context->covmap, covfun = context->covfun;
    struct covmap_names list = {0};
    struct mapping mapping = {0};
    struct names all = {0};
    struct covmap_unit unit;
    struct covfun_record record;
    uint64_t first;
    bool done = true;

    known->context = context;
    while (done && covmap_take(&covmap, context->big_endian, &unit))
        done = add_unit(known, &unit, &list, &all);
    while (done && covfun_take(&covfun, context->big_endian, &record)) {
        struct known_record added = {
            .name_reference = record.name_reference,
            .function_hash = record.function_hash,
            .mapping = mapping_split(record.mapping),
            .unit = NO_UNIT,
        };

        if (intern_table_find(&known->units_by_reference, record.filenames_reference, &first))
            added.unit = (uint32_t)first;
        done = packed_group_of(&mapping, &record, &added.group) != RESULT_NO_MEMORY
                   ? add_record(known, &added)
                   : fail(known, RESULT_NO_MEMORY);
    }
    covmap_names_free(&list);
    names_free(&all);
    mapping_free(&mapping);
    return done;
}

/* Appends the list of files that the record would have in the unit, which must be the first one of
 * its filenames. False if it has a file that the unit does not have. */
static bool predict_files(const struct known *known, const struct known_record *record,
                          uint32_t unit, struct buffer *files)
{
    struct cursor from = cursor_open(record->mapping.files, false, false);
    const struct known_unit *own;
    uint64_t count, number;

    if (record->unit == unit || record->mapping.files.size == 0) {
        buffer_append(files, record->mapping.files.data, (size_t)record->mapping.files.size);
        return true;
    }
    if (record->unit == NO_UNIT)
        return false;
    own = &known->units[record->unit];
    count = cursor_uleb128(&from);
    buffer_append_uleb128(files, count);
    for (uint64_t i = 0; i < count; i++) {
        number = cursor_uleb128(&from);
        if (number >= own->name_end - own->name_start ||
            !intern_table_find(&known->file_numbers,
                               file_key(unit, known->names[own->name_start + number]), &number))
            return false;
        buffer_append_uleb128(files, number);
    }
    return true;
}

/* ---- writing records ---- */

/* Initialize to {0}; free with writer_free, even after a failure. */
struct writer {
    struct known known;
    struct buffer *streams; /* LINKED_STREAMS */
    struct name_list_writer lists;
    struct intern_table by_content;
    struct buffer new_codes, files;
    struct arena others; /* the mappings of known records that are none of the ordinary ones */
};

/* Records are equal if this is, unless hashes collide; then decoding does not give the section, and
 * it is stored in another form. */
static uint64_t content_key(const struct known_record *record)
{
    struct digest rest = digest_of(record->mapping.rest), all;
    uint64_t parts[4] = {record->name_reference, record->function_hash, record->group,
                         load_u64(rest.bytes, false)};

    all = digest_of((struct bytes){(const uint8_t *)parts, sizeof(parts)});
    return load_u64(all.bytes, false);
}

static bool has_content(const struct known_record *a, const struct known_record *b)
{
    return a->name_reference == b->name_reference && a->function_hash == b->function_hash &&
           a->group == b->group && bytes_equal(a->mapping.rest, b->mapping.rest);
}

static bool writer_start(struct writer *writer, const struct transform_context *context,
                         struct streams *streams)
{
    struct known *known = &writer->known;

    streams->count = LINKED_STREAMS;
    writer->streams = streams->stream;
    writer->lists = (struct name_list_writer){.codes = &streams->stream[LINKED_LIST_CODES],
                                              .numbers = &streams->stream[LINKED_LIST_NUMBERS]};
    if (!known_start(known, context))
        return false;
    for (size_t i = 0; i < known->count; i++) {
        if (!intern_table_put(&writer->by_content, content_key(&known->records[i]), i))
            return fail(known, RESULT_NO_MEMORY);
    }
    return true;
}

/* Adds a record that is none of the known ones, and puts it. */
static bool put_other(struct writer *writer, const struct known_record *record,
                      struct bytes mapping)
{
    struct buffer *others = &writer->streams[LINKED_OTHERS];
    const uint8_t group = (uint8_t)record->group;
    struct known_record added = *record;
    uint8_t hashes[16];
    void *copy = arena_copy(&writer->others, mapping);

    if (copy == NULL ||
        !intern_table_put(&writer->by_content, content_key(record), writer->known.count))
        return fail(&writer->known, RESULT_NO_MEMORY);
    added.mapping = mapping_split((struct bytes){copy, mapping.size});
    store_u64(hashes, record->name_reference, false);
    store_u64(hashes + 8, record->function_hash, false);
    buffer_append(others, &group, 1);
    buffer_append(others, hashes, sizeof(hashes));
    buffer_append_uleb128(others, mapping.size);
    buffer_append(others, mapping.data, (size_t)mapping.size);
    return add_record(&writer->known, &added);
}

/* Finds the known record with the same content, or adds it, and gives it a number in lists. */
static bool put_content(struct writer *writer, const struct known_record *record,
                        struct bytes mapping, uint64_t *number)
{
    struct known *known = &writer->known;
    uint64_t listed = name_list_writer_expected(&writer->lists), code = NEW_OTHER;

    /* Nearly always it is the expected one, so that nothing must be hashed. */
    *number = listed < known->listed_count ? known->listed[listed] : known->next;
    if ((*number >= known->count || !has_content(&known->records[*number], record)) &&
        !intern_table_find(&writer->by_content, content_key(record), number)) {
        *number = known->count;
        if (!put_other(writer, record, mapping))
            return false;
    } else if (known->records[*number].list_number == NOT_LISTED) {
        code = 1 + zigzag(*number - known->next);
        known->next = *number + 1;
    }
    if (known->records[*number].list_number != NOT_LISTED)
        return true;
    if (!ARRAY_ROOM_FOR_ONE(known->listed, known->listed_capacity, known->listed_count))
        return fail(known, RESULT_NO_MEMORY);
    known->records[*number].list_number = known->listed_count;
    known->listed[known->listed_count++] = *number;
    buffer_append_uleb128(&writer->new_codes, code);
    return true;
}

/* `unit` is the first one with the filenames of the record's; or NO_UNIT. */
static bool put_record(struct writer *writer, const struct packed_record *packed, uint32_t unit)
{
    const struct known_record record = {.name_reference = packed->name_reference,
                                        .function_hash = packed->function_hash,
                                        .mapping = mapping_split(packed->mapping),
                                        .group = packed->group,
                                        .unit = unit};
    struct buffer *stream = &writer->streams[LINKED_FILES];
    struct bytes files = record.mapping.files;
    struct known *known = &writer->known;
    uint64_t number;

    if (!put_content(writer, &record, packed->mapping, &number))
        return false;
    if (!name_list_writer_put_number(&writer->lists, known->records[number].list_number))
        return fail(known, RESULT_NO_MEMORY);
    writer->files.size = 0;
    if (predict_files(known, &known->records[number], unit, &writer->files) &&
        bytes_equal(buffer_view(&writer->files), files)) {
        known->predicted++;
        return true;
    }
    buffer_append_uleb128(stream, known->predicted);
    buffer_append_uleb128(stream, files.size);
    buffer_append(stream, files.data, (size_t)files.size);
    known->predicted = 0;
    return true;
}

/* Puts the bytes of the section that are left, unless something failed before. Frees the writer. */
static enum result writer_finish(struct writer *writer, struct bytes left)
{
    struct buffer *new_records = &writer->streams[LINKED_NEW];
    struct known *known = &writer->known;
    bool no_memory = writer->new_codes.failed || writer->files.failed;
    unsigned width;

    if (known->result == RESULT_OK && !name_list_writer_finish(&writer->lists, &width))
        fail(known, RESULT_UNFIT);
    if (known->result == RESULT_OK) {
        buffer_append(&writer->streams[LINKED_REST], left.data, (size_t)left.size);
        buffer_append_uleb128(new_records, known->listed_count);
        buffer_append_uleb128(new_records, width);
        buffer_append(new_records, writer->new_codes.data, writer->new_codes.size);
        for (size_t i = 0; i < LINKED_STREAMS; i++)
            no_memory |= writer->streams[i].failed;
        if (no_memory)
            fail(known, RESULT_NO_MEMORY);
    }
    name_list_writer_free(&writer->lists);
    intern_table_free(&writer->by_content);
    buffer_free(&writer->new_codes);
    buffer_free(&writer->files);
    arena_free(&writer->others);
    known_free(known);
    return known->result;
}

/* ---- reading records ---- */

/* Initialize to {0}; free with reader_finish, even after a failure. */
struct reader {
    struct known known;
    struct name_list_reader lists;
    struct cursor units, new_codes, others, files;
    uint64_t text_left; /* how many bytes all further records may take */
    uint64_t text_size; /* of all units so far */
};

static struct cursor open_stream(const struct streams *streams, enum linked_stream stream)
{
    return cursor_open(buffer_view(&streams->stream[stream]), false, false);
}

static void take_predicted(struct reader *reader)
{
    reader->known.predicted =
        cursor_left(&reader->files) == 0 ? UINT64_MAX : cursor_uleb128(&reader->files);
}

/* `size` is that of the section to be decoded. */
static bool reader_start(struct reader *reader, const struct transform_context *context,
                         const struct streams *streams, uint64_t size)
{
    struct bytes codes = buffer_view(&streams->stream[LINKED_LIST_CODES]),
                 numbers = buffer_view(&streams->stream[LINKED_LIST_NUMBERS]),
                 new_codes = buffer_view(&streams->stream[LINKED_NEW]);
    struct known *known = &reader->known;
    uint64_t count;

    if (streams->count != LINKED_STREAMS)
        return fail(known, RESULT_UNFIT);
    if (!known_start(known, context))
        return false;
    reader->units = open_stream(streams, LINKED_UNITS);
    reader->others = open_stream(streams, LINKED_OTHERS);
    reader->files = open_stream(streams, LINKED_FILES);
    reader->text_left = zlib_text_limit(streams->stream, LINKED_STREAMS, size);
    take_predicted(reader);
    if (reader->files.bad || !bytes_take_uleb128(&new_codes, &count) || count > codes.size)
        return fail(known, RESULT_UNFIT);
    if (!name_list_reader_start(&reader->lists, (size_t)count, codes, numbers))
        return fail(known, RESULT_NO_MEMORY);
    if (!name_list_reader_take_width(&reader->lists, &new_codes))
        return fail(known, RESULT_UNFIT);
    reader->new_codes = cursor_open(new_codes, false, false);
    return true;
}

/* Gives the next number in lists to a known record, or to one that is none of them. */
static bool take_new(struct reader *reader, uint32_t unit)
{
    struct known *known = &reader->known;
    uint64_t code = cursor_uleb128(&reader->new_codes), number = known->count;

    if (reader->new_codes.bad)
        return fail(known, RESULT_UNFIT);
    if (code == NEW_OTHER) {
        struct cursor *others = &reader->others;
        unsigned group = cursor_u8(others);
        struct known_record added = {.unit = unit, .group = (enum packed_group)group};

        added.name_reference = cursor_u64(others);
        added.function_hash = cursor_u64(others);
        added.mapping = mapping_split(cursor_bytes(others, cursor_uleb128_32(others)));
        if (others->bad || group > PACKED_GROUP_OF_USED)
            return fail(known, RESULT_UNFIT);
        if (!add_record(known, &added))
            return false;
    } else {
        number = known->next + unzigzag(code - 1);
        if (number >= known->count)
            return fail(known, RESULT_UNFIT);
        known->next = number + 1;
    }
    if (!ARRAY_ROOM_FOR_ONE(known->listed, known->listed_capacity, known->listed_count))
        return fail(known, RESULT_NO_MEMORY);
    known->listed[known->listed_count++] = number;
    return true;
}

/* Takes the next record of the list. Its mapping is appended to the text; only its size is in the
 * record. `unit` is the first one with the filenames of the record's. */
static bool take_record(struct reader *reader, uint32_t unit, struct packed_record *record,
                        struct buffer *text)
{
    struct known *known = &reader->known;
    const struct known_record *found;
    size_t start = text->size;
    uint64_t listed, most;

    if (!name_list_reader_take(&reader->lists, &listed))
        return fail(known, RESULT_UNFIT);
    if (listed == known->listed_count && !take_new(reader, unit))
        return false;
    found = &known->records[known->listed[listed]];
    most =
        sizeof(*record) + NUMBER_32_SIZE_MAX * found->mapping.files.size + found->mapping.rest.size;
    if (most > reader->text_left)
        return fail(known, RESULT_UNFIT);
    reader->text_left -= most;
    if (known->predicted-- != 0) {
        if (!predict_files(known, found, unit, text))
            return fail(known, RESULT_UNFIT);
    } else {
        struct bytes files = cursor_bytes(&reader->files, cursor_uleb128(&reader->files));

        buffer_append(text, files.data, (size_t)files.size);
        take_predicted(reader);
    }
    buffer_append(text, found->mapping.rest.data, (size_t)found->mapping.rest.size);
    if (text->failed)
        return fail(known, RESULT_NO_MEMORY);
    *record = (struct packed_record){.name_reference = found->name_reference,
                                     .function_hash = found->function_hash,
                                     .group = found->group};
    record->mapping.size = text->size - start;
    if (reader->files.bad || record->mapping.size > UINT32_MAX)
        return fail(known, RESULT_UNFIT);
    return true;
}

/* Appends the rest of a section of `size` bytes that starts at `start`, unless something failed
 * before. Frees the reader. */
static enum result reader_finish(struct reader *reader, const struct streams *streams, size_t start,
                                 uint64_t size, struct buffer *section)
{
    const struct buffer *rest = &streams->stream[LINKED_REST];

    if (reader->known.result == RESULT_OK &&
        (!name_list_reader_at_end(&reader->lists) || !cursor_finished(&reader->new_codes) ||
         !cursor_finished(&reader->others) || !cursor_finished(&reader->files) ||
         rest->size != size - (section->size - start)))
        fail(&reader->known, RESULT_UNFIT);
    if (reader->known.result == RESULT_OK && !buffer_append(section, rest->data, rest->size))
        fail(&reader->known, RESULT_NO_MEMORY);
    name_list_reader_free(&reader->lists);
    known_free(&reader->known);
    return reader->known.result;
}

/* ---- __llvm_covmap: the units ---- */

static enum result encode_covmap(const struct transform_context *context, struct bytes section,
                                 struct streams *streams)
{
    struct writer writer = {0};
    struct known *known = &writer.known;
    struct buffer *units = &streams->stream[LINKED_UNITS];
    struct packed_unit unit = {0};
    struct bytes packed;

    writer_start(&writer, context, streams);
    for (size_t i = 0; known->result == RESULT_OK && i < known->unit_count; i++) {
        const struct known_unit *ordinary = &known->units[i];
        struct covmap_unit found = {0};
        bool is_packed = packed_unit_take(&section, context->big_endian, &packed);

        if (is_packed) {
            enum result result = packed_unit_read(&unit, packed, context->big_endian,
                                                  transform_memory_limit(context));

            if (result != RESULT_OK)
                fail(known, result);
            found.version = unit.version;
            found.filenames = unit.filenames;
        } else if (!covmap_take_unhashed(&section, context->big_endian, &found)) {
            break;
        }
        if (found.version != ordinary->version ||
            !bytes_equal(found.filenames, ordinary->filenames))
            fail(known, RESULT_UNFIT);
        buffer_append_uleb128(units, is_packed ? UNIT_PACKED : UNIT_ORDINARY);
        if (is_packed) {
            buffer_append_uleb128(units, unit.count);
            name_list_writer_start_list(&writer.lists);
            for (size_t j = 0; known->result == RESULT_OK && j < unit.count; j++)
                put_record(&writer, &unit.records[j], ordinary->first);
        }
    }
    packed_unit_free(&unit);
    return writer_finish(&writer, section);
}

/* The number of packed units that are made at a time, by several threads; unless they have this
 * much text. */
#define BATCH_UNITS 32
#define BATCH_TEXT  ((size_t)4 << 20)

/* A unit that is to be made. */
struct piece {
    bool is_packed;
    struct packed_unit unit; /* the text is that of the mappings */
    struct buffer made;
    enum result result;
};

struct batch {
    bool big_endian;
    struct piece pieces[BATCH_UNITS];
};

/* Takes the next unit, whose filenames are those of the ordinary one. */
static bool take_unit(struct reader *reader, const struct known_unit *ordinary, struct piece *piece)
{
    struct packed_unit *unit = &piece->unit;
    struct known *known = &reader->known;
    uint64_t code = cursor_uleb128(&reader->units), count = 0;
    const uint8_t *mapping;

    piece->is_packed = code == UNIT_PACKED;
    piece->made.size = 0;
    unit->version = ordinary->version;
    unit->filenames = ordinary->filenames;
    unit->count = 0;
    unit->text.size = 0;
    if (piece->is_packed) {
        count = cursor_uleb128(&reader->units);
        name_list_reader_start_list(&reader->lists);
    }
    if (reader->units.bad || code > UNIT_PACKED)
        return fail(known, RESULT_UNFIT);
    for (uint64_t i = 0; i < count; i++) {
        if (!ARRAY_ROOM_FOR_ONE(unit->records, unit->capacity, unit->count))
            return fail(known, RESULT_NO_MEMORY);
        if (!take_record(reader, ordinary->first, &unit->records[unit->count++], &unit->text))
            return false;
        /* All units together, since each text has to be compressed again, which takes time. */
        if (reader->text_size + unit->text.size > transform_memory_limit(known->context))
            return fail(known, RESULT_OVER_LIMIT);
    }
    reader->text_size += unit->text.size;
    mapping = unit->text.data;
    for (size_t i = 0; mapping != NULL && i < unit->count; i++) { /* NULL: all are empty */
        unit->records[i].mapping.data = mapping;
        mapping += unit->records[i].mapping.size;
    }
    return true;
}

static void make_unit(void *context, size_t index)
{
    struct batch *batch = context;
    struct piece *piece = &batch->pieces[index];
    const struct packed_unit *unit = &piece->unit;

    if (piece->is_packed)
        piece->result = packed_unit_write(unit, batch->big_endian, &piece->made);
    else
        piece->result =
            covmap_append(&piece->made, unit->version, unit->filenames, batch->big_endian)
                ? RESULT_OK
                : RESULT_NO_MEMORY;
}

/* Makes some units, from number *number on. */
static bool decode_batch(struct reader *reader, struct batch *batch, size_t *number, size_t start,
                         uint64_t size, struct buffer *section)
{
    struct known *known = &reader->known;
    size_t count = 0, text = 0;

    while (count < BATCH_UNITS && text < BATCH_TEXT && cursor_left(&reader->units) != 0) {
        if (*number == known->unit_count)
            return fail(known, RESULT_UNFIT);
        if (!take_unit(reader, &known->units[(*number)++], &batch->pieces[count]))
            return false;
        text += batch->pieces[count++].unit.text.size;
    }
    parallel_run(count, known->context->threads, make_unit, batch);
    for (size_t i = 0; i < count; i++) {
        const struct piece *piece = &batch->pieces[i];

        if (piece->result != RESULT_OK)
            return fail(known, piece->result);
        if (piece->made.size > size - (section->size - start))
            return fail(known, RESULT_UNFIT);
        if (!buffer_append(section, piece->made.data, piece->made.size) ||
            !record_padding_append(section, start, size))
            return fail(known, RESULT_NO_MEMORY);
    }
    return true;
}

static enum result decode_covmap(const struct transform_context *context, struct streams *streams,
                                 uint64_t size, struct buffer *section)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    size_t start = section->size, number = 0;
    struct reader reader = {0};
    bool going;

    if (batch == NULL)
        return RESULT_NO_MEMORY;
    batch->big_endian = context->big_endian;
    going = reader_start(&reader, context, streams, size);
    while (going && cursor_left(&reader.units) != 0)
        going = decode_batch(&reader, batch, &number, start, size, section);
    for (size_t i = 0; i < BATCH_UNITS; i++) {
        packed_unit_free(&batch->pieces[i].unit);
        buffer_free(&batch->pieces[i].made);
    }
    free(batch);
    return reader_finish(&reader, streams, start, size, section);
}

const struct transform linked_covmap_transform = {
    .id = TRANSFORM_LINKED_COVMAP,
    .kinds = SECTION_BIT(SECTION_LINKED_COVMAP),
    .needs_mapping = true,
    .streams_per_byte = STREAMS_PER_BYTE,
    .encode = encode_covmap,
    .decode = decode_covmap,
};
