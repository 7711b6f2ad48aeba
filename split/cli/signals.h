/*
 * What the command does where a signal ends it: it says why, as far as it is not somebody's wish,
 * and leaves no unfinished outputs behind.
 */
#ifndef COVSPLIT_SPLIT_CLI_SIGNALS_H
#define COVSPLIT_SPLIT_CLI_SIGNALS_H

/* To be called once, when the process starts. */
void signals_prepare(void);

#endif
