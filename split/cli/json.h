/*
 * JSON output.
 *
 * A writer takes care of commas, line breaks and indentation; the caller only gives the values.
 * Inside an object each value has a key. Strings may contain any bytes: what is not valid UTF-8 is
 * replaced by U+FFFD, since JSON cannot represent it.
 */
#ifndef COVSPLIT_SPLIT_CLI_JSON_H
#define COVSPLIT_SPLIT_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/bytes.h"

/* Initialize to {.stream = ...}. Errors of the stream must be checked by whoever closes it. */
struct json_writer {
    FILE *stream;
    unsigned depth;   /* open arrays and objects */
    bool has_members; /* the innermost open one is not empty */
};

/* Keys are constants, which need no escaping. The key is NULL inside an array and at the top
 * level. */
void json_begin_object(struct json_writer *writer, const char *key);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer, const char *key);
void json_end_array(struct json_writer *writer);

void json_string(struct json_writer *writer, const char *key, const char *text);
/* Writes null for "" and NULL. */
void json_string_or_null(struct json_writer *writer, const char *key, const char *text);
void json_number(struct json_writer *writer, const char *key, uint64_t number);
/* Writes a fraction given in ten-thousandths: 822 as 0.0822. */
void json_fraction(struct json_writer *writer, const char *key, uint64_t ten_thousandths);
void json_boolean(struct json_writer *writer, const char *key, bool value);
void json_null(struct json_writer *writer, const char *key);

/* An array for --json: begins it at the top level if it is given, and ends it, which may be NULL.
 */
struct json_writer *json_begin_if(bool is_given, struct json_writer *writer);
void json_end_if(struct json_writer *writer);

/* Opens a stream that appends to the text, to write all of it later; closes it again. */
FILE *json_text_stream(struct buffer *text);
void json_close_text(FILE *stream, const struct buffer *text);

/* Adds the elements in such a text to an array at the top level. They were written with a depth of
 * 1. */
void json_add_text(struct json_writer *writer, struct bytes text);

#endif
