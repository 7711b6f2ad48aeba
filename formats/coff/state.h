/*
 * What the steps of a COFF split share. Internal to formats/coff.
 *
 * coff.c describes and checks sections; symbols.c and search.c find the runtime's functions, by
 * name and without; references.c looks for pointers; layout.c cuts bytes out of the file, and
 * write.c writes the headers that tell where things are.
 *
 * What is whose in a section. The runtime puts a marker of its own in front of what the compiler
 * puts into a section, and one behind: a zero byte each for names, counters and bitmap, a record of
 * zeros each for data. The functions that tell the bounds give what is between the markers, and
 * that is what profiles have, and what the sidecar keeps as the section. (llvm-cov skips the first
 * byte of .lprfn in a linked COFF image, and takes zeros at the end for padding, so an ELF file
 * with just what is between means the same to it.) The counters are aligned to 8 bytes, and the
 * marker in front of them is one byte: the runtime's bound is 7 bytes in front of the first
 * counter, and profiles begin with those 7 bytes. The other sections have no markers.
 *
 * Data and bitmap need not be sections of their own: coff/merged.c finds them among other data.
 */
#ifndef COVSPLIT_FORMATS_COFF_STATE_H
#define COVSPLIT_FORMATS_COFF_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/coff/read.h"
#include "formats/coff/relocations.h"
#include "formats/format.h"

struct coff_state {
    struct planning base;
    struct coff_image image;

    size_t data_host; /* the section that the linker merged data into; NO_INDEX: into none */
    uint32_t kept_raw_size[SECTION_KIND_MAX + 1]; /* of removed sections: SizeOfRawData to be */
    uint32_t host_raw_size;                       /* of the data's host: likewise */
    size_t dropped_sections; /* from the end of the table: removed with their headers */
    uint32_t base_relocation_size;
    bool drops_certificates;
    size_t check_sum_literal; /* in the edits' literals; SIZE_MAX: the image has no checksum */
};

/* ---- coff/symbols.c ---- */

/* Finds the runtime's symbols in the symbol table and in the map file, where there are such. False
 * for damaged ones. */
bool coff_symbols_find(struct coff_state *state, struct error *error);
/* Visits the symbols of both, as code_operations has it. */
bool coff_symbols_visit(const struct planning *planning, runtime_symbol_visitor visit,
                        void *context);

/* ---- coff/search.c ---- */

/* Looks for the runtime's functions where no symbols tell: the functions that do nothing but return
 * a bound. None is found where it is not the only one. */
void coff_search_functions(struct coff_state *state);
/* The same for the variable with the version. */
void coff_search_version(struct coff_state *state);

/* ---- coff/references.c, as code_operations has them ---- */

bool coff_next_code(const struct planning *planning, size_t *index, struct code *code);
/* The code is that behind any jump to it. */
bool coff_code_of(const struct planning *planning, const struct runtime_definition *definition,
                  struct code *code);
bool coff_find_pointer(const struct planning *planning, const struct reference_target *target,
                       uint64_t *from, const char **reason);

/* ---- coff/merged.c ---- */

/* Finds the records in .data, where the image has no section of them: they are a part then, and
 * data_host is set. False: no memory. */
bool coff_merged_find_records(struct coff_state *state, struct error *error);
/* Says of records that must be somewhere and were not found that they stay. */
void coff_merged_explain(struct coff_state *state);
/* Finds their bitmap there too. Needs the layout of the records. */
void coff_merged_find_bitmap(struct coff_state *state);
/* Finds the stub record of a stripped image in .data, where no records are known: it and the marker
 * in front of it are a part then, and its bitmap is another. */
void coff_merged_find_stub(struct coff_state *state);
/* Whether the image has names, and none of them is the record's: *nameless. False: no memory. */
bool coff_merged_is_nameless(const struct coff_state *state, struct bytes record, bool *nameless,
                             struct error *error);

/* ---- coff/claims.c ---- */

/* Whether a record that has `count` counters from the address `first` on covers all of the section:
 * it has the runtime's markers around them, and bytes of alignment in front. */
bool coff_covers_all(const struct coff_section *counters, uint64_t first, uint64_t count);
/* Whether other parts of the image have a claim to a section's bytes in the file. */
bool coff_is_claimed(const struct coff_image *image, const struct coff_section *section);
/* Whether nothing but the section itself has a claim to its bytes. Keeps it where not. */
bool coff_check_claims(struct coff_state *state, enum section_kind kind);

/* ---- coff/layout.c, coff/write.c, as struct format has them ---- */

bool coff_layout(struct planning *planning, struct error *error);
bool coff_write(struct planning *planning, struct error *error);
/* Writes the checksum. */
bool coff_seal(struct planning *planning, struct error *error);

#endif
