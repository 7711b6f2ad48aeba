/*
 * Random objects with coverage mapping, and a linker for them, for the tests of packed units.
 */
#ifndef COVSPLIT_TESTS_UNIT_PACKED_MAKER_H
#define COVSPLIT_TESTS_UNIT_PACKED_MAKER_H

#include "common/base/bytes.h"
#include "common/codec/packed_units/packed_unit.h"
#include "tests/support/random.h"

#define LINKED_OBJECTS_MAX 8
#define LINKED_UNITS_MAX   3

/* An object: one unit, or as many as were linked to it by ld -r. */
struct linked_object {
    struct packed_unit units[LINKED_UNITS_MAX];
    size_t unit_count;
};

struct linked_program {
    struct linked_object objects[LINKED_OBJECTS_MAX];
    size_t object_count;
    struct buffer texts; /* what the units point into */
};

/* A unit whose functions are partly those of other units. `variety` is the number of functions;
 * equal filenames are only made with `alike`. */
void packed_make_unit(struct random_state *random, size_t variety, bool alike,
                      struct packed_unit *unit, struct buffer *texts);
void packed_make_program(struct random_state *random, bool alike, struct linked_program *program);
void packed_free_program(struct linked_program *program);

/* The sections of an image. Objects whose bit is set in `packed` were packed before. */
void packed_link(const struct linked_program *program, unsigned packed, bool big_endian,
                 struct buffer *covmap, struct buffer *covfun);

#endif
