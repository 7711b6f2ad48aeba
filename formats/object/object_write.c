/*
 * Writing an ELF relocatable without its ordinary coverage mapping: see object_parts.h.
 *
 * The sections stay in the order that they have in the file, and so does the table of their
 * headers; what is between them is only padding. Numbers of sections and symbols are in headers,
 * and in a few types of section, which are rewritten. A section of a type that is not known but
 * belongs to the symbol table may have numbers of symbols, so the object stays then.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/llvm/coverage.h"
#include "formats/object/object_parts.h"

/* The new number of what goes. */
#define NUMBER_GONE UINT32_MAX

/* A section, or the table of headers, in its place in the file. */
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
    struct object *object;
    struct buffer *to;
    uint32_t *new_sections; /* the numbers of the sections and the symbols that stay */
    uint32_t *new_symbols;
    uint32_t section_count, symbol_count, local_count; /* of those that stay */
    struct piece *pieces;                              /* in their order in the file */
    size_t piece_count;
    struct place *places; /* of sections by their new numbers; of the headers at TABLE_PIECE */
    struct kept_strings *symbol_names, *section_names; /* may be the same table */
};

static bool refers_to_mapping(struct object *object)
{
    return object_keep(object, "other sections refer to its coverage mapping; leave it as it is");
}

/* False if out of memory. */
static bool append(struct writing *writing, const void *data, uint64_t size)
{
    return buffer_append(writing->to, data, (size_t)size) || object_no_memory(writing->object);
}

/* ---- new numbers ---- */

static bool stays(enum section_role role)
{
    return role == ROLE_STAYS || role == ROLE_COVMAP;
}

static bool number_sections(struct writing *writing)
{
    struct object *object = writing->object;
    uint32_t count = 0;

    writing->new_sections =
        arena_array(&object->arena, object->section_count, sizeof(*writing->new_sections));
    if (writing->new_sections == NULL)
        return object_no_memory(object);
    for (uint32_t i = 0; i < object->section_count; i++)
        count += stays(object->roles[i]);
    if (object->extended != 0 && count - 1 <= SHN_LORESERVE)
        object->roles[object->extended] = ROLE_EXTENDED;
    for (uint32_t i = 0; i < object->section_count; i++)
        writing->new_sections[i] = stays(object->roles[i]) ? writing->section_count++ : NUMBER_GONE;
    return true;
}

/* Decides if a symbol goes. Besides the symbols of the sections that go, only their groups' names
 * go, which are defined in them, the names of other objects' records, and the mapping symbols of
 * some psABIs ("$d"), which say that there is data. False if one would go that is not only of the
 * coverage mapping. */
static bool judge_symbol(struct object *object, uint32_t number, bool *goes)
{
    static const char record[] = "__covrec_";
    const struct object_symbol symbol = object_symbol(object, number);
    bool is_undefined = !symbol.is_special && symbol.section == SHN_UNDEF;
    bool is_signature = object->is_signature[number];
    bool is_section = ELF64_ST_TYPE(symbol.sym.st_info) == STT_SECTION;
    bool is_mapping =
        symbol.sym.st_info == ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE) && symbol.name[0] == '$';
    enum section_role role = ROLE_STAYS;

    if (!symbol.is_special && symbol.section >= object->section_count)
        return object_damaged(object, "its symbol table is");
    if (!symbol.is_special)
        role = (enum section_role)object->roles[symbol.section];
    *goes = is_signature || !stays(role);
    if (!*goes && role == ROLE_COVMAP) {
        /* What was in it moves, so only its start can have a symbol. */
        *goes = is_mapping && symbol.sym.st_value != 0;
        if (is_mapping || (is_section && symbol.sym.st_value == 0))
            return true;
    } else if (!*goes) {
        /* rustc's ThinLTO leaves the names of other objects' records: nothing refers to them, but
         * GNU ld wants a definition, and lld looks for one in archives. */
        *goes = is_undefined && strncmp(symbol.name, record, sizeof(record) - 1) == 0;
        return true;
    } else if (!symbol.is_special && !is_undefined && (is_section || is_mapping)) {
        return !is_signature || object_damaged(object, "a group of sections is");
    } else if (is_signature && (is_undefined || (!symbol.is_special &&
                                                 object->signatures[symbol.section] == number))) {
        return true;
    }
    return object_keep(object, "the symbol %.100s is in the coverage mapping; leave it as it is",
                       symbol.name);
}

static bool number_symbols(struct writing *writing)
{
    struct object *object = writing->object;
    uint32_t locals = 0;

    writing->new_symbols =
        arena_array(&object->arena, object->symbol_count, sizeof(*writing->new_symbols));
    if (writing->new_symbols == NULL)
        return object_no_memory(object);
    if (object->symbol_table != 0)
        locals = elf_file_section(&object->file, object->symbol_table).sh_info;
    /* The first one stands for no symbol. */
    if (object->symbol_count != 0 && object_symbol(object, 0).section != SHN_UNDEF)
        return object_damaged(object, "its symbol table is");
    for (uint32_t i = 0; i < object->symbol_count; i++) {
        bool goes = false;

        if (i != 0 && !judge_symbol(object, i, &goes))
            return false;
        writing->new_symbols[i] = goes ? NUMBER_GONE : writing->symbol_count++;
        writing->local_count += i < locals && !goes;
    }
    return true;
}

/* Replaces the number of a symbol. */
static bool renumber_symbol(struct writing *writing, uint32_t *symbol)
{
    struct object *object = writing->object;

    if (*symbol == 0)
        return true;
    if (*symbol >= object->symbol_count)
        return object_damaged(object, "a number of a symbol is");
    *symbol = writing->new_symbols[*symbol];
    return *symbol != NUMBER_GONE || refers_to_mapping(object);
}

/* ---- string tables ---- */

/* A string table without the strings that are no longer used. Strings are used by their offsets,
 * and may share their ends: a name can be that of another from some byte on. Of each string,
 * everything from the first byte that is used is kept, and the order stays. */
struct kept_strings {
    struct bytes table;
    bool *kept;       /* of each byte; until choose_strings, if a string is used from there on */
    uint32_t *before; /* how many are kept in front of each block */
};

#define STRING_BLOCK 64

/* The first byte of a table is the empty string, which is always used. NULL if out of memory. */
static struct kept_strings *start_strings(struct writing *writing, uint32_t section)
{
    struct object *object = writing->object;
    struct kept_strings *strings = arena_allocate(&object->arena, sizeof(*strings));
    struct bytes table = object_contents(object, section);
    bool *kept = arena_array(&object->arena, (size_t)table.size, sizeof(*kept));
    uint32_t *before =
        arena_array(&object->arena, (size_t)(table.size / STRING_BLOCK + 1), sizeof(*before));

    if (object->arena.failed) {
        object_no_memory(object);
        return NULL;
    }
    *strings = (struct kept_strings){table, kept, before};
    kept[0] = true;
    /* Others that use the table have offsets that are not known. */
    for (uint32_t i = 1; i < object->section_count; i++) {
        if (i != object->symbol_table && writing->new_sections[i] != NUMBER_GONE &&
            elf_file_section(&object->file, i).sh_link == section)
            memset(kept, true, (size_t)table.size);
    }
    return strings;
}

static void choose_strings(struct kept_strings *strings)
{
    bool keeps = false;
    uint32_t count = 0;

    for (uint64_t i = 0; i < strings->table.size; i++) {
        if (i % STRING_BLOCK == 0)
            strings->before[i / STRING_BLOCK] = count;
        keeps |= strings->kept[i];
        strings->kept[i] = keeps;
        count += keeps;
        keeps &= strings->table.data[i] != '\0';
    }
}

/* The place in the new table of a string that is used. */
static uint32_t new_string(const struct kept_strings *strings, uint32_t offset)
{
    uint32_t place = strings->before[offset / STRING_BLOCK];

    for (uint32_t i = offset & ~(uint32_t)(STRING_BLOCK - 1); i < offset; i++)
        place += strings->kept[i];
    return place;
}

static bool write_strings(struct writing *writing, const struct kept_strings *strings)
{
    for (uint64_t i = 0, end; i < strings->table.size; i = end) {
        bool keeps = strings->kept[i];

        for (end = i + 1; end < strings->table.size && strings->kept[end] == keeps;)
            end++;
        if (keeps && !append(writing, strings->table.data + i, end - i))
            return false;
    }
    return true;
}

static bool make_strings(struct writing *writing)
{
    struct object *object = writing->object;
    uint32_t names = (uint32_t)object->file.names;

    if (object->symbol_table != 0) {
        writing->symbol_names = start_strings(writing, object->symbol_names);
        if (writing->symbol_names == NULL)
            return false;
        for (uint32_t i = 0; i < object->symbol_count; i++) {
            uint32_t name = object_symbol(object, i).sym.st_name;

            if (name >= object->symbol_strings.size)
                return object_damaged(object, "the name of a symbol is");
            if (writing->new_symbols[i] != NUMBER_GONE)
                writing->symbol_names->kept[name] = true;
        }
    }
    writing->section_names = object->symbol_table != 0 && object->symbol_names == names
                                 ? writing->symbol_names
                                 : start_strings(writing, names);
    if (writing->section_names == NULL)
        return false;
    for (uint32_t i = 0; i < object->section_count; i++) {
        if (writing->new_sections[i] != NUMBER_GONE)
            writing->section_names->kept[elf_file_section(&object->file, i).sh_name] = true;
    }
    choose_strings(writing->section_names);
    if (writing->symbol_names != NULL && writing->symbol_names != writing->section_names)
        choose_strings(writing->symbol_names);
    return true;
}

/* ---- symbols and groups ---- */

/* The new number of the symbol's section; *is_extended if it does not fit the symbol. */
static uint32_t new_section_of(const struct writing *writing, const struct object_symbol *symbol,
                               bool *is_extended)
{
    uint32_t section =
        symbol->is_special ? symbol->section : writing->new_sections[symbol->section];

    *is_extended = !symbol->is_special && section >= SHN_LORESERVE;
    return section;
}

static bool write_symbols(struct writing *writing)
{
    struct object *object = writing->object;
    bool big_endian = object->file.big_endian, wide = object->file.wide, is_extended;
    size_t size = ELF_SIZE(wide, Sym);
    size_t shndx = wide ? offsetof(Elf64_Sym, st_shndx) : offsetof(Elf32_Sym, st_shndx);

    for (uint32_t i = 0; i < object->symbol_count; i++) {
        const struct object_symbol symbol = object_symbol(object, i);
        uint32_t section;
        uint8_t *at;

        if (writing->new_symbols[i] == NUMBER_GONE)
            continue;
        if (!append(writing, object->symbols.data + i * size, size))
            return false;
        section = new_section_of(writing, &symbol, &is_extended);
        at = writing->to->data + writing->to->size - size;
        store_u32(at, new_string(writing->symbol_names, symbol.sym.st_name), big_endian);
        store_u16(at + shndx, is_extended ? SHN_XINDEX : (uint16_t)section, big_endian);
    }
    return true;
}

/* The numbers of sections that do not fit a symbol; 0 for the other symbols. */
static bool write_extended(struct writing *writing)
{
    struct object *object = writing->object;

    for (uint32_t i = 0; i < object->symbol_count; i++) {
        const struct object_symbol symbol = object_symbol(object, i);
        uint8_t word[sizeof(Elf32_Word)];
        bool is_extended;
        uint32_t section;

        if (writing->new_symbols[i] == NUMBER_GONE)
            continue;
        section = new_section_of(writing, &symbol, &is_extended);
        store_u32(word, is_extended ? section : 0, object->file.big_endian);
        if (!append(writing, word, sizeof(word)))
            return false;
    }
    return true;
}

/* The members are in bounds: packing.c has looked at them, but before it was known of other groups
 * whether they go. */
static bool write_group(struct writing *writing, struct bytes from)
{
    struct object *object = writing->object;
    bool big_endian = object->file.big_endian;
    uint8_t *at;

    if (!append(writing, from.data, from.size))
        return false;
    at = writing->to->data + writing->to->size - from.size;
    for (uint64_t i = sizeof(Elf32_Word); i < from.size; i += sizeof(Elf32_Word)) {
        uint32_t member = writing->new_sections[load_u32(at + i, big_endian)];

        if (member == NUMBER_GONE)
            return object_damaged(object, "a group of sections is");
        store_u32(at + i, member, big_endian);
    }
    return true;
}

/* ---- relocations ---- */

static bool damaged_relocations(struct object *object)
{
    return object_damaged(object, "a section of relocations is");
}

static bool write_relocations(struct writing *writing, struct bytes from, bool has_addends)
{
    struct object *object = writing->object;
    bool big_endian = object->file.big_endian, wide = object->file.wide;
    size_t word = wide ? sizeof(Elf64_Addr) : sizeof(Elf32_Addr);
    size_t size = has_addends ? 3 * word : 2 * word;
    uint8_t *info;

    if (from.size % size != 0)
        return damaged_relocations(object);
    if (!append(writing, from.data, from.size))
        return false;
    info = writing->to->data + writing->to->size - from.size + word;
    for (uint64_t i = 0; i < from.size; i += size, info += size) {
        uint64_t old = load_number(info, (unsigned)word, big_endian);
        /* Of 64-bit MIPS the symbol is in the first four bytes, whatever the byte order. */
        uint32_t symbol = object->is_mips64 ? load_u32(info, big_endian)
                          : wide            ? (uint32_t)ELF64_R_SYM(old)
                                            : (uint32_t)ELF32_R_SYM(old);

        if (!renumber_symbol(writing, &symbol))
            return false;
        if (object->is_mips64)
            store_u32(info, symbol, big_endian);
        else
            store_number(info,
                         wide ? ELF64_R_INFO((uint64_t)symbol, ELF64_R_TYPE(old))
                              : ELF32_R_INFO(symbol, ELF32_R_TYPE((uint32_t)old)),
                         (unsigned)word, big_endian);
    }
    return true;
}

/* .llvm_addrsig: the symbols whose addresses matter. If it does not belong to the symbol table,
 * linkers ignore it: then it is several that a tool has put together without knowing what they are.
 */
static bool write_address_symbols(struct writing *writing, struct bytes section)
{
    struct cursor from = cursor_open(section, false, false);
    struct object *object = writing->object;

    while (cursor_left(&from) != 0) {
        uint64_t symbol = cursor_uleb128(&from);

        if (from.bad || symbol >= object->symbol_count)
            return object_damaged(object, ".llvm_addrsig is");
        if (writing->new_symbols[symbol] != NUMBER_GONE)
            buffer_append_uleb128(writing->to, writing->new_symbols[symbol]);
    }
    return true;
}

/* ---- sections ---- */

static bool write_contents(struct writing *writing, uint32_t number, const Elf64_Shdr *header)
{
    struct object *object = writing->object;
    struct bytes from = object_contents(object, number);
    bool has_symbols = header->sh_link == object->symbol_table && header->sh_link != 0;

    if (object->roles[number] == ROLE_COVMAP)
        return object_write_units(object, writing->to);
    if (number == object->file.names)
        return write_strings(writing, writing->section_names);
    if (object->symbol_table != 0 && number == object->symbol_names)
        return write_strings(writing, writing->symbol_names);
    switch (header->sh_type) {
    case SHT_SYMTAB:
        return write_symbols(writing);
    case SHT_SYMTAB_SHNDX:
        return write_extended(writing);
    case SHT_GROUP:
        return write_group(writing, from);
    case SHT_REL:
    case SHT_RELA:
        return has_symbols ? write_relocations(writing, from, header->sh_type == SHT_RELA)
                           : damaged_relocations(object);
    case SHT_LLVM_ADDRSIG:
        if (has_symbols)
            return write_address_symbols(writing, from);
        /* fall through */
    default:
        if ((has_symbols && header->sh_type != SHT_LLVM_CALL_GRAPH_PROFILE) ||
            header->sh_type == SHT_DYNSYM || header->sh_type == SHT_LLVM_CREL)
            return object_keep(object,
                               "it has a section of the unknown type 0x%x, which may refer to "
                               "symbols; leave it as it is",
                               (unsigned)header->sh_type);
        return append(writing, from.data, from.size);
    }
}

/* Puts the new numbers into the header of a section. */
static bool renumber_header(struct writing *writing, Elf64_Shdr *header)
{
    struct object *object = writing->object;
    bool has_section = header->sh_type == SHT_REL || header->sh_type == SHT_RELA ||
                       (header->sh_flags & SHF_INFO_LINK) != 0;

    if (header->sh_type == SHT_SYMTAB) {
        header->sh_info = writing->local_count;
    } else if (header->sh_type == SHT_GROUP) {
        if (!renumber_symbol(writing, &header->sh_info))
            return false;
    } else if (has_section && header->sh_info != 0) {
        if (header->sh_info >= object->section_count)
            return object_damaged(object, "a section header is");
        if (object->roles[header->sh_info] != ROLE_STAYS)
            return refers_to_mapping(object);
        header->sh_info = writing->new_sections[header->sh_info];
    }
    if (object->roles[header->sh_link] != ROLE_STAYS)
        return refers_to_mapping(object);
    header->sh_link = writing->new_sections[header->sh_link];
    return true;
}

/* Writes the table of section headers and the ELF header to their places. If there are many
 * sections, section header 0 has the numbers that do not fit the ELF header. */
static bool write_headers(struct writing *writing)
{
    struct object *object = writing->object;
    const struct elf_form form = elf_file_form(&object->file);
    const struct place *places = writing->places;
    uint32_t names = writing->new_sections[object->file.names];
    bool is_large = writing->section_count >= SHN_LORESERVE;
    bool has_large_names = names >= SHN_LORESERVE;
    Elf64_Ehdr ehdr = object->file.header;
    struct buffer table = {0}, front = {0};
    bool done = true;

    for (uint32_t i = 0; done && i < object->section_count; i++) {
        Elf64_Shdr header = elf_file_section(&object->file, i);
        uint32_t number = writing->new_sections[i];

        if (number == NUMBER_GONE)
            continue;
        header.sh_name = new_string(writing->section_names, header.sh_name);
        if (i == 0) {
            header.sh_size = is_large ? writing->section_count : 0;
            header.sh_link = has_large_names ? names : 0;
        } else {
            done = renumber_header(writing, &header);
            header.sh_offset = places[number].offset;
            if (header.sh_type != SHT_NOBITS && header.sh_type != SHT_NULL)
                header.sh_size = places[number].size;
        }
        elf_put(&table, &elf_shdr, form, &header);
    }
    ehdr.e_shoff = places[TABLE_PIECE].offset;
    ehdr.e_shnum = is_large ? 0 : (uint16_t)writing->section_count;
    ehdr.e_shstrndx = has_large_names ? SHN_XINDEX : (uint16_t)names;
    elf_put(&front, &elf_ehdr, form, &ehdr);
    if (done && (table.failed || front.failed))
        done = object_no_memory(object);
    if (done) {
        memcpy(writing->to->data, front.data, front.size);
        memcpy(writing->to->data + places[TABLE_PIECE].offset, table.data, table.size);
    }
    buffer_free(&table);
    buffer_free(&front);
    return done;
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
static bool order_pieces(struct writing *writing)
{
    struct object *object = writing->object;
    uint64_t end = ELF_SIZE(object->file.wide, Ehdr);

    writing->pieces = arena_array(&object->arena, writing->section_count, sizeof(*writing->pieces));
    writing->places = arena_array(&object->arena, writing->section_count, sizeof(*writing->places));
    if (object->arena.failed)
        return object_no_memory(object);
    writing->pieces[writing->piece_count++] =
        (struct piece){object->file.header.e_shoff, object->file.sections.size, TABLE_PIECE};
    for (uint32_t i = 1; i < object->section_count; i++) {
        if (writing->new_sections[i] != NUMBER_GONE)
            writing->pieces[writing->piece_count++] = (struct piece){
                elf_file_section(&object->file, i).sh_offset, object_contents(object, i).size, i};
    }
    qsort(writing->pieces, writing->piece_count, sizeof(*writing->pieces), compare_pieces);
    for (size_t i = 0; i < writing->piece_count; i++) {
        const struct piece *piece = &writing->pieces[i];

        if (piece->size == 0)
            continue;
        if (piece->offset < end)
            return object_damaged(object, "its sections overlap, so it is");
        end = piece->offset + piece->size;
    }
    return bytes_zero_at(object->file.bytes, end, object->file.bytes.size - end) ||
           object_keep(object, "it has bytes behind its last section; leave it as it is");
}

/* Writes a piece, behind as much padding as its alignment wants. A piece is not aligned if its
 * offset is not a multiple of its alignment, or not behind `end`, that of the piece before: a
 * section without bytes can have any offset, and must not make the file larger. */
static bool write_piece(struct writing *writing, const struct piece *piece, uint64_t end)
{
    struct object *object = writing->object;
    const Elf64_Shdr header = elf_file_section(&object->file, piece->section);
    bool is_table = piece->section == TABLE_PIECE;
    struct place *place =
        &writing->places[is_table ? TABLE_PIECE : writing->new_sections[piece->section]];
    size_t word = object->file.wide ? sizeof(Elf64_Xword) : sizeof(Elf32_Word);
    uint64_t alignment = is_table ? word : header.sh_addralign;

    if (alignment != 0 && piece->offset % alignment == 0 && piece->offset >= end &&
        piece->offset <= object->file.bytes.size)
        buffer_append_zeros(writing->to,
                            (size_t)(align_up(writing->to->size, alignment) - writing->to->size));
    place->offset = writing->to->size;
    if (is_table)
        return buffer_append_zeros(writing->to,
                                   writing->section_count * ELF_SIZE(object->file.wide, Shdr)) ||
               object_no_memory(object);
    if (!write_contents(writing, piece->section, &header))
        return false;
    place->size = writing->to->size - place->offset;
    return true;
}

bool object_write_packed(struct object *object)
{
    struct writing writing = {.object = object, .to = &object->packing->contents};
    uint64_t end = ELF_SIZE(object->file.wide, Ehdr);

    if (!number_sections(&writing) || !number_symbols(&writing) || !make_strings(&writing) ||
        !order_pieces(&writing) || !append(&writing, object->file.bytes.data, end))
        return false;
    for (size_t i = 0; i < writing.piece_count; i++) {
        const struct piece *piece = &writing.pieces[i];

        if (!write_piece(&writing, piece, end))
            return false;
        if (piece->size != 0)
            end = piece->offset + piece->size;
    }
    if (writing.to->failed)
        return object_no_memory(object);
    if (!object->file.wide && writing.to->size > UINT32_MAX)
        return object_damaged(object, "its alignments are");
    return write_headers(&writing);
}
