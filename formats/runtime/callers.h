/*
 * Finds code of the program itself that calls the functions of the profile runtime which lead to
 * names and records.
 *
 * These functions are hidden, but a program is linked with them, and some programs walk their own
 * records: LLVM's tests do, and also profile values by hand. Such a program must keep what it looks
 * at. Only its calls show this, because the functions are in every image. The runtime calls them
 * too, so a caller is judged by the name of the function that it is in.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_CALLERS_H
#define COVSPLIT_FORMATS_RUNTIME_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/runtime/rules.h"

/* Whether code outside the runtime, or a pointer, refers to one of these functions: *from is the
 * address where. */
bool callers_find_foreign(const struct image_code *image, uint64_t *from);

#endif
