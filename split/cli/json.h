/*
 * JSON output.
 *
 * A writer puts commas, line breaks and indentation where they belong; the caller says what comes.
 * Inside an object each value has a key. Strings may be any bytes: what is not valid
 * UTF-8 is replaced by U+FFFD, since JSON has no other way to carry it.
 */
#ifndef COVSPLIT_SPLIT_CLI_JSON_H
#define COVSPLIT_SPLIT_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/bytes.h"

/* Start from {.stream = ...}. Errors of the stream are left to whoever closes it. */
struct json_writer {
    FILE *stream;
    unsigned depth;   /* open arrays and objects */
    bool has_members; /* the innermost open one is not empty */
};

/* Keys are the program's own, and are written as they are. NULL: inside of an array, or of nothing.
 */
void json_begin_object(struct json_writer *writer, const char *key);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer, const char *key);
void json_end_array(struct json_writer *writer);

void json_string(struct json_writer *writer, const char *key, const char *text);
/* null for "" and NULL. */
void json_string_or_null(struct json_writer *writer, const char *key, const char *text);
void json_number(struct json_writer *writer, const char *key, uint64_t number);
/* A fraction given in ten-thousandths: 822 is written as 0.0822. */
void json_fraction(struct json_writer *writer, const char *key, uint64_t ten_thousandths);
void json_boolean(struct json_writer *writer, const char *key, bool value);
void json_null(struct json_writer *writer, const char *key);

/* A stream that appends to the text, for what is to be written later as a whole. Writing to it
 * fails where there is no memory, which open_memstream(3) would not tell. NULL: no memory. */
FILE *json_text_stream(struct buffer *text);

/* Elements of an array that is written later: the writer gets a stream of its own, which adds to
 * the text. False where there is no memory, then or at the end. */
bool json_begin_text(struct json_writer *writer, struct buffer *text);
bool json_end_text(struct json_writer *writer);

/* Puts the elements of such a text into an array that is not inside of anything else. */
void json_add_text(struct json_writer *writer, struct bytes text);

#endif
