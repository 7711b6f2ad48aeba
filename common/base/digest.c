/*
 * XXH3-128 through libxxhash: see digest.h.
 */
#include "common/base/digest.h"

#include <string.h>
#include <xxhash.h>

static struct digest canonical(XXH128_hash_t hash)
{
    XXH128_canonical_t form;
    struct digest digest;

    XXH128_canonicalFromHash(&form, hash);
    memcpy(digest.bytes, form.digest, sizeof(digest.bytes));
    return digest;
}

struct digest digest_of(struct bytes view)
{
    return canonical(XXH3_128bits(view.data, (size_t)view.size));
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

const char *digest_format(const struct digest *digest, char *text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < DIGEST_SIZE; i++) {
        text[2 * i] = digits[digest->bytes[i] >> 4];
        text[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    text[2 * DIGEST_SIZE] = '\0';
    return text;
}

/* A digest_stream is libxxhash's state under another name, so that callers need no xxhash.h. */
static XXH3_state_t *state_of(struct digest_stream *stream)
{
    return (XXH3_state_t *)(void *)stream;
}

struct digest_stream *digest_stream_new(void)
{
    XXH3_state_t *state = XXH3_createState();

    if (state != NULL)
        XXH3_128bits_reset(state);
    return (struct digest_stream *)(void *)state;
}

void digest_stream_add(struct digest_stream *stream, struct bytes part)
{
    if (part.size != 0)
        XXH3_128bits_update(state_of(stream), part.data, (size_t)part.size);
}

struct digest digest_stream_finish(const struct digest_stream *stream)
{
    return canonical(XXH3_128bits_digest((const XXH3_state_t *)(const void *)stream));
}

void digest_stream_free(struct digest_stream *stream)
{
    if (stream != NULL)
        XXH3_freeState(state_of(stream));
}
