/*
 * Packing COFF objects: see object.h.
 *
 * The records are in sections .lcovfun$M. Each is a COMDAT, which has two symbols: the section's
 * definition, and the one that is the name of the COMDAT. These sections and symbols go, and the
 * packed units take the place of the contents of .lcovmap$M. So sections and symbols get new
 * numbers. All that refers to them is made anew: relocations, symbols and their auxiliary records,
 * and the sections of coff_object_references.h.
 *
 * Of COMDATs, lld-link puts those into an image that are named in directives, in the order of their
 * symbols; others link sections in the order of their numbers. Both orders must be the same.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/object/coff_object_packing.h"
#include "formats/object/formats.h"
#include "formats/object/units.h"

#define UNITS_NAME             ".lcovmap$M"
#define RECORD_NAME            ".lcovfun$M"

#define IMAGE_SCN_ALIGN_MASK   0x00f00000u
#define IMAGE_SCN_ALIGN_8BYTES 0x00400000u

/* ---- sections ---- */

static bool is_named(const struct coff_object_section *section, const char *name)
{
    return section->name.size == strlen(name) &&
           memcmp(section->name.data, name, (size_t)section->name.size) == 0;
}

/* Linkers join all sections whose names are equal up to the '$'. */
static bool is_joined_to(const struct coff_object_section *section, const char *name)
{
    uint64_t size = (uint64_t)(strchr(name, '$') - name);

    return !is_named(section, name) && section->name.size >= size &&
           memcmp(section->name.data, name, (size_t)size) == 0 &&
           (section->name.size == size || section->name.data[size] == '$');
}

static enum coff_purpose purpose_of(const struct coff_object_section *section)
{
    return is_named(section, UNITS_NAME)    ? COFF_UNITS
           : is_named(section, RECORD_NAME) ? COFF_RECORD
                                            : COFF_OTHER;
}

/* Whether there is something to pack. */
static enum result find_mapping(struct coff_packing *state, bool *found)
{
    struct coff_object_section section;
    struct bytes units = {0};
    bool has_records = false;

    for (uint32_t i = 0; i < state->object.section_count; i++) {
        if (!coff_object_section_read(&state->object, i, &section))
            return coff_keep_damaged(state, "a section is not inside the file");
        if (is_named(&section, UNITS_NAME))
            units = section.contents;
        has_records |= is_named(&section, RECORD_NAME);
    }
    *found = has_records || (units.size != 0 && !packed_unit_recognize(units, false));
    return RESULT_OK;
}

/* What both sections of the mapping have in common. */
static enum result check_mapping_section(struct coff_packing *state,
                                         const struct coff_object_section *section)
{
    if (section->relocations.size != 0 || section->line_numbers.size != 0)
        return object_keep(state->packing, "its coverage mapping has relocations; compile it again "
                                           "with clang 13 or later");
    if ((section->characteristics & IMAGE_SCN_ALIGN_MASK) != IMAGE_SCN_ALIGN_8BYTES)
        return object_keep(state->packing,
                           "its coverage mapping is not aligned to 8 bytes; compile "
                           "it again with clang 13 or later");
    return RESULT_OK;
}

static enum result read_parts(struct coff_packing *state)
{
    uint64_t left = state->object.file.size;
    bool has_units = false;

    for (uint32_t i = 0; i < state->object.section_count; i++) {
        struct coff_part *part = &state->parts[i];
        struct coff_object_section *section = &part->section;
        enum result result = RESULT_OK;

        coff_object_section_read(&state->object, i, section);
        part->purpose = purpose_of(section);
        part->number = part->purpose == COFF_RECORD ? 0 : ++state->part_count;
        if (section->contents.size + section->relocations.size + section->line_numbers.size > left)
            return coff_keep_damaged(state, "sections overlap");
        left -= section->contents.size + section->relocations.size + section->line_numbers.size;
        if (part->purpose != COFF_OTHER)
            result = check_mapping_section(state, section);
        else if (is_joined_to(section, UNITS_NAME) || is_joined_to(section, RECORD_NAME))
            result = object_keep(state->packing, "some of its coverage mapping is in a section of "
                                                 "another name than compilers give; compile it "
                                                 "again");
        if (part->purpose == COFF_UNITS &&
            (has_units || (section->characteristics & IMAGE_SCN_LNK_COMDAT) != 0))
            result = object_keep(state->packing, "its list of source files is not in one section; "
                                                 "pack the objects before they are linked into "
                                                 "one");
        has_units |= part->purpose == COFF_UNITS;
        if (result != RESULT_OK)
            return result;
    }
    return has_units ? RESULT_OK
                     : object_keep(state->packing, "it has records of functions, but no list of "
                                                   "source files; compile it again");
}

/* ---- symbols ---- */

/* A symbol in the section of a record: the section's definition comes first, then the name of the
 * COMDAT. `last` is the part that had such a name before. */
static enum result add_record_symbol(struct coff_packing *state, struct coff_part *part,
                                     uint32_t index, const struct coff_object_symbol *symbol,
                                     const struct coff_part **last)
{
    if (!part->has_definition && coff_is_definition(symbol)) {
        part->has_definition = true;
        part->keeps_any = symbol->aux[COFF_DEFINITION_SELECTION] == IMAGE_COMDAT_SELECT_ANY;
        return RESULT_OK;
    }
    if (!part->has_definition || !part->keeps_any || part->leader != 0 ||
        symbol->storage_class != IMAGE_SYM_CLASS_EXTERNAL || symbol->value != 0 ||
        symbol->aux_count != 0)
        return object_keep(state->packing, "the section of a function's record has symbols of "
                                           "another kind than compilers make; compile it again");
    if (*last >= part)
        return object_keep(state->packing, "the symbols of functions' records are not in the order "
                                           "of their sections; compile it again");
    part->leader = index;
    *last = part;
    return RESULT_OK;
}

static bool without_underscore(const struct coff_object *object, struct bytes *name)
{
    if (!object->has_underscores)
        return true;
    if (name->size == 0 || name->data[0] != '_')
        return false;
    name->data++;
    name->size--;
    return true;
}

/* A symbol that stays must not be another object's record. */
static enum result check_kept_name(struct coff_packing *state, struct bytes name)
{
    if (without_underscore(&state->object, &name) && coff_name_is_of_record(name))
        return object_keep(state->packing, "it refers to a function's record that is in none of "
                                           "its own sections; compile it again");
    return RESULT_OK;
}

static enum result read_symbols(struct coff_packing *state)
{
    const struct coff_part *last = NULL;
    struct coff_object_symbol symbol;

    for (uint32_t i = 0; i < state->object.symbol_count; i += 1u + symbol.aux_count) {
        struct coff_part *part;
        struct bytes name;
        enum result result;

        if (!coff_object_symbol_read(&state->object, i, &symbol) ||
            !coff_object_symbol_name(&state->object, &symbol, &name))
            return coff_keep_damaged(state, "a symbol has no name, or is in no section");
        part = symbol.section > 0 ? &state->parts[symbol.section - 1] : NULL;
        if (part != NULL && part->purpose == COFF_RECORD) {
            result = add_record_symbol(state, part, i, &symbol, &last);
            state->symbols[i] = COFF_SYMBOL_GONE;
        } else {
            result = check_kept_name(state, name);
            state->symbols[i] = state->symbol_count;
            state->symbol_count += 1u + symbol.aux_count;
        }
        if (result != RESULT_OK)
            return result;
        for (uint32_t aux = 1; aux <= symbol.aux_count; aux++)
            state->symbols[i + aux] = COFF_SYMBOL_NONE;
    }
    return RESULT_OK;
}

/* ---- the mapping ---- */

/* Adds a record. One that is in no COMDAT has no signature. */
static enum result add_record(struct coff_packing *state, const struct coff_part *part,
                              struct object_units *units)
{
    bool is_comdat = (part->section.characteristics & IMAGE_SCN_LNK_COMDAT) != 0;
    struct coff_object_symbol symbol;
    struct bytes name = {0};
    enum result result;

    if (is_comdat != (part->leader != 0))
        return object_keep(state->packing, "the section of a function's record has no name, or one "
                                           "that the linker would not use; compile it again");
    if (is_comdat && (!coff_object_symbol_read(&state->object, part->leader, &symbol) ||
                      !coff_object_symbol_name(&state->object, &symbol, &name) ||
                      !without_underscore(&state->object, &name)))
        return coff_keep_damaged(state, "a function's record has no name");
    result = object_units_add_covfun(units, part->section.contents, name, state->packing);
    if (result != RESULT_OK || !is_comdat)
        return result;
    result = coff_records_add(&state->records, name);
    return result != RESULT_UNFIT
               ? result
               : coff_keep_damaged(state, "two records of functions have the same name");
}

static enum result pack_mapping(struct coff_packing *state, struct object_units *units)
{
    struct coff_part *list = NULL;
    enum result result = RESULT_OK;

    for (uint32_t i = 0; i < state->object.section_count; i++)
        if (state->parts[i].purpose == COFF_UNITS)
            list = &state->parts[i];
    result = object_units_add_covmap(units, list->section.contents, state->packing);
    for (uint32_t i = 0; i < state->object.section_count && result == RESULT_OK; i++)
        if (state->parts[i].purpose == COFF_RECORD)
            result = add_record(state, &state->parts[i], units);
    if (result != RESULT_OK)
        return result;
    list->is_changed = true;
    return object_units_write(units, &list->changed, state->packing);
}

static enum result change_parts(struct coff_packing *state)
{
    for (uint32_t i = 0; i < state->object.section_count; i++) {
        struct coff_part *part = &state->parts[i];
        enum result result;

        if (part->purpose != COFF_OTHER)
            continue;
        result = coff_references_change(&state->numbering, &part->section, &part->changed,
                                        &part->is_changed, state->packing);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* ---- all of it ---- */

static enum result pack(struct coff_packing *state)
{
    struct object_units units = {0};
    enum result result;

    state->parts = calloc((size_t)state->object.section_count + 1, sizeof(*state->parts));
    state->symbols = calloc((size_t)state->object.symbol_count + 1, sizeof(*state->symbols));
    if (state->parts == NULL || state->symbols == NULL)
        return RESULT_NO_MEMORY;
    state->numbering = (struct coff_numbering){
        .symbols = state->symbols,
        .symbol_count = state->object.symbol_count,
        .has_underscores = state->object.has_underscores,
        .records = &state->records,
    };
    result = read_parts(state);
    if (result == RESULT_OK)
        result = read_symbols(state);
    if (result == RESULT_OK)
        result = pack_mapping(state, &units);
    object_units_free(&units);
    if (result == RESULT_OK)
        result = change_parts(state);
    return result == RESULT_OK ? coff_object_write(state) : result;
}

static void coff_packing_free(struct coff_packing *state)
{
    for (uint32_t i = 0; state->parts != NULL && i < state->object.section_count; i++)
        buffer_free(&state->parts[i].changed);
    free(state->parts);
    free(state->symbols);
    coff_records_free(&state->records);
}

enum result coff_object_pack(struct bytes file, struct object_packing *packing)
{
    struct coff_packing state = {.packing = packing};
    bool found = false;
    enum result result;

    if (!coff_object_recognize(file))
        return RESULT_UNFIT;
    if (!coff_object_open(&state.object, file))
        return coff_keep_damaged(&state, "its tables are not inside the file");
    result = find_mapping(&state, &found);
    if (result != RESULT_OK)
        return result;
    if (!found) {
        packing->outcome = OBJECT_NO_COVERAGE;
        return RESULT_UNFIT;
    }
    result = pack(&state);
    coff_packing_free(&state);
    return result;
}
