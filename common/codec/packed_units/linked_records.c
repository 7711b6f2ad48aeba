/*
 * Records of linked coverage mapping as codes: see packed_units/linked_records.h.
 */
#include "common/codec/packed_units/linked_records.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/numbers.h"
#include "common/codec/deflate/text.h"
#include "common/codec/streams.h"

/* The code of a new record that is none of the known ones. The codes of others are one more than
 * the zigzag-encoded difference to the record that was expected. */
#define NEW_OTHER 0

/* What is in front of the mapping of such a record: its group, NameRef and FuncHash. */
#define OTHER_HEADER_SIZE 17

/* ---- writing ---- */

#define NOT_LISTED UINT64_MAX

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

/* Makes room for the list numbers of all known records, of which those from `first` on are new. */
static bool add_list_numbers(struct linked_writer *writer, size_t first)
{
    size_t count = writer->known.count;

    if (!array_make_room(&writer->list_numbers, &writer->list_number_capacity, first, count - first,
                         sizeof(*writer->list_numbers)))
        return false;
    for (size_t i = first; i < count; i++)
        writer->list_numbers[i] = NOT_LISTED;
    return true;
}

enum result linked_writer_start(struct linked_writer *writer,
                                const struct transform_context *context, struct streams *streams)
{
    const struct mapping_sections ordinary = {context->covmap, context->covfun};
    enum result result = known_records_read(&writer->known, &ordinary, context->big_endian,
                                            transform_memory_limit(context));

    if (result != RESULT_OK)
        return result;
    for (size_t i = 0; i < writer->known.count; i++) {
        if (!intern_table_put(&writer->by_content, content_key(&writer->known.records[i]), i))
            return RESULT_NO_MEMORY;
    }
    if (!add_list_numbers(writer, 0))
        return RESULT_NO_MEMORY;
    streams->count = LINKED_STREAMS;
    writer->streams = streams;
    writer->lists = (struct name_list_writer){.codes = &streams->stream[LINKED_LIST_CODES],
                                              .numbers = &streams->stream[LINKED_LIST_NUMBERS]};
    return RESULT_OK;
}

void linked_writer_free(struct linked_writer *writer)
{
    known_records_free(&writer->known);
    name_list_writer_free(&writer->lists);
    intern_table_free(&writer->by_content);
    buffer_free(&writer->new_codes);
    buffer_free(&writer->files);
    for (size_t i = 0; i < writer->copy_count; i++)
        free(writer->copies[i]);
    free(writer->copies);
    free(writer->listed);
    free(writer->list_numbers);
}

void linked_writer_start_list(struct linked_writer *writer)
{
    name_list_writer_start_list(&writer->lists);
}

static bool put_other(struct linked_writer *writer, const struct known_record *record,
                      struct bytes mapping)
{
    struct buffer *others = &writer->streams->stream[LINKED_OTHERS];
    uint8_t header[OTHER_HEADER_SIZE] = {(uint8_t)record->group};

    store_u64(header + 1, record->name_reference, false);
    store_u64(header + 9, record->function_hash, false);
    return buffer_append(others, header, sizeof(header)) &&
           buffer_append_uleb128(others, mapping.size) &&
           buffer_append(others, mapping.data, (size_t)mapping.size);
}

/* Adds a record that is none of the ordinary ones, with a copy of its mapping. */
static bool add_known(struct linked_writer *writer, const struct known_record *record,
                      struct bytes mapping)
{
    size_t first = writer->known.count;
    struct known_record added = *record;
    void *copy = malloc((size_t)mapping.size + 1);

    if (copy == NULL ||
        !ARRAY_ROOM_FOR_ONE(writer->copies, writer->copy_capacity, writer->copy_count)) {
        free(copy);
        return false;
    }
    writer->copies[writer->copy_count++] = copy;
    if (mapping.size != 0)
        memcpy(copy, mapping.data, (size_t)mapping.size);
    added.mapping = mapping_split((struct bytes){copy, mapping.size});
    return known_records_add(&writer->known, &added) && add_list_numbers(writer, first) &&
           put_other(writer, record, mapping) &&
           intern_table_put(&writer->by_content, content_key(record), first);
}

/* The number of the known record that is expected next; the count of known ones if there is none.
 */
static uint64_t expected_record(const struct linked_writer *writer)
{
    uint64_t listed = name_list_writer_expected(&writer->lists);

    return listed < writer->listed_count ? writer->listed[listed] : writer->next;
}

/* Finds the known record with the same content, or adds it. Nearly always it is the expected one,
 * so that nothing must be hashed. */
static bool find_known(struct linked_writer *writer, const struct known_record *record,
                       struct bytes mapping, uint64_t *number)
{
    *number = expected_record(writer);
    if (*number < writer->known.count && has_content(&writer->known.records[*number], record))
        return true;
    if (intern_table_find(&writer->by_content, content_key(record), number))
        return true;
    *number = writer->known.count;
    return add_known(writer, record, mapping);
}

/* Gives the known record the next list number. */
static bool put_new(struct linked_writer *writer, uint64_t number, bool is_other)
{
    uint64_t code = NEW_OTHER;

    if (!ARRAY_ROOM_FOR_ONE(writer->listed, writer->listed_capacity, writer->listed_count))
        return false;
    writer->list_numbers[number] = writer->listed_count;
    writer->listed[writer->listed_count++] = number;
    if (!is_other) {
        code = 1 + zigzag(number - writer->next);
        writer->next = number + 1;
    }
    return buffer_append_uleb128(&writer->new_codes, code);
}

/* The files, unless they are as predicted. */
static enum result put_files(struct linked_writer *writer, struct bytes files, uint64_t number,
                             uint32_t unit)
{
    struct buffer *stream = &writer->streams->stream[LINKED_FILES];
    enum result result;

    writer->files.size = 0;
    result =
        known_records_files(&writer->known, &writer->known.records[number], unit, &writer->files);
    if (result == RESULT_OK && bytes_equal(buffer_view(&writer->files), files)) {
        writer->predicted++;
        return RESULT_OK;
    }
    if (result == RESULT_NO_MEMORY || !buffer_append_uleb128(stream, writer->predicted) ||
        !buffer_append_uleb128(stream, files.size) ||
        !buffer_append(stream, files.data, (size_t)files.size))
        return RESULT_NO_MEMORY;
    writer->predicted = 0;
    return RESULT_OK;
}

enum result linked_writer_put(struct linked_writer *writer, const struct packed_record *packed,
                              uint32_t unit)
{
    const struct known_record record = {.name_reference = packed->name_reference,
                                        .function_hash = packed->function_hash,
                                        .mapping = mapping_split(packed->mapping),
                                        .group = packed->group,
                                        .unit = unit};
    size_t known = writer->known.count;
    uint64_t number;

    if (!find_known(writer, &record, packed->mapping, &number) ||
        (writer->list_numbers[number] == NOT_LISTED &&
         !put_new(writer, number, writer->known.count != known)) ||
        !name_list_writer_put_number(&writer->lists, writer->list_numbers[number]))
        return RESULT_NO_MEMORY;
    return put_files(writer, record.mapping.files, number, unit);
}

enum result linked_writer_finish(struct linked_writer *writer)
{
    struct buffer *stream = &writer->streams->stream[LINKED_NEW];
    unsigned width;

    if (!name_list_writer_finish(&writer->lists, &width))
        return RESULT_UNFIT;
    return buffer_append_uleb128(stream, writer->listed_count) &&
                   buffer_append_uleb128(stream, width) &&
                   buffer_append(stream, writer->new_codes.data, writer->new_codes.size)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

/* ---- reading ---- */

/* Sets how many records have the files that are predicted for them, before the next that does not.
 */
static bool take_predicted(struct linked_reader *reader)
{
    reader->predicted = UINT64_MAX;
    return reader->files.size == 0 || bytes_take_uleb128(&reader->files, &reader->predicted);
}

enum result linked_reader_start(struct linked_reader *reader,
                                const struct transform_context *context,
                                const struct streams *streams, uint64_t size)
{
    const struct mapping_sections ordinary = {context->covmap, context->covfun};
    struct bytes codes = buffer_view(&streams->stream[LINKED_LIST_CODES]), numbers;
    uint64_t count;
    enum result result;

    reader->new_codes = buffer_view(&streams->stream[LINKED_NEW]);
    reader->others = buffer_view(&streams->stream[LINKED_OTHERS]);
    reader->files = buffer_view(&streams->stream[LINKED_FILES]);
    reader->text_left = zlib_text_limit(streams->stream, LINKED_STREAMS, size);
    numbers = buffer_view(&streams->stream[LINKED_LIST_NUMBERS]);
    result = known_records_read(&reader->known, &ordinary, context->big_endian,
                                transform_memory_limit(context));
    if (result != RESULT_OK)
        return result;
    if (!take_predicted(reader) || !bytes_take_uleb128(&reader->new_codes, &count) ||
        count > codes.size)
        return RESULT_UNFIT;
    if (!name_list_reader_start(&reader->lists, (size_t)count, codes, numbers))
        return RESULT_NO_MEMORY;
    return name_list_reader_take_width(&reader->lists, &reader->new_codes) ? RESULT_OK
                                                                           : RESULT_UNFIT;
}

void linked_reader_free(struct linked_reader *reader)
{
    known_records_free(&reader->known);
    name_list_reader_free(&reader->lists);
    free(reader->numbers);
}

void linked_reader_start_list(struct linked_reader *reader)
{
    name_list_reader_start_list(&reader->lists);
}

/* Adds a record that is none of the ordinary ones. */
static enum result take_other(struct linked_reader *reader, uint32_t unit, uint64_t *number)
{
    const uint8_t *header = take_bytes(&reader->others, OTHER_HEADER_SIZE);
    struct known_record added = {.unit = unit};
    struct bytes mapping;
    uint64_t size;

    if (header == NULL || header[0] > PACKED_GROUP_OF_USED ||
        !bytes_take_uleb128(&reader->others, &size) || size > UINT32_MAX ||
        !bytes_slice(reader->others, 0, size, &mapping))
        return RESULT_UNFIT;
    take_bytes(&reader->others, size);
    added.group = (enum packed_group)header[0];
    added.name_reference = load_u64(header + 1, false);
    added.function_hash = load_u64(header + 9, false);
    added.mapping = mapping_split(mapping);
    *number = reader->known.count;
    return known_records_add(&reader->known, &added) ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result take_new(struct linked_reader *reader, uint32_t unit)
{
    uint64_t code, number;
    enum result result;

    if (!bytes_take_uleb128(&reader->new_codes, &code))
        return RESULT_UNFIT;
    if (code == NEW_OTHER) {
        result = take_other(reader, unit, &number);
        if (result != RESULT_OK)
            return result;
    } else {
        number = reader->next + unzigzag(code - 1);
        if (number >= reader->known.count)
            return RESULT_UNFIT;
        reader->next = number + 1;
    }
    if (!ARRAY_ROOM_FOR_ONE(reader->numbers, reader->number_capacity, reader->number_count))
        return RESULT_NO_MEMORY;
    reader->numbers[reader->number_count++] = number;
    return RESULT_OK;
}

/* Appends the list of files that is stored for this record. */
static enum result take_files(struct linked_reader *reader, struct buffer *text)
{
    struct bytes files;
    uint64_t size;

    if (!bytes_take_uleb128(&reader->files, &size) || !bytes_slice(reader->files, 0, size, &files))
        return RESULT_UNFIT;
    take_bytes(&reader->files, size);
    if (!buffer_append(text, files.data, (size_t)size))
        return RESULT_NO_MEMORY;
    return take_predicted(reader) ? RESULT_OK : RESULT_UNFIT;
}

enum result linked_reader_take(struct linked_reader *reader, uint32_t unit,
                               struct packed_record *record, struct buffer *text)
{
    const struct known_record *known;
    size_t start = text->size;
    uint64_t listed, most;
    enum result result = RESULT_OK;

    if (!name_list_reader_take(&reader->lists, &listed))
        return RESULT_UNFIT;
    if (listed == reader->number_count)
        result = take_new(reader, unit);
    if (result != RESULT_OK)
        return result;
    known = &reader->known.records[reader->numbers[listed]];
    most =
        sizeof(*record) + NUMBER_32_SIZE_MAX * known->mapping.files.size + known->mapping.rest.size;
    if (most > reader->text_left)
        return RESULT_UNFIT;
    reader->text_left -= most;
    result = reader->predicted-- != 0 ? known_records_files(&reader->known, known, unit, text)
                                      : take_files(reader, text);
    if (result != RESULT_OK)
        return result;
    *record = (struct packed_record){.name_reference = known->name_reference,
                                     .function_hash = known->function_hash,
                                     .group = known->group};
    if (!buffer_append(text, known->mapping.rest.data, (size_t)known->mapping.rest.size))
        return RESULT_NO_MEMORY;
    record->mapping.size = text->size - start;
    return record->mapping.size <= UINT32_MAX ? RESULT_OK : RESULT_UNFIT;
}

bool linked_reader_at_end(const struct linked_reader *reader)
{
    return name_list_reader_at_end(&reader->lists) && reader->new_codes.size == 0 &&
           reader->others.size == 0 && reader->files.size == 0;
}
