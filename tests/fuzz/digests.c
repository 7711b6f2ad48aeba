/*
 * Healing digests: see digests.h.
 */
#include "tests/fuzz/digests.h"

#include <string.h>

#include "common/base/digest.h"

/* A file with more wrong digests is healed in part. */
#define WRONG_MAX 64

/* A digest can be of bytes that another one is in. */
#define ROUNDS 4

static struct {
    bool on;
    size_t count;
    struct digest pairs[WRONG_MAX][2];
} wrong;

/* The linker gives these names to digest_equal. */
bool __real_digest_equal(const struct digest *a, const struct digest *b);
bool __wrap_digest_equal(const struct digest *a, const struct digest *b);

bool __wrap_digest_equal(const struct digest *a, const struct digest *b)
{
    if (__real_digest_equal(a, b))
        return true;
    if (wrong.on && wrong.count < WRONG_MAX) {
        wrong.pairs[wrong.count][0] = *a;
        wrong.pairs[wrong.count][1] = *b;
        wrong.count++;
    }
    return wrong.on;
}

/* Puts `now` in place of `before`, wherever that is. */
static void replace(uint8_t *data, size_t size, const struct digest *before,
                    const struct digest *now)
{
    uint8_t *end = data + size, *at = data;

    while ((at = memmem(at, (size_t)(end - at), before->bytes, DIGEST_SIZE)) != NULL) {
        memcpy(at, now->bytes, DIGEST_SIZE);
        at += DIGEST_SIZE;
    }
}

void digests_heal(uint8_t *data, size_t size, void (*read)(const uint8_t *data, size_t size))
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        wrong.on = true;
        wrong.count = 0;
        read(data, size);
        wrong.on = false;
        if (wrong.count == 0)
            return;
        for (size_t i = 0; i < wrong.count; i++)
            replace(data, size, &wrong.pairs[i][1], &wrong.pairs[i][0]);
    }
}
