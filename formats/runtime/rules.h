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

#include "formats/image.h"
#include "formats/machine/accessor.h"
#include "formats/machine/search.h"
#include "formats/runtime/symbols.h"

/* What a format tells of its image. The functions get `format`. */
struct runtime_image {
    const struct input *input;
    struct image_plan *plan;
    const struct runtime_definition *definitions;
    size_t definition_count;
    uint16_t machine;           /* an ELF machine number */
    bool has_absolute_operands; /* code may hold addresses: the image is loaded where it says */
    const char *folding_advice; /* "link without ...": what makes functions share their code */
    const char *missing_advice; /* why a symbol may be missing, and what to do */

    const void *format;
    /* The code from the definition's first instruction to the end of what is loaded with it. */
    bool (*code_of)(const void *format, const struct runtime_definition *definition,
                    struct code *code);
    /* The executable section with this index or the next one behind it; *index is then behind that.
     * False behind the last. */
    bool (*next_code)(const void *format, size_t *index, struct code *code);
    /* True where another section starts at the address: references to it may mean that one. */
    bool (*is_start_of_section)(const void *format, uint64_t address);
    /* What a slot of 8 bytes holds at run time. NULL: no function of the runtime loads its result
     * in this format. */
    bool (*slot_value)(const void *format, uint64_t slot, uint64_t *value);
};

/* The section stays, for this reason. Returns false, so that checks can return it. */
bool runtime_keep(const struct runtime_image *image, enum section_kind kind, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

/* Decodes the body of a definition. False where it is not a known one. */
bool runtime_decode(const struct runtime_image *image, const struct runtime_definition *definition,
                    struct code *code, struct accessor *accessor);

/* Records may go only where names go too, as these leave the tripwire by which a profile without
 * its records is known: else the records stay, with the reason. */
bool runtime_check_names_go(const struct runtime_image *image, bool names_go);

/* Every definition of `symbol` must return `expected`, and there must be one. Where not, the
 * section `kind` stays, with the reason. */
bool runtime_check_accessor(const struct runtime_image *image, enum section_kind kind,
                            enum runtime_symbol symbol, uint64_t expected);

/* A function that gets a new body must not be another function too. */
bool runtime_is_shared(const struct runtime_image *image, enum runtime_symbol symbol);
bool runtime_check_not_shared(const struct runtime_image *image, enum section_kind kind,
                              enum runtime_symbol symbol);

/* Whether every definition of `symbol` can be made to return `value`. */
bool runtime_can_rewrite(const struct runtime_image *image, enum runtime_symbol symbol,
                         uint64_t value);

/* Adds the edits by which every definition of `symbol` returns `value`. False where one cannot, or
 * there is no memory. */
bool runtime_rewrite(const struct runtime_image *image, enum runtime_symbol symbol, uint64_t value);

/* Whether code of the image refers to the target, other than in the bodies of the runtime's
 * functions: *from is where. May see a reference where there is none, never misses one of the forms
 * that accessor.h lists. target->absolute need not be set. */
bool runtime_find_code_reference(const struct runtime_image *image,
                                 const struct reference_target *target, uint64_t *from);

/* Calls `visit` for all operands in the code of the image that refer to the target. False where it
 * stopped that. */
bool runtime_search_code(const struct runtime_image *image, const struct reference_target *target,
                         code_search_visitor visit, void *context);

/* The same as runtime_find_code_reference for the two ends of a section. */
bool runtime_find_reference_to_bounds(const struct runtime_image *image, uint64_t address,
                                      uint64_t size, uint64_t *from);

/* True where a function of the runtime loads its result from this slot. */
bool runtime_is_accessor_slot(const struct runtime_image *image, uint64_t slot);

#endif
