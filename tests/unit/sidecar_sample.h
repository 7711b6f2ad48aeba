/*
 * A small made-up image, its split, and its sidecar, for any class and byte order.
 */
#ifndef COVSPLIT_TESTS_UNIT_SIDECAR_SAMPLE_H
#define COVSPLIT_TESTS_UNIT_SIDECAR_SAMPLE_H

#include <stdint.h>

#include "common/base/bytes.h"
#include "common/sidecar/sidecar.h"
#include "tests/support/freed.h"

#define SAMPLE_SECTIONS 6
#define SAMPLE_UUID     "0102030405060708090a0b0c0d0e0f1011121314"
#define SAMPLE_REASON   "value profiling is on"

/* Every class and byte order, for loop tests. */
struct sample_shape {
    uint8_t elf_class;
    uint8_t elf_data;
    uint16_t elf_type;
    uint16_t machine;
};

#define SAMPLE_SHAPES 4
extern const struct sample_shape sample_shapes[SAMPLE_SHAPES];

struct sample {
    struct buffer original;
    struct buffer stripped;
    struct buffer inverse;
    struct section sections[SAMPLE_SECTIONS];
    struct section kept;
    struct sidecar_source source; /* what the sidecar is made from; a test may change it */
};

/* Everything but the sidecar. Freed with sample_free. */
struct sample *sample_make(const struct sample_shape *shape);
void sample_free(struct sample *sample);

/* Writes the sidecar through a file and gives back its bytes; fails the test where that fails. The
 * result is freed with buffer_free. The first compresses all sections with zstd alone. */
struct buffer sample_write(const struct sidecar_source *source, int level, unsigned threads);
struct buffer sample_write_compact(const struct sidecar_source *source);
/* Sections of more than `block_size` bytes in blocks. */
struct buffer sample_write_blocks(const struct sidecar_source *source, uint64_t block_size,
                                  unsigned threads);

/* The same, but expects a refusal and gives back its message, which is static. */
const char *sample_write_refused(const struct sidecar_source *source);

/* Opens a sidecar in memory, or fails the test. */
struct sidecar *sample_open(const struct buffer *file);

/* True where the sidecar restores the sample's original from its stripped image. */
bool sample_restores(const struct sample *sample, const struct sidecar *sidecar);

/* True where the sidecar says just what it was made from, and holds just the contents. */
bool sample_agrees(const struct sample *sample, const struct sidecar *sidecar);

/* Sinks: what is written is appended to a buffer, or goes nowhere. */
bool sample_collect(void *buffer, struct bytes part, struct error *error);
bool sample_ignore(void *context, struct bytes part, struct error *error);

/* For FREED_BY. */
DEFINE_DROP(drop_sample, struct sample, sample_free)
DEFINE_DROP(drop_sidecar, struct sidecar, sidecar_close)

#endif
