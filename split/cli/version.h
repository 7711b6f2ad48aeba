/*
 * covsplit --version.
 */
#ifndef COVSPLIT_SPLIT_CLI_VERSION_H
#define COVSPLIT_SPLIT_CLI_VERSION_H

/* Prints "covsplit X.Y.Z", and on a second line the versions of the libraries in use. */
void print_version(void);

#endif
