/*
 * Sheets of facts: see show.h.
 */
#include "split/sidecars/show.h"

#include <inttypes.h>
#include <string.h>

void sheet_begin(struct fact_sheet *sheet, struct json_writer *json)
{
    static const struct table_column facts[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    static const struct table_column sections[] = {
        {"section", TABLE_LEFT}, {"kind", TABLE_LEFT},   {"address", TABLE_RIGHT},
        {"size", TABLE_RIGHT},   {"", TABLE_RIGHT},      {"stored size", TABLE_RIGHT},
        {"ratio", TABLE_RIGHT},  {"status", TABLE_LEFT}, {"reason", TABLE_LEFT},
    };

    *sheet = (struct fact_sheet){.facts.json = json};
    if (json == NULL) {
        sheet->facts.table = table_new(facts, 2, 2);
        sheet->sections = table_new(sections, sizeof(sections) / sizeof(sections[0]), 2);
    } else {
        sheet->before = *json;
        json->stream = sheet->stream = json_text_stream(&sheet->text);
        json_begin_object(json, NULL);
    }
}

/* ---- facts ---- */

void sheet_none(struct fact_sheet *sheet, const char *key, const char *label, const char *text)
{
    if (sheet->facts.json != NULL || text != NULL)
        facts_text(&sheet->facts, key, label, sheet->facts.json != NULL ? NULL : text);
}

void sheet_boolean(struct fact_sheet *sheet, const char *key, const char *label, bool value)
{
    if (sheet->facts.json != NULL)
        json_boolean(sheet->facts.json, key, value);
    else
        facts_text(&sheet->facts, key, label, value ? "yes" : "no");
}

void sheet_list(struct fact_sheet *sheet, const char *key, const char *label)
{
    sheet->list_label = label;
    sheet->list[0] = '\0';
    if (sheet->facts.json != NULL)
        json_begin_array(sheet->facts.json, key);
}

/* A cell is not longer than a message, however long a list in a file is. */
void sheet_list_word(struct fact_sheet *sheet, const char *word)
{
    size_t length = strlen(sheet->list);

    if (sheet->facts.json != NULL)
        json_string(sheet->facts.json, NULL, word);
    else
        snprintf(sheet->list + length, sizeof(sheet->list) - length, "%s%s",
                 length == 0 ? "" : ", ", word);
}

void sheet_list_end(struct fact_sheet *sheet)
{
    if (sheet->facts.json != NULL)
        json_end_array(sheet->facts.json);
    else
        facts_text(&sheet->facts, NULL, sheet->list_label,
                   sheet->list[0] == '\0' ? "none" : sheet->list);
}

/* ---- sections ---- */

void sheet_begin_sections(struct fact_sheet *sheet)
{
    if (sheet->facts.json != NULL)
        json_begin_array(sheet->facts.json, "sections");
}

static void add_number_cell(struct table *table, uint64_t number)
{
    char text[COUNT_TEXT_MAX];

    table_cell(table, "%s", number != NUMBER_UNKNOWN ? number_text(number, text) : "");
}

void sheet_section(struct fact_sheet *sheet, const struct section_row *section)
{
    struct table *table = sheet->sections;
    char human[HUMAN_SIZE_MAX];
    uint64_t ratio;

    if (sheet->facts.json != NULL) {
        section_row_write(section, sheet->facts.json);
        return;
    }
    table_cell(table, "%s", section->name);
    table_cell(table, "%s", section->kind);
    if (section->address != NUMBER_UNKNOWN)
        table_cell(table, "0x%" PRIx64, section->address);
    else
        table_cell(table, "%s", "");
    add_number_cell(table, section->size);
    table_cell(table, "%s",
               section->size != NUMBER_UNKNOWN && section->size >= 1024
                   ? human_size(section->size, human)
                   : "");
    add_number_cell(table, section->stored_size);
    if (section_row_ratio(section, &ratio))
        table_cell(table, "%" PRIu64 ".%" PRIu64 "%%", ratio / 100, ratio / 10 % 10);
    else
        table_cell(table, "%s", "");
    table_cell(table, "%s", section->status);
    table_cell(table, "%s", section->reason);
}

void sheet_end_sections(struct fact_sheet *sheet)
{
    if (sheet->facts.json != NULL)
        json_end_array(sheet->facts.json);
}

/* ---- the whole ---- */

void sheet_print(struct fact_sheet *sheet)
{
    if (sheet->facts.json == NULL) {
        table_print(sheet->facts.table, stdout);
        table_print(sheet->sections, stdout);
    } else {
        json_close_text(sheet->stream, &sheet->text);
        sheet->stream = NULL;
        sheet->facts.json->stream = sheet->before.stream;
        fwrite(sheet->text.data, 1, sheet->text.size, sheet->facts.json->stream);
    }
}

void sheet_end(struct fact_sheet *sheet)
{
    if (sheet->facts.json != NULL && sheet->stream == NULL) {
        json_end_object(sheet->facts.json);
    } else if (sheet->facts.json != NULL) {
        fclose(sheet->stream);
        *sheet->facts.json = sheet->before;
    }
    buffer_free(&sheet->text);
    table_free(sheet->facts.table);
    table_free(sheet->sections);
}
