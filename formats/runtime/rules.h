/*
 * The functions of the profile runtime as code of an image: what they return, who else returns it,
 * and how they are made to return something else. The same rules for every format; a format only
 * tells where its code is.
 *
 * Nothing is taken on trust. A function is decoded, and must have a body that is understood, before
 * anything that it says is believed; and code is searched for whoever refers to the same bytes.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_RULES_H
#define COVSPLIT_FORMATS_RUNTIME_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/machine/search.h"
#include "formats/plan.h"
#include "formats/runtime/symbols.h"

/* How a format tells of the code of its images. */
struct code_operations {
    const char *folding_advice; /* "link without ...": what makes functions share their code */
    const char *missing_advice; /* why a symbol may be missing, and what to do */

    /* The code from the definition's first instruction to the end of what is loaded with it. */
    bool (*code_of)(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code);
    /* The executable section with this index or the next one behind it; *index is then behind that.
     * False behind the last. */
    bool (*next_code)(const struct planning *planning, size_t *index, struct code *code);
    /* True where another section starts at the address: references to it may mean that one. NULL:
     * no bound of a section is where it ends. */
    bool (*is_start_of_section)(const struct planning *planning, uint64_t address);
    /* What a slot holds at run time. NULL: no function of the runtime loads its result in this
     * format. */
    bool (*slot_value)(const struct planning *planning, uint64_t slot, uint64_t *value);
    /* Whether a pointer in the image leads to the target, other than from its range and from what
     * the runtime's functions are made of: *from is where. Also true where that cannot be told:
     * *reason then says why, and is NULL otherwise. */
    bool (*find_pointer)(const struct planning *planning, const struct reference_target *target,
                         uint64_t *from, const char **reason);
    /* Whether code at `from` means another section's end by the address, where one ends. NULL: none
     * ever does. */
    bool (*means_other_end)(const struct planning *planning, uint64_t address, uint64_t from);
    runtime_symbols_each each_symbol;
};

/* The code of an image, as the rules see it. */
struct image_code {
    const struct code_operations *operations;
    const struct planning *planning;
    const struct input *input;
    struct image_plan *plan;
    const struct machine *machine;
    bool has_absolute_operands; /* code may hold addresses: the image is loaded where it says */
    /* Every address in code has a relocation, of which find_pointer tells: code is not searched. */
    bool code_has_relocations;
    uint64_t bound_window; /* see rules_find_reference */
    struct runtime_symbols symbols;
};

/* All definitions of `symbol` must return the same address, *value, and there must be one. Where
 * not, the section `kind` stays, with the reason. */
bool rules_returned(const struct image_code *image, enum section_kind kind,
                    enum runtime_symbol symbol, uint64_t *value);

/* Whether a definition of the symbol is another function too. */
bool rules_is_shared(const struct image_code *image, enum runtime_symbol symbol);

/* The function is going to return `value`: every definition must be no other function, and have
 * room for that. Where not, the section stays, with the reason. */
bool rules_check_rewrite(const struct image_code *image, enum section_kind kind,
                         enum runtime_symbol symbol, uint64_t value);

/* Adds the edits by which every definition of `symbol` returns `value`. False where one cannot, or
 * there is no memory. */
bool rules_rewrite(const struct image_code *image, enum runtime_symbol symbol, uint64_t value);

/* Calls `visit` for all operands in the code of the image that refer to the target, of which
 * `absolute` need not be set. False where it stopped that. */
bool rules_search_code(const struct image_code *image, const struct reference_target *target,
                       code_search_visitor visit, void *context);

/* Whether code of the image refers to the target, other than in the bodies of the runtime's
 * functions: *from is where. */
bool rules_find_in_code(const struct image_code *image, const struct reference_target *target,
                        uint64_t *from);

/* Whether code, or a pointer, refers to [address, address + size), other than from there and in the
 * bodies of the runtime's functions; code may also refer to the end, where that is_bound.
 *
 * Where many numbers in code seem to refer to a large range by chance, it is searched for
 * bound_window bytes at either end alone: who walks a section starts at one of its bounds, or at a
 * field of its first or last record. Where it has_records, and fields are at multiples of
 * RULES_FIELD_UNIT from its start (but for numbers of value sites), only those count then. */
#define RULES_FIELD_UNIT 4
enum reference_kind {
    REFERENCE_NONE,
    REFERENCE_POINTER, /* *from is where */
    REFERENCE_CODE,    /* *from is where */
    REFERENCE_UNKNOWN, /* pointers cannot be told: *reason says why */
};
enum reference_kind rules_find_reference(const struct image_code *image, uint64_t address,
                                         uint64_t size, bool is_bound, bool has_records,
                                         uint64_t *from, const char **reason);

/* All that belongs to the body of the definition; false where it cannot be decoded. */
bool rules_find_body(const struct image_code *image, const struct runtime_definition *definition,
                     struct code *body);

/* True where the address is in a body of the runtime's functions. */
bool rules_is_inside_accessor(const struct image_code *image, uint64_t address);

/* True where a function of the runtime loads its result from this slot. */
bool rules_is_accessor_slot(const struct image_code *image, uint64_t slot);

#endif
