/*
 * What the steps of packing a COFF object share: coff_object.c decides what goes and what changes,
 * coff_object_write.c writes the object. Internal to formats/object.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_COFF_OBJECT_PACKING_H
#define COVSPLIT_FORMATS_OBJECT_COFF_OBJECT_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "formats/object/coff_object_read.h"
#include "formats/object/coff_object_references.h"
#include "formats/object/object.h"
#include "formats/object/units.h"

enum coff_purpose {
    COFF_OTHER,
    COFF_UNITS,  /* .lcovmap$M */
    COFF_RECORD, /* .lcovfun$M: goes */
};

struct coff_part {
    struct coff_object_section section;
    enum coff_purpose purpose;
    bool is_changed;
    struct buffer changed; /* its new contents */
    uint32_t number;       /* its new one; 0: it goes */
    /* Of a record: its definition has been seen; and the COMDAT symbol, 0 if there is none. */
    bool has_definition;
    bool keeps_any; /* the selection: any one of those with this symbol */
    uint32_t leader;
};

struct coff_packing {
    struct object_packing *packing;
    struct coff_object object;
    struct coff_part *parts;
    uint32_t *symbols; /* their new numbers */
    uint32_t part_count;
    uint32_t symbol_count;
    struct coff_records records;
    struct coff_numbering numbering;
};

/* A symbol that stands for a section, with the record that describes it. */
static inline bool coff_is_definition(const struct coff_object_symbol *symbol)
{
    return symbol->storage_class == IMAGE_SYM_CLASS_STATIC && symbol->section > 0 &&
           symbol->type == 0 && symbol->value == 0 && symbol->aux_count == 1;
}

static inline enum result coff_keep_damaged(struct coff_packing *state, const char *what)
{
    return object_keep(state->packing, "damaged: %s; compile it again", what);
}

/* Writes the packed object to packing->contents. Unfit: it was kept. */
enum result coff_object_write(struct coff_packing *state);

#endif
