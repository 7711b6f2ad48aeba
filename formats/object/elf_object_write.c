/*
 * Writing an ELF relocatable without its ordinary coverage mapping: see elf_object.h.
 *
 * The sections stay in the order that they have in the file, and so does the table of their
 * headers; what is between them is only padding. Numbers of sections and symbols are in headers,
 * and in a few types of section, which are rewritten. A section of a type that is not known but
 * belongs to the symbol table may have numbers of symbols, so the object stays then.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/numbers.h"
#include "common/llvm/coverage.h"
#include "formats/object/elf_object.h"
#include "formats/object/kept_strings.h"

/* LLVM's ELF.h: weights of calls, whose functions are told by relocations. */
#define SHT_LLVM_CALL_GRAPH_PROFILE 0x6fff4c09u

/* What has a place in the file: a section, or the table of headers. */
struct piece {
    uint64_t offset;
    uint64_t size;
    uint32_t section; /* TABLE_PIECE: the headers */
};

#define TABLE_PIECE 0

struct place {
    uint64_t offset, size;
};

struct writing {
    struct elf_object *object;
    struct buffer *to;
    struct piece *pieces; /* in their order in the file */
    size_t piece_count, piece_capacity;
    struct place *places; /* of sections by their new numbers; of the headers at TABLE_PIECE */
    struct kept_strings symbol_names;
    struct kept_strings own_section_names;
    struct kept_strings *section_names; /* may be the same table */
};

/* ---- structures ---- */

#define PUT(object, at, type, field, value)                                                        \
    ((object)->wide ? store_number((at) + offsetof(Elf64_##type, field), value,                    \
                                   sizeof(((Elf64_##type *)0)->field), (object)->big_endian)       \
                    : store_number((at) + offsetof(Elf32_##type, field), value,                    \
                                   sizeof(((Elf32_##type *)0)->field), (object)->big_endian))

static enum result out_of_memory_unless(bool done)
{
    return done ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result refers_to_mapping(const struct elf_object *object)
{
    return object_keep(object->packing, "other sections refer to its coverage mapping; leave it as "
                                        "it is");
}

/* Replaces the number of a symbol. */
static enum result renumber_symbol(const struct elf_object *object, uint32_t *symbol)
{
    if (*symbol == 0)
        return RESULT_OK;
    if (*symbol >= object->symbol_count)
        return elf_object_damaged(object, "a number of a symbol is");
    *symbol = object->new_symbols[*symbol];
    return *symbol != NUMBER_GONE ? RESULT_OK : refers_to_mapping(object);
}

/* ---- string tables ---- */

static enum result start_strings(const struct writing *writing, struct kept_strings *strings,
                                 uint32_t section)
{
    const struct elf_object *object = writing->object;

    if (!kept_strings_start(strings, elf_object_bytes(object, section)))
        return RESULT_NO_MEMORY;
    /* Others that use the table have offsets that are not known. */
    for (uint32_t i = 0; i < object->section_count; i++) {
        if (i != object->symbol_table && object->new_sections[i] != NUMBER_GONE && i != 0 &&
            elf_object_section(object, i).sh_link == section)
            kept_strings_use_all(strings);
    }
    return RESULT_OK;
}

static enum result use_symbol_names(struct writing *writing)
{
    const struct elf_object *object = writing->object;

    for (uint32_t i = 0; i < object->symbol_count; i++) {
        uint32_t name = elf_object_symbol(object, i).name;

        if (name >= writing->symbol_names.table.size)
            return elf_object_damaged(object, "the name of a symbol is");
        if (object->new_symbols[i] != NUMBER_GONE)
            kept_strings_use(&writing->symbol_names, name);
    }
    return RESULT_OK;
}

static enum result choose_strings(struct writing *writing)
{
    const struct elf_object *object = writing->object;
    enum result result = RESULT_OK;

    if (object->symbol_table != 0)
        result = start_strings(writing, &writing->symbol_names, object->symbol_names);
    if (result == RESULT_OK && object->symbol_table != 0)
        result = use_symbol_names(writing);
    writing->section_names = object->symbol_table != 0 && object->symbol_names == object->names
                                 ? &writing->symbol_names
                                 : &writing->own_section_names;
    if (result == RESULT_OK && writing->section_names == &writing->own_section_names)
        result = start_strings(writing, &writing->own_section_names, object->names);
    if (result != RESULT_OK)
        return result;
    for (uint32_t i = 0; i < object->section_count; i++) {
        if (object->new_sections[i] != NUMBER_GONE)
            kept_strings_use(writing->section_names, elf_object_section(object, i).sh_name);
    }
    kept_strings_choose(writing->section_names);
    if (object->symbol_table != 0 && writing->section_names != &writing->symbol_names)
        kept_strings_choose(&writing->symbol_names);
    return RESULT_OK;
}

/* ---- symbols and groups ---- */

static uint32_t new_section_of(const struct elf_object *object,
                               const struct elf_object_symbol *symbol)
{
    return symbol->is_special ? symbol->section : object->new_sections[symbol->section];
}

static enum result write_symbols(struct writing *writing, struct bytes from)
{
    const struct elf_object *object = writing->object;
    size_t size = elf_object_symbol_size(object);
    uint8_t *at;

    if (!buffer_reserve(writing->to, object->new_symbol_count * size))
        return RESULT_NO_MEMORY;
    at = writing->to->data + writing->to->size;
    for (uint32_t i = 0; i < object->symbol_count; i++) {
        const struct elf_object_symbol symbol = elf_object_symbol(object, i);
        uint32_t section;

        if (object->new_symbols[i] == NUMBER_GONE)
            continue;
        section = new_section_of(object, &symbol);
        if (!symbol.is_special && section >= SHN_LORESERVE)
            section = SHN_XINDEX;
        memcpy(at, from.data + i * size, size);
        PUT(object, at, Sym, st_name, kept_strings_offset(&writing->symbol_names, symbol.name));
        PUT(object, at, Sym, st_shndx, section);
        at += size;
    }
    writing->to->size += object->new_symbol_count * size;
    return RESULT_OK;
}

/* The numbers of sections that do not fit a symbol; 0 for the other symbols. */
static enum result write_extended(struct writing *writing, struct bytes from)
{
    const struct elf_object *object = writing->object;

    (void)from;
    for (uint32_t i = 0; i < object->symbol_count; i++) {
        const struct elf_object_symbol symbol = elf_object_symbol(object, i);
        uint32_t section;
        uint8_t word[sizeof(Elf32_Word)];

        if (object->new_symbols[i] == NUMBER_GONE)
            continue;
        section = new_section_of(object, &symbol);
        store_u32(word, !symbol.is_special && section >= SHN_LORESERVE ? section : 0,
                  object->big_endian);
        if (!buffer_append(writing->to, word, sizeof(word)))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

/* Copies a section whose parts are rewritten in place; *at is the copy. */
static enum result copy(struct writing *writing, struct bytes from, uint8_t **at)
{
    size_t start = writing->to->size;

    if (!buffer_append(writing->to, from.data, (size_t)from.size))
        return RESULT_NO_MEMORY;
    *at = writing->to->data + start;
    return RESULT_OK;
}

/* The members are in bounds: elf_object_read.c has looked at them, but before it was known of other
 * groups whether they go. */
static enum result write_group(struct writing *writing, struct bytes from)
{
    const struct elf_object *object = writing->object;
    uint8_t *at;
    enum result result = copy(writing, from, &at);

    for (uint64_t i = sizeof(Elf32_Word); result == RESULT_OK && i < from.size;
         i += sizeof(Elf32_Word)) {
        uint32_t member = object->new_sections[load_u32(at + i, object->big_endian)];

        if (member == NUMBER_GONE)
            return elf_object_damaged(object, "a group of sections is");
        store_u32(at + i, member, object->big_endian);
    }
    return result;
}

/* ---- relocations ---- */

static uint32_t relocation_symbol(const struct elf_object *object, const uint8_t *info)
{
    if (!object->wide)
        return load_u32(info, object->big_endian) >> 8;
    /* The first four bytes of the two words of 64-bit MIPS, whatever the byte order. */
    return object->is_mips64 ? load_u32(info, object->big_endian)
                             : (uint32_t)(load_u64(info, object->big_endian) >> 32);
}

static void set_relocation_symbol(const struct elf_object *object, uint8_t *info, uint32_t symbol)
{
    bool big_endian = object->big_endian;

    if (!object->wide)
        store_u32(info, symbol << 8 | (load_u32(info, big_endian) & 0xff), big_endian);
    else if (object->is_mips64)
        store_u32(info, symbol, big_endian);
    else
        store_u64(info, (uint64_t)symbol << 32 | (uint32_t)load_u64(info, big_endian), big_endian);
}

static enum result write_relocations(struct writing *writing, struct bytes from, bool has_addends)
{
    const struct elf_object *object = writing->object;
    size_t word = object->wide ? sizeof(Elf64_Addr) : sizeof(Elf32_Addr);
    size_t size = has_addends ? 3 * word : 2 * word;
    uint8_t *at;
    enum result result;

    if (from.size % size != 0)
        return elf_object_damaged(object, "a section of relocations is");
    result = copy(writing, from, &at);
    for (uint64_t i = 0; result == RESULT_OK && i < from.size; i += size) {
        uint32_t symbol = relocation_symbol(object, at + i + word);

        result = renumber_symbol(object, &symbol);
        if (result == RESULT_OK)
            set_relocation_symbol(object, at + i + word, symbol);
    }
    return result;
}

/* ---- numbers as LEB128 ---- */

/* Takes a signed LEB128 number. */
static bool take_sleb128(struct bytes *view, int64_t *value)
{
    uint64_t number = 0;
    unsigned shift = 0;
    uint8_t byte;

    do {
        if (view->size == 0 || shift > 63)
            return false;
        byte = *take_bytes(view, 1);
        number |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte >= 0x80);
    if (shift < 64 && (byte & 0x40) != 0)
        number |= UINT64_MAX << shift;
    *value = (int64_t)number;
    return true;
}

static bool append_sleb128(struct buffer *to, int64_t value)
{
    for (;;) {
        uint8_t byte = value & 0x7f;
        bool is_last = value >= -0x40 && value < 0x40;

        if (!is_last)
            byte |= 0x80;
        if (!buffer_append(to, &byte, 1))
            return false;
        if (is_last)
            return true;
        value >>= 7;
    }
}

/* CREL (LLVM's MC/MCELFExtras.h): ULEB128 of the count, and in its low bits whether there are
 * addends and how offsets are shifted. Of each relocation the first byte has the low bits of the
 * difference of offsets and, as lowest bits, which other differences follow: symbol, type and
 * addend. */
#define CREL_COUNT_SHIFT 3
#define CREL_HAS_ADDENDS 4u
#define CREL_HAS_SYMBOL  1u

struct crel_symbols {
    uint32_t old, new;
};

/* Copies bytes that were taken off, from `start` to where `rest` begins. */
static bool append_taken(struct writing *writing, const uint8_t *start, const struct bytes *rest)
{
    return buffer_append(writing->to, start, (size_t)(rest->data - start));
}

static enum result write_crel_entry(struct writing *writing, struct bytes *from, bool has_addends,
                                    struct crel_symbols *symbols)
{
    const struct elf_object *object = writing->object;
    const uint8_t *start = from->data;
    unsigned kinds = has_addends ? 3 : 2;
    uint64_t ignored;
    int64_t difference;
    uint8_t first;

    if (from->size == 0)
        return elf_object_damaged(object, "a section of relocations is");
    first = *take_bytes(from, 1);
    if (first >= 0x80 && !bytes_take_uleb128(from, &ignored))
        return elf_object_damaged(object, "a section of relocations is");
    if (!append_taken(writing, start, from))
        return RESULT_NO_MEMORY;
    if ((first & CREL_HAS_SYMBOL) != 0) {
        struct crel_symbols before = *symbols;
        enum result result;

        if (!take_sleb128(from, &difference))
            return elf_object_damaged(object, "a section of relocations is");
        symbols->old = symbols->new = (uint32_t)(before.old + (uint64_t)difference);
        result = renumber_symbol(object, &symbols->new);
        if (result != RESULT_OK)
            return result;
        if (!append_sleb128(writing->to, (int64_t)symbols->new - (int64_t)before.new))
            return RESULT_NO_MEMORY;
    }
    start = from->data;
    for (unsigned kind = 1; kind < kinds; kind++) {
        if ((first & 1u << kind) != 0 && !take_sleb128(from, &difference))
            return elf_object_damaged(object, "a section of relocations is");
    }
    return out_of_memory_unless(append_taken(writing, start, from));
}

static enum result write_crel(struct writing *writing, struct bytes from)
{
    const uint8_t *start = from.data;
    struct crel_symbols symbols = {0};
    enum result result = RESULT_OK;
    uint64_t head;

    if (!bytes_take_uleb128(&from, &head))
        return elf_object_damaged(writing->object, "a section of relocations is");
    if (!append_taken(writing, start, &from))
        return RESULT_NO_MEMORY;
    for (uint64_t i = head >> CREL_COUNT_SHIFT; result == RESULT_OK && i != 0; i--)
        result = write_crel_entry(writing, &from, (head & CREL_HAS_ADDENDS) != 0, &symbols);
    if (result == RESULT_OK && from.size != 0)
        return elf_object_damaged(writing->object, "a section of relocations is");
    return result;
}

/* .llvm_addrsig: the symbols whose addresses matter. If it does not belong to the symbol table,
 * linkers ignore it: then it is several that a tool has put together without knowing what they are.
 */
static enum result write_address_symbols(struct writing *writing, struct bytes from)
{
    const struct elf_object *object = writing->object;
    uint64_t symbol;

    while (from.size != 0) {
        if (!bytes_take_uleb128(&from, &symbol) || symbol >= object->symbol_count)
            return elf_object_damaged(object, ".llvm_addrsig is");
        if (object->new_symbols[symbol] != NUMBER_GONE &&
            !buffer_append_uleb128(writing->to, object->new_symbols[symbol]))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

/* ---- sections ---- */

static enum result write_by_type(struct writing *writing, uint32_t number, const Elf64_Shdr *header)
{
    struct bytes from = elf_object_bytes(writing->object, number);
    bool has_symbols = header->sh_link == writing->object->symbol_table && header->sh_link != 0;

    switch (header->sh_type) {
    case SHT_SYMTAB:
        return write_symbols(writing, from);
    case SHT_SYMTAB_SHNDX:
        return write_extended(writing, from);
    case SHT_GROUP:
        return write_group(writing, from);
    case SHT_REL:
    case SHT_RELA:
        return has_symbols ? write_relocations(writing, from, header->sh_type == SHT_RELA)
                           : elf_object_damaged(writing->object, "a section of relocations is");
    case SHT_LLVM_CREL:
        return has_symbols ? write_crel(writing, from)
                           : elf_object_damaged(writing->object, "a section of relocations is");
    case SHT_LLVM_ADDRSIG:
        if (has_symbols)
            return write_address_symbols(writing, from);
        /* fall through */
    default:
        if ((has_symbols && header->sh_type != SHT_LLVM_CALL_GRAPH_PROFILE) ||
            header->sh_type == SHT_DYNSYM)
            return object_keep(writing->object->packing,
                               "it has a section of the unknown type 0x%x, which may refer to "
                               "symbols; leave it as it is",
                               (unsigned)header->sh_type);
        return out_of_memory_unless(buffer_append(writing->to, from.data, (size_t)from.size));
    }
}

static enum result write_contents(struct writing *writing, uint32_t number,
                                  const Elf64_Shdr *header)
{
    const struct elf_object *object = writing->object;
    const struct kept_strings *strings = NULL;

    if (object->roles[number] == ROLE_COVMAP)
        return object_units_write(&object->units, writing->to, object->packing);
    if (number == object->names)
        strings = writing->section_names;
    else if (object->symbol_table != 0 && number == object->symbol_names)
        strings = &writing->symbol_names;
    if (strings != NULL)
        return out_of_memory_unless(kept_strings_append(strings, writing->to));
    return write_by_type(writing, number, header);
}

static bool has_section_in_info(const Elf64_Shdr *header)
{
    return header->sh_type == SHT_REL || header->sh_type == SHT_RELA ||
           header->sh_type == SHT_LLVM_CREL || (header->sh_flags & SHF_INFO_LINK) != 0;
}

/* The new value of sh_info. */
static enum result renumber_info(const struct elf_object *object, const Elf64_Shdr *header,
                                 uint32_t *info)
{
    *info = header->sh_type == SHT_SYMTAB ? object->new_local_count : header->sh_info;
    if (header->sh_type == SHT_GROUP)
        return renumber_symbol(object, info);
    if (header->sh_type == SHT_SYMTAB || !has_section_in_info(header) || *info == 0)
        return RESULT_OK;
    if (*info >= object->section_count)
        return elf_object_damaged(object, "a section header is");
    if (object->roles[*info] != ROLE_STAYS)
        return refers_to_mapping(object);
    *info = object->new_sections[*info];
    return RESULT_OK;
}

static enum result write_section_header(const struct writing *writing, uint32_t number, uint8_t *at)
{
    const struct elf_object *object = writing->object;
    const Elf64_Shdr header = elf_object_section(object, number);
    const struct place *place = &writing->places[object->new_sections[number]];
    uint32_t info;
    enum result result = renumber_info(object, &header, &info);

    if (result != RESULT_OK)
        return result;
    if (object->roles[header.sh_link] != ROLE_STAYS)
        return refers_to_mapping(object);
    PUT(object, at, Shdr, sh_name, kept_strings_offset(writing->section_names, header.sh_name));
    PUT(object, at, Shdr, sh_offset, place->offset);
    if (header.sh_type != SHT_NOBITS && header.sh_type != SHT_NULL)
        PUT(object, at, Shdr, sh_size, place->size);
    PUT(object, at, Shdr, sh_link, object->new_sections[header.sh_link]);
    PUT(object, at, Shdr, sh_info, info);
    return RESULT_OK;
}

/* The ELF header, and section header 0, which has the numbers that do not fit the ELF header. */
static void write_file_header(const struct writing *writing)
{
    const struct elf_object *object = writing->object;
    uint8_t *file = writing->to->data, *none = file + writing->places[TABLE_PIECE].offset;
    uint32_t count = object->new_section_count, names = object->new_sections[object->names];
    bool is_large = count >= SHN_LORESERVE, has_large_names = names >= SHN_LORESERVE;

    PUT(object, file, Ehdr, e_shoff, writing->places[TABLE_PIECE].offset);
    PUT(object, file, Ehdr, e_shnum, is_large ? 0 : count);
    PUT(object, file, Ehdr, e_shstrndx, has_large_names ? SHN_XINDEX : names);
    PUT(object, none, Shdr, sh_size, is_large ? count : 0);
    PUT(object, none, Shdr, sh_link, has_large_names ? names : 0);
}

static enum result write_headers(struct writing *writing)
{
    const struct elf_object *object = writing->object;
    size_t size = elf_object_section_size(object);
    uint8_t *at = writing->to->data + writing->places[TABLE_PIECE].offset;
    enum result result = RESULT_OK;

    for (uint32_t i = 0; result == RESULT_OK && i < object->section_count; i++) {
        if (object->new_sections[i] == NUMBER_GONE)
            continue;
        memcpy(at, object->file.data + object->section_headers + i * size, size);
        if (i != 0)
            result = write_section_header(writing, i, at);
        else
            PUT(object, at, Shdr, sh_name,
                kept_strings_offset(writing->section_names, elf_object_section(object, 0).sh_name));
        at += size;
    }
    if (result == RESULT_OK)
        write_file_header(writing);
    return result;
}

/* ---- the order in the file ---- */

static int compare_pieces(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if ((a->size == 0) != (b->size == 0))
        return a->size == 0 ? -1 : 1;
    return a->section < b->section ? -1 : a->section > b->section;
}

/* Finds the order. No two may overlap: otherwise a small file could become a huge one. */
static enum result order_pieces(struct writing *writing)
{
    const struct elf_object *object = writing->object;
    uint64_t end = elf_object_header_size(object);
    struct bytes rest;

    if (!array_make_room(&writing->pieces, &writing->piece_capacity, 0, object->new_section_count,
                         sizeof(*writing->pieces)))
        return RESULT_NO_MEMORY;
    writing->pieces[writing->piece_count++] = (struct piece){
        object->section_headers, object->section_count * (uint64_t)elf_object_section_size(object),
        TABLE_PIECE};
    for (uint32_t i = 1; i < object->section_count; i++) {
        if (object->new_sections[i] != NUMBER_GONE)
            writing->pieces[writing->piece_count++] = (struct piece){
                elf_object_section(object, i).sh_offset, elf_object_bytes(object, i).size, i};
    }
    qsort(writing->pieces, writing->piece_count, sizeof(*writing->pieces), compare_pieces);
    for (size_t i = 0; i < writing->piece_count; i++) {
        const struct piece *piece = &writing->pieces[i];

        if (piece->size == 0)
            continue;
        if (piece->offset < end)
            return elf_object_damaged(object, "its sections overlap, so it is");
        end = piece->offset + piece->size;
    }
    return bytes_slice(object->file, end, object->file.size - end, &rest) && bytes_all_zero(rest)
               ? RESULT_OK
               : object_keep(object->packing, "it has bytes behind its last section; leave it as "
                                              "it is");
}

/* What the piece was aligned to. 1 if its offset is not a multiple of its alignment, or not behind
 * the piece before: a section without bytes can have any offset, and must not make the file larger.
 */
static uint64_t alignment_of(const struct elf_object *object, const struct piece *piece,
                             uint64_t end)
{
    uint64_t alignment = object->wide ? sizeof(Elf64_Xword) : sizeof(Elf32_Word);

    if (piece->section != TABLE_PIECE)
        alignment = elf_object_section(object, piece->section).sh_addralign;
    return alignment == 0 || piece->offset % alignment != 0 || piece->offset < end ||
                   piece->offset > object->file.size
               ? 1
               : alignment;
}

static enum result write_piece(struct writing *writing, const struct piece *piece)
{
    const struct elf_object *object = writing->object;
    struct place *place = &writing->places[TABLE_PIECE];
    enum result result;

    if (piece->section == TABLE_PIECE) {
        place->offset = writing->to->size;
        return out_of_memory_unless(buffer_append_zeros(
            writing->to, object->new_section_count * elf_object_section_size(object)));
    }
    const Elf64_Shdr header = elf_object_section(object, piece->section);

    place = &writing->places[object->new_sections[piece->section]];
    place->offset = writing->to->size;
    result = write_contents(writing, piece->section, &header);
    place->size = writing->to->size - place->offset;
    return result;
}

static enum result write_pieces(struct writing *writing)
{
    const struct elf_object *object = writing->object;
    uint64_t end = elf_object_header_size(object);
    enum result result = RESULT_OK;

    for (size_t i = 0; result == RESULT_OK && i < writing->piece_count; i++) {
        const struct piece *piece = &writing->pieces[i];
        uint64_t start = align_up(writing->to->size, alignment_of(object, piece, end));

        if (!buffer_append_zeros(writing->to, (size_t)(start - writing->to->size)))
            return RESULT_NO_MEMORY;
        result = write_piece(writing, piece);
        if (piece->size != 0)
            end = piece->offset + piece->size;
    }
    return result;
}

static enum result write_all(struct writing *writing)
{
    const struct elf_object *object = writing->object;
    enum result result = choose_strings(writing);

    if (result == RESULT_OK)
        result = order_pieces(writing);
    if (result != RESULT_OK)
        return result;
    writing->places = calloc(object->new_section_count, sizeof(*writing->places));
    if (writing->places == NULL ||
        !buffer_append(writing->to, object->file.data, elf_object_header_size(object)))
        return RESULT_NO_MEMORY;
    result = write_pieces(writing);
    if (result == RESULT_OK)
        result = write_headers(writing);
    if (result == RESULT_OK && !object->wide && writing->to->size > UINT32_MAX)
        return elf_object_damaged(object, "its alignments are");
    return result;
}

enum result elf_object_write(struct elf_object *object)
{
    struct writing writing = {.object = object, .to = &object->packing->contents};
    enum result result = write_all(&writing);

    free(writing.pieces);
    free(writing.places);
    kept_strings_free(&writing.symbol_names);
    kept_strings_free(&writing.own_section_names);
    return result;
}
