/*
 * Finds the preload module (run/preload.c), which `covsplit run` loads into other programs. It is
 * installed beside the command (module_installed.c) or, if the command is static, contained in it
 * (module_inside.c).
 */
#ifndef COVSPLIT_SPLIT_RUN_MODULE_H
#define COVSPLIT_SPLIT_RUN_MODULE_H

#include "common/base/error.h"

/* Opens the module for reading, with close-on-exec. *path is its absolute path as a new string, or
 * NULL if it has none. -1 with an error. */
int module_open(char **path, struct error *error);

#endif
