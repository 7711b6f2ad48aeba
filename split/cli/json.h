/*
 * JSON output.
 *
 * A writer puts commas, line breaks and indentation where they belong; the caller says what comes.
 * Inside an object each value is preceded by its key. Strings may be any bytes: what is not valid
 * UTF-8 is replaced by U+FFFD, since JSON has no other way to carry it.
 */
#ifndef COVSPLIT_SPLIT_CLI_JSON_H
#define COVSPLIT_SPLIT_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Start from {.stream = ...}. Errors of the stream are left to whoever closes it. */
struct json_writer {
    FILE *stream;
    unsigned depth;   /* open arrays and objects */
    bool has_members; /* the innermost open one is not empty */
    bool after_key;   /* the next value belongs behind a key */
};

void json_begin_object(struct json_writer *writer);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer);
void json_end_array(struct json_writer *writer);

/* Keys are the program's own: they are written as they are. */
void json_key(struct json_writer *writer, const char *key);

void json_string(struct json_writer *writer, const char *text);
void json_number(struct json_writer *writer, uint64_t number);
/* A fraction given in ten-thousandths: 822 is written as 0.0822. */
void json_fraction(struct json_writer *writer, uint64_t ten_thousandths);
void json_boolean(struct json_writer *writer, bool value);
void json_null(struct json_writer *writer);

#endif
