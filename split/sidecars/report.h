/*
 * What `covsplit show` says of one file: facts, and behind them a table of sections.
 *
 * Whoever describes something says each fact once, with a label for people and a key for JSON, and
 * does not know which of the two it is for. Nothing comes out before report_print, so that a
 * damaged file leaves no half description behind. Adding to a report cannot fail for the caller: a
 * failed allocation is remembered, and printing then returns false.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_REPORT_H
#define COVSPLIT_SPLIT_SIDECARS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "split/cli/json.h"
#include "split/cli/section_row.h"
#include "split/cli/table.h"

struct report {
    /* Text: two tables. */
    struct table *facts;
    struct table *sections;
    bool has_sections; /* one was added */
    /* JSON: an object, which goes to a text in memory first. */
    struct json_writer *json;  /* NULL: the report is text */
    struct json_writer before; /* as it was without this report */
    struct buffer text;
    /* The list that is being told. */
    const char *list_label;
    char list[ERROR_MESSAGE_MAX];
};

/* Starts a report on stdout: an object of the JSON, or text with that many blanks in front of each
 * line. False where there is no memory. Ended with report_end, also then. */
bool report_begin(struct report *report, struct json_writer *json, unsigned indentation);

/* Keys and labels are the program's own strings; all texts are copied. */
void report_text(struct report *report, const char *key, const char *label, const char *text);
/* null in JSON; the text says in words what is missing, or with NULL leaves the fact out. */
void report_none(struct report *report, const char *key, const char *label, const char *text);
void report_number(struct report *report, const char *key, const char *label, uint64_t number);
/* A number of bytes: in text also in a rounded form. */
void report_size(struct report *report, const char *key, const char *label, uint64_t size);
void report_boolean(struct report *report, const char *key, const char *label, bool value);

/* An array in JSON, words with ", " between in text. */
void report_list(struct report *report, const char *key, const char *label);
void report_list_word(struct report *report, const char *word);
void report_list_end(struct report *report);

/* The sections come behind all facts: an array of JSON that is there even if it is empty. */
void report_begin_sections(struct report *report);
void report_section(struct report *report, const struct section_row *section);
void report_end_sections(struct report *report);

/* Prints what there is. The object of the JSON is open until report_end, for more members. */
bool report_print(struct report *report);
void report_end(struct report *report);

#endif
