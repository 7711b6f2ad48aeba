/*
 * The parts of `covsplit show`. The opening comment of show.c lists the keys of its JSON.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SHOW_H
#define COVSPLIT_SPLIT_SIDECARS_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/profile_reader.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/images.h"
#include "split/cli/json.h"
#include "split/cli/options.h"
#include "split/cli/table.h"

/* ---- files: describe.c ---- */

/* The output of `show`, and its state. */
struct showing {
    struct json_writer *json; /* NULL: text */
    bool is_first;            /* nothing was printed yet */
    bool is_map;              /* --map: tell where the counters are */
    uint64_t limit;           /* --memory-limit */
    int status;
};

/* Prints the description of a file; nothing if it is damaged. */
bool describe_file(const struct input *input, struct showing *showing, struct error *error);

/* False, with an error, if no file that begins like this can be described. */
bool check_described(struct profile_stream *stream, const char *name, struct bytes so_far,
                     struct error *error);

/* ---- states: show_state.c ---- */

/* Prints the description of the state at `path`; after a failure, nothing. */
bool show_state(const char *path, struct profile_sidecars *sidecars, uint64_t memory_limit,
                struct json_writer *json, struct error *error);

/* ---- the output for one file: fact_sheet.c ----
 *
 * It is a list of facts, followed by a table of sections. Nothing is printed before sheet_print, so
 * that a damaged file does not leave half a description. */

struct fact_sheet {
    struct facts facts;
    /* Text. */
    struct table *sections;
    /* JSON: an object, which is first written to a text in memory. */
    FILE *stream;              /* where the text goes */
    struct json_writer before; /* the writer before this sheet */
    struct buffer text;
    /* The current list. */
    const char *list_label;
    char list[ERROR_MESSAGE_MAX];
};

/* Starts a sheet for stdout: a JSON object, or text with each line indented by two blanks. */
void sheet_begin(struct fact_sheet *sheet, struct json_writer *json);

/* Adds null to JSON; in text, says in words what is missing, or omits the fact if NULL. */
void sheet_none(struct fact_sheet *sheet, const char *key, const char *label, const char *text);
void sheet_boolean(struct fact_sheet *sheet, const char *key, const char *label, bool value);

/* Begins an array in JSON; in text, words separated by ", ". */
void sheet_list(struct fact_sheet *sheet, const char *key, const char *label);
void sheet_list_word(struct fact_sheet *sheet, const char *word);
void sheet_list_end(struct fact_sheet *sheet);

/* The sections come after all facts: in JSON an array, which is there even if it is empty. */
void sheet_begin_sections(struct fact_sheet *sheet);
void sheet_section(struct fact_sheet *sheet, const struct section_row *section);
void sheet_end_sections(struct fact_sheet *sheet);

/* Prints the sheet. The JSON object is open until sheet_end, for more members. Without a
 * sheet_print, sheet_end leaves no trace of it. */
void sheet_print(struct fact_sheet *sheet);
void sheet_end(struct fact_sheet *sheet);

#endif
