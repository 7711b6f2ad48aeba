/*
 * What `covsplit show` says of one file: a list of facts and a table of sections.
 *
 * A report is filled in once and printed as text or as JSON, so both always say the same. Facts
 * have a label for people and a key for JSON. Adding to a report cannot fail for the caller: a
 * failed allocation is remembered, and printing then returns false.
 */
#ifndef COVSPLIT_SPLIT_CLI_REPORT_H
#define COVSPLIT_SPLIT_CLI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "split/cli/json.h"

/* Start from {0}; free with report_free. */
struct report {
    struct buffer facts;    /* struct fact */
    struct buffer sections; /* struct section_row */
    bool failed;
};

/* A number that may be unknown or without meaning: null in JSON, empty in text. */
struct report_number {
    bool known;
    uint64_t value;
};

#define REPORT_UNKNOWN ((struct report_number){false, 0})

static inline struct report_number report_known(uint64_t value)
{
    return (struct report_number){true, value};
}

/* Keys and labels are the program's own strings and are not copied; texts are. */
void report_text(struct report *report, const char *key, const char *label, const char *text);
/* null in JSON; the text says in words what is missing, or with NULL leaves the fact out. */
void report_none(struct report *report, const char *key, const char *label, const char *text);
void report_number(struct report *report, const char *key, const char *label, uint64_t number);
/* A number of bytes: in text also in a rounded form. */
void report_size(struct report *report, const char *key, const char *label, uint64_t size);
void report_boolean(struct report *report, const char *key, const char *label, bool value);

/* An array in JSON, words with ", " between in text. Begin it, then add its words. */
void report_list(struct report *report, const char *key, const char *label);
void report_list_word(struct report *report, const char *word);

struct report_section {
    const char *name; /* copied */
    const char *kind; /* a word of section.h */
    struct report_number address;
    struct report_number size;
    struct report_number stored_size;
    const char *status; /* one of the words in show's --help; not copied */
    const char *reason; /* copied; "" for none */
};

void report_section(struct report *report, const struct report_section *section);

/* Text: facts as "label  value" lines, then the sections. */
bool report_print_text(const struct report *report, unsigned indentation, FILE *stream);
/* JSON: the members of the object that the caller has begun. "sections" is the last one, and is
 * only there if the report has some or `always_sections` is set. */
bool report_print_json(const struct report *report, bool always_sections,
                       struct json_writer *writer);

void report_free(struct report *report);

#endif
