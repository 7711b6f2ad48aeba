/*
 * The symbols of the profile runtime that a planner looks for: the same names in every format.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_SYMBOLS_H
#define COVSPLIT_FORMATS_RUNTIME_SYMBOLS_H

#include <stdbool.h>
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

/* All names start with this. */
#define RUNTIME_PREFIX "__llvm_profile_"

/* "__llvm_profile_begin_data", ...; not for RUNTIME_OTHER_BOUND, which is many. */
const char *runtime_symbol_name(enum runtime_symbol symbol);

/* Which of them is at the start of the text, with a NUL behind it. */
bool runtime_symbol_classify(struct bytes text, enum runtime_symbol *symbol);

struct runtime_definition {
    enum runtime_symbol symbol;
    uint64_t address;
    uint64_t size;  /* 0: not known */
    bool is_shared; /* a symbol with another name is at the same address (identical code folding) */
};

/* More copies of the accessors than this are not plausible in one image. */
#define RUNTIME_DEFINITIONS_MAX 256

#endif
