/*
 * Reading and editing dynamic relocations: see elf/relocations.h.
 *
 * RELA tables are compacted by cutting runs of entries and adding as many zero bytes at the table's
 * end, so the edits are in proportion to what goes, not to the table. RELR (gABI: "Relative
 * relocation table") is a compressed list and small, so it is encoded anew.
 */
#include "formats/elf/relocations.h"

#include <stdlib.h>
#include <string.h>

#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR   36
#endif

/* Android's packed tables (bionic's linker). */
#define DT_ANDROID_REL  0x6000000f
#define DT_ANDROID_RELA 0x60000011
#define DT_ANDROID_RELR 0x6fffe000

#define RELA_SIZE       sizeof(Elf64_Rela)
/* Tables are decoded in pieces, and their pages given back, so that memory stays small. */
#define TABLE_PIECE (UINT64_C(32768) * RELA_SIZE)

/* Bits of a RELR bitmap entry: all but the lowest, which marks it as a bitmap. */
#define RELR_BITS UINT64_C(63)

struct table {
    uint64_t address;
    uint64_t size;
    struct bytes bytes; /* in the file */
    uint64_t offset;    /* in the file */
};

/* ---- finding the tables ---- */

static bool locate(const struct elf_image *image, uint64_t address, uint64_t size,
                   uint64_t entry_size, struct table *table)
{
    if (size % entry_size != 0 || !elf_bytes_at(image, address, size, &table->bytes))
        return false;
    table->address = address;
    table->size = size;
    table->offset = (uint64_t)(table->bytes.data - image->file.data);
    return table->offset % 8 == 0;
}

/* The table that two dynamic tags describe; size 0 where there is none. The tags must not occur
 * twice: which one counts is then up to the loader. */
static bool dynamic_table(const struct elf_image *image, GElf_Sxword address_tag,
                          GElf_Sxword size_tag, uint64_t entry_size, struct table *table)
{
    const GElf_Dyn *address = elf_dynamic_find(image, address_tag);
    const GElf_Dyn *size = elf_dynamic_find(image, size_tag);
    size_t occurrences = 0;

    *table = (struct table){0};
    for (size_t i = 0; i < image->dynamic_count; i++) {
        GElf_Sxword tag = image->dynamic[i].d_tag;
        if (tag == address_tag || tag == size_tag)
            occurrences++;
    }
    if (address == NULL || size == NULL || size->d_un.d_val == 0)
        return occurrences <= 2;
    return occurrences == 2 &&
           locate(image, address->d_un.d_ptr, size->d_un.d_val, entry_size, table);
}

static bool unknown_tables(const struct elf_image *image)
{
    const GElf_Dyn *kind = elf_dynamic_find(image, DT_PLTREL);

    return elf_dynamic_find(image, DT_REL) != NULL ||
           elf_dynamic_find(image, DT_ANDROID_REL) != NULL ||
           elf_dynamic_find(image, DT_ANDROID_RELA) != NULL ||
           elf_dynamic_find(image, DT_ANDROID_RELR) != NULL ||
           (kind != NULL && kind->d_un.d_val != DT_RELA);
}

/* ---- reading ---- */

struct reader {
    const struct elf_image *image;
    elf_relocation_visitor visit;
    void *context;
    const char *reason;
    /* .dynsym, for the targets of relocations with a symbol. */
    struct bytes symbols;
    uint64_t symbols_offset;
};

static void find_dynamic_symbols(struct reader *reader)
{
    for (size_t i = 1; i < reader->image->shnum; i++) {
        const GElf_Shdr *shdr = &reader->image->shdrs[i];
        if (shdr->sh_type == SHT_DYNSYM && shdr->sh_offset % 8 == 0 &&
            shdr->sh_entsize == sizeof(Elf64_Sym)) {
            reader->symbols = elf_section_bytes(reader->image, i);
            return;
        }
    }
}

/* Where a relocation with a symbol points, if the symbol is defined in this image. (Another image
 * may define it too and win; then nothing here is pointed to.) */
static bool symbol_target(const struct reader *reader, const GElf_Rela *rela, uint64_t *target)
{
    uint64_t index = GELF_R_SYM(rela->r_info);
    struct bytes bytes;
    GElf_Sym symbol;

    if (index == 0 || index > reader->symbols.size / sizeof(Elf64_Sym) ||
        !bytes_slice(reader->symbols, index * sizeof(Elf64_Sym), sizeof(Elf64_Sym), &bytes))
        return false;
    symbol = elf_load_symbol(bytes.data);
    if (symbol.st_shndx == SHN_UNDEF || GELF_ST_TYPE(symbol.st_info) == STT_TLS)
        return false;
    *target = symbol.st_value + (uint64_t)rela->r_addend;
    return true;
}

/* What the loader puts there is no address: the number of a module, an offset in its thread-local
 * storage, a size. */
static bool makes_no_address(uint32_t type)
{
    switch (type) {
    case R_X86_64_DTPMOD64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_DTPOFF32:
    case R_X86_64_TPOFF64:
    case R_X86_64_TPOFF32:
    case R_X86_64_TLSDESC:
    case R_X86_64_SIZE32:
    case R_X86_64_SIZE64:
        return true;
    default:
        return false;
    }
}

static bool visit_rela(struct reader *reader, const GElf_Rela *rela, enum relocation_table table,
                       uint64_t entry)
{
    struct elf_relocation relocation = {
        .offset = rela->r_offset,
        .type = (uint32_t)GELF_R_TYPE(rela->r_info),
        .table = table,
        .entry = entry,
    };

    if (relocation.type == R_X86_64_RELATIVE) {
        relocation.has_target = true;
        relocation.target = (uint64_t)rela->r_addend;
    } else if (!makes_no_address(relocation.type)) {
        relocation.has_target = symbol_target(reader, rela, &relocation.target);
    }
    return reader->visit(reader->context, &relocation);
}

static GElf_Rela load_rela(const uint8_t *entry)
{
    return (GElf_Rela){
        .r_offset = load_u64(entry + offsetof(Elf64_Rela, r_offset), false),
        .r_info = load_u64(entry + offsetof(Elf64_Rela, r_info), false),
        .r_addend = (GElf_Sxword)load_u64(entry + offsetof(Elf64_Rela, r_addend), false),
    };
}

static bool read_rela(struct reader *reader, const struct table *table, enum relocation_table kind)
{
    for (uint64_t done = 0; done < table->size; done += TABLE_PIECE) {
        uint64_t left = table->size - done;
        uint64_t size = left < TABLE_PIECE ? left : TABLE_PIECE;
        uint64_t start = table->offset + done;

        for (uint64_t i = 0; i < size; i += RELA_SIZE) {
            GElf_Rela rela = load_rela(table->bytes.data + done + i);

            if (!visit_rela(reader, &rela, kind, start + i))
                return false;
        }
        input_release_pages(reader->image->input, start, size);
    }
    return true;
}

static bool visit_relr(struct reader *reader, uint64_t address, uint64_t entry)
{
    struct bytes place;
    struct elf_relocation relocation = {
        .offset = address,
        .type = R_X86_64_RELATIVE,
        .table = RELOCATION_RELR,
        .entry = entry,
        .has_target = true,
    };

    /* The addend is in the place itself. */
    if (!elf_bytes_at(reader->image, address, 8, &place)) {
        reader->reason = "a packed relative relocation (RELR) applies outside the file";
        return false;
    }
    relocation.target = load_u64(place.data, false);
    return reader->visit(reader->context, &relocation);
}

static bool read_relr(struct reader *reader, const struct table *table)
{
    uint64_t base = 0;

    for (uint64_t i = 0; i < table->size / 8; i++) {
        uint64_t value = load_u64(table->bytes.data + 8 * i, false);
        uint64_t entry = table->offset + 8 * i;

        if ((value & 1) == 0) {
            if (!visit_relr(reader, value, entry))
                return false;
            base = value + 8;
            continue;
        }
        for (uint64_t bit = 0; bit < RELR_BITS; bit++) {
            if ((value >> (bit + 1) & 1) != 0 && !visit_relr(reader, base + 8 * bit, entry))
                return false;
        }
        base += 8 * RELR_BITS;
    }
    return true;
}

static bool read_static_tables(struct reader *reader)
{
    const struct elf_image *image = reader->image;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        struct table table = {0};

        if ((shdr->sh_type != SHT_RELA && shdr->sh_type != SHT_REL) ||
            (shdr->sh_flags & SHF_ALLOC) == 0 || shdr->sh_size == 0)
            continue;
        if (shdr->sh_type != SHT_RELA ||
            !locate(image, shdr->sh_addr, shdr->sh_size, RELA_SIZE, &table)) {
            reader->reason = "its relocations cannot be read";
            return false;
        }
        if (!read_rela(reader, &table, RELOCATION_STATIC))
            return false;
    }
    return true;
}

bool elf_relocations_each(const struct elf_image *image, elf_relocation_visitor visit,
                          void *context, const char **reason)
{
    struct reader reader = {.image = image, .visit = visit, .context = context};
    struct table rela, plt, relr;
    bool done;

    *reason = NULL;
    if (image->dynamic_count == 0) {
        done = read_static_tables(&reader);
        *reason = reader.reason;
        return done;
    }
    if (unknown_tables(image) || !dynamic_table(image, DT_RELA, DT_RELASZ, RELA_SIZE, &rela) ||
        !dynamic_table(image, DT_JMPREL, DT_PLTRELSZ, RELA_SIZE, &plt) ||
        !dynamic_table(image, DT_RELR, DT_RELRSZ, 8, &relr)) {
        *reason = "its dynamic relocations are of a kind that covsplit does not know";
        return false;
    }
    find_dynamic_symbols(&reader);
    done = read_rela(&reader, &rela, RELOCATION_RELA) && read_rela(&reader, &plt, RELOCATION_PLT) &&
           read_relr(&reader, &relr);
    *reason = reader.reason;
    return done;
}

/* ---- taking out ---- */

/* Encodes addresses, given in the order of the table, as RELR. */
struct relr_encoder {
    struct buffer encoded;
    uint64_t base; /* address that bit 0 of `bits` stands for */
    uint64_t bits;
    bool started;
    bool no_memory;
};

static void put_relr_entry(struct relr_encoder *encoder, uint64_t value)
{
    uint8_t entry[8];

    store_u64(entry, value, false);
    if (!buffer_append(&encoder->encoded, entry, sizeof(entry)))
        encoder->no_memory = true;
}

static void flush_relr_bits(struct relr_encoder *encoder)
{
    if (encoder->bits != 0)
        put_relr_entry(encoder, encoder->bits << 1 | 1);
    encoder->bits = 0;
    encoder->base += 8 * RELR_BITS;
}

static void put_relr_address(struct relr_encoder *encoder, uint64_t address)
{
    while (encoder->started) {
        uint64_t distance = address - encoder->base;
        bool had_bits = encoder->bits != 0;

        if (distance < 8 * RELR_BITS && distance % 8 == 0) {
            encoder->bits |= UINT64_C(1) << (distance / 8);
            return;
        }
        /* Past this bitmap: go on in the next one, unless this one is empty, since then a new
         * address entry costs no more. */
        flush_relr_bits(encoder);
        if (!had_bits)
            break;
    }
    put_relr_entry(encoder, address);
    encoder->base = address + 8;
    encoder->bits = 0;
    encoder->started = true;
}

struct remover {
    const struct elf_relocation_removal *removal;
    struct edit_script *edits;
    struct elf_relocation_changes *changes;
    struct relr_encoder relr;
    bool relr_hit;
    bool found_kept;
    uint64_t rela_offset;    /* file offset of the table */
    uint64_t relative_count; /* DT_RELACOUNT */
    uint64_t run_start;      /* the current run of entries to cut, in the file */
    uint64_t run_size;
    const char *reason;
};

static bool flush_run(struct remover *remover)
{
    uint64_t size = remover->run_size;

    remover->run_size = 0;
    return size == 0 || edit_cut(remover->edits, remover->run_start, size);
}

/* The stub's own relocation stays, with another addend. */
static bool retarget(struct remover *remover, const struct elf_relocation *relocation)
{
    uint8_t addend[8];

    if (relocation->type != R_X86_64_RELATIVE) {
        remover->reason = "the first record's counter pointer is not relocated as expected";
        return false;
    }
    remover->found_kept = true;
    if (relocation->table == RELOCATION_RELR)
        return true;
    store_u64(addend, remover->removal->kept_target, false);
    return relocation->target == remover->removal->kept_target ||
           edit_replace(remover->edits, relocation->entry + offsetof(Elf64_Rela, r_addend), 8,
                        (struct bytes){addend, sizeof(addend)});
}

static bool drop_rela(struct remover *remover, const struct elf_relocation *relocation)
{
    if (relocation->table != RELOCATION_RELA) {
        remover->reason = "relocations outside DT_RELA apply to it";
        return false;
    }
    if (relocation->type != R_X86_64_RELATIVE && relocation->type != R_X86_64_64 &&
        relocation->type != R_X86_64_IRELATIVE && relocation->type != R_X86_64_NONE) {
        remover->reason = "relocations of an unexpected type apply to it";
        return false;
    }
    if ((relocation->entry - remover->rela_offset) / RELA_SIZE < remover->relative_count)
        remover->changes->relative_removed++;
    remover->changes->rela_removed += RELA_SIZE;
    if (remover->run_size != 0 && remover->run_start + remover->run_size != relocation->entry &&
        !flush_run(remover))
        return false;
    if (remover->run_size == 0)
        remover->run_start = relocation->entry;
    remover->run_size += RELA_SIZE;
    return true;
}

static bool remove_visitor(void *context, const struct elf_relocation *relocation)
{
    struct remover *remover = context;
    const struct elf_relocation_removal *removal = remover->removal;
    bool touches = ranges_overlap(relocation->offset, 8, removal->address, removal->size) &&
                   relocation->offset + 8 > relocation->offset;

    if (touches && relocation->offset == removal->kept_offset) {
        if (!retarget(remover, relocation))
            return false;
        touches = false;
    } else if (touches && !range_within(relocation->offset, 8, removal->address, removal->size)) {
        remover->reason = "a relocation applies to its edge";
        return false;
    }
    if (relocation->table != RELOCATION_RELR)
        return !touches || drop_rela(remover, relocation);
    if (touches)
        remover->relr_hit = true;
    else
        put_relr_address(&remover->relr, relocation->offset);
    return true;
}

static bool finish_rela(struct remover *remover, const struct table *rela)
{
    return flush_run(remover) && (remover->changes->rela_removed == 0 ||
                                  edit_replace_by_zeros(remover->edits, rela->offset + rela->size,
                                                        0, remover->changes->rela_removed));
}

static bool finish_relr(struct remover *remover, const struct elf_image *image,
                        const struct table *relr)
{
    struct buffer *encoded = &remover->relr.encoded;

    if (!remover->relr_hit)
        return true;
    flush_relr_bits(&remover->relr);
    if (remover->relr.no_memory)
        return false;
    if (encoded->size > relr->size) {
        remover->reason = "its packed relative relocations would grow";
        return false;
    }
    remover->changes->relr_changed = true;
    remover->changes->relr_size = encoded->size;
    return buffer_append_zeros(encoded, (size_t)relr->size - encoded->size) &&
           edit_overwrite_differences(remover->edits, image->file, relr->offset,
                                      buffer_view(encoded));
}

bool elf_relocations_remove(const struct elf_image *image,
                            const struct elf_relocation_removal *removal, struct edit_script *edits,
                            struct elf_relocation_changes *changes, const char **reason)
{
    struct remover remover = {.removal = removal, .edits = edits, .changes = changes};
    const GElf_Dyn *relative_count = elf_dynamic_find(image, DT_RELACOUNT);
    struct table rela = {0}, relr = {0};
    bool done;

    *changes = (struct elf_relocation_changes){0};
    if (image->dynamic_count != 0 && (!dynamic_table(image, DT_RELA, DT_RELASZ, RELA_SIZE, &rela) ||
                                      !dynamic_table(image, DT_RELR, DT_RELRSZ, 8, &relr))) {
        *reason = "its dynamic relocations cannot be changed";
        return false;
    }
    remover.rela_offset = rela.offset;
    remover.relative_count = relative_count == NULL ? 0 : relative_count->d_un.d_val;
    done = elf_relocations_each(image, remove_visitor, &remover, reason) &&
           finish_rela(&remover, &rela) && finish_relr(&remover, image, &relr);
    buffer_free(&remover.relr.encoded);
    if (done && removal->kept_offset != UINT64_MAX && !remover.found_kept) {
        remover.reason = "the first record's counter pointer has no relocation";
        done = false;
    }
    if (remover.reason != NULL)
        *reason = remover.reason;
    return done;
}
