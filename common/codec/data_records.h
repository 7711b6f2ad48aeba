/*
 * An index of the records of profile data by NameRef. If several records have the same NameRef, it
 * finds the first.
 */
#ifndef COVSPLIT_COMMON_CODEC_DATA_RECORDS_H
#define COVSPLIT_COMMON_CODEC_DATA_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/intern_table.h"

struct transform_context;

struct data_records {
    struct intern_table by_reference;
    struct bytes data;
    size_t record_size;
    bool big_endian;
};

/* Indexes the context's data, which must outlive the index. False if out of memory. Free with
 * data_records_free, even after a failure. */
bool data_records_start(struct data_records *records, const struct transform_context *context);
void data_records_free(struct data_records *records);

/* The number of the first record with this NameRef; false if there is none. Several threads may
 * call this, and the functions below, at the same time. */
bool data_records_find(const struct data_records *records, uint64_t reference, uint64_t *record);

/* The FuncHash of that record. */
bool data_records_find_hash(const struct data_records *records, uint64_t reference, uint64_t *hash);

/* The NameRef of a record; false if there is no record with that number. */
bool data_records_get(const struct data_records *records, uint64_t record, uint64_t *reference);

#endif
