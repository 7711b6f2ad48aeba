/*
 * Reports: see report.h.
 */
#include "split/cli/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "split/cli/table.h"

enum fact_type {
    FACT_TEXT,
    FACT_NONE,
    FACT_NUMBER,
    FACT_SIZE,
    FACT_BOOLEAN,
    FACT_LIST,
};

struct fact {
    enum fact_type type;
    const char *key;
    const char *label;
    uint64_t number;
    struct buffer text; /* a string with its NUL; a list: so many as `number` says */
};

struct section_row {
    struct report_section section; /* `name` and `reason` are the row's own */
    char *name;
    char *reason;
};

/* ---- filling in ---- */

static void set_text(struct report *report, struct buffer *text, const char *from)
{
    if (!buffer_append(text, from, strlen(from) + 1))
        report->failed = true;
}

static void add_fact(struct report *report, struct fact *fact)
{
    if (!buffer_append(&report->facts, fact, sizeof(*fact))) {
        buffer_free(&fact->text);
        report->failed = true;
    }
}

void report_text(struct report *report, const char *key, const char *label, const char *text)
{
    struct fact fact = {.type = FACT_TEXT, .key = key, .label = label};

    set_text(report, &fact.text, text);
    add_fact(report, &fact);
}

void report_none(struct report *report, const char *key, const char *label, const char *text)
{
    struct fact fact = {.type = FACT_NONE, .key = key, .label = label};

    if (text != NULL)
        set_text(report, &fact.text, text);
    add_fact(report, &fact);
}

void report_number(struct report *report, const char *key, const char *label, uint64_t number)
{
    struct fact fact = {.type = FACT_NUMBER, .key = key, .label = label, .number = number};

    add_fact(report, &fact);
}

void report_size(struct report *report, const char *key, const char *label, uint64_t size)
{
    struct fact fact = {.type = FACT_SIZE, .key = key, .label = label, .number = size};

    add_fact(report, &fact);
}

void report_boolean(struct report *report, const char *key, const char *label, bool value)
{
    struct fact fact = {.type = FACT_BOOLEAN, .key = key, .label = label, .number = value};

    add_fact(report, &fact);
}

void report_list(struct report *report, const char *key, const char *label)
{
    struct fact fact = {.type = FACT_LIST, .key = key, .label = label};

    add_fact(report, &fact);
}

static struct fact *facts_of(const struct report *report, size_t *count)
{
    *count = report->facts.size / sizeof(struct fact);
    return (struct fact *)(void *)report->facts.data;
}

void report_list_word(struct report *report, const char *word)
{
    size_t count;
    struct fact *facts = facts_of(report, &count);

    if (report->failed || count == 0)
        return;
    set_text(report, &facts[count - 1].text, word);
    facts[count - 1].number++;
}

void report_section(struct report *report, const struct report_section *section)
{
    struct section_row row = {
        .section = *section,
        .name = strdup(section->name),
        .reason = strdup(section->reason),
    };

    if (row.name == NULL || row.reason == NULL ||
        !buffer_append(&report->sections, &row, sizeof(row))) {
        free(row.name);
        free(row.reason);
        report->failed = true;
    }
}

static struct section_row *sections_of(const struct report *report, size_t *count)
{
    *count = report->sections.size / sizeof(struct section_row);
    return (struct section_row *)(void *)report->sections.data;
}

void report_free(struct report *report)
{
    size_t count;
    struct fact *facts = facts_of(report, &count);
    struct section_row *rows;

    for (size_t i = 0; i < count; i++)
        buffer_free(&facts[i].text);
    rows = sections_of(report, &count);
    for (size_t i = 0; i < count; i++) {
        free(rows[i].name);
        free(rows[i].reason);
    }
    buffer_free(&report->facts);
    buffer_free(&report->sections);
    memset(report, 0, sizeof(*report));
}

/* The part that the stored bytes are of the section's, in ten-thousandths; false where one of them
 * is not known. */
static bool ratio_of(const struct report_section *section, uint64_t *ten_thousandths)
{
    if (!section->size.known || !section->stored_size.known || section->size.value == 0)
        return false;
    *ten_thousandths =
        (uint64_t)((double)section->stored_size.value / (double)section->size.value * 10000 + 0.5);
    return true;
}

/* ---- text ---- */

static bool add_list_cell(struct table *table, const struct fact *fact)
{
    const char *word = (const char *)fact->text.data;
    struct buffer line = {0};
    bool done = true;

    /* A cell holds no more than a message, however long a list from a file is. */
    for (uint64_t i = 0; done && i < fact->number && line.size < ERROR_MESSAGE_MAX; i++) {
        size_t length = strlen(word);

        done = (i == 0 || buffer_append(&line, ", ", 2)) && buffer_append(&line, word, length);
        word += length + 1;
    }
    if (fact->number == 0)
        table_cell(table, "none");
    else
        table_cell(table, "%.*s", (int)line.size, (const char *)line.data);
    buffer_free(&line);
    return done;
}

/* False: no memory. The table says that itself, but for what is made for a cell. */
static bool add_fact_row(struct table *table, const struct fact *fact)
{
    char human[HUMAN_SIZE_MAX];

    table_cell(table, "%s", fact->label);
    switch (fact->type) {
    case FACT_TEXT:
    case FACT_NONE:
        table_cell(table, "%s", (const char *)fact->text.data);
        break;
    case FACT_NUMBER:
        table_cell(table, "%" PRIu64, fact->number);
        break;
    case FACT_SIZE:
        if (fact->number < 1024)
            table_cell(table, "%" PRIu64 " bytes", fact->number);
        else
            table_cell(table, "%" PRIu64 " bytes (%s)", fact->number,
                       human_size(fact->number, human));
        break;
    case FACT_BOOLEAN:
        table_cell(table, "%s", fact->number != 0 ? "yes" : "no");
        break;
    case FACT_LIST:
        return add_list_cell(table, fact);
    }
    return true;
}

static bool print_facts(const struct report *report, unsigned indentation, FILE *stream)
{
    static const struct table_column columns[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    struct table *table = table_new(columns, 2, indentation);
    size_t count;
    const struct fact *facts = facts_of(report, &count);
    bool done = true;

    if (table == NULL)
        return false;
    for (size_t i = 0; done && i < count; i++) {
        if (facts[i].type != FACT_NONE || facts[i].text.size != 0)
            done = add_fact_row(table, &facts[i]);
    }
    done = done && table_print(table, stream);
    table_free(table);
    return done;
}

static void add_number_cell(struct table *table, struct report_number number, bool hexadecimal)
{
    if (!number.known)
        table_cell(table, "%s", "");
    else if (hexadecimal)
        table_cell(table, "0x%" PRIx64, number.value);
    else
        table_cell(table, "%" PRIu64, number.value);
}

static void add_section_row(struct table *table, const struct section_row *row)
{
    const struct report_section *section = &row->section;
    char human[HUMAN_SIZE_MAX];
    uint64_t ratio;

    table_cell(table, "%s", row->name);
    table_cell(table, "%s", section->kind);
    add_number_cell(table, section->address, true);
    add_number_cell(table, section->size, false);
    table_cell(table, "%s",
               section->size.known && section->size.value >= 1024
                   ? human_size(section->size.value, human)
                   : "");
    add_number_cell(table, section->stored_size, false);
    if (ratio_of(section, &ratio))
        table_cell(table, "%" PRIu64 ".%" PRIu64 "%%", ratio / 100, ratio / 10 % 10);
    else
        table_cell(table, "%s", "");
    table_cell(table, "%s", section->status);
    table_cell(table, "%s", row->reason);
}

static bool print_sections(const struct report *report, unsigned indentation, FILE *stream)
{
    static const struct table_column columns[] = {
        {"section", TABLE_LEFT}, {"kind", TABLE_LEFT},   {"address", TABLE_RIGHT},
        {"size", TABLE_RIGHT},   {"", TABLE_RIGHT},      {"stored size", TABLE_RIGHT},
        {"ratio", TABLE_RIGHT},  {"status", TABLE_LEFT}, {"reason", TABLE_LEFT},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), indentation);
    size_t count;
    const struct section_row *rows = sections_of(report, &count);
    bool printed;

    if (table == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        add_section_row(table, &rows[i]);
    printed = table_print(table, stream);
    table_free(table);
    return printed;
}

bool report_print_text(const struct report *report, unsigned indentation, FILE *stream)
{
    if (report->failed || !print_facts(report, indentation, stream))
        return false;
    return report->sections.size == 0 || print_sections(report, indentation, stream);
}

/* ---- JSON ---- */

static void write_fact(struct json_writer *writer, const struct fact *fact)
{
    const char *text = (const char *)fact->text.data;

    json_key(writer, fact->key);
    switch (fact->type) {
    case FACT_TEXT:
        json_string(writer, text);
        break;
    case FACT_NONE:
        json_null(writer);
        break;
    case FACT_NUMBER:
    case FACT_SIZE:
        json_number(writer, fact->number);
        break;
    case FACT_BOOLEAN:
        json_boolean(writer, fact->number != 0);
        break;
    case FACT_LIST:
        json_begin_array(writer);
        for (uint64_t i = 0; i < fact->number; i++) {
            json_string(writer, text);
            text += strlen(text) + 1;
        }
        json_end_array(writer);
        break;
    }
}

static void write_number(struct json_writer *writer, const char *key, struct report_number number)
{
    json_key(writer, key);
    if (number.known)
        json_number(writer, number.value);
    else
        json_null(writer);
}

static void write_section(struct json_writer *writer, const struct section_row *row)
{
    const struct report_section *section = &row->section;
    uint64_t ratio;

    json_begin_object(writer);
    json_key(writer, "name");
    json_string(writer, row->name);
    json_key(writer, "kind");
    json_string(writer, section->kind);
    write_number(writer, "address", section->address);
    write_number(writer, "size", section->size);
    write_number(writer, "stored_size", section->stored_size);
    json_key(writer, "ratio");
    if (ratio_of(section, &ratio))
        json_fraction(writer, ratio);
    else
        json_null(writer);
    json_key(writer, "status");
    json_string(writer, section->status);
    json_key(writer, "reason");
    if (row->reason[0] != '\0')
        json_string(writer, row->reason);
    else
        json_null(writer);
    json_end_object(writer);
}

bool report_print_json(const struct report *report, bool always_sections,
                       struct json_writer *writer)
{
    size_t count;
    const struct fact *facts = facts_of(report, &count);
    const struct section_row *rows;

    if (report->failed)
        return false;
    for (size_t i = 0; i < count; i++)
        write_fact(writer, &facts[i]);
    rows = sections_of(report, &count);
    if (count == 0 && !always_sections)
        return true;
    json_key(writer, "sections");
    json_begin_array(writer);
    for (size_t i = 0; i < count; i++)
        write_section(writer, &rows[i]);
    json_end_array(writer);
    return true;
}
