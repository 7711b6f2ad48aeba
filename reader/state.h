/*
 * The states of callers.
 */
#ifndef COVSPLIT_READER_STATE_H
#define COVSPLIT_READER_STATE_H

#include "common/state/state.h"
#include "reader/sidecar_choice.h"

struct covsplit_state {
    struct state *state;
    struct sidecar_choice sidecars;
};

#endif
