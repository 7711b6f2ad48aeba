/*
 * The names of machines.
 */
#ifndef COVSPLIT_SPLIT_CLI_MACHINE_NAMES_H
#define COVSPLIT_SPLIT_CLI_MACHINE_NAMES_H

#include "common/sidecar/facts.h"

#define MACHINE_TEXT_MAX 24

/* Writes "x86-64", "aarch64" and the like into text[MACHINE_TEXT_MAX] and returns it. The name
 * depends on the ELF machine number (e_machine), class and data encoding; if there is none, it is
 * the number. */
const char *machine_text(const struct sidecar_facts *facts, char *text);

#endif
