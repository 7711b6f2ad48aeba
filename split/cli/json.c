/*
 * JSON (RFC 8259): see json.h.
 */
#include "split/cli/json.h"

#include <inttypes.h>
#include <stddef.h>

#include "common/base/error.h"
#include "split/cli/memory.h"

#define INDENTATION 2

static void start_line(struct json_writer *writer)
{
    fprintf(writer->stream, "\n%*s", (int)(writer->depth * INDENTATION), "");
}

/* Writes what separates the next value from the previous one, and its key. */
static void start_value(struct json_writer *writer, const char *key)
{
    if (writer->has_members)
        putc(',', writer->stream);
    if (writer->depth != 0)
        start_line(writer);
    if (key != NULL)
        fprintf(writer->stream, "\"%s\": ", key);
    writer->has_members = true;
}

static void begin(struct json_writer *writer, const char *key, char bracket)
{
    start_value(writer, key);
    putc(bracket, writer->stream);
    writer->depth++;
    writer->has_members = false;
}

static void end(struct json_writer *writer, char bracket)
{
    writer->depth--;
    if (writer->has_members)
        start_line(writer);
    putc(bracket, writer->stream);
    if (writer->depth == 0)
        putc('\n', writer->stream);
    writer->has_members = true;
}

void json_begin_object(struct json_writer *writer, const char *key)
{
    begin(writer, key, '{');
}

void json_end_object(struct json_writer *writer)
{
    end(writer, '}');
}

void json_begin_array(struct json_writer *writer, const char *key)
{
    begin(writer, key, '[');
}

void json_end_array(struct json_writer *writer)
{
    end(writer, ']');
}

/* ---- strings ---- */

/* Control characters are escaped, as two units of UTF-16 above U+FFFF, since JSON is read on
 * terminals too. */
static void write_character(FILE *stream, const char *text, size_t length, uint32_t character)
{
    if (character == '"' || character == '\\')
        fprintf(stream, "\\%c", *text);
    else if (!utf8_is_control(character))
        fwrite(text, 1, length, stream);
    else if (character < 0x10000)
        fprintf(stream, "\\u%04" PRIx32, character);
    else
        fprintf(stream, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (character >> 10),
                0xdc00 + (character & 0x3ff));
}

void json_string(struct json_writer *writer, const char *key, const char *text)
{
    start_value(writer, key);
    putc('"', writer->stream);
    while (*text != '\0') {
        const char *start = text;
        uint32_t character;

        if (utf8_take(&text, &character))
            write_character(writer->stream, start, (size_t)(text - start), character);
        else
            fputs("\xef\xbf\xbd", writer->stream);
    }
    putc('"', writer->stream);
}

void json_string_or_null(struct json_writer *writer, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0')
        json_string(writer, key, text);
    else
        json_null(writer, key);
}

/* ---- other values ---- */

void json_number(struct json_writer *writer, const char *key, uint64_t number)
{
    start_value(writer, key);
    fprintf(writer->stream, "%" PRIu64, number);
}

void json_fraction(struct json_writer *writer, const char *key, uint64_t ten_thousandths)
{
    start_value(writer, key);
    fprintf(writer->stream, "%" PRIu64 ".%04" PRIu64, ten_thousandths / 10000,
            ten_thousandths % 10000);
}

void json_boolean(struct json_writer *writer, const char *key, bool value)
{
    start_value(writer, key);
    fputs(value ? "true" : "false", writer->stream);
}

void json_null(struct json_writer *writer, const char *key)
{
    start_value(writer, key);
    fputs("null", writer->stream);
}

struct json_writer *json_begin_if(bool is_given, struct json_writer *writer)
{
    if (!is_given)
        return NULL;
    *writer = (struct json_writer){.stream = stdout};
    json_begin_array(writer, NULL);
    return writer;
}

void json_end_if(struct json_writer *writer)
{
    if (writer != NULL)
        json_end_array(writer);
}

/* ---- text for later ---- */

static ssize_t append_text(void *context, const char *text, size_t size)
{
    buffer_append(context, text, size);
    return (ssize_t)size;
}

/* Not open_memstream(3), which would not report that memory was lacking. */
FILE *json_text_stream(struct buffer *text)
{
    FILE *stream = fopencookie(text, "w", (cookie_io_functions_t){.write = append_text});

    exit_unless_allocated(stream != NULL, BUFSIZ);
    return stream;
}

void json_close_text(FILE *stream, const struct buffer *text)
{
    fclose(stream);
    exit_unless_allocated(!text->failed, text->size);
}

void json_add_text(struct json_writer *writer, struct bytes text)
{
    if (text.size == 0)
        return;
    if (writer->has_members)
        putc(',', writer->stream);
    fwrite(text.data, 1, (size_t)text.size, writer->stream);
    writer->has_members = true;
}
