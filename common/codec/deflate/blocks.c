/*
 * Deflate's blocks: see deflate.h.
 *
 * There are many optimal Huffman codes for the same counts, so every arbitrary choice must be made
 * as zlib makes it: of nodes with the same count the shallower is joined first, then the one that
 * comes first in the heap; codes that are too long are shortened from the rarest up; and runs of
 * codeword lengths end at the same places.
 */
#include "common/codec/deflate/deflate.h"

#include <string.h>

#define CODE_BITS_MAX    15
#define PRECODE_BITS_MAX 7
#define END_OF_BLOCK     256

/* The size of the largest alphabet, and of its Huffman tree. */
#define ALPHABET_MAX 288
#define NODE_MAX     (2 * ALPHABET_MAX + 1)

/* The three kinds of block. */
enum {
    BLOCK_STORED = 0,
    BLOCK_FIXED = 1,
    BLOCK_DYNAMIC = 2,
};

/* The precode (RFC 1951: the code length alphabet): 0 to 15 are codeword lengths themselves. */
enum {
    REPEAT_PREVIOUS = 16, /* 3 to 6 times, 2 bits */
    REPEAT_ZERO = 17,     /* 3 to 10 times, 3 bits */
    REPEAT_ZERO_LONG = 18 /* 11 to 138 times, 7 bits */
};

static const uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t length_base[29] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                         15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                         67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t distance_extra[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                           6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
static const uint16_t distance_base[30] = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t precode_extra[DEFLATE_PRECODE_SYMBOLS] = {
    [REPEAT_PREVIOUS] = 2, [REPEAT_ZERO] = 3, [REPEAT_ZERO_LONG] = 7};
/* The order in which the codeword lengths of the precode are written (RFC 1951, 3.2.7). */
static const uint8_t precode_order[DEFLATE_PRECODE_SYMBOLS] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                               11, 4,  12, 3, 13, 2, 14, 1, 15};

struct code {
    uint16_t bits; /* the codeword, first bit lowest */
    uint8_t length;
};

struct alphabet {
    struct code codes[ALPHABET_MAX];
    int highest; /* the highest symbol that has a code */
};

/* ---- symbols ---- */

/* There are four codes for each number of extra bits, and each further extra bit doubles the number
 * of lengths that a code stands for. */
static unsigned length_code(unsigned length)
{
    unsigned value = length - DEFLATE_MATCH_MIN, log;

    if (value < 8)
        return value;
    if (length == DEFLATE_MATCH_MAX)
        return 28;
    log = 31 - (unsigned)__builtin_clz(value);
    return 4 * (log - 1) + ((value >> (log - 2)) & 3);
}

static unsigned distance_code(unsigned distance)
{
    unsigned value = distance - 1, log;

    if (value < 4)
        return value;
    log = 31 - (unsigned)__builtin_clz(value);
    return 2 * log + ((value >> (log - 1)) & 1);
}

static void start_block(struct deflate_blocks *blocks)
{
    memset(blocks->literal_counts, 0, sizeof(blocks->literal_counts));
    memset(blocks->distance_counts, 0, sizeof(blocks->distance_counts));
    blocks->literal_counts[END_OF_BLOCK] = 1;
    blocks->symbol_count = 0;
}

void deflate_blocks_start(struct deflate_blocks *blocks, struct buffer *stream)
{
    blocks->stream = stream;
    blocks->bits = 0;
    blocks->bit_count = 0;
    start_block(blocks);
}

bool deflate_blocks_literal(struct deflate_blocks *blocks, uint8_t literal)
{
    blocks->symbols[blocks->symbol_count].distance = 0;
    blocks->symbols[blocks->symbol_count].value = literal;
    blocks->literal_counts[literal]++;
    return ++blocks->symbol_count == DEFLATE_BLOCK_SYMBOLS;
}

bool deflate_blocks_match(struct deflate_blocks *blocks, unsigned length, unsigned distance)
{
    blocks->symbols[blocks->symbol_count].distance = (uint16_t)distance;
    blocks->symbols[blocks->symbol_count].value = (uint8_t)(length - DEFLATE_MATCH_MIN);
    blocks->literal_counts[END_OF_BLOCK + 1 + length_code(length)]++;
    blocks->distance_counts[distance_code(distance)]++;
    return ++blocks->symbol_count == DEFLATE_BLOCK_SYMBOLS;
}

/* ---- Huffman codes ---- */

/* Nodes are sorted by the count of their symbols, then by their depth, and have both in one number:
 * 32 bits of count, 16 of depth, 16 of the node. */
#define NODE(key)       ((unsigned)(key)&0xffff)
#define NODE_DEPTH(key) ((key) >> 16 & 0xffff)
#define NODE_COUNT(key) ((key) >> 32)

struct tree {
    uint16_t parents[NODE_MAX];
    uint8_t lengths[NODE_MAX];
    /* Entries 1 to heap_size are the heap, and entry 1 the least; the one behind it is greater than
     * all. */
    uint64_t heap[NODE_MAX + 1];
    int heap_size;
    int sorted; /* entries from here on are nodes that were taken off, the last one first */
};

static bool is_before(uint64_t a, uint64_t b)
{
    return a >> 16 <= b >> 16;
}

static void sift_down(struct tree *tree, uint64_t node, int place)
{
    for (int child = 2 * place; child <= tree->heap_size; child *= 2) {
        child += is_before(tree->heap[child + 1], tree->heap[child]);
        if (is_before(node, tree->heap[child]))
            break;
        tree->heap[place] = tree->heap[child];
        place = child;
    }
    tree->heap[place] = node;
}

/* Puts the symbols that occur on the heap, or more so that there are at least two, which a code
 * needs. Returns the highest. */
static int fill_heap(struct tree *tree, const uint32_t *counts, int symbols)
{
    int highest = -1;

    tree->heap_size = 0;
    tree->sorted = NODE_MAX;
    for (int i = 0; i < symbols; i++) {
        if (counts[i] == 0)
            continue;
        tree->heap[++tree->heap_size] = (uint64_t)counts[i] << 32 | (unsigned)i;
        highest = i;
    }
    while (tree->heap_size < 2) {
        int extra = highest < 2 ? ++highest : 0;

        tree->heap[++tree->heap_size] = UINT64_C(1) << 32 | (unsigned)extra;
    }
    tree->heap[tree->heap_size + 1] = UINT64_MAX;
    for (int i = tree->heap_size / 2; i >= 1; i--)
        sift_down(tree, tree->heap[i], i);
    return highest;
}

/* Joins the two least frequent nodes until one is left. */
static void join_nodes(struct tree *tree, int symbols)
{
    int next = symbols;

    do {
        uint64_t least = tree->heap[1], last = tree->heap[tree->heap_size], second, depth;

        tree->heap[tree->heap_size--] = UINT64_MAX;
        sift_down(tree, last, 1);
        second = tree->heap[1];
        tree->heap[--tree->sorted] = least;
        tree->heap[--tree->sorted] = second;
        depth = NODE_DEPTH(least) > NODE_DEPTH(second) ? NODE_DEPTH(least) : NODE_DEPTH(second);
        tree->parents[NODE(least)] = tree->parents[NODE(second)] = (uint16_t)next;
        sift_down(tree,
                  (NODE_COUNT(least) + NODE_COUNT(second)) << 32 | (depth + 1) << 16 |
                      (unsigned)next++,
                  1);
    } while (tree->heap_size >= 2);
    tree->heap[--tree->sorted] = tree->heap[1];
}

/* Computes the lengths of the codes: their depths in the tree, unless these are too large. */
static void measure(struct tree *tree, int highest, int bits_max)
{
    int in_length[CODE_BITS_MAX + 2] = {0};
    int too_long = 0, at;

    tree->lengths[NODE(tree->heap[tree->sorted])] = 0;
    for (int i = tree->sorted + 1; i < NODE_MAX; i++) {
        int node = (int)NODE(tree->heap[i]);
        int length = tree->lengths[tree->parents[node]] + 1;

        if (length > bits_max) {
            length = bits_max;
            too_long++;
        }
        tree->lengths[node] = (uint8_t)length;
        if (node <= highest)
            in_length[length]++;
    }
    if (too_long == 0)
        return;
    for (; too_long > 0; too_long -= 2) {
        int length = bits_max - 1;

        while (in_length[length] == 0)
            length--;
        in_length[length]--;
        in_length[length + 1] += 2;
        in_length[bits_max]--;
    }
    at = NODE_MAX;
    for (int length = bits_max; length != 0; length--) {
        for (int left = in_length[length]; left != 0;) {
            int node = (int)NODE(tree->heap[--at]);

            if (node > highest)
                continue;
            tree->lengths[node] = (uint8_t)length;
            left--;
        }
    }
}

static uint16_t reversed(unsigned bits, unsigned count)
{
    bits = (bits & 0x5555) << 1 | (bits >> 1 & 0x5555);
    bits = (bits & 0x3333) << 2 | (bits >> 2 & 0x3333);
    bits = (bits & 0x0f0f) << 4 | (bits >> 4 & 0x0f0f);
    bits = (bits & 0x00ff) << 8 | (bits >> 8 & 0x00ff);
    return (uint16_t)(bits >> (16 - count));
}

/* RFC 1951, 3.2.2: the codes follow from their lengths. */
static void assign_codes(struct alphabet *alphabet, int symbols)
{
    unsigned in_length[CODE_BITS_MAX + 1] = {0}, next[CODE_BITS_MAX + 1] = {0};
    unsigned code = 0;

    for (int i = 0; i < symbols; i++)
        in_length[alphabet->codes[i].length]++;
    in_length[0] = 0;
    for (unsigned length = 1; length <= CODE_BITS_MAX; length++) {
        code = (code + in_length[length - 1]) << 1;
        next[length] = code;
    }
    for (int i = 0; i < symbols; i++) {
        unsigned length = alphabet->codes[i].length;

        if (length != 0)
            alphabet->codes[i].bits = reversed(next[length]++, length);
    }
}

static void make_codes(struct alphabet *alphabet, const uint32_t *counts, int symbols, int bits_max)
{
    struct tree tree;

    memset(tree.lengths, 0, sizeof(tree.lengths));
    *alphabet = (struct alphabet){.highest = fill_heap(&tree, counts, symbols)};
    join_nodes(&tree, symbols);
    measure(&tree, alphabet->highest, bits_max);
    for (int i = 0; i <= alphabet->highest; i++)
        alphabet->codes[i].length = tree.lengths[i];
    assign_codes(alphabet, symbols);
}

/* The codeword lengths of fixed blocks (RFC 1951, 3.2.6). */
#define FIXED_DISTANCE_LENGTH 5

static uint8_t fixed_length(unsigned literal)
{
    return literal < 144 ? 8 : literal < 256 ? 9 : literal < 280 ? 7 : 8;
}

static void make_fixed_codes(struct alphabet *literals, struct alphabet *distances)
{
    *literals = (struct alphabet){.highest = ALPHABET_MAX - 1};
    *distances = (struct alphabet){.highest = DEFLATE_DISTANCE_SYMBOLS - 1};
    for (unsigned i = 0; i < ALPHABET_MAX; i++)
        literals->codes[i].length = fixed_length(i);
    for (unsigned i = 0; i < DEFLATE_DISTANCE_SYMBOLS; i++)
        distances->codes[i].length = FIXED_DISTANCE_LENGTH;
    assign_codes(literals, ALPHABET_MAX);
    assign_codes(distances, DEFLATE_DISTANCE_SYMBOLS);
}

/* ---- codeword lengths ---- */

/* The codeword lengths of both alphabets in symbols of the precode. */
struct lengths {
    struct {
        uint8_t symbol, extra; /* and the value of its extra bits */
    } items[2 * ALPHABET_MAX];
    size_t count;
    uint32_t counts[DEFLATE_PRECODE_SYMBOLS];
};

static void add_length(struct lengths *lengths, unsigned symbol, unsigned extra)
{
    lengths->items[lengths->count].symbol = (uint8_t)symbol;
    lengths->items[lengths->count++].extra = (uint8_t)extra;
    lengths->counts[symbol]++;
}

/* Adds a run of equal lengths. A run shorter than `least` is written one by one. */
static void add_run(struct lengths *lengths, unsigned length, unsigned count, bool is_new,
                    unsigned least)
{
    if (count < least) {
        for (; count != 0; count--)
            add_length(lengths, length, 0);
    } else if (length != 0) {
        if (is_new) {
            add_length(lengths, length, 0);
            count--;
        }
        add_length(lengths, REPEAT_PREVIOUS, count - 3);
    } else if (count <= 10) {
        add_length(lengths, REPEAT_ZERO, count - 3);
    } else {
        add_length(lengths, REPEAT_ZERO_LONG, count - 11);
    }
}

static void add_lengths(struct lengths *lengths, const struct alphabet *alphabet)
{
    int previous = -1;
    int next = alphabet->codes[0].length;
    unsigned count = 0;
    unsigned most = next == 0 ? 138 : 7, least = next == 0 ? 3 : 4;

    for (int i = 0; i <= alphabet->highest; i++) {
        int length = next;

        next = i < alphabet->highest ? alphabet->codes[i + 1].length : -1;
        if (++count < most && length == next)
            continue;
        add_run(lengths, (unsigned)length, count, length != previous, least);
        count = 0;
        previous = length;
        most = next == 0 ? 138 : length == next ? 6 : 7;
        least = next == 0 || length == next ? 3 : 4;
    }
}

/* ---- writing ---- */

static void put_bits(struct deflate_blocks *blocks, unsigned value, unsigned count)
{
    struct buffer *stream = blocks->stream;

    blocks->bits |= (uint64_t)value << blocks->bit_count;
    blocks->bit_count += count;
    /* deflate_blocks_end has made enough room for all 8 bytes. */
    store_u64(stream->data + stream->size, blocks->bits, false);
    stream->size += blocks->bit_count / 8;
    blocks->bits >>= blocks->bit_count / 8 * 8;
    blocks->bit_count %= 8;
}

static void put_code(struct deflate_blocks *blocks, const struct code *code)
{
    put_bits(blocks, code->bits, code->length);
}

/* Writes at most 28 bits. */
static void put_code_and_bits(struct deflate_blocks *blocks, const struct code *code,
                              unsigned value, unsigned count)
{
    put_bits(blocks, code->bits | value << code->length, code->length + count);
}

static void fill_byte(struct deflate_blocks *blocks)
{
    if (blocks->bit_count != 0)
        put_bits(blocks, 0, 8 - blocks->bit_count);
}

static void put_symbols(struct deflate_blocks *blocks, const struct alphabet *literals,
                        const struct alphabet *distances)
{
    for (size_t i = 0; i < blocks->symbol_count; i++) {
        unsigned distance = blocks->symbols[i].distance;
        unsigned value = blocks->symbols[i].value, code;

        if (distance == 0) {
            put_code(blocks, &literals->codes[value]);
            continue;
        }
        value += DEFLATE_MATCH_MIN;
        code = length_code(value);
        put_code_and_bits(blocks, &literals->codes[END_OF_BLOCK + 1 + code],
                          value - length_base[code], length_extra[code]);
        code = distance_code(distance);
        put_code_and_bits(blocks, &distances->codes[code], distance - distance_base[code],
                          distance_extra[code]);
    }
    put_code(blocks, &literals->codes[END_OF_BLOCK]);
}

static void put_stored(struct deflate_blocks *blocks, struct bytes text, bool last)
{
    unsigned size = (unsigned)text.size;

    put_bits(blocks, (unsigned)last | BLOCK_STORED << 1, 3);
    fill_byte(blocks);
    put_bits(blocks, size, 16);
    put_bits(blocks, ~size & 0xffff, 16);
    if (size != 0)
        memcpy(blocks->stream->data + blocks->stream->size, text.data, size);
    blocks->stream->size += size;
}

/* Counts the bits of a block's symbols with these codes, and with the fixed ones. */
static void count_bits(const struct deflate_blocks *blocks, const struct alphabet *literals,
                       const struct alphabet *distances, uint64_t *bits, uint64_t *fixed_bits)
{
    *bits = *fixed_bits = 0;
    for (unsigned i = 0; i < DEFLATE_LITLEN_SYMBOLS; i++) {
        unsigned extra = i > END_OF_BLOCK ? length_extra[i - END_OF_BLOCK - 1] : 0;
        uint64_t count = blocks->literal_counts[i];

        *bits += count * (literals->codes[i].length + extra);
        *fixed_bits += count * (fixed_length(i) + extra);
    }
    for (unsigned i = 0; i < DEFLATE_DISTANCE_SYMBOLS; i++) {
        uint64_t count = blocks->distance_counts[i];

        *bits += count * (distances->codes[i].length + distance_extra[i]);
        *fixed_bits += count * (unsigned)(FIXED_DISTANCE_LENGTH + distance_extra[i]);
    }
}

static void put_dynamic_header(struct deflate_blocks *blocks, const struct alphabet *literals,
                               const struct alphabet *distances, const struct lengths *lengths,
                               const struct alphabet *precode, unsigned precode_count)
{
    put_bits(blocks, (unsigned)literals->highest + 1 - 257, 5);
    put_bits(blocks, (unsigned)distances->highest + 1 - 1, 5);
    put_bits(blocks, precode_count - 4, 4);
    for (unsigned i = 0; i < precode_count; i++)
        put_bits(blocks, precode->codes[precode_order[i]].length, 3);
    for (size_t i = 0; i < lengths->count; i++) {
        unsigned symbol = lengths->items[i].symbol;

        put_code_and_bits(blocks, &precode->codes[symbol], lengths->items[i].extra,
                          precode_extra[symbol]);
    }
}

/* Writes the kind of block that is smallest; of equally small ones, the simplest. */
static void put_block(struct deflate_blocks *blocks, struct bytes text, bool last)
{
    struct alphabet literals, distances, precode;
    struct lengths lengths = {.count = 0};
    unsigned precode_count = DEFLATE_PRECODE_SYMBOLS;
    uint64_t dynamic_size, fixed_size, least;

    make_codes(&literals, blocks->literal_counts, DEFLATE_LITLEN_SYMBOLS, CODE_BITS_MAX);
    make_codes(&distances, blocks->distance_counts, DEFLATE_DISTANCE_SYMBOLS, CODE_BITS_MAX);
    add_lengths(&lengths, &literals);
    add_lengths(&lengths, &distances);
    make_codes(&precode, lengths.counts, DEFLATE_PRECODE_SYMBOLS, PRECODE_BITS_MAX);
    while (precode_count > 4 && precode.codes[precode_order[precode_count - 1]].length == 0)
        precode_count--;
    count_bits(blocks, &literals, &distances, &dynamic_size, &fixed_size);
    dynamic_size += 5 + 5 + 4 + 3 * (uint64_t)precode_count;
    for (unsigned i = 0; i < DEFLATE_PRECODE_SYMBOLS; i++)
        dynamic_size += (uint64_t)lengths.counts[i] * (precode.codes[i].length + precode_extra[i]);
    /* Rounded up to bytes, including the three bits of the block header. */
    dynamic_size = (dynamic_size + 3 + 7) >> 3;
    fixed_size = (fixed_size + 3 + 7) >> 3;
    least = fixed_size <= dynamic_size ? fixed_size : dynamic_size;
    if (text.data != NULL && text.size + 4 <= least) {
        put_stored(blocks, text, last);
    } else if (least == fixed_size) {
        put_bits(blocks, (unsigned)last | BLOCK_FIXED << 1, 3);
        make_fixed_codes(&literals, &distances);
        put_symbols(blocks, &literals, &distances);
    } else {
        put_bits(blocks, (unsigned)last | BLOCK_DYNAMIC << 1, 3);
        put_dynamic_header(blocks, &literals, &distances, &lengths, &precode, precode_count);
        put_symbols(blocks, &literals, &distances);
    }
}

bool deflate_blocks_end(struct deflate_blocks *blocks, struct bytes text, bool last)
{
    /* A symbol takes at most 48 bits, and a block header far less than 1 KiB. */
    if (!buffer_reserve(blocks->stream, blocks->symbol_count * 6 + 1024))
        return false;
    put_block(blocks, text, last);
    start_block(blocks);
    if (last)
        fill_byte(blocks);
    return true;
}
