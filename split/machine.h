/*
 * What machines are called.
 */
#ifndef COVSPLIT_SPLIT_MACHINE_H
#define COVSPLIT_SPLIT_MACHINE_H

#include "common/sidecar.h"

#define MACHINE_TEXT_MAX 24

/* "x86-64", "aarch64"; the ELF machine number where there is no name; into text[MACHINE_TEXT_MAX].
 * Returns text. */
const char *machine_text(const struct sidecar_facts *facts, char *text);

#endif
