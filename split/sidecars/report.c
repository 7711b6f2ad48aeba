/*
 * Reports: see show.h.
 */
#include "split/sidecars/show.h"

#include <inttypes.h>
#include <string.h>

void report_begin(struct fact_sheet *report, struct json_writer *json)
{
    static const struct table_column facts[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    static const struct table_column sections[] = {
        {"section", TABLE_LEFT}, {"kind", TABLE_LEFT},   {"address", TABLE_RIGHT},
        {"size", TABLE_RIGHT},   {"", TABLE_RIGHT},      {"stored size", TABLE_RIGHT},
        {"ratio", TABLE_RIGHT},  {"status", TABLE_LEFT}, {"reason", TABLE_LEFT},
    };

    *report = (struct fact_sheet){.json = json};
    if (json == NULL) {
        report->facts = table_new(facts, 2, 2);
        report->sections = table_new(sections, sizeof(sections) / sizeof(sections[0]), 2);
    } else {
        report->before = *json;
        json->stream = report->stream = json_text_stream(&report->text);
        json_begin_object(json, NULL);
    }
}

/* ---- facts ---- */

#define ADD_ROW(report, label, ...)                                                                \
    (table_cell((report)->facts, "%s", label), table_cell((report)->facts, __VA_ARGS__))

void report_text(struct fact_sheet *report, const char *key, const char *label, const char *text)
{
    if (report->json != NULL)
        json_string(report->json, key, text);
    else
        ADD_ROW(report, label, "%s", text);
}

void report_none(struct fact_sheet *report, const char *key, const char *label, const char *text)
{
    if (report->json != NULL)
        json_null(report->json, key);
    else if (text != NULL)
        ADD_ROW(report, label, "%s", text);
}

void report_number(struct fact_sheet *report, const char *key, const char *label, uint64_t number)
{
    char text[COUNT_TEXT_MAX];

    if (report->json != NULL)
        json_number(report->json, key, number);
    else
        ADD_ROW(report, label, "%s", number_text(number, text));
}

void report_size(struct fact_sheet *report, const char *key, const char *label, uint64_t size)
{
    char exact[COUNT_TEXT_MAX], human[HUMAN_SIZE_MAX];

    if (report->json != NULL)
        json_number(report->json, key, size);
    else if (size < 1024)
        ADD_ROW(report, label, "%s", count_text(size, "byte", exact));
    else
        ADD_ROW(report, label, "%s (%s)", count_text(size, "byte", exact), human_size(size, human));
}

void report_boolean(struct fact_sheet *report, const char *key, const char *label, bool value)
{
    if (report->json != NULL)
        json_boolean(report->json, key, value);
    else
        ADD_ROW(report, label, "%s", value ? "yes" : "no");
}

void report_list(struct fact_sheet *report, const char *key, const char *label)
{
    report->list_label = label;
    report->list[0] = '\0';
    if (report->json != NULL)
        json_begin_array(report->json, key);
}

/* A cell is not longer than a message, however long a list in a file is. */
void report_list_word(struct fact_sheet *report, const char *word)
{
    size_t length = strlen(report->list);

    if (report->json != NULL)
        json_string(report->json, NULL, word);
    else
        snprintf(report->list + length, sizeof(report->list) - length, "%s%s",
                 length == 0 ? "" : ", ", word);
}

void report_list_end(struct fact_sheet *report)
{
    if (report->json != NULL)
        json_end_array(report->json);
    else
        ADD_ROW(report, report->list_label, "%s", report->list[0] == '\0' ? "none" : report->list);
}

/* ---- sections ---- */

void report_begin_sections(struct fact_sheet *report)
{
    if (report->json != NULL)
        json_begin_array(report->json, "sections");
}

static void add_number_cell(struct table *table, uint64_t number)
{
    char text[COUNT_TEXT_MAX];

    table_cell(table, "%s", number != NUMBER_UNKNOWN ? number_text(number, text) : "");
}

void report_section(struct fact_sheet *report, const struct section_row *section)
{
    struct table *table = report->sections;
    char human[HUMAN_SIZE_MAX];
    uint64_t ratio;

    if (report->json != NULL) {
        section_row_write(section, report->json);
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

void report_end_sections(struct fact_sheet *report)
{
    if (report->json != NULL)
        json_end_array(report->json);
}

/* ---- the whole ---- */

void report_print(struct fact_sheet *report)
{
    if (report->json == NULL) {
        table_print(report->facts, stdout);
        table_print(report->sections, stdout);
    } else {
        json_close_text(report->stream, &report->text);
        report->stream = NULL;
        report->json->stream = report->before.stream;
        fwrite(report->text.data, 1, report->text.size, report->json->stream);
    }
}

void report_end(struct fact_sheet *report)
{
    if (report->json != NULL && report->stream == NULL) {
        json_end_object(report->json);
    } else if (report->json != NULL) {
        fclose(report->stream);
        *report->json = report->before;
    }
    buffer_free(&report->text);
    table_free(report->facts);
    table_free(report->sections);
}
