/*
 * Makes the profile runtime work without names and data.
 */
#ifndef COVSPLIT_FORMATS_NAMES_AND_DATA_H
#define COVSPLIT_FORMATS_NAMES_AND_DATA_H

#include "formats/format.h"

/* Decides which of the two sections can go, and adds the edits to the runtime's functions. False
 * only on an error: a section that cannot go is kept, with its reason. */
bool names_and_data_plan(struct planning *planning, struct error *error);

/* Called when the tripwire's address is known: makes the runtime's functions return its bounds. */
bool names_move(struct planning *planning, uint64_t address, struct error *error);

/* The same for the stub, which is written anew for this address. */
bool data_move(struct planning *planning, uint64_t address, struct error *error);

#endif
