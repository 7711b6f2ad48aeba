/*
 * Tables: see table.h.
 */
#include "split/cli/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

#define COLUMN_GAP 2

struct table {
    const struct table_column *columns;
    size_t column_count;
    unsigned indentation;
    struct buffer cells; /* NUL-terminated strings, one after the other */
    size_t cell_count;
    size_t widths[TABLE_COLUMNS_MAX];
    bool used[TABLE_COLUMNS_MAX]; /* some cell is not empty */
};

/* The width on a terminal: UTF-8 continuation bytes take no column. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

struct table *table_new(const struct table_column *columns, size_t column_count,
                        unsigned indentation)
{
    struct table *table = command_array(1, sizeof(*table));

    table->columns = columns;
    table->column_count = column_count;
    table->indentation = indentation;
    for (size_t i = 0; i < column_count; i++)
        table->widths[i] = columns[i].heading != NULL ? width_of(columns[i].heading) : 0;
    return table;
}

void table_free(struct table *table)
{
    if (table == NULL)
        return;
    buffer_free(&table->cells);
    free(table);
}

void table_cell(struct table *table, const char *format, ...)
{
    va_list arguments;
    struct error text;
    size_t width;
    size_t column = table->cell_count % table->column_count;

    va_start(arguments, format);
    format_printable(&text, format, arguments);
    va_end(arguments);
    width = width_of(text.message);
    exit_unless_allocated(buffer_append(&table->cells, text.message, strlen(text.message) + 1),
                          table->cells.size);
    table->cell_count++;
    if (width > table->widths[column])
        table->widths[column] = width;
    table->used[column] |= width != 0;
}

static void print_row(const struct table *table, const char *const texts[], FILE *stream)
{
    unsigned gap = table->indentation;
    size_t end = table->column_count;

    /* The last cell is not padded, so that no line ends in blanks. */
    while (end != 0 && (texts[end - 1][0] == '\0' || !table->used[end - 1]))
        end--;
    for (size_t column = 0; column < end; column++) {
        bool right = table->columns[column].alignment == TABLE_RIGHT;
        unsigned padding = (unsigned)(table->widths[column] - width_of(texts[column]));

        if (!table->used[column])
            continue;
        fprintf(stream, "%*s%s", (int)(gap + (right ? padding : 0)), "", texts[column]);
        gap = COLUMN_GAP + (right ? 0 : padding);
    }
    putc('\n', stream);
}

void table_print(const struct table *table, FILE *stream)
{
    const char *texts[TABLE_COLUMNS_MAX];
    const char *text = (const char *)table->cells.data;
    bool headings = false;

    if (table->cell_count == 0)
        return;
    for (size_t i = 0; i < table->column_count; i++) {
        texts[i] = table->columns[i].heading != NULL ? table->columns[i].heading : "";
        headings |= table->columns[i].heading != NULL;
    }
    if (headings)
        print_row(table, texts, stream);
    for (size_t row = 0; row < table->cell_count / table->column_count; row++) {
        for (size_t i = 0; i < table->column_count; i++) {
            texts[i] = text;
            text += strlen(text) + 1;
        }
        print_row(table, texts, stream);
    }
}

/* ---- facts ---- */

void facts_text(struct facts *facts, const char *key, const char *label, const char *text)
{
    if (facts->json != NULL) {
        json_string_or_null(facts->json, key, text);
    } else {
        if (label != NULL)
            table_cell(facts->table, "%s", label);
        table_cell(facts->table, "%s", text != NULL ? text : "");
    }
}

void facts_number(struct facts *facts, const char *key, const char *label, uint64_t number)
{
    char text[COUNT_TEXT_MAX];

    if (facts->json != NULL)
        json_number(facts->json, key, number);
    else
        facts_text(facts, key, label, number_text(number, text));
}

void facts_size(struct facts *facts, const char *key, const char *label, uint64_t size)
{
    char exact[COUNT_TEXT_MAX], human[HUMAN_SIZE_MAX], both[COUNT_TEXT_MAX + HUMAN_SIZE_MAX + 3];

    if (facts->json != NULL) {
        json_number(facts->json, key, size);
    } else if (label == NULL) {
        facts_text(facts, key, NULL, human_size(size, human));
    } else {
        snprintf(both, sizeof(both), size < 1024 ? "%s" : "%s (%s)",
                 count_text(size, "byte", exact), human_size(size, human));
        facts_text(facts, key, label, both);
    }
}

void rows_begin(struct facts *rows, struct json_writer *json, const char *key,
                const struct table_column *columns, size_t column_count, unsigned indentation)
{
    *rows = (struct facts){.json = json};
    if (json != NULL)
        json_begin_array(json, key);
    else
        rows->table = table_new(columns, column_count, indentation);
}

void rows_begin_row(struct facts *rows)
{
    if (rows->json != NULL)
        json_begin_object(rows->json, NULL);
}

void rows_end_row(struct facts *rows)
{
    if (rows->json != NULL)
        json_end_object(rows->json);
}

void rows_end(struct facts *rows)
{
    if (rows->json != NULL)
        json_end_array(rows->json);
    else
        table_print(rows->table, stdout);
    table_free(rows->table);
}

/* ---- numbers ---- */

const char *number_text(uint64_t number, char *text)
{
    char digits[24];
    size_t count = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number);
    char *end = text;

    for (size_t i = 0; i < count; i++) {
        if (i != 0 && (count - i) % 3 == 0)
            *end++ = ',';
        *end++ = digits[i];
    }
    *end = '\0';
    return text;
}

const char *count_text(uint64_t count, const char *noun, char *text)
{
    size_t length = strlen(number_text(count, text));

    snprintf(text + length, COUNT_TEXT_MAX - length, " %s%s", noun, count == 1 ? "" : "s");
    return text;
}

const char *human_size(uint64_t size, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    uint64_t whole = size;
    uint64_t tenths = 0;

    while (whole >= 1024) {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(text, HUMAN_SIZE_MAX, "%" PRIu64 " B", size);
    else
        snprintf(text, HUMAN_SIZE_MAX, "%" PRIu64 ".%" PRIu64 " %s", whole, tenths, units[unit]);
    return text;
}
