/*
 * Where the preload module is (run/preload.c), which `covsplit run` has loaded into other programs:
 * installed beside the command (module_installed.c), or, in a static command, in the command itself
 * (module_inside.c).
 */
#ifndef COVSPLIT_SPLIT_RUN_MODULE_H
#define COVSPLIT_SPLIT_RUN_MODULE_H

#include "common/base/error.h"

/* Opens the module for reading, closed on exec. *path is its absolute path as a new string, or NULL
 * where it has none. -1 with an error. */
int module_open(char **path, struct error *error);

#endif
