/*
 * Sends the profile of what has run so far.
 */
#ifndef PROFILE_H
#define PROFILE_H

#include <stdbool.h>

/* Over the serial line for profiles. False if the image cannot make a profile. */
bool profile_send(void);

#endif
