/*
 * Text in aligned columns.
 *
 * Cells are added row by row; widths are known only when all cells have been added, so the table is
 * printed at the end. Cells may come from a file, so control bytes in them are printed as '?', and
 * a cell longer than a message (base/error.h) is cut.
 */
#ifndef COVSPLIT_SPLIT_CLI_TABLE_H
#define COVSPLIT_SPLIT_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "split/cli/json.h"

enum table_alignment {
    TABLE_LEFT,
    TABLE_RIGHT,
};

struct table_column {
    const char *heading; /* NULL in all columns: the table has no headings */
    enum table_alignment alignment;
};

#define TABLE_COLUMNS_MAX 16

struct table;

/* The columns, at most TABLE_COLUMNS_MAX, must outlive the table. Every line is indented by
 * `indentation` blanks. */
struct table *table_new(const struct table_column *columns, size_t column_count,
                        unsigned indentation);
void table_free(struct table *table);

/* Adds the next cell. */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints all complete rows, if there is one, below the headings; columns with only empty cells are
 * left out. Errors of the stream must be checked by whoever closes it. */
void table_print(const struct table *table, FILE *stream);

/* ---- facts, as a table or as JSON ----
 *
 * The code that tells of something adds each fact once, and does not need to know which of the two
 * is printed. Facts are those of rows, one for each thing, whose values are in the order of the
 * columns, or of a sheet, which has a line for each fact of one thing. */

struct facts {
    struct json_writer *json; /* NULL: a table */
    struct table *table;      /* of a sheet: labels and values */
};

/* Adds a fact: its key in JSON; its label in a sheet, NULL in rows. A text that is NULL is null in
 * JSON. A size is rounded in a table; a sheet has the exact one, too. All texts are copied, but
 * keys and labels must be constants. */
void facts_text(struct facts *facts, const char *key, const char *label, const char *text);
void facts_number(struct facts *facts, const char *key, const char *label, uint64_t number);
void facts_size(struct facts *facts, const char *key, const char *label, uint64_t size);

/* Begins an array of objects with the key, or a table. */
void rows_begin(struct facts *rows, struct json_writer *json, const char *key,
                const struct table_column *columns, size_t column_count, unsigned indentation);

/* Begins and ends a row. */
void rows_begin_row(struct facts *rows);
void rows_end_row(struct facts *rows);

/* Ends the array, or prints the table. */
void rows_end(struct facts *rows);

/* ---- numbers ---- */

#define COUNT_TEXT_MAX 64

/* Writes "1,234,567" into text[COUNT_TEXT_MAX], or with a noun "1 byte", "1,234,567 bytes", and
 * returns it. For people: JSON has plain numbers. */
const char *number_text(uint64_t number, char *text);
const char *count_text(uint64_t count, const char *noun, char *text);

#define HUMAN_SIZE_MAX 24

/* Writes "512 B", "1.4 KiB", "5.0 GiB" into text[HUMAN_SIZE_MAX] and returns it. */
const char *human_size(uint64_t size, char *text);

#endif
