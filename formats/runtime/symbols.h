/*
 * The symbols of the profile runtime: the same names in every format, and how they are found.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_SYMBOLS_H
#define COVSPLIT_FORMATS_RUNTIME_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

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

/* Which of these names the text starts with; it must end there, or a space or control byte
 * follow. */
bool runtime_symbol_classify(struct bytes text, enum runtime_symbol *symbol);

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
    bool are_told; /* by a symbol table or the like; if not, they may be found by what they do */
    struct runtime_definition definitions[RUNTIME_DEFINITIONS_MAX];
    size_t count;
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
    bool is_function; /* or may be one */
};

/* Calls `visit` for every symbol of an image. If it returns false, stops and returns false. */
typedef bool (*runtime_symbol_visitor)(void *context, const struct image_symbol *symbol);
typedef bool (*runtime_symbols_each)(const struct planning *planning, runtime_symbol_visitor visit,
                                     void *context);

/* Finds all definitions, and marks those that share their code. False if there are too many. */
bool runtime_symbols_find(struct runtime_symbols *symbols, runtime_symbols_each each,
                          const struct planning *planning);

#endif
