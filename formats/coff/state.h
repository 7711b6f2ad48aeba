/*
 * What the steps of a COFF split share. Internal to formats/coff.
 *
 * coff.c describes and checks sections; symbols.c and search.c find the runtime's functions, with
 * and without symbols; references.c looks for pointers; layout.c cuts bytes out of the file, and
 * write.c writes the headers that tell where things are.
 *
 * What belongs to whom in a section: the runtime puts a marker of its own before and behind what
 * the compiler puts into a section: a zero byte for names, counters and bitmap, a record of zeros
 * for data. The functions that return the bounds return those of the bytes between the markers;
 * these bytes go into profiles, and the sidecar stores them as the section. (llvm-cov skips the
 * first byte of .lprfn in a linked COFF image, and treats zeros at the end as padding, so an ELF
 * file with only the bytes between the markers means the same to it.) The counters are aligned to 8
 * bytes, but the marker before them is one byte: the bound that the runtime returns is 7 bytes
 * before the first counter, and profiles begin with these 7 bytes. The other sections have no
 * markers.
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

    size_t data_host;        /* section into which the linker merged data; NO_INDEX: none */
    size_t dropped_sections; /* at the end of the table, removed with their headers */
    uint32_t base_relocation_size;
    bool drops_certificates;
    size_t check_sum_literal; /* offset in the edits' literals; SIZE_MAX: no checksum */
};

/* ---- coff/symbols.c ---- */

/* Finds the runtime's symbols in the symbol table and in the map file, if there are any. False if
 * either is damaged. */
bool coff_symbols_find(struct coff_state *state, struct error *error);
/* Visits the symbols of both (an operation of struct code_operations). */
bool coff_symbols_visit(const struct planning *planning, runtime_symbol_visitor visit,
                        void *context);

/* ---- coff/search.c ---- */

/* Looks for the runtime's functions if there are no symbols: functions that only return a bound. A
 * function counts only if no other one does the same. */
void coff_search_functions(struct coff_state *state);
/* Looks for the variable with the profiles' version in the same way. */
void coff_search_version(struct coff_state *state);

/* ---- coff/references.c: operations of struct code_operations ---- */

bool coff_next_code(const struct planning *planning, size_t *index, struct code *code);
bool coff_next_data(const struct planning *planning, size_t *index, struct image_data *data);
bool coff_is_loaders(const struct planning *planning, uint64_t address);
/* Follows a jump at the definition's address to the code itself. */
bool coff_code_of(const struct planning *planning, const struct runtime_definition *definition,
                  struct code *code);
bool coff_find_pointer(const struct planning *planning, const struct reference_target *target,
                       uint64_t *from, const char **reason);

/* ---- coff/merged.c ---- */

/* Finds the records in .data if the image has no section for them: they then become a part, and
 * data_host is set. False if memory runs out. */
bool coff_merged_find_records(struct coff_state *state, struct error *error);
/* Gives the reason why records stay that must be somewhere but were not found. */
void coff_merged_explain(struct coff_state *state);
/* Finds the bitmap of these records there, too. Requires the layout of records to be known. */
void coff_merged_find_bitmap(struct coff_state *state);
/* Finds the stub record of a stripped image in .data if no records are known: the stub and the
 * marker before it become one part, and its bitmap another. */
void coff_merged_find_stub(struct coff_state *state);
/* Sets *nameless to whether the image has names, but none that belongs to the record. False if
 * memory runs out. */
bool coff_merged_is_nameless(const struct coff_state *state, struct bytes record, bool *nameless,
                             struct error *error);

/* ---- coff/claims.c ---- */

/* Whether a record with `count` counters from the address `first` on covers all of the section,
 * except for the runtime's markers around the counters and the padding before them. */
bool coff_covers_all(const struct coff_section *counters, uint64_t first, uint64_t count);
/* Whether other parts of the image use the section's bytes in the file. */
bool coff_is_claimed(const struct coff_image *image, const struct coff_section *section);
/* Whether only the section itself uses its bytes; if not, the section is kept. */
bool coff_check_claims(struct coff_state *state, enum section_kind kind);

/* ---- coff/layout.c, coff/write.c: operations of struct format ---- */

bool coff_layout(struct planning *planning, struct error *error);
bool coff_write(struct planning *planning, struct error *error);
/* Writes the checksum. */
bool coff_seal(struct planning *planning, struct error *error);

#endif
