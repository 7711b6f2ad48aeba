/*
 * Suites that use stores run a second time with packed ones: COVSPLIT_TEST_PACKED=1.
 *
 * After every covsplit command of such a run that adds to a store, the store is packed. Most stores
 * of tests have a few unlike sidecars, which `store pack` would leave whole as bases. So each gets
 * a twin as a base: another file with the same contents. Thus all that is not damaged is a
 * difference then; if a sidecar is not, the test fails.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_PACKED_STORES_H
#define COVSPLIT_TESTS_SUPPORT_PACKED_STORES_H

#include <stdbool.h>

#include "tests/support/process.h"

/* True if stores are packed. */
bool stores_are_packed(void);

/* Packs the store, as is done after commands; does nothing unless stores are packed. */
void store_settle(const char *store);

/* Fails the Check test unless the sidecar of a store is that file, or as a difference comes out so.
 */
void stored_assert_equal(const char *entry, const char *whole, const char *label);

/* True if the file has the compression type of differences. */
bool file_is_difference(const char *path);

/* For process.c: what is to be done after a command has succeeded. */
void packed_stores_settle_after(const struct command *command);

#endif
