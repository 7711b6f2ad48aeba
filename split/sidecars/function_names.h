/*
 * The functions of a state that a name stands for.
 *
 * A function may be given as in profiles; or if there is none, without the file that the names of
 * static functions begin with ("helper" for "file.c:helper"); or if there is none of these either,
 * by its demangled name, also without parameters ("foo::bar" for "_ZN3foo3barEi").
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_FUNCTION_NAMES_H
#define COVSPLIT_SPLIT_SIDECARS_FUNCTION_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/state/tests_query.h"

/* Adds the names in profiles of the function to the set. Several are of one function if they
 * are the same demangled, as those of a constructor. Fails if no function has this name, or if
 * several have it, which the error lists. */
bool function_names_find(struct state *state, const struct profile_sidecar_source *source,
                         uint64_t memory_limit, const char *wanted, struct text_set *names,
                         struct error *error);

#endif
