/*
 * The length of x86-64 instructions (Intel 64 manual, volume 2, chapter 2 and appendix A), and
 * where their operands of four bytes are.
 *
 * An instruction has prefixes, an opcode in one of several maps, and what the opcode asks for: a
 * ModRM byte with its SIB byte and displacement, and an immediate. Two maps are tables with a
 * letter for each opcode, in rows of 16; in all others opcodes are alike. Opcodes that AVX-512 uses
 * are in the rows of their map. APX (prefix d5, and map 4 of EVEX) is not known.
 */
#include "formats/machine/flow.h"

/* The letters. None of the instructions: x. Only an opcode: a dot. A ModRM byte: m; with an
 * immediate of 8 bits: M; of 16 or 32: Z. Without ModRM byte, an immediate of 8 bits: b; 16: w; 24:
 * e; 16 or 32: z; up to 64: v; an address: o; a distance of 32: j. Test has an immediate only in
 * two of its group: f (8 bits), F (16 or 32). A ModRM byte that only names registers: R; one
 * that is invalid if its middle number is 7: g. A prefix:
 * p, REX: r; the first byte of more opcode: 1. */
static const char one_byte[] = "mmmmbzxxmmmmbzx1"
                               "mmmmbzxxmmmmbzxx"
                               "mmmmbzpxmmmmbzpx"
                               "mmmmbzpxmmmmbzpx"
                               "rrrrrrrrrrrrrrrr"
                               "................"
                               "xx1mppppzZbM...."
                               "bbbbbbbbbbbbbbbb"
                               "MZxMmmmmmmmmmmmm"
                               "..........x....."
                               "oooo....bz......"
                               "bbbbbbbbvvvvvvvv"
                               "MMw.11MZe.w..bx."
                               "mmmmxxx.mmmmmmmm"
                               "bbbbbbbbjjxb...."
                               "p.pp..fF......gg";

static const char two_bytes[] = "mmmmx.....x.xm.M"
                                "mmmmmmmmmmmmmmmm"
                                "RRRRxxxxmmmmmmmm"
                                "......x.1x1xxxxx"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm"
                                "MMMMmmm.mmmmmmmm"
                                "jjjjjjjjjjjjjjjj"
                                "mmmmmmmmmmmmmmmm"
                                "...mMmmm...mMmmm"
                                "mmmmmmmmmmMmmmmm"
                                "mmMmMMMm........"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm";

/* The part that has been read so far. At the end of the code `is_valid` becomes false, and stays
 * so. */
struct decoding {
    struct bytes code;
    uint64_t at;
    bool is_valid;
    bool has_16_bits;   /* prefix 66 */
    bool has_short_ptr; /* prefix 67 */
    bool is_wide;       /* REX.W */
};

static uint8_t take(struct decoding *decoding)
{
    decoding->is_valid &= decoding->at < decoding->code.size;
    return decoding->is_valid ? decoding->code.data[decoding->at++] : 0;
}

static uint8_t next(const struct decoding *decoding)
{
    return decoding->at < decoding->code.size ? decoding->code.data[decoding->at] : 0;
}

/* Opcodes of XOP and of the maps of VEX and EVEX that have no table. */
static char letter_in_map(struct decoding *decoding, unsigned map)
{
    uint8_t opcode = take(decoding);

    switch (map) {
    case 1:
        return two_bytes[opcode] == 'j' ? 'x' : two_bytes[opcode];
    case 2:
    case 5:
    case 6:
    case 9:
        return 'm';
    case 3:
    case 8:
        return 'M';
    default:
        return 'x';
    }
}

/* After VEX (c5, c4), EVEX (62) and XOP (8f): their other bytes, and the opcode. */
static char take_vector_opcode(struct decoding *decoding, uint8_t first)
{
    uint8_t second = take(decoding);

    if (first == 0xc5)
        return letter_in_map(decoding, 1);
    take(decoding);
    if (first != 0x62)
        return letter_in_map(decoding, second & 0x1f);
    take(decoding);
    return letter_in_map(decoding, second & 7);
}

/* The opcode, whatever its map: its letter. *opcode is its last byte in the two tables. */
static char take_opcode(struct decoding *decoding, uint8_t *opcode)
{
    *opcode = take(decoding);
    /* With a ModRM byte this is a pop, and the number of the map would be invalid in that. */
    if (*opcode == 0x8f && (next(decoding) & 0x1f) >= 8)
        return take_vector_opcode(decoding, *opcode);
    if (one_byte[*opcode] != '1')
        return one_byte[*opcode];
    if (*opcode != 0x0f)
        return take_vector_opcode(decoding, *opcode);
    *opcode = take(decoding);
    if (two_bytes[*opcode] != '1')
        return two_bytes[*opcode];
    take(decoding);
    return *opcode == 0x38 ? 'm' : 'M';
}

/* Also REX, which counts only as the last prefix. */
static void take_prefixes(struct decoding *decoding)
{
    for (char letter; (letter = one_byte[next(decoding)]) == 'p' || letter == 'r';) {
        uint8_t prefix = take(decoding);

        if (!decoding->is_valid)
            return;
        decoding->has_16_bits |= prefix == 0x66;
        decoding->has_short_ptr |= prefix == 0x67;
        decoding->is_wide = letter == 'r' && (prefix & 8) != 0;
    }
}

/* A ModRM byte with all that it asks for. */
static uint8_t take_modrm(struct decoding *decoding, struct x86_instruction *instruction)
{
    uint8_t modrm = take(decoding), mod = modrm >> 6, base = modrm & 7;
    bool has_sib = mod != 3 && base == 4;

    if (has_sib)
        base = take(decoding) & 7;
    if (mod == 2 || (mod == 0 && base == 5)) {
        instruction->displacement = decoding->at;
        instruction->is_pc_relative = mod == 0 && !has_sib;
        decoding->at += 4;
    }
    decoding->at += mod == 1 ? 1 : 0;
    return modrm;
}

/* The size of the immediate that an opcode has. */
static uint64_t immediate_size(const struct decoding *decoding, char letter)
{
    uint64_t up_to_32 = decoding->has_16_bits && !decoding->is_wide ? 2 : 4;

    switch (letter) {
    case 'M':
    case 'b':
        return 1;
    case 'w':
        return 2;
    case 'e':
        return 3;
    case 'Z':
    case 'z':
        return up_to_32;
    case 'v':
        return decoding->is_wide ? 8 : up_to_32;
    case 'o':
        return decoding->has_short_ptr ? 4 : 8;
    case 'j':
        return 4;
    default:
        return 0;
    }
}

bool x86_decode(struct bytes code, struct x86_instruction *instruction)
{
    struct decoding decoding = {.code = code, .is_valid = true};
    uint8_t opcode, modrm = 0;
    uint64_t size;
    char letter;

    *instruction = (struct x86_instruction){.size = 0};
    if (code.size > X86_SIZE_MAX)
        decoding.code.size = X86_SIZE_MAX;
    take_prefixes(&decoding);
    letter = take_opcode(&decoding, &opcode);
    if (letter == 'R')
        take(&decoding);
    else if (letter == 'm' || letter == 'g' || letter == 'M' || letter == 'Z' || letter == 'f' ||
             letter == 'F')
        modrm = take_modrm(&decoding, instruction);
    if (letter == 'g' && (modrm & 0x38) == 0x38)
        letter = 'x';
    if (letter == 'f' || letter == 'F')
        letter = (modrm & 0x30) != 0 ? 'm' : letter == 'f' ? 'M' : 'Z';
    size = immediate_size(&decoding, letter);
    if (size >= 4)
        instruction->immediate = decoding.at;
    instruction->is_branch = letter == 'j';
    instruction->size = decoding.at + size;
    return decoding.is_valid && letter != 'x' && instruction->size <= decoding.code.size;
}
