/*
 * What a split says, and has done: printed at once, or kept for later (split/job.h).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "split/cli/message.h"
#include "split/split/job.h"

void split_warn(const struct split *split, const char *format, ...)
{
    struct error line;
    va_list arguments;

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    /* Without memory for later, now is better than never. */
    if (split->report == NULL || !buffer_reserve(&split->report->notes, strlen(line.message) + 1)) {
        message_warning("%s", line.message);
        return;
    }
    buffer_append(&split->report->notes, line.message, strlen(line.message));
    buffer_append(&split->report->notes, "\n", 1);
}

bool split_prepare_to_tell(struct split *split, struct error *error)
{
    if (split->report == NULL)
        return true;
    split->row_name = strdup(split->image_path);
    return split->row_name != NULL ||
           error_out_of_memory(error, split->image_path, strlen(split->image_path));
}

/* Takes over the two texts. */
static void add_row(struct split *split)
{
    const struct sidecar_facts *facts = &split->plan->facts;
    struct split_row *row = &split->report->rows[split->report->row_count++];

    *row = (struct split_row){
        .name = split->row_name,
        .sidecar_path = split->sidecar_path,
        .uuid = facts->uuid,
        .size_before = facts->original_size,
        .size_after = facts->stripped_size,
        .sidecar_size = split->sidecar_size,
    };
    split->row_name = NULL;
    split->sidecar_path = NULL;
}

static void print_sizes(const char *name, uint64_t before, uint64_t after, uint64_t sidecar_size,
                        const char *sidecar_path)
{
    message_line(stdout, "%s: %" PRIu64 " bytes before, %" PRIu64 " after; %" PRIu64 " in %s", name,
                 before, after, sidecar_size, sidecar_path);
}

void split_tell(struct split *split, const char *name)
{
    const struct sidecar_facts *facts = &split->plan->facts;

    if (split->report != NULL)
        add_row(split);
    else if (option_given(split->options, OPTION_VERBOSE))
        print_sizes(name, facts->original_size, facts->stripped_size, split->sidecar_size,
                    split->sidecar_path);
}

void split_report_print_rows(const struct split_report *report)
{
    for (size_t i = 0; i < report->row_count; i++) {
        const struct split_row *row = &report->rows[i];

        print_sizes(row->name, row->size_before, row->size_after, row->sidecar_size,
                    row->sidecar_path);
    }
}

void split_report_print_notes(const struct split_report *report)
{
    struct bytes rest = buffer_view(&report->notes);

    while (rest.size != 0) {
        const uint8_t *newline = memchr(rest.data, '\n', (size_t)rest.size);
        uint64_t length = (uint64_t)(newline - rest.data);

        message_warning("%.*s", (int)length, (const char *)rest.data);
        bytes_slice(rest, length + 1, rest.size - length - 1, &rest);
    }
}

void split_report_free(struct split_report *report)
{
    for (size_t i = 0; i < report->row_count; i++) {
        free(report->rows[i].name);
        free(report->rows[i].sidecar_path);
    }
    buffer_free(&report->notes);
}
