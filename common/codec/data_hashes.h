/*
 * The records of profile data by NameRef, and their FuncHashes.
 */
#ifndef COVSPLIT_COMMON_CODEC_DATA_HASHES_H
#define COVSPLIT_COMMON_CODEC_DATA_HASHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/codec/number_table.h"

struct compact_context;

struct data_hashes {
    struct number_table by_reference;
    struct bytes data;
    size_t record_size;
    bool big_endian;
    uint32_t *records; /* by number of a NameRef: the first record with it */
};

/* Of the context's data, which is viewed. False: no memory. Freed with data_hashes_free, also after
 * a failure and when zeroed. */
bool data_hashes_start(struct data_hashes *hashes, const struct compact_context *context);
void data_hashes_free(struct data_hashes *hashes);

/* The FuncHash of the first record with this NameRef; false where there is none. Several threads
 * may look at the same time. */
bool data_hashes_find(const struct data_hashes *hashes, uint64_t reference, uint64_t *hash);

/* The number of that record. */
bool data_hashes_find_record(const struct data_hashes *hashes, uint64_t reference,
                             uint64_t *record);

/* The NameRef of a record; false where there is no record with that number. */
bool data_hashes_get(const struct data_hashes *hashes, uint64_t record, uint64_t *reference);

#endif
