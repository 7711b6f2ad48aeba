/*
 * Who else calls the functions of the profile runtime that lead to names and records.
 *
 * They are hidden, but a program is linked with them, and some walk their own records: LLVM's tests
 * do, and profile values by hand. Such a program must keep what it looks at, and nothing but its
 * calls tells, as the functions are in every image. The runtime calls them too; so a caller is
 * judged by the name of the function that it is in.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_CALLERS_H
#define COVSPLIT_FORMATS_RUNTIME_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/runtime/rules.h"

/* Whether code that is no part of the runtime refers to a function that is watched, or a pointer
 * does: *from is where. */
bool callers_find_foreign(const struct image_code *image, uint64_t *from);

#endif
