/*
 * Suites that use stores run a second time with deltas in them: COVSPLIT_TEST_DELTAS=1.
 *
 * After every covsplit command of such a run that adds to a store, deltas are made in the store.
 * Most stores of tests have a few unlike sidecars, which `store delta` would leave whole as bases.
 * So each gets a twin as a base: another file with the same contents. Thus all that is not damaged
 * is a delta then; if a sidecar is not, the test fails.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_DELTA_STORES_H
#define COVSPLIT_TESTS_SUPPORT_DELTA_STORES_H

#include <stdbool.h>

#include "tests/support/process.h"

/* True if stores have deltas. */
bool stores_have_deltas(void);

/* Makes deltas, as is done after commands; does nothing unless stores have them. */
void store_settle(const char *store);

/* Fails the Check test unless the sidecar of a store is that file, or as a delta comes out so.
 */
void stored_assert_equal(const char *entry, const char *whole, const char *label);

/* For process.c: what is to be done after a command has succeeded. */
void delta_stores_settle_after(const struct command *command);

#endif
