/*
 * What machines are called.
 */
#ifndef COVSPLIT_SPLIT_CLI_MACHINE_NAMES_H
#define COVSPLIT_SPLIT_CLI_MACHINE_NAMES_H

#include "common/sidecar/facts.h"

#define MACHINE_TEXT_MAX 24

/* "x86-64", "aarch64", by the ELF machine number (e_machine), class and data encoding; the number
 * where there is no name; into text[MACHINE_TEXT_MAX]. Returns text. */
const char *machine_text(const struct sidecar_facts *facts, char *text);

#endif
