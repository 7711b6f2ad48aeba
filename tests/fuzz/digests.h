/*
 * Makes the digests in a file right again after a mutation.
 *
 * Targets that use this are linked with --wrap=digest_equal. While a file is healed, digests that
 * differ count as equal, and the one that is expected is replaced in the file by the one that was
 * found: so what is behind the check is reached, by a file that anyone could have written.
 */
#ifndef COVSPLIT_TESTS_FUZZ_DIGESTS_H
#define COVSPLIT_TESTS_FUZZ_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

/* `read` reads all that has a digest in the `size` bytes. It must not expect anything of the
 * result: digests also tell apart what is different. */
void digests_heal(uint8_t *data, size_t size, void (*read)(const uint8_t *data, size_t size));

#endif
