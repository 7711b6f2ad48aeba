/*
 * Sections of COFF objects that refer to symbols by number or by name, not by relocations.
 * Internal to formats/object.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_COFF_OBJECT_REFERENCES_H
#define COVSPLIT_FORMATS_OBJECT_COFF_OBJECT_REFERENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/intern_table.h"
#include "common/base/result.h"
#include "formats/object/coff_object_read.h"
#include "formats/object/object.h"

/* In place of the new number of a symbol that goes, and of an auxiliary record, to which nothing
 * may refer. */
#define COFF_SYMBOL_GONE UINT32_MAX
#define COFF_SYMBOL_NONE (UINT32_MAX - 1)

/* The names of the records that go. Initialize to {0}; free with coff_records_free. */
struct coff_records {
    struct intern_table numbers; /* of NameRefs */
    struct buffer groups;        /* of each of these: 1 << enum packed_group */
};

void coff_records_free(struct coff_records *records);

/* Adds the name of a record's symbol, without an underscore before it. Unfit if it is none, or one
 * that was added before. */
enum result coff_records_add(struct coff_records *records, struct bytes name);

/* True if the name is one that a compiler gives to the symbol of a record. */
bool coff_name_is_of_record(struct bytes name);

/* What the numbers of symbols become. */
struct coff_numbering {
    const uint32_t *symbols;
    uint32_t symbol_count;
    bool has_underscores;
    const struct coff_records *records;
};

/* Sets *now to the new number of a symbol. Unfit, here and below: the object was kept. */
enum result coff_renumber(const struct coff_numbering *numbering, uint32_t was, uint32_t *now,
                          struct object_packing *packing);

/* Makes the new contents of a section. *changes is false, and nothing was made, if the section
 * refers to nothing in such a way. */
enum result coff_references_change(const struct coff_numbering *numbering,
                                   const struct coff_object_section *section,
                                   struct buffer *contents, bool *changes,
                                   struct object_packing *packing);

#endif
