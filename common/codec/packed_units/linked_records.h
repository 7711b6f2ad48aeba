/*
 * Records of linked coverage mapping as codes, in terms of the ordinary ones (known_records.h).
 *
 * The records of a translation unit are a list, like its names: headers bring the same records in
 * the same order everywhere (codec/name_lists.h). Streams: "Linked mapping" in docs/format.md.
 */
#ifndef COVSPLIT_COMMON_CODEC_PACKED_UNITS_LINKED_RECORDS_H
#define COVSPLIT_COMMON_CODEC_PACKED_UNITS_LINKED_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/codec/name_lists.h"
#include "common/codec/packed_units/known_records.h"
#include "common/codec/transform.h"

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

/* ---- writing ---- */

/* Initialize to {0}; free with linked_writer_free, even after a failure. */
struct linked_writer {
    struct known_records known;
    struct streams *streams;
    struct name_list_writer lists;
    struct intern_table by_content;
    struct buffer new_codes, files;
    uint64_t *listed; /* the number of the known record that each listed one is */
    size_t listed_count, listed_capacity;
    uint64_t *list_numbers; /* of each known record: its number among the listed ones */
    size_t list_number_capacity;
    uint64_t next;      /* the known record after the last new one */
    uint64_t predicted; /* records since the last whose files were not as predicted */
    void **copies;      /* what known records that are none of the ordinary ones point to */
    size_t copy_count, copy_capacity;
};

enum result linked_writer_start(struct linked_writer *writer,
                                const struct transform_context *context, struct streams *streams);
void linked_writer_free(struct linked_writer *writer);
void linked_writer_start_list(struct linked_writer *writer);

/* `unit` is the first one with the filenames of the record's; UINT32_MAX if there is none. */
enum result linked_writer_put(struct linked_writer *writer, const struct packed_record *packed,
                              uint32_t unit);
enum result linked_writer_finish(struct linked_writer *writer);

/* ---- reading ---- */

/* Initialize to {0}; free with linked_reader_free, even after a failure. */
struct linked_reader {
    struct known_records known;
    struct name_list_reader lists;
    struct bytes new_codes, others, files;
    uint64_t *numbers; /* of the known record that each listed one is */
    size_t number_count, number_capacity;
    uint64_t next;
    uint64_t predicted; /* how many more records have the predicted files */
    uint64_t text_left; /* how many bytes all further records may take */
};

/* `size` is that of the section to be decoded. */
enum result linked_reader_start(struct linked_reader *reader,
                                const struct transform_context *context,
                                const struct streams *streams, uint64_t size);
void linked_reader_free(struct linked_reader *reader);
void linked_reader_start_list(struct linked_reader *reader);

/* Takes the next record of the list. Its mapping is appended to the text; only its size is in the
 * record. */
enum result linked_reader_take(struct linked_reader *reader, uint32_t unit,
                               struct packed_record *record, struct buffer *text);

/* Whether everything has been read. */
bool linked_reader_at_end(const struct linked_reader *reader);

#endif
