/*
 * The profile runtime in an image: its symbols, its functions as code, what else refers to the same
 * addresses, and the one record that a stripped image keeps. The rules are the same for every
 * format; a format only says where its symbols and its code are.
 *
 * Nothing is taken on trust. A function must decode to a body that is understood before its result
 * is believed, and all code is searched for other references to the same bytes.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_RUNTIME_H
#define COVSPLIT_FORMATS_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/llvm/profile.h"
#include "formats/image.h"
#include "formats/machine/machine.h"

/* ---- symbols (accessors.c) ---- */

enum runtime_symbol {
    RUNTIME_BEGIN_DATA,
    RUNTIME_END_DATA,
    RUNTIME_BEGIN_NAMES,
    RUNTIME_END_NAMES,
    RUNTIME_BEGIN_COUNTERS,
    RUNTIME_END_COUNTERS,
    RUNTIME_BEGIN_BITMAP,
    RUNTIME_END_BITMAP,
    RUNTIME_RAW_VERSION,     /* a variable of 8 bytes; the others are functions */
    RUNTIME_SET_VALUE_SITES, /* changes records; the runtime itself never calls it */
    RUNTIME_OTHER_BOUND,     /* any other function named __llvm_profile_begin_... or _end_... */
    RUNTIME_SYMBOLS,
};

/* All names of the runtime's symbols start with this. */
#define RUNTIME_PREFIX "__llvm_profile_"

/* "__llvm_profile_begin_data", ...; not for RUNTIME_OTHER_BOUND, which stands for many names. */
const char *runtime_symbol_name(enum runtime_symbol symbol);

struct runtime_definition {
    enum runtime_symbol symbol;
    uint64_t address;
    uint64_t size;  /* 0: not known */
    bool is_thumb;  /* see struct code */
    bool is_shared; /* a symbol with another name is at the same address (identical code folding) */
};

/* More copies of the accessors than this are not plausible in one image. */
#define RUNTIME_DEFINITIONS_MAX 256

struct runtime_symbols {
    bool from_symbol_table; /* by a symbol table or the like; if not, they may be found by what they
                               do */
    bool is_linked;         /* some symbol of the runtime is there, of these or others */
    bool has_functions;     /* some function has a symbol, of the runtime or not */
    struct runtime_definition definitions[RUNTIME_DEFINITIONS_MAX];
    size_t count;
    const char *base_name; /* machine->base_symbol if it is looked for as well, else NULL */
    uint64_t base;         /* its value; 0: there is none */
    bool has_bases;        /* it has several values */
};

/* False if there are too many. */
bool runtime_symbols_add(struct runtime_symbols *symbols, enum runtime_symbol symbol,
                         uint64_t address, uint64_t size);

/* The state of a split; only its format and the planner know what is in it (format.h). */
struct planning;

/* A symbol of an image that stands for an address in it. */
struct image_symbol {
    struct bytes name; /* the name ends at a NUL or a space; more may follow. As in C: without an
                          underscore that some formats prefix */
    uint64_t address;
    uint64_t size;    /* 0: not known */
    bool is_function; /* or may be one */
    bool is_thumb;    /* see struct code */
};

/* A place in the symbols of an image, from {0} on; what its members mean is the format's matter. */
struct symbol_walk {
    size_t table;
    uint64_t at, released;
    uint64_t first_name, names_end; /* of the names that were read since */
    struct bytes symbols, strings, more;
    bool bad; /* the symbols could not be read */
};

/* Takes the next symbol of an image; false if there is none left, or the rest cannot be read. */
typedef bool (*runtime_symbols_next)(const struct planning *planning, struct symbol_walk *walk,
                                     struct image_symbol *symbol);

/* Finds all definitions, and marks those that share their code. False if there are too many, or the
 * symbols could not be read. */
bool runtime_symbols_find(struct runtime_symbols *symbols, runtime_symbols_next next,
                          const struct planning *planning);

/* ---- access to the code of an image ---- */

enum part_kind {
    PART_OTHER,
    PART_CODE,
    /* Data of the program: not names, data, counters and bitmap, nor tables for the linker, the
     * loader or the unwinder, or slots of the GOT. */
    PART_DATA,
};

/* A section of an image. `bases` are the addresses from which numbers in data may count (see
 * rules_find_distance): the start of the image; that of the section, if it has a symbol; and
 * others, which are near the data that they lead to. Unused bases are 0. */
#define DATA_BASES 5
enum { DATA_BASE_IMAGE, DATA_BASE_SECTION, DATA_BASE_OTHERS };
struct image_part {
    enum part_kind kind;
    struct code code; /* the bytes of any kind */
    uint64_t bases[DATA_BASES];
};

/* Access to the code of the images of a format. */
struct code_operations {
    const char *folding_advice; /* "link without ...": what makes functions share their code */
    const char *missing_advice; /* why a symbol may be missing, and what to do */

    /* The code from the definition's first instruction to the end of what is loaded with it. */
    bool (*code_of)(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code);
    /* Describes the section with this index, from 0 on; false if there is none left. */
    bool (*part_at)(const struct planning *planning, size_t index, struct image_part *part);
    /* True if the 4 bytes at the address, of data, are no distance: the loader changes them or
     * reads them as one of its tables, or a variable ends within them. NULL: this never happens. */
    bool (*is_no_distance)(const struct planning *planning, uint64_t address);
    /* True if another section starts at the address, so that references to it may mean that
     * section. NULL: no bound that code uses is at the end of a section. */
    bool (*is_start_of_section)(const struct planning *planning, uint64_t address);
    /* The value that a slot holds at run time. NULL: in this format no function of the runtime
     * loads its result from a slot. */
    bool (*slot_value)(const struct planning *planning, uint64_t slot, uint64_t *value);
    /* True if a pointer in the image leads to the target: *from is its address. Pointers inside the
     * target and those that the runtime's functions use do not count. If this cannot be found out,
     * *reason says why, and is NULL otherwise; the result is then true as well. */
    bool (*find_pointer)(const struct planning *planning, const struct reference_target *target,
                         uint64_t *from, const char **reason);
    /* True if code at `from` that forms this address means the end of another section, which ends
     * there. NULL: this never happens. */
    bool (*means_other_end)(const struct planning *planning, uint64_t address, uint64_t from);
    runtime_symbols_next next_symbol;
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

/* ---- the functions of the runtime (accessors.c) ---- */

/* Finds the address that `symbol` returns. All its definitions must agree, and there must be at
 * least one; otherwise the section `kind` stays, with the reason. */
bool rules_returned(const struct image_code *image, enum section_kind kind,
                    enum runtime_symbol symbol, uint64_t *value);

/* True if a definition of the symbol shares its code with another function. */
bool rules_is_shared(const struct image_code *image, enum runtime_symbol symbol);

/* True if `symbol` can be made to return `value`: no definition may share its code with another
 * function, and each must have room for the new value. */
bool rules_can_rewrite(const struct image_code *image, enum runtime_symbol symbol, uint64_t value);

/* Checks that; if it cannot, the section stays, with the reason. */
bool rules_check_rewrite(const struct image_code *image, enum section_kind kind,
                         enum runtime_symbol symbol, uint64_t value);

/* Adds the edits that make every definition of `symbol` return `value`. False if one cannot be
 * rewritten, or memory runs out. */
bool rules_rewrite(const struct image_code *image, enum runtime_symbol symbol, uint64_t value);

/* All bytes that belong to the body of the definition; false if it cannot be decoded. */
bool rules_find_body(const struct image_code *image, const struct runtime_definition *definition,
                     struct code *body);

/* True if the address is in the body of one of the runtime's functions. */
bool rules_is_inside_accessor(const struct image_code *image, uint64_t address);

/* True if a function of the runtime loads its result from this slot. */
bool rules_is_accessor_slot(const struct image_code *image, uint64_t slot);

/* The next function of the runtime whose body is known, from *index 0 on. False if there is none
 * left. */
bool rules_next_accessor(const struct image_code *image, size_t *index, struct code *code,
                         struct accessor *accessor);

/* ---- references (references.c) ---- */

/* Hits that are judged at a time. Large images with much code have some ten thousand. */
#define HITS_MAX 4096

struct code_hit {
    uint64_t from;
    uint64_t function; /* the last start of a function at or before it */
};

/*
 * The operands in the image's code that refer to a target, without what is no reference.
 *
 * On x86-64 an instruction may start at any byte, and so a search of the code finds many places
 * that are parts of other instructions. But a function starts with an instruction, and so does a
 * section. Decoding from there to such a place tells what it is. Bytes behind an instruction that
 * is not known count as a reference unless target.relative is set: there may be data in the
 * function, such as tables of pointers. So does what machine->is_usual_reference knows: data may
 * look like code.
 *
 * Hits are judged many at a time, in the order of their addresses. One pass over the symbols finds
 * the function of each, and no instruction is decoded twice, so time is in proportion to the image
 * whatever is in it.
 */
struct code_references {
    const struct image_code *image;
    struct code_search search; /* of the current section */
    size_t next_part;
    struct code_hit hits[HITS_MAX];
    size_t hit_count, next_hit;
    /* The decoding of a function, from its start: */
    uint64_t function;
    uint64_t next;    /* address of the next instruction */
    bool last_refers; /* the one before that refers to the target */
    bool is_lost;     /* the next one is not known */
};

/* Takes them one after the other; some may be reported twice. target->absolute need not be set. */
void code_references_open(struct code_references *references, const struct image_code *image,
                          const struct reference_target *target);
bool code_references_next(struct code_references *references, uint64_t *from);

/* True if code of the image, outside the bodies of the runtime's functions, refers to the target:
 * *from is the address where. If may_be_end, code that means another section's end does not count.
 */
bool rules_find_in_code(const struct image_code *image, const struct reference_target *target,
                        bool may_be_end, uint64_t *from);

/* Finds out if code or a pointer refers to [address, address + size). References from that range
 * itself and from the bodies of the runtime's functions do not count. If is_bound, references from
 * code to the end of the range count too.
 *
 * On machines where many numbers in code seem to refer to a large range by chance, only
 * bound_window bytes at either end of it are searched for: code that walks a section starts at one
 * of its bounds, or at a field of its first or last record. If has_records, only references to
 * fields count then: these are at multiples of RULES_FIELD_UNIT from the start (except for numbers
 * of value sites).
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
    REFERENCE_UNKNOWN, /* whether there are pointers is not known: *reason says why */
};
enum reference_kind rules_find_reference(const struct image_code *image, uint64_t address,
                                         uint64_t size, bool is_bound, bool has_records,
                                         uint64_t *from, const char **reason);

/* Finds a distance of [address, address + size) in data, for which no relocation is left: *from is
 * its address. It is a number of 4 bytes, or of 8 whose upper half does not count, that leads
 * exactly to a bound: the start of the range, its end, or what an accessor returns. It may count
 * from its own place; from the start of the image (an RVA in COFF), of its section if that has a
 * symbol (ELF), or of the GOT, from the machine's base register, or from 0.
 *
 * A table of small numbers leads to some bound by chance: one in five does that ascends. But what
 * walks a range must have its start, and its end or its size. So a number is a distance only if
 *   - beside it, up to RULES_TABLE_SIZE bytes before or behind, is another one that leads to
 *     another bound, in the same way or from the same base, or is the size of the range; or
 *   - code or a pointer refers to it, or to a place up to RULES_FRONT_SIZE bytes in front of it,
 *     where its table or structure may start: the code may know the size.
 * Two numbers beside each other that lead to two bounds may also count from a place up to
 * RULES_TABLE_SIZE bytes in front, if code or a pointer refers to that: the start of their table.
 * No number that ascends, descends or repeats in even steps together with three others is a
 * distance, unless they lead to one place: rows of a table may have the same distances.
 *
 * What stays open: one bound alone in the middle of a larger table; distances to other addresses in
 * the range, at places that are not multiples of 4, in units other than bytes, numbers below 64 KiB
 * that count from the GOT, powers of two, from any other label (those from the section that they
 * lead to, as SECREL in COFF, are small numbers like any others), and in data among code. */
#define RULES_TABLE_SIZE 256
#define RULES_FRONT_SIZE 64
bool rules_find_distance(const struct image_code *image, uint64_t address, uint64_t size,
                         uint64_t *from);

/* Finds code of the program itself that calls the functions of the runtime which lead to names and
 * records, or a pointer to one of them: *from is the address where.
 *
 * These functions are hidden, but a program is linked with them, and some programs walk their own
 * records: LLVM's tests do, and also profile values by hand. Such a program must keep what it looks
 * at. Only its calls show this, because the functions are in every image. The runtime calls them
 * too, so a caller is judged by the name of the function that it is in. */
bool rules_find_foreign_caller(const struct image_code *image, uint64_t *from);

/* ---- the stub record (accessors.c) ---- */

/*
 * The stub is the one profile data record that a stripped image keeps.
 *
 * With no record at all some LLVM versions write an empty profile, and others lose counts when they
 * merge. So one record stays. It covers all counters and all bitmap bytes and has no value sites.
 * Its NameRef is the first 8 bytes of the UUID (zero-padded), by which the sidecar is found even if
 * the runtime writes no binary ID. Its FuncHash is a digest of the names, records and coverage
 * mapping of the image, because two builds may have one UUID: someone may have set it. So online
 * merging refuses the profile of another build, and a sidecar is taken for a profile only if it is
 * that of the image that wrote it.
 */

#define STUB_RECORD_MAX PROFILE_RECORD_SIZE_MAX

/* The layout of the records of an image whose profiles have that raw version. False if the version
 * or one of its variant bits is not known, because then it is not known either what the runtime
 * does with its data. */
bool stub_layout(uint64_t raw_version, size_t pointer_size, struct profile_record_layout *layout);

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
