/*
 * Demangled names of functions (C++, Rust), by the demangler of LLVM or binutils, which is run as a
 * filter.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_DEMANGLE_H
#define COVSPLIT_SPLIT_SIDECARS_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* The part of a function's name that can be demangled; NULL if there is none: "_Z4workv" in
 * "file.cc:_Z4workv". */
const char *demangle_part(const char *name);

/* Sets `text` to the demangled names, each with a NUL at its end; a part that is not a name after
 * all is unchanged. *is_there is false if no demangler is installed. */
bool demangle(const char *const *parts, size_t count, struct buffer *text, bool *is_there,
              struct error *error);

/* Whether the demangled name is the one that was asked for: as it is, or without its parameters,
 * what it returns, the arguments of its template, and the hash of Rust. */
bool demangled_is(const char *demangled, const char *wanted);

/* The last identifier in such a name, which its mangled form contains; *length is 0 if it has none.
 */
const char *demangled_key(const char *wanted, size_t *length);

#endif
