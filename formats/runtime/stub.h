/*
 * The stub record: the one profile data record that a stripped image keeps.
 *
 * With no record at all some LLVM versions write an empty profile, and others lose counts when they
 * merge. So one record stays. It covers all counters and all bitmap bytes and has no value sites.
 * Its NameRef is the first 8 bytes of the UUID (zero-padded), by which the sidecar is found even if
 * the runtime writes no binary ID. Its FuncHash is a digest of the names, records and coverage
 * mapping of the image, because two builds may have one UUID: someone may have set it. So online
 * merging refuses the profile of another build, and a sidecar is taken for a profile only if it is
 * that of the image that wrote it.
 *
 * The layout of records is in llvm/profile.h.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_STUB_H
#define COVSPLIT_FORMATS_RUNTIME_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/uuid.h"
#include "common/llvm/profile.h"

#define STUB_RECORD_MAX PROFILE_RECORD_SIZE_MAX

/* The layout of the records of an image whose profiles have that raw version. False if the version
 * or one of its variant bits is not known, because then it is not known either what the runtime
 * does with its data. */
bool stub_layout(uint64_t raw_version, size_t pointer_size, struct profile_record_layout *layout);

typedef bool (*record_test)(const struct profile_record_layout *layout, const uint8_t *record,
                            bool big_endian);

/* True if the test holds for any of the records, which must be whole. */
bool records_have_one(const struct profile_record_layout *layout, struct bytes records,
                      bool big_endian, record_test test);

/* Addresses and sizes in the image. bitmap_size is 0 if there is no bitmap. */
struct stub_place {
    bool has_narrow_distances; /* 32 bits wide on any machine: COFF */
    uint64_t record;
    uint64_t counters;
    uint64_t counters_size;
    uint64_t bitmap;
    uint64_t bitmap_size;
};

/* Writes layout->record_size bytes, of which the first PROFILE_STUB_ID_SIZE are `id`. False if the
 * counters do not fit the record's fields. */
bool stub_encode(const struct profile_record_layout *layout, uint64_t raw_version,
                 const struct stub_place *place, const uint8_t id[PROFILE_STUB_ID_SIZE],
                 bool big_endian, uint8_t record[STUB_RECORD_MAX]);

#endif
