/*
 * What happens when a signal ends covsplit: it reports the reason, unless somebody wanted it to
 * end, and leaves no unfinished outputs behind.
 */
#ifndef COVSPLIT_SPLIT_CLI_SIGNALS_H
#define COVSPLIT_SPLIT_CLI_SIGNALS_H

/* Call once, when the process starts. */
void signals_prepare(void);

/* Removes the outputs of this process that have temporary names. Only for the end of the process:
 * the outputs cannot be used any more. */
void signals_remove_unfinished(void);

#endif
