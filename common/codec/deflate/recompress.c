/*
 * Recreating zlib streams: see deflate.h.
 *
 * This file is the search for matches. At each place, zlib looks through a chain of the earlier
 * places whose three bytes have the same hash, the nearest first, and defers a match if the next
 * place has a longer one (lazy matching). Which match is found depends on where zlib stops looking,
 * so the limits are the same as zlib's, including the odd ones that result from its window, which
 * holds 64 KiB and moves by 32 KiB: the first place of the window is never found, and the farthest
 * allowed place only if it is the nearest of the chain.
 *
 * Following the chain as zlib does takes long, because names are so similar. But the result is
 * simply the longest match in the chain, and of several such the nearest. A match longer than the
 * best one so far must also have the next byte in common. So it is looked for in the chain of the
 * eight (or three) bytes that end with that byte, which is short. Places in zlib's chains are
 * numbered, to know where zlib would have stopped.
 */
#include "common/codec/deflate/deflate.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/inflate.h"
#include "common/codec/transform.h"

#define WINDOW_SIZE   32768u
#define LOOKAHEAD_MIN (DEFLATE_MATCH_MAX + DEFLATE_MATCH_MIN + 1)
#define DISTANCE_MAX  (WINDOW_SIZE - LOOKAHEAD_MIN)
#define HASH_SIZE     32768u
/* Matches of the minimum length that are further away than this cost more than literals. */
#define SHORT_DISTANCE_MAX 4096

/* Besides zlib's chains of three bytes, there are chains of places whose LONG_SIZE bytes have the
 * same hash. */
#define LONG_SIZE       8u
#define LONG_MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)
/* The hash has as many bits as the text's size, within these limits. */
#define LONG_BITS_MIN 11
#define LONG_BITS_MAX 16

/* Places are entered into the chains in batches, and ahead of the current place by more than the
 * longest match. */
#define ENTER_AHEAD (DEFLATE_MATCH_MAX + LONG_SIZE)
#define ENTER_BATCH 2048
/* The number of latest places that are remembered. */
#define PLACES (2 * WINDOW_SIZE)
/* After this many steps along the other chains, zlib's own chain is followed, which is faster for
 * unusual texts. */
#define STEPS_ALONG_OTHERS 64
/* The distance to the previous place in a chain, if that is too far away for a match. */
#define BACK_MAX UINT16_MAX

/* The limits of the search, which depend on the level; as in zlib's configuration_table. */
struct effort {
    enum zlib_form form;
    uint8_t header[2];
    unsigned good; /* if the previous match has this length, search only a quarter of the chain */
    unsigned lazy; /* if a match has this length, do not try the next place */
    unsigned nice; /* stop searching at a match of this length */
    unsigned chain;
};

static const struct effort efforts[] = {
    {ZLIB_FORM_DEFAULT, {0x78, 0x9c}, 8, 16, 128, 128},
    {ZLIB_FORM_BEST, {0x78, 0xda}, 32, 258, 258, 4096},
};

/* A place in its two chains. */
struct link {
    uint16_t back;        /* distance to the previous place in zlib's chain, at most BACK_MAX */
    uint16_t number;      /* its number in that, modulo 65536 */
    uint32_t long_before; /* the previous place in the chain of LONG_SIZE bytes */
};

struct matcher {
    const uint8_t *text;
    uint32_t size;
    const struct effort *effort;
    uint32_t window_start; /* the window's start in the text */
    uint32_t window_end;   /* how far the text has been read into the window */
    uint32_t block_start;  /* the start of the current block */
    uint64_t most;         /* the most bytes that the stream's buffer may have */
    uint32_t entered;      /* places before this one are in the chains */
    unsigned long_bits;
    struct deflate_blocks blocks;
    /* The latest place of each hash; 0: none. */
    uint32_t head[HASH_SIZE];
    uint32_t long_head[1 << LONG_BITS_MAX];
    struct link links[PLACES]; /* by place modulo PLACES */
};

bool recompress_form(struct bytes stream, enum zlib_form *form)
{
    for (size_t i = 0; i < sizeof(efforts) / sizeof(efforts[0]); i++) {
        if (stream.size >= 2 && memcmp(stream.data, efforts[i].header, 2) == 0) {
            *form = efforts[i].form;
            return true;
        }
    }
    return false;
}

/* Reads more input and moves the window at the same points as zlib. */
static void fill_window(struct matcher *matcher, uint32_t place)
{
    while (matcher->window_end - place < LOOKAHEAD_MIN) {
        uint32_t room, left = matcher->size - matcher->window_end;

        if (place - matcher->window_start >= WINDOW_SIZE + DISTANCE_MAX)
            matcher->window_start += WINDOW_SIZE;
        if (left == 0)
            break;
        room = matcher->window_start + 2 * WINDOW_SIZE - matcher->window_end;
        matcher->window_end += left < room ? left : room;
    }
}

/* zlib's hash of three bytes, of which the first is the lowest; higher bytes are ignored. */
static unsigned short_hash(uint64_t word)
{
    return (unsigned)((word << 10 ^ (word >> 8 & 0xff) << 5 ^ (word >> 16 & 0xff)) % HASH_SIZE);
}

static unsigned hash_at(const struct matcher *matcher, uint32_t place)
{
    const uint8_t *bytes = matcher->text + place;

    return short_hash(bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16);
}

/* The hash of LONG_SIZE bytes, of which the first is the lowest. */
static unsigned long_hash(uint64_t word, unsigned bits)
{
    return (unsigned)(word * LONG_MULTIPLIER >> (64 - bits));
}

static uint64_t word_at(const uint8_t *bytes)
{
    return load_u64(bytes, false);
}

/* Clears the heads that the text uses. Most texts of file names are so short that clearing all
 * heads would take most of the time. */
static void clear_heads(struct matcher *matcher)
{
    matcher->long_bits = LONG_BITS_MIN;
    while (matcher->long_bits < LONG_BITS_MAX && matcher->size >> matcher->long_bits != 0)
        matcher->long_bits++;
    memset(matcher->long_head, 0, sizeof(matcher->long_head[0]) << matcher->long_bits);
    if (matcher->size >= HASH_SIZE / 8) {
        memset(matcher->head, 0, sizeof(matcher->head));
        return;
    }
    for (uint32_t at = 0; at + DEFLATE_MATCH_MIN <= matcher->size; at++)
        matcher->head[hash_at(matcher, at)] = 0;
}

static void enter(struct matcher *matcher, uint32_t at, unsigned hash)
{
    uint32_t before = matcher->head[hash], back = at - before;
    struct link *link = &matcher->links[at % PLACES];

    matcher->head[hash] = at;
    link->back = (uint16_t)(back < BACK_MAX ? back : BACK_MAX);
    /* If the previous place is no longer remembered, this number is wrong, but no search goes from
     * here to there. */
    link->number = (uint16_t)(matcher->links[before % PLACES].number + 1);
}

/* Enters the places up to some distance after any match at `place`. The last places of the text are
 * entered only into chains for which they have enough bytes. */
static void enter_ahead(struct matcher *matcher, uint32_t place)
{
    uint32_t at = matcher->entered, size = matcher->size, left = size - place, end, long_end;
    unsigned long_bits = matcher->long_bits;

    if (at == size || at - place >= ENTER_AHEAD)
        return;
    end = left <= ENTER_AHEAD + ENTER_BATCH ? size : place + ENTER_AHEAD + ENTER_BATCH;
    long_end = size - end >= LONG_SIZE - 1 ? end : size < LONG_SIZE ? 0 : size - (LONG_SIZE - 1);
    for (; at < long_end; at++) {
        uint64_t word = word_at(matcher->text + at);
        unsigned hash = long_hash(word, long_bits);

        matcher->links[at % PLACES].long_before = matcher->long_head[hash];
        matcher->long_head[hash] = at;
        enter(matcher, at, short_hash(word));
    }
    for (; at < end; at++) {
        if (at + DEFLATE_MATCH_MIN <= size)
            enter(matcher, at, hash_at(matcher, at));
    }
    matcher->entered = at;
}

/* A search for a match at a place. */
struct search {
    uint32_t place;
    unsigned most;     /* the greatest possible length of a match */
    uint32_t reach;    /* the distance must be less than this */
    unsigned chain;    /* how many places of its chain zlib looks at */
    unsigned left;     /* how many more steps may be made along other chains */
    unsigned best;     /* the length of the best match so far, or the minimum to exceed */
    uint32_t distance; /* of the best match so far; 0: none */
};

/* The number of steps along zlib's chain to the place at this distance. */
static unsigned steps_to(const struct matcher *matcher, const struct search *search,
                         uint32_t distance)
{
    return (uint16_t)(matcher->links[search->place % PLACES].number -
                      matcher->links[(search->place - distance) % PLACES].number);
}

/* Makes the place at this distance the best match if it is longer. */
static bool take_longer(const struct matcher *matcher, struct search *search, uint32_t distance)
{
    const uint8_t *here = matcher->text + search->place;
    unsigned length = bytes_common_length(here - distance, here, search->most);

    if (length <= search->best)
        return false;
    search->best = length;
    search->distance = distance;
    return true;
}

/* True if zlib would reach the best match. Each step goes back at least one place, so a distance of
 * at most `chain` is always reached. */
static bool is_in_chain(const struct matcher *matcher, const struct search *search)
{
    return search->distance <= search->chain ||
           steps_to(matcher, search, search->distance) <= search->chain;
}

/* Looks for a longer match along zlib's own chain. It starts at the best match so far, because no
 * nearer one is longer. */
static bool find_along_zlibs(const struct matcher *matcher, struct search *search)
{
    const uint8_t *next = matcher->text + search->place + search->best;

    for (uint32_t distance = search->distance;;) {
        distance += matcher->links[(search->place - distance) % PLACES].back;
        if (distance >= search->reach || steps_to(matcher, search, distance) > search->chain)
            return false;
        if (*(next - distance) == *next && take_longer(matcher, search, distance))
            return true;
    }
}

/* The same for matches of less than LONG_SIZE bytes, along the chain of the three bytes that end
 * one byte after the best match. */
static bool find_longer(const struct matcher *matcher, struct search *search)
{
    const uint8_t *here = matcher->text + search->place;
    unsigned front = search->best + 1 - DEFLATE_MATCH_MIN;
    uint64_t mask = UINT64_MAX >> (64 - 8 * (search->best + 1)), word;
    uint32_t distance = 0;

    if (search->most < LONG_SIZE)
        return find_along_zlibs(matcher, search);
    word = word_at(here) & mask;
    for (; search->left != 0; search->left--) {
        distance += matcher->links[(search->place + front - distance) % PLACES].back;
        if (distance >= search->reach)
            return false;
        if (distance > search->distance && (word_at(here - distance) & mask) == word &&
            take_longer(matcher, search, distance))
            return is_in_chain(matcher, search);
    }
    return find_along_zlibs(matcher, search);
}

/* The same for longer matches, along the chain of the LONG_SIZE bytes at `from`. */
static bool find_longer_by(const struct matcher *matcher, struct search *search, uint32_t from)
{
    uint64_t word = word_at(matcher->text + from);
    uint32_t at = from;

    for (; search->left != 0; search->left--) {
        at = matcher->links[at % PLACES].long_before;
        if (from - at >= search->reach)
            return false;
        if (from - at > search->distance && word_at(matcher->text + at) == word &&
            take_longer(matcher, search, from - at))
            return is_in_chain(matcher, search);
    }
    return find_along_zlibs(matcher, search);
}

/* Finds the longest match of more than `former` bytes, and of several such the nearest. Returns its
 * length and sets *start; if there is none, returns `former`. */
static unsigned longest_match(const struct matcher *matcher, uint32_t place, unsigned former,
                              uint32_t *start)
{
    const struct effort *effort = matcher->effort;
    uint32_t left = matcher->size - place, behind = place - matcher->window_start;
    unsigned nice = effort->nice < left ? effort->nice : left;
    unsigned chain = former >= effort->good ? effort->chain >> 2 : effort->chain;
    uint32_t nearest = matcher->links[place % PLACES].back;
    struct search search = {
        .place = place,
        .most = left < DEFLATE_MATCH_MAX ? left : DEFLATE_MATCH_MAX,
        .reach = behind < DISTANCE_MAX ? behind : DISTANCE_MAX,
        .chain = chain,
        .left = STEPS_ALONG_OTHERS,
        .best = former,
    };

    if (former >= search.most)
        return search.most;
    /* For the nearest place in the chain, zlib allows a greater distance by one. */
    if (behind > DISTANCE_MAX && nearest == DISTANCE_MAX)
        search.reach++;
    if (nearest >= search.reach)
        return former;
    /* Try a long match first, rather than finding it byte by byte. */
    if (former + 1 < LONG_SIZE && search.most >= LONG_SIZE) {
        if (find_longer_by(matcher, &search, place)) {
            *start = place - search.distance;
        } else {
            search.left = STEPS_ALONG_OTHERS;
            search.best = former;
            search.distance = 0;
        }
    }
    while (search.best < nice) {
        unsigned best = search.best;

        if (!(best + 1 < LONG_SIZE
                  ? find_longer(matcher, &search)
                  : find_longer_by(matcher, &search, place + best + 1 - LONG_SIZE)))
            return best;
        *start = place - search.distance;
    }
    return search.best;
}

/* Finds the best match at a place that is better than one of `former` bytes at the place before. */
static unsigned find_match(struct matcher *matcher, uint32_t place, unsigned former,
                           uint32_t *start)
{
    unsigned length;

    if (matcher->size - place < DEFLATE_MATCH_MIN)
        return DEFLATE_MATCH_MIN - 1;
    enter_ahead(matcher, place);
    if (former >= matcher->effort->lazy)
        return DEFLATE_MATCH_MIN - 1;
    length = longest_match(matcher, place, former, start);
    if (length == DEFLATE_MATCH_MIN && place - *start > SHORT_DISTANCE_MAX)
        return DEFLATE_MATCH_MIN - 1;
    return length;
}

/* Ends the block before `place`. It can only be a stored block if its text is still in the window.
 */
static bool end_block(struct matcher *matcher, uint32_t place, bool last)
{
    struct bytes text = {matcher->text + matcher->block_start, place - matcher->block_start};

    if (matcher->block_start < matcher->window_start)
        text.data = NULL;
    matcher->block_start = place;
    return deflate_blocks_end(&matcher->blocks, text, last) &&
           matcher->blocks.stream->size <= matcher->most;
}

static bool deflate_all(struct matcher *matcher)
{
    uint32_t place = 0, start = 0;
    unsigned length = DEFLATE_MATCH_MIN - 1;
    bool pending = false; /* the previous byte may become a literal */

    for (;;) {
        unsigned former = length;
        uint32_t former_start = start;

        fill_window(matcher, place);
        if (place == matcher->size)
            break;
        length = find_match(matcher, place, former, &start);
        if (former >= DEFLATE_MATCH_MIN && length <= former) {
            bool full = deflate_blocks_match(&matcher->blocks, former, place - 1 - former_start);

            place += former - 1;
            pending = false;
            length = DEFLATE_MATCH_MIN - 1;
            if (full && !end_block(matcher, place, false))
                return false;
            continue;
        }
        if (pending && deflate_blocks_literal(&matcher->blocks, matcher->text[place - 1]) &&
            !end_block(matcher, place, false))
            return false;
        pending = true;
        place++;
    }
    if (pending)
        deflate_blocks_literal(&matcher->blocks, matcher->text[place - 1]);
    return end_block(matcher, place, true);
}

enum result recompress(struct bytes text, enum zlib_form form, uint64_t most, struct buffer *stream)
{
    const struct effort *effort = &efforts[form == ZLIB_FORM_BEST];
    struct matcher *matcher;
    uint8_t sum[4];
    bool done;

    if (text.size >= DEFLATE_SIZE_MAX)
        return RESULT_UNFIT;
    matcher = malloc(sizeof(*matcher));
    if (matcher == NULL)
        return RESULT_NO_MEMORY;
    memset(matcher, 0, offsetof(struct matcher, blocks));
    matcher->links[0].number = 0;
    matcher->text = text.size == 0 ? effort->header : text.data; /* must not be NULL */
    matcher->size = (uint32_t)text.size;
    matcher->effort = effort;
    if (!add_fits(stream->size, most, &matcher->most))
        matcher->most = UINT64_MAX;
    most = matcher->most;
    clear_heads(matcher);
    deflate_blocks_start(&matcher->blocks, stream);
    store_u32(sum, libdeflate_adler32(1, matcher->text, (size_t)text.size), true);
    done = buffer_append(stream, effort->header, sizeof(effort->header)) && deflate_all(matcher) &&
           buffer_append(stream, sum, sizeof(sum));
    free(matcher);
    if (stream->size > most)
        return RESULT_UNFIT;
    return done ? RESULT_OK : RESULT_NO_MEMORY;
}

/* ---- texts in sections ---- */

/* In real sections each name takes at least one byte of the streams, and the texts are about ten
 * times as large as their zlib streams. */
static const struct stream_proportion proportion_of_texts = {
    .per_part_byte = 1024,
    .per_section_byte = 256,
    .besides = (uint64_t)16 << 20,
};

uint64_t zlib_text_limit(const struct buffer *streams, size_t count, uint64_t section_size)
{
    return streams_bound(streams, count, section_size, &proportion_of_texts);
}

enum result zlib_text_inflate(struct bytes stream, uint64_t size, struct buffer *text,
                              enum zlib_form *form)
{
    struct buffer again = {0};
    enum result result;

    if (size >= DEFLATE_SIZE_MAX || !recompress_form(stream, form))
        return RESULT_UNFIT;
    result = inflate_exactly(stream, size, text);
    if (result == RESULT_OK)
        result = recompress(buffer_view(text), *form, stream.size, &again);
    if (result == RESULT_OK && !bytes_equal(buffer_view(&again), stream))
        result = RESULT_UNFIT;
    buffer_free(&again);
    return result;
}

struct proof {
    struct digest text;
    struct bytes stream;
};

void zlib_text_prove(struct buffer *proved, struct bytes text, struct bytes stream)
{
    struct proof proof = {digest_of(text), stream};

    buffer_append(proved, &proof, sizeof(proof));
}

/* The most bytes of streams in a memo. */
#define MEMO_MOST ((size_t)4 << 20)

void zlib_memo_free(struct zlib_memo *memo)
{
    intern_table_free(&memo->by_text);
    buffer_free(&memo->streams);
    free(memo->made);
    *memo = (struct zlib_memo){0};
}

static enum result recompress_once(struct zlib_memo *memo, struct bytes text, enum zlib_form form,
                                   uint64_t most, struct buffer *stream)
{
    struct zlib_made made = {.form = form, .offset = stream->size}, *known;
    uint64_t key, number;
    enum result result;

    if (memo == NULL)
        return recompress(text, form, most, stream);
    made.text = digest_of(text);
    key = load_u64(made.text.bytes, false) ^ form;
    if (intern_table_find(&memo->by_text, key, &number)) {
        known = &memo->made[number];
        if (digest_equal(&known->text, &made.text) && known->form == form)
            return known->size > most ? RESULT_UNFIT
                   : buffer_append(stream, memo->streams.data + known->offset, known->size)
                       ? RESULT_OK
                       : RESULT_NO_MEMORY;
    }
    result = recompress(text, form, most, stream);
    made.size = stream->size - made.offset;
    if (result != RESULT_OK || made.size > MEMO_MOST - memo->streams.size ||
        !ARRAY_ROOM_FOR_ONE(memo->made, memo->capacity, memo->count))
        return result;
    /* Without memory for it, it is made again. */
    number = made.offset;
    made.offset = memo->streams.size;
    if (buffer_append(&memo->streams, stream->data + number, made.size) &&
        intern_table_put(&memo->by_text, key, memo->count))
        memo->made[memo->count++] = made;
    return result;
}

enum result zlib_text_recompress(const struct buffer *proved, size_t index, struct zlib_memo *memo,
                                 struct bytes text, enum zlib_form form, uint64_t most,
                                 struct buffer *stream)
{
    struct bytes known = text;
    struct proof proof;

    if (form != ZLIB_FORM_NONE) {
        enum zlib_form proved_form;
        struct digest digest;

        if (index >= proved->size / sizeof(proof))
            return recompress_once(memo, text, form, most, stream);
        memcpy(&proof, proved->data + index * sizeof(proof), sizeof(proof));
        digest = digest_of(text);
        if (!digest_equal(&digest, &proof.text) || !recompress_form(proof.stream, &proved_form) ||
            proved_form != form)
            return recompress_once(memo, text, form, most, stream);
        known = proof.stream;
    }
    if (known.size > most)
        return RESULT_UNFIT;
    return buffer_append(stream, known.data, (size_t)known.size) ? RESULT_OK : RESULT_NO_MEMORY;
}
