/*
 * Sections that refer to symbols by number or by name: see coff_object_references.h.
 *
 * The linker takes directives from .drectve, and there clang names the symbol of each record, so
 * that none is left out (/INCLUDE) or exported (-exclude-symbols of mingw). These directives go.
 * Other sections are lists of numbers of symbols. Those that are known are made anew; a section for
 * the linker that is not known may be one, so the object is kept.
 */
#include "formats/object/coff_object_references.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/numbers.h"
#include "common/codec/packed_units/packed_unit.h"
#include "formats/object/units.h"

/* ---- names of records ---- */

#define RECORD_PREFIX      "__covrec_"
#define RECORD_PREFIX_SIZE (sizeof(RECORD_PREFIX) - 1)
#define NAME_REF_DIGITS    16

bool coff_name_is_of_record(struct bytes name)
{
    return name.size >= RECORD_PREFIX_SIZE &&
           memcmp(name.data, RECORD_PREFIX, RECORD_PREFIX_SIZE) == 0;
}

/* The NameRef and the group of a name. */
static bool read_record_name(struct bytes name, uint64_t *name_reference, enum packed_group *group)
{
    static const char digits[] = "0123456789ABCDEF";
    uint64_t i = RECORD_PREFIX_SIZE;

    if (!coff_name_is_of_record(name))
        return false;
    *name_reference = 0;
    for (; i < name.size && i < RECORD_PREFIX_SIZE + NAME_REF_DIGITS; i++) {
        const char *digit = memchr(digits, name.data[i], sizeof(digits) - 1);

        if (digit == NULL)
            break;
        *name_reference = *name_reference << 4 | (uint64_t)(digit - digits);
    }
    *group = i < name.size ? PACKED_GROUP_OF_USED : PACKED_GROUP_OF_UNUSED;
    return i > RECORD_PREFIX_SIZE &&
           (i == name.size || (i == name.size - 1 && name.data[i] == 'u'));
}

void coff_records_free(struct coff_records *records)
{
    intern_table_free(&records->numbers);
    buffer_free(&records->groups);
}

enum result coff_records_add(struct coff_records *records, struct bytes name)
{
    uint64_t name_reference, number;
    enum packed_group group;

    if (!read_record_name(name, &name_reference, &group))
        return RESULT_UNFIT;
    if (!intern_table_add(&records->numbers, name_reference, &number) ||
        (number == records->groups.size && !buffer_append_zeros(&records->groups, 1)))
        return RESULT_NO_MEMORY;
    if ((records->groups.data[number] & 1u << group) != 0)
        return RESULT_UNFIT;
    records->groups.data[number] |= (uint8_t)(1u << group);
    return RESULT_OK;
}

static bool has_record(const struct coff_records *records, struct bytes name)
{
    uint64_t name_reference, number;
    enum packed_group group;

    return read_record_name(name, &name_reference, &group) &&
           intern_table_find(&records->numbers, name_reference, &number) &&
           (records->groups.data[number] & 1u << group) != 0;
}

/* ---- directives for the linker ---- */

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n' || byte == '\0';
}

/* Takes a directive off the front of *text, with the blanks before it: *whole has them, *directive
 * does not. Blanks between quotation marks end nothing. */
static bool take_directive(struct bytes *text, struct bytes *whole, struct bytes *directive)
{
    uint64_t start = 0, end;
    bool quoted = false;

    while (start < text->size && is_blank(text->data[start]))
        start++;
    for (end = start; end < text->size && (quoted || !is_blank(text->data[end])); end++)
        quoted ^= text->data[end] == '"';
    *whole = (struct bytes){text->data, end};
    *directive = (struct bytes){text->data + start, end - start};
    return take_bytes(text, end) != NULL && end != 0;
}

static bool starts_with(struct bytes *text, const char *start)
{
    size_t size = strlen(start);

    if (text->size < size || strncasecmp((const char *)text->data, start, size) != 0)
        return false;
    take_bytes(text, size);
    return true;
}

/* mingw's directive has the name without the underscore of i386. */
static bool names_record(const struct coff_numbering *numbering, struct bytes directive)
{
    if (directive.size == 0 || (directive.data[0] != '/' && directive.data[0] != '-'))
        return false;
    take_bytes(&directive, 1);
    if (starts_with(&directive, "exclude-symbols:"))
        return has_record(numbering->records, directive);
    return starts_with(&directive, "include:") &&
           (!numbering->has_underscores || starts_with(&directive, "_")) &&
           has_record(numbering->records, directive);
}

static enum result change_directives(const struct coff_numbering *numbering, struct bytes text,
                                     struct buffer *contents, struct object_packing *packing)
{
    struct bytes whole, directive;

    if (!buffer_reserve(contents, (size_t)text.size))
        return RESULT_NO_MEMORY;
    while (take_directive(&text, &whole, &directive)) {
        if (names_record(numbering, directive))
            continue;
        if (memmem(directive.data, (size_t)directive.size, RECORD_PREFIX, RECORD_PREFIX_SIZE) !=
            NULL)
            return object_keep(packing,
                               "a directive for the linker names the record of a function "
                               "(%s...); leave that out and compile it again",
                               RECORD_PREFIX);
        if (!buffer_append(contents, whole.data, (size_t)whole.size))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

/* ---- lists of symbols ---- */

enum result coff_renumber(const struct coff_numbering *numbering, uint32_t was, uint32_t *now,
                          struct object_packing *packing)
{
    *now = was < numbering->symbol_count ? numbering->symbols[was] : COFF_SYMBOL_NONE;
    if (*now == COFF_SYMBOL_NONE)
        return object_keep(packing, "damaged: it refers to a symbol that does not exist; compile "
                                    "it again");
    if (*now == COFF_SYMBOL_GONE)
        return object_keep(packing, "something else in it refers to the coverage mapping; compile "
                                    "it again");
    return RESULT_OK;
}

static enum result keep_damaged_list(struct object_packing *packing)
{
    return object_keep(packing, "damaged: a list of symbols is cut short; compile it again");
}

/* .llvm_addrsig: ULEB128 numbers of symbols whose addresses matter. Those that go are left out. */
static enum result change_address_list(const struct coff_numbering *numbering, struct bytes list,
                                       struct buffer *contents, struct object_packing *packing)
{
    uint64_t number;

    while (list.size != 0) {
        uint32_t now;
        enum result result;

        if (!take_number(&list, &number) || number > UINT32_MAX)
            return keep_damaged_list(packing);
        if (number < numbering->symbol_count && numbering->symbols[number] == COFF_SYMBOL_GONE)
            continue;
        result = coff_renumber(numbering, (uint32_t)number, &now, packing);
        if (result != RESULT_OK)
            return result;
        if (!buffer_append_uleb128(contents, now))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

/* Records of `size` bytes that begin with `count` numbers of symbols. */
static enum result change_list(const struct coff_numbering *numbering, struct bytes list,
                               unsigned size, unsigned count, struct buffer *contents,
                               struct object_packing *packing)
{
    uint8_t *at;

    if (list.size % size != 0)
        return keep_damaged_list(packing);
    if (!buffer_append(contents, list.data, (size_t)list.size))
        return RESULT_NO_MEMORY;
    at = contents->data;
    for (uint64_t left = list.size; left != 0; left -= size, at += size)
        for (unsigned i = 0; i < count; i++) {
            uint32_t now;
            enum result result =
                coff_renumber(numbering, load_u32(at + 4 * i, false), &now, packing);

            if (result != RESULT_OK)
                return result;
            store_u32(at + 4 * i, now, false);
        }
    return RESULT_OK;
}

/* ---- which sections ---- */

enum form {
    FORM_DIRECTIVES,
    FORM_ADDRESSES,
    FORM_LIST,
    FORM_EDGES, /* of a call graph: two symbols and a number of calls, of 8 bytes */
    FORM_NONE,  /* no reference */
};

static const struct {
    const char *name;
    enum form form;
} known_sections[] = {
    {".drectve", FORM_DIRECTIVES},
    {".llvm_addrsig", FORM_ADDRESSES},
    {".llvm.call-graph-profile", FORM_EDGES},
    /* /guard:cf: functions whose addresses are taken, targets of longjmp, imported functions, and
     * continuations after exceptions. */
    {".gfids$y", FORM_LIST},
    {".gljmp$y", FORM_LIST},
    {".giats$y", FORM_LIST},
    {".gehcont$y", FORM_LIST},
    {".sxdata", FORM_LIST}, /* i386: handlers of exceptions */
    {".llvmbc", FORM_NONE},
    {".llvmcmd", FORM_NONE},
};

/* False if the section is not known. */
static bool tell_form(const struct coff_object_section *section, enum form *form)
{
    for (size_t i = 0; i < sizeof(known_sections) / sizeof(*known_sections); i++)
        if (section->name.size == strlen(known_sections[i].name) &&
            memcmp(section->name.data, known_sections[i].name, (size_t)section->name.size) == 0) {
            *form = known_sections[i].form;
            return true;
        }
    *form = FORM_NONE;
    return (section->characteristics & (IMAGE_SCN_LNK_INFO | IMAGE_SCN_LNK_REMOVE)) == 0;
}

enum result coff_references_change(const struct coff_numbering *numbering,
                                   const struct coff_object_section *section,
                                   struct buffer *contents, bool *changes,
                                   struct object_packing *packing)
{
    enum form form;

    *changes = false;
    if (!tell_form(section, &form))
        return object_keep(packing,
                           "it has a section for the linker that is not known (%.*s), and that may "
                           "refer to symbols by number; leave it as it is",
                           (int)section->name.size, (const char *)section->name.data);
    if (form == FORM_NONE || section->contents.size == 0)
        return RESULT_OK;
    if (section->relocations.size != 0 || section->line_numbers.size != 0)
        return object_keep(packing, "%.*s has relocations; compile it again",
                           (int)section->name.size, (const char *)section->name.data);
    *changes = true;
    switch (form) {
    case FORM_DIRECTIVES:
        return change_directives(numbering, section->contents, contents, packing);
    case FORM_ADDRESSES:
        return change_address_list(numbering, section->contents, contents, packing);
    case FORM_EDGES:
        return change_list(numbering, section->contents, 16, 2, contents, packing);
    default:
        return change_list(numbering, section->contents, 4, 1, contents, packing);
    }
}
