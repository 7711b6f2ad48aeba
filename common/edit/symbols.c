/*
 * Taking symbols of coverage records out, and putting them back: see symbols.h.
 *
 * All linkers add names to .strtab in the order of the symbols, though GNU ld's order of these is
 * that of a hash table. So the names that go are met in one pass over both tables. Whatever is not
 * as expected stays: a symbol with another name, size or kind, a name that another symbol uses,
 * too.
 */
#include "common/edit/symbols.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"

/* Two changed bytes closer than this are told as one change. */
#define CHANGE_GAP 4

struct taken_symbol {
    uint32_t index;  /* in the original's table */
    uint32_t record; /* the number of its record */
    uint32_t name;   /* st_name, in the original */
    uint32_t gone;   /* bytes of names that are gone up to the end of this one */
    bool is_plain;   /* without the "u" at the end of its name */
};

/* ---- records ---- */

void record_list_start(struct record_list *list, uint64_t size, bool big_endian)
{
    *list = (struct record_list){.size = size, .big_endian = big_endian};
}

void record_list_free(struct record_list *list)
{
    free(list->records);
    *list = (struct record_list){0};
}

/* The header of the next record, of which a part may have passed before; NULL if it is not all
 * there yet. */
static const uint8_t *next_header(struct record_list *list, struct bytes piece)
{
    uint64_t start = list->added - piece.size, have = list->next < start ? start - list->next : 0;
    uint64_t left = list->added - list->next - have, more = COVFUN_HEADER_SIZE - have;
    const uint8_t *from = piece.data + (list->next + have - start);

    if (have == 0 && left >= more)
        return from;
    memcpy(list->header + have, from, (size_t)(left < more ? left : more));
    return left < more ? NULL : list->header;
}

bool record_list_add(struct record_list *list, struct bytes piece)
{
    list->added += piece.size;
    while (list->next < list->added) {
        uint64_t left = list->size - list->next, size;
        const uint8_t *header = left < COVFUN_HEADER_SIZE ? NULL : next_header(list, piece);

        if (header == NULL && left >= COVFUN_HEADER_SIZE)
            return true;
        size = header == NULL
                   ? UINT64_MAX
                   : COVFUN_HEADER_SIZE + (uint64_t)covfun_mapping_size(header, list->big_endian);
        if (size > left) { /* not sound: none follows */
            list->next = UINT64_MAX;
            return true;
        }
        if (!ARRAY_ROOM_FOR_ONE(list->records, list->capacity, list->count))
            return false;
        list->records[list->count++] = (struct listed_record){
            list->next, size, load_u64(header + COVFUN_NAME_REF, list->big_endian)};
        list->next += align_up(size, COVERAGE_ALIGNMENT);
    }
    return true;
}

/* The number of the record at that offset; the count of all if there is none. It is mostly the one
 * that is expected. */
static size_t find_record(const struct record_list *list, uint64_t offset, size_t expected)
{
    size_t next;

    if (expected < list->count && list->records[expected].offset == offset)
        return expected;
    next = array_count_up_to(list->records, list->count, sizeof(*list->records), offset);
    return next != 0 && list->records[next - 1].offset == offset ? next - 1 : list->count;
}

/* The size of the name of a record's symbol, with its NUL. */
static size_t name_size(const struct listed_record *record, bool is_plain)
{
    return covfun_symbol_length(record->reference) + !is_plain;
}

/* ---- symbols ---- */

/* What all symbols that go have in common. */
struct symbol_kind {
    uint64_t address; /* of their section */
    uint16_t section;
    uint8_t info, other;
};

/* Both tables as they are in the stripped image, and what is missing there. */
struct restoring {
    struct elf_form form;
    struct symbol_kind kind;
    struct symbol_tables left;
    const struct record_list *records;
    struct taken_symbol *taken;
    size_t count;
};

static Elf64_Sym load_symbol(struct bytes table, struct elf_form form, size_t index)
{
    Elf64_Sym symbol;

    elf_load(&elf_sym, form, table, index * ELF_SIZE(form.wide, Sym), &symbol);
    return symbol;
}

static void put_symbol(uint8_t *entry, struct elf_form form, const struct symbol_kind *kind,
                       uint32_t name, const struct listed_record *record)
{
    uint8_t *numbers =
        entry + (form.wide ? offsetof(Elf64_Sym, st_value) : offsetof(Elf32_Sym, st_value));
    uint8_t *rest =
        entry + (form.wide ? offsetof(Elf64_Sym, st_info) : offsetof(Elf32_Sym, st_info));
    unsigned width = form.wide ? 8 : 4;

    store_u32(entry, name, form.big_endian);
    store_number(numbers, kind->address + record->offset, width, form.big_endian);
    store_number(numbers + width, record->size, width, form.big_endian);
    rest[0] = kind->info;
    rest[1] = kind->other;
    store_u16(rest + 2, kind->section, form.big_endian);
}

/* True if the name of a symbol that is gone starts before an offset in the original or, without
 * the names that are gone, in the stripped image. */
static bool is_before(const struct taken_symbol *taken, size_t i, uint64_t offset, bool is_original)
{
    return taken[i].name - (is_original || i == 0 ? 0 : taken[i - 1].gone) < offset;
}

/* Names are mostly in the order of their symbols, so that few are between one and the next. */
#define STEPS_MAX 16

/* How many of the symbols that are gone have their names before this one. *last is what this was
 * for another name: 0, or best for the one before. */
static size_t count_before(const struct taken_symbol *taken, size_t count, uint32_t name,
                           bool is_original, size_t *last)
{
    uint64_t offset = (uint64_t)name + !is_original;
    bool is_next = *last == 0 || is_before(taken, *last - 1, offset, is_original);
    size_t low = is_next ? *last : 0, high = count;

    for (size_t steps = 0; is_next && low < high && steps < STEPS_MAX; steps++) {
        if (is_before(taken, low, offset, is_original))
            low++;
        else
            high = low;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (is_before(taken, middle, offset, is_original))
            low = middle + 1;
        else
            high = middle;
    }
    *last = low;
    return low;
}

/* ---- putting back ---- */

static void restore_names(const struct restoring *restoring, struct buffer *to)
{
    struct bytes left = restoring->left.names, part;
    uint64_t at = 0;

    for (size_t i = 0; i < restoring->count; i++) {
        const struct taken_symbol *taken = &restoring->taken[i];
        uint64_t gone = i == 0 ? 0 : taken[-1].gone, next = taken->name - gone;
        char name[COVFUN_SYMBOL_SIZE];
        size_t length =
            covfun_format_symbol(name, restoring->records->records[taken->record].reference);

        if (bytes_slice(left, at, next - at, &part))
            buffer_append(to, part.data, (size_t)part.size);
        name[length - taken->is_plain] = '\0';
        buffer_append(to, name, length + !taken->is_plain);
        at = next;
    }
    if (bytes_slice(left, at, left.size - at, &part))
        buffer_append(to, part.data, (size_t)part.size);
}

/* The next symbol of the original. Zero at the start. */
struct place {
    size_t index, left, taken; /* in the table, of those in the stripped image, of the others */
    size_t before;             /* see count_before */
};

/* Writes the next symbol, but for changes of one that stayed. False at the end. */
static bool restore_symbol(const struct restoring *restoring, struct place *place, uint8_t *entry)
{
    const struct taken_symbol *taken = restoring->taken + place->taken;
    size_t size = ELF_SIZE(restoring->form.wide, Sym);
    uint32_t name;

    if (place->taken < restoring->count && taken->index == place->index) {
        put_symbol(entry, restoring->form, &restoring->kind, taken->name,
                   &restoring->records->records[taken->record]);
        place->taken++;
    } else {
        /* Also if the recipe puts a symbol behind the end. */
        if (place->left == restoring->left.symbols.size / size)
            return false;
        memcpy(entry, restoring->left.symbols.data + place->left++ * size, size);
        name = load_u32(entry, restoring->form.big_endian);
        if (count_before(restoring->taken, restoring->count, name, false, &place->before) != 0)
            name += restoring->taken[place->before - 1].gone;
        store_u32(entry, name, restoring->form.big_endian);
    }
    place->index++;
    return true;
}

static void restore_symbols(const struct restoring *restoring, struct buffer *to)
{
    size_t size = ELF_SIZE(restoring->form.wide, Sym);
    uint8_t entry[sizeof(Elf64_Sym)];
    struct place place = {0};

    while (restore_symbol(restoring, &place, entry))
        buffer_append(to, entry, size);
}

/* Appends both tables, but for the changes of what stayed. False if out of memory. */
static bool restore_tables(const struct restoring *restoring, bool names_are_first,
                           struct buffer *to)
{
    if (names_are_first)
        restore_names(restoring, to);
    restore_symbols(restoring, to);
    if (!names_are_first)
        restore_names(restoring, to);
    return !to->failed;
}

/* ---- taking out ---- */

/* Fills in what is known of a symbol that may go; false if it is another one. */
static bool match_symbol(const struct symbol_cut *cut, const Elf64_Sym *symbol,
                         struct taken_symbol *taken)
{
    const struct record_list *list = &cut->records;
    struct bytes names = cut->old.names;
    char name[COVFUN_SYMBOL_SIZE];
    size_t number, length;

    if (symbol->st_shndx != cut->section || symbol->st_name == 0 ||
        names.data[symbol->st_name - 1] != '\0')
        return false;
    number = find_record(list, symbol->st_value - cut->address,
                         cut->count == 0 ? 0 : cut->taken[cut->count - 1].record + 1);
    if (number == list->count || symbol->st_size != list->records[number].size ||
        number > UINT32_MAX)
        return false;
    *taken = (struct taken_symbol){.record = (uint32_t)number, .name = symbol->st_name};
    length = covfun_format_symbol(name, list->records[number].reference);
    if (length < names.size - symbol->st_name &&
        memcmp(names.data + symbol->st_name, name, length + 1) == 0)
        return true;
    taken->is_plain = true;
    name[--length] = '\0';
    return length < names.size - symbol->st_name &&
           memcmp(names.data + symbol->st_name, name, length + 1) == 0;
}

static uint64_t name_end(const struct symbol_cut *cut, const struct taken_symbol *taken)
{
    return taken->name + name_size(&cut->records.records[taken->record], taken->is_plain);
}

/* Lists the symbols that may go, and marks the starts of the names of all others in `used`, a bit
 * for each byte of the names. Not sound if a name is not in the table. */
static bool list_symbols(struct symbol_cut *cut, uint8_t *used, bool *is_sound)
{
    size_t count = (size_t)(cut->old.symbols.size / ELF_SIZE(cut->form.wide, Sym));
    uint64_t end = 0;

    *is_sound = count <= UINT32_MAX;
    for (size_t i = 0; i < count && *is_sound; i++) {
        const Elf64_Sym symbol = load_symbol(cut->old.symbols, cut->form, i);
        struct taken_symbol taken;

        *is_sound = symbol.st_name < cut->old.names.size;
        if (!*is_sound)
            break;
        if (!match_symbol(cut, &symbol, &taken) || symbol.st_name < end ||
            (cut->count != 0 && (symbol.st_info != cut->info || symbol.st_other != cut->other))) {
            used[symbol.st_name / 8] |= (uint8_t)(1u << symbol.st_name % 8);
            continue;
        }
        if (!ARRAY_ROOM_FOR_ONE(cut->taken, cut->capacity, cut->count))
            return false;
        cut->info = symbol.st_info;
        cut->other = symbol.st_other;
        taken.index = (uint32_t)i;
        cut->taken[cut->count++] = taken;
        end = name_end(cut, &taken);
    }
    return true;
}

/* Has those stay whose names others use. */
static void drop_shared(struct symbol_cut *cut, const uint8_t *used)
{
    size_t count = 0;
    uint32_t gone = 0;

    for (size_t i = 0; i < cut->count; i++) {
        struct taken_symbol taken = cut->taken[i];
        size_t size = (size_t)(name_end(cut, &taken) - taken.name);
        uint64_t starts = load_u64(used + taken.name / 8, false) >> taken.name % 8;

        if ((starts & ((UINT64_C(1) << size) - 1)) != 0)
            continue;
        gone += (uint32_t)size;
        taken.gone = gone;
        cut->taken[count++] = taken;
    }
    cut->count = count;
}

/* Makes the tables of what is left. */
static void make_tables(struct symbol_cut *cut)
{
    size_t entry_size = ELF_SIZE(cut->form.wide, Sym), from = 0, next = 0;
    size_t count = (size_t)(cut->old.symbols.size / entry_size), before = 0;
    const struct taken_symbol *taken = cut->taken;

    if (!buffer_reserve(&cut->symbols, (count - cut->count) * entry_size) ||
        !buffer_reserve(&cut->names, (size_t)cut->old.names.size - taken[cut->count - 1].gone))
        return;
    for (size_t i = 0; i < cut->count; i++) {
        buffer_append(&cut->names, cut->old.names.data + from, taken[i].name - from);
        from = (size_t)name_end(cut, &taken[i]);
    }
    buffer_append(&cut->names, cut->old.names.data + from, (size_t)cut->old.names.size - from);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = cut->old.symbols.data + i * entry_size;
        uint32_t name = load_u32(entry, cut->form.big_endian);

        if (next < cut->count && taken[next].index == i) {
            next++;
            continue;
        }
        if (count_before(taken, cut->count, name, true, &before) != 0)
            name -= taken[before - 1].gone;
        if (buffer_append(&cut->symbols, entry, entry_size))
            store_u32(cut->symbols.data + cut->symbols.size - entry_size, name,
                      cut->form.big_endian);
    }
}

bool symbol_cut_make(struct symbol_cut *cut, struct elf_form form,
                     const struct symbol_tables *tables)
{
    uint8_t *used = calloc((size_t)(tables->names.size / 8 + sizeof(uint64_t)), 1);
    bool is_sound = true, done;

    cut->form = form;
    cut->old = *tables;
    done = used != NULL && list_symbols(cut, used, &is_sound);
    if (!done || !is_sound)
        cut->count = 0;
    else
        drop_shared(cut, used);
    if (cut->count != 0)
        make_tables(cut);
    free(used);
    return done && !cut->symbols.failed && !cut->names.failed;
}

void symbol_cut_free(struct symbol_cut *cut)
{
    record_list_free(&cut->records);
    free(cut->taken);
    buffer_free(&cut->symbols);
    buffer_free(&cut->names);
    *cut = (struct symbol_cut){0};
}

bool symbol_cut_stays(const struct symbol_cut *cut, size_t index, size_t *new_index)
{
    size_t low = 0, high = cut->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (cut->taken[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    *new_index = index - low;
    return low == cut->count || cut->taken[low].index != index;
}

/* ---- the recipe ---- */

/* Appends the parts in which a symbol, at `position` in both tables, differs from what is made
 * without them. *end is the end of the last part before. */
static void append_changes(const uint8_t *made, const uint8_t *old, size_t size, uint64_t position,
                           uint64_t *end, struct buffer *recipe)
{
    for (size_t at = 0, next; at < size; at = next) {
        next = at + 1;
        if (made[at] == old[at])
            continue;
        for (size_t j = next; j < size && j - next < CHANGE_GAP; j++)
            next = made[j] == old[j] ? next : j + 1;
        buffer_append_uleb128(recipe, position + at - *end);
        buffer_append_uleb128(recipe, next - at);
        buffer_append(recipe, old + at, next - at);
        *end = position + next;
    }
}

bool symbol_cut_encode(const struct symbol_cut *cut, uint64_t symbols_offset, uint64_t names_offset,
                       struct buffer *recipe)
{
    struct restoring restoring = {
        .form = cut->form,
        .kind = {cut->address, (uint16_t)cut->section, cut->info, cut->other},
        .records = &cut->records,
        .left = {buffer_view(&cut->symbols), buffer_view(&cut->names)},
        .taken = cut->taken,
        .count = cut->count,
    };
    uint64_t position = names_offset < symbols_offset ? cut->old.names.size : 0;
    uint64_t index = 0, record = 0, name = 0, end = 0;
    size_t size = ELF_SIZE(cut->form.wide, Sym);
    const uint8_t *old = cut->old.symbols.data;
    uint8_t made[sizeof(Elf64_Sym)];
    struct place place = {0};

    buffer_append_uleb128(recipe, cut->old.symbols.size + cut->old.names.size);
    buffer_append_uleb128(recipe, symbols_offset);
    buffer_append_uleb128(recipe, cut->symbols.size);
    buffer_append_uleb128(recipe, names_offset);
    buffer_append_uleb128(recipe, cut->names.size);
    buffer_append_uleb128(recipe, restoring.kind.address);
    buffer_append_uleb128(recipe, restoring.kind.section);
    buffer_append_uleb128(recipe, restoring.kind.info);
    buffer_append_uleb128(recipe, restoring.kind.other);
    buffer_append_uleb128(recipe, cut->count);
    for (size_t i = 0; i < cut->count; i++) {
        const struct taken_symbol *taken = &cut->taken[i];

        buffer_append_uleb128(recipe, taken->index - index);
        buffer_append_uleb128(recipe, zigzag(taken->record - record) << 1 | taken->is_plain);
        buffer_append_uleb128(recipe, taken->name - name);
        index = taken->index + UINT64_C(1);
        record = taken->record + UINT64_C(1);
        name = name_end(cut, taken);
    }
    /* The names will be what they were: each one that goes was compared. */
    for (; restore_symbol(&restoring, &place, made); old += size, position += size) {
        if (memcmp(made, old, size) != 0)
            append_changes(made, old, size, position, &end, recipe);
    }
    return !recipe->failed;
}

uint64_t symbol_recipe_size(struct bytes recipe)
{
    struct cursor at = cursor_open(recipe, false, false);

    return cursor_uleb128(&at);
}

/* ---- reading it ---- */

/* Reads what is said of each symbol, which make the tables `more` bytes larger. False if out of
 * memory; otherwise the cursor may be bad. */
static bool read_taken(struct cursor *at, uint64_t more, struct restoring *restoring)
{
    uint64_t count = cursor_uleb128(at), index = 0, record = 0, name = 0, gone = 0;

    if (count > more / ELF_SIZE(restoring->form.wide, Sym)) {
        cursor_spoil(at);
        return true;
    }
    restoring->taken = calloc((size_t)count + 1, sizeof(*restoring->taken));
    if (restoring->taken == NULL)
        return false;
    for (; restoring->count < count && !at->bad; restoring->count++) {
        struct taken_symbol *taken = &restoring->taken[restoring->count];
        uint64_t code, length;

        index += cursor_uleb128(at);
        code = cursor_uleb128(at);
        record += unzigzag(code >> 1);
        name += cursor_uleb128(at);
        if (index > UINT32_MAX || name > UINT32_MAX || record >= restoring->records->count) {
            cursor_spoil(at);
            break;
        }
        *taken = (struct taken_symbol){(uint32_t)index++, (uint32_t)record, (uint32_t)name, 0,
                                       (code & 1) != 0};
        length = name_size(&restoring->records->records[record++], taken->is_plain);
        name += length;
        gone += length;
        taken->gone = (uint32_t)gone;
    }
    if (count * ELF_SIZE(restoring->form.wide, Sym) + gone != more)
        cursor_spoil(at);
    return true;
}

/* Applies the rest of the recipe to the tables, which start at `start` of the buffer. */
static void apply_changes(struct cursor *at, struct buffer *tables, size_t start)
{
    uint64_t position = start;

    while (!at->bad && cursor_left(at) != 0) {
        uint64_t gap = cursor_uleb128(at);
        struct bytes change = cursor_bytes(at, cursor_uleb128(at));

        if (gap > tables->size - position || change.size > tables->size - position - gap ||
            change.size == 0) {
            cursor_spoil(at);
            return;
        }
        position += gap;
        memcpy(tables->data + position, change.data, (size_t)change.size);
        position += change.size;
    }
}

bool symbol_recipe_apply(struct bytes recipe, struct elf_form form, struct bytes stripped,
                         const struct record_list *records, uint64_t limit, const char *name,
                         struct buffer *tables, struct error *error)
{
    struct cursor at = cursor_open(recipe, false, false);
    struct restoring restoring = {.form = form, .records = records};
    uint64_t size = cursor_uleb128(&at), offsets[2], sizes[2], left;
    size_t start = tables->size;
    bool has_memory = true;

    for (size_t i = 0; i < 2; i++) {
        offsets[i] = cursor_uleb128(&at);
        sizes[i] = cursor_uleb128(&at);
    }
    restoring.kind.address = cursor_uleb128(&at);
    restoring.kind.section = (uint16_t)cursor_uleb128(&at);
    restoring.kind.info = (uint8_t)cursor_uleb128(&at);
    restoring.kind.other = (uint8_t)cursor_uleb128(&at);
    if (!bytes_slice(stripped, offsets[0], sizes[0], &restoring.left.symbols) ||
        !bytes_slice(stripped, offsets[1], sizes[1], &restoring.left.names) ||
        sizes[0] % ELF_SIZE(form.wide, Sym) != 0 || !add_fits(sizes[0], sizes[1], &left) ||
        left > size)
        cursor_spoil(&at);
    /* What is left of the tables is in the stripped image. */
    if (!at.bad && !memory_limit_allows(limit, size - left, name, ".symtab", error))
        return false;
    if (!at.bad)
        has_memory = read_taken(&at, size - left, &restoring);
    if (!at.bad && has_memory)
        has_memory = buffer_reserve(tables, (size_t)size) &&
                     restore_tables(&restoring, offsets[1] < offsets[0], tables);
    if (!at.bad && has_memory)
        apply_changes(&at, tables, start);
    free(restoring.taken);
    if (!has_memory)
        return error_out_of_memory(error, name, size);
    return (!at.bad && tables->size - start == size) ||
           error_set(error,
                     "%s: the symbols in its inverse edit script do not fit the image; get an "
                     "intact copy",
                     name);
}
