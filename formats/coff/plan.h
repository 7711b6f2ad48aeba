/*
 * What the parts of the COFF planner share. Internal to formats/coff*.c.
 *
 * The planner works in steps, each in a file of its own: coff.c describes the image and decides;
 * coff/symbols.c and coff/search.c find the runtime's functions, by name and without;
 * coff/runtime.c decides whether names and data can go and rewrites the functions; coff/layout.c
 * cuts bytes out of the file, and coff/headers.c writes the tables that tell where things are.
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
#ifndef COVSPLIT_FORMATS_COFF_PLAN_H
#define COVSPLIT_FORMATS_COFF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/coff/read.h"
#include "formats/coff/relocations.h"
#include "formats/image.h"
#include "formats/machine/accessor.h"
#include "formats/runtime/callers.h"
#include "formats/runtime/rules.h"
#include "formats/runtime/stub.h"
#include "formats/runtime/symbols.h"

struct coff_plan_state {
    struct coff_image image;
    const struct image_options *options;
    struct image_plan *plan;

    /* The runtime's functions and its version variable. Where the image has no symbols they were
     * found by what they do. */
    struct runtime_definition definitions[RUNTIME_DEFINITIONS_MAX];
    size_t definition_count;
    bool has_symbols;                /* a symbol table or a map file tells them */
    struct runtime_callers *callers; /* while coff_tell_functions runs */

    /* Section indices by kind; NO_INDEX where the image has none. */
    size_t section_index[SECTION_KIND_MAX + 1];
    size_t data_host; /* the section that the linker merged data into; NO_INDEX: into none */
    bool has_record_layout;
    struct profile_record_layout record_layout;
    uint8_t stub[STUB_RECORD_MAX];

    uint32_t kept_raw_size[SECTION_KIND_MAX + 1]; /* of removed sections: SizeOfRawData to be */
    uint32_t host_raw_size;                       /* of the data's host: likewise */
    size_t dropped_sections; /* from the end of the table: removed with their headers */
    uint32_t base_relocation_size;
    bool drops_certificates;
    size_t check_sum_literal; /* in the edits' literals; SIZE_MAX: the image has no checksum */
};

/* Adds a section, or a part of one, to the plan. */
void coff_plan_add_section(struct coff_plan_state *state, enum section_kind kind, size_t index);
bool coff_plan_removes(struct coff_plan_state *state, enum section_kind kind);
/* The section stays, for this reason. Returns false, so that checks can return it. */
bool coff_plan_keep(struct coff_plan_state *state, enum section_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- coff/symbols.c ---- */

/* Finds the runtime's symbols in the symbol table and in the map file, where there are such. False
 * for damaged ones. */
bool coff_symbols_find(struct coff_plan_state *state, struct error *error);

/* Tells all functions that symbols name: see runtime/callers.h. */
void coff_tell_functions(struct coff_plan_state *state, struct runtime_callers *callers);

/* ---- coff/search.c ---- */

/* Looks for the runtime's functions where no symbols tell: the functions that do nothing but return
 * a bound. None is found where it is not the only one. */
void coff_search_functions(struct coff_plan_state *state);
/* The same for the variable with the version. */
void coff_search_version(struct coff_plan_state *state);

/* Section by section, as runtime/rules.h wants it, with the state as `format`. */
bool coff_next_code(const void *format, size_t *index, struct code *code);

/* The code of a definition, behind any jump to it; as runtime/rules.h wants it, with the state as
 * `format`. */
bool coff_code_of(const void *format, const struct runtime_definition *definition,
                  struct code *code);

/* Decodes it. False where the body is not a known one. */
bool coff_runtime_decode(const struct coff_plan_state *state,
                         const struct runtime_definition *definition, struct code *code,
                         struct accessor *accessor);

/* Whether code or a pointer refers to [address, address + size), other than in the bodies of the
 * known functions: *from is where. Also true where that cannot be told: *reason then says why, and
 * is NULL otherwise. Only looks near both ends of the range in code for x86-64. */
bool coff_find_reference(const struct coff_plan_state *state, uint64_t address, uint64_t size,
                         uint64_t *from, const char **reason);

/* ---- coff/merged.c ---- */

/* Finds the records in .data, where the image has no section of them: they are a part then, and
 * data_host is set. False: no memory. */
bool coff_merged_find_records(struct coff_plan_state *state, struct error *error);
/* Says of records that must be somewhere and were not found that they stay. */
void coff_merged_explain(struct coff_plan_state *state);
/* Finds their bitmap there too. Needs the layout of the records. */
void coff_merged_find_bitmap(struct coff_plan_state *state);
/* Finds the stub record of a stripped image in .data, where no records are known: it and the marker
 * in front of it are a part then, and its bitmap is another. */
void coff_merged_find_stub(struct coff_plan_state *state);
/* Whether the image has names, and none of them is the record's: *nameless. False: no memory. */
bool coff_merged_is_nameless(const struct coff_plan_state *state, struct bytes record,
                             bool *nameless, struct error *error);

/* ---- coff.c ---- */

/* Whether a record that has `count` counters from the address `first` on covers all of the section:
 * it has the runtime's markers around them, and bytes of alignment in front. */
bool coff_covers_all(const struct coff_section *counters, uint64_t first, uint64_t count);
/* Whether other parts of the image have a claim to a section's bytes in the file. */
bool coff_is_claimed(const struct coff_image *image, const struct coff_section *section);

/* ---- coff/runtime.c ---- */

/* Gives the sections of the runtime the bounds that its functions tell. */
void coff_runtime_describe(struct coff_plan_state *state);
/* Decides names and data. Adds the edits of the functions. */
bool coff_runtime_plan(struct coff_plan_state *state, struct error *error);

/* ---- coff/layout.c, coff/headers.c ---- */

/* Adds the edits that take the removed sections out of the file. */
bool coff_layout_plan(struct coff_plan_state *state, struct error *error);
/* Adds the edits of the headers and tables, and finishes the script. */
bool coff_headers_plan(struct coff_plan_state *state, struct error *error);

#endif
