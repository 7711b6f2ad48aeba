/*
 * The functions of the profile runtime, as code of an image: what they return, what else refers to
 * the same addresses, and how they are made to return something else. The rules are the same for
 * every format; a format only says where its code is.
 *
 * Nothing is taken on trust. A function must decode to a body that is understood before its result
 * is believed, and all code is searched for other references to the same bytes.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_RULES_H
#define COVSPLIT_FORMATS_RUNTIME_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/machine/machine.h"
#include "formats/plan.h"
#include "formats/runtime/symbols.h"

/* Data of an image, and the addresses from which numbers in it may count (see
 * rules_find_reference): the start of the image; that of the section, if it has a symbol; and
 * others, which are near the data that they lead to. Unused bases are 0. */
#define DATA_BASES 5
enum { DATA_BASE_IMAGE, DATA_BASE_SECTION, DATA_BASE_OTHERS };
struct image_data {
    struct bytes bytes;
    uint64_t address;
    uint64_t bases[DATA_BASES];
};

/* How a format gives access to the code of its images. */
struct code_operations {
    const char *folding_advice; /* "link without ...": what makes functions share their code */
    const char *missing_advice; /* why a symbol may be missing, and what to do */

    /* The code from the definition's first instruction to the end of what is loaded with it. */
    bool (*code_of)(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code);
    /* The executable section with this index, or the next one; *index is then one past it. False if
     * there is none left. */
    bool (*next_code)(const struct planning *planning, size_t *index, struct code *code);
    /* In the same way, from index 0 on, the sections with data of the program: not names, data,
     * counters and bitmap, nor tables for the linker, the loader or the unwinder, or slots of the
     * GOT. */
    bool (*next_data)(const struct planning *planning, size_t *index, struct image_data *data);
    /* True if the loader changes the bytes at the address, of data, or reads them as one of its
     * tables: what is there is no distance. NULL: this never happens. */
    bool (*is_loaders)(const struct planning *planning, uint64_t address);
    /* True if another section starts at the address, so that references to it may mean that
     * section. NULL: no bound that code uses is at the end of a section. */
    bool (*is_start_of_section)(const struct planning *planning, uint64_t address);
    /* The value that a slot holds at run time. NULL: in this format no function of the runtime
     * loads its result from a slot. */
    bool (*slot_value)(const struct planning *planning, uint64_t slot, uint64_t *value);
    /* Whether a pointer in the image leads to the target: *from is its address. Pointers inside the
     * target and those that the runtime's functions use do not count. If this cannot be found out,
     * *reason says why, and is NULL otherwise; the result is then true as well. */
    bool (*find_pointer)(const struct planning *planning, const struct reference_target *target,
                         uint64_t *from, const char **reason);
    /* Whether code at `from` that forms this address means the end of another section, which ends
     * there. NULL: this never happens. */
    bool (*means_other_end)(const struct planning *planning, uint64_t address, uint64_t from);
    runtime_symbols_each each_symbol;
};

/* The code of an image, as these rules see it. */
struct image_code {
    const struct code_operations *operations;
    const struct planning *planning;
    const struct input *input;
    struct image_plan *plan;
    const struct machine *machine;
    bool has_absolute_operands; /* code may hold addresses: the image is loaded at a fixed one */
    /* Every address in code has a relocation, which find_pointer checks: code need not be
     * searched. */
    bool code_has_relocations;
    uint64_t bound_window; /* see rules_find_reference */
    struct runtime_symbols symbols;
};

/* Finds the address that `symbol` returns. All its definitions must agree, and there must be at
 * least one; otherwise the section `kind` stays, with the reason. */
bool rules_returned(const struct image_code *image, enum section_kind kind,
                    enum runtime_symbol symbol, uint64_t *value);

/* Whether a definition of the symbol shares its code with another function. */
bool rules_is_shared(const struct image_code *image, enum runtime_symbol symbol);

/* Whether `symbol` can be made to return `value`: no definition may share its code with another
 * function, and each must have room for the new value. */
bool rules_can_rewrite(const struct image_code *image, enum runtime_symbol symbol, uint64_t value);

/* Checks that; if it cannot, the section stays, with the reason. */
bool rules_check_rewrite(const struct image_code *image, enum section_kind kind,
                         enum runtime_symbol symbol, uint64_t value);

/* Adds the edits that make every definition of `symbol` return `value`. False if one cannot be
 * rewritten, or memory runs out. */
bool rules_rewrite(const struct image_code *image, enum runtime_symbol symbol, uint64_t value);

/* Calls `visit` for every operand in the image's code that refers to the target, whose member
 * `absolute` need not be set. False if `visit` stopped the search. */
bool rules_search_code(const struct image_code *image, const struct reference_target *target,
                       code_search_visitor visit, void *context);

/* Whether code of the image, outside the bodies of the runtime's functions, refers to the target:
 * *from is the address where. */
bool rules_find_in_code(const struct image_code *image, const struct reference_target *target,
                        uint64_t *from);

/* Whether code or a pointer refers to [address, address + size). References from that range itself
 * and from the bodies of the runtime's functions do not count. If is_bound, references from
 * code to the end of the range count too.
 *
 * On machines where many numbers in code seem to refer to a large range by chance, only
 * bound_window bytes at either end of it are searched for: code that walks a section starts at one
 * of its bounds, or at a field of its first or last record. If has_records, only references to
 * fields count then: these are at multiples of RULES_FIELD_UNIT from the start (except for numbers
 * of value sites).
 *
 * Data may also hold distances of names and data, for which no relocation is left. A number of 4
 * bytes, or of 8 whose upper half does not count, is one if it leads exactly to a bound: the start
 * of the range, its end, or what an accessor returns. It may count from its own place; from the
 * start of the image (an RVA in COFF), of its section if that has a symbol (ELF), or of the GOT,
 * from the machine's base register, or from 0. It may also count from the start of a table of up to
 * TABLE_SIZE bytes if that leads to two bounds. Measured with bounds at 100 places each in gdb,
 * git, CPython, libclang and others: by chance, 1% of all bounds are hit from the number's own
 * place, less from any other; none in 400 images of the tests. What stays open: distances to other
 * addresses in the range, at places that are not multiples of 4, in units other than bytes, numbers
 * below 64 KiB that count from the GOT, powers of two, from any other label (those from the section
 * that they lead to, as SECREL in COFF, are small numbers like any others), and in data among code.
 *
 * Where instructions can be decoded (machine->judge_instruction), operands
 * relative to the program counter are searched for in all of the range. What stays open: numbers in
 * code of images at fixed addresses that lead to the middle of the range, and functions with data
 * or unknown instructions in front of such an operand. */
#define RULES_FIELD_UNIT 4
enum reference_kind {
    REFERENCE_NONE,
    REFERENCE_POINTER, /* *from is where */
    REFERENCE_CODE,    /* *from is where */
    REFERENCE_OFFSET,  /* a distance in data: *from is where */
    REFERENCE_UNKNOWN, /* whether there are pointers is not known: *reason says why */
};
enum reference_kind rules_find_reference(const struct image_code *image, uint64_t address,
                                         uint64_t size, bool is_bound, bool has_records,
                                         uint64_t *from, const char **reason);

/* All bytes that belong to the body of the definition; false if it cannot be decoded. */
bool rules_find_body(const struct image_code *image, const struct runtime_definition *definition,
                     struct code *body);

/* True if the address is in the body of one of the runtime's functions. */
bool rules_is_inside_accessor(const struct image_code *image, uint64_t address);

/* True if a function of the runtime loads its result from this slot. */
bool rules_is_accessor_slot(const struct image_code *image, uint64_t slot);

#endif
