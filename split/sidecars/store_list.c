/*
 * covsplit store list: lists the sidecars of a store.
 *
 * Keys of the JSON objects that come from the sidecar are those of `covsplit show --json`, with the
 * same meaning. Only headers and notes are read.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/file.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/machine_names.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/selection.h"

struct listing {
    struct json_writer *writer; /* NULL: a table */
    struct table *table;
    struct selection selection;
    uint64_t count;
    uint64_t original_size; /* bytes; sum of all sidecars */
    uint64_t stripped_size;
    uint64_t sidecar_size;
    bool has_failed; /* some sidecar cannot be read, or a pattern matches none */
};

#define DATE_MAX 32

/* Writes "2026-11-21T01:13:11Z" into text[DATE_MAX] and returns it. */
static const char *format_date(time_t moment, char *text)
{
    struct tm parts;

    if (gmtime_r(&moment, &parts) == NULL ||
        strftime(text, DATE_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
    return text;
}

static void add_json(struct json_writer *writer, const struct sidecar *sidecar,
                     const struct input *input, const char *uuid)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar);
    char machine[MACHINE_TEXT_MAX], date[DATE_MAX];

    json_begin_object(writer, NULL);
    json_string(writer, "file", input->path);
    json_string(writer, "uuid", uuid);
    json_string(writer, "image_name", sidecar_image_name(sidecar));
    json_string(writer, "format", image_format_name(facts->format));
    json_string(writer, "machine", machine_text(facts, machine));
    json_string(writer, "modified", format_date(input->status.st_mtime, date));
    json_number(writer, "original_size", facts->original_size);
    json_number(writer, "stripped_size", facts->stripped_size);
    json_number(writer, "file_size", input->bytes.size);
    json_end_object(writer);
}

static void add_row(struct table *table, const struct sidecar *sidecar, const struct input *input,
                    const char *uuid)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar);
    char machine[MACHINE_TEXT_MAX], date[DATE_MAX], size[HUMAN_SIZE_MAX];

    table_cell(table, "%s", uuid);
    table_cell(table, "%s", sidecar_image_name(sidecar));
    table_cell(table, "%s", image_format_name(facts->format));
    table_cell(table, "%s", machine_text(facts, machine));
    table_cell(table, "%s", format_date(input->status.st_mtime, date));
    table_cell(table, "%s", human_size(facts->original_size, size));
    table_cell(table, "%s", human_size(facts->stripped_size, size));
    table_cell(table, "%s", human_size(input->bytes.size, size));
}

static void add_sidecar(struct listing *listing, const struct sidecar *sidecar,
                        const struct input *input, const struct uuid *uuid)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar);
    char hex[UUID_HEX_MAX];

    uuid_format(uuid, hex);
    if (listing->writer != NULL)
        add_json(listing->writer, sidecar, input, hex);
    else
        add_row(listing->table, sidecar, input, hex);
    listing->count++;
    listing->original_size += facts->original_size;
    listing->stripped_size += facts->stripped_size;
    listing->sidecar_size += input->bytes.size;
}

static bool list_sidecar(void *context, const char *path, const struct uuid *uuid,
                         struct error *error)
{
    struct listing *listing = context;
    struct sidecar *sidecar = NULL;
    struct input input;
    struct error fault;
    struct stat status;

    (void)error;
    if (input_open(&input, path, &fault))
        sidecar = sidecar_open(input.bytes, path, &fault);
    else if (lstat(path, &status) != 0 && errno == ENOENT)
        return true; /* removed meanwhile */
    if (sidecar != NULL) {
        if (selection_has(&listing->selection, uuid, sidecar_image_name(sidecar)))
            add_sidecar(listing, sidecar, &input, uuid);
    } else {
        message_error(&fault);
        listing->has_failed = true;
    }
    sidecar_close(sidecar);
    input_close(&input);
    return true;
}

/* The totals are computed from exact sizes; those in the table are rounded. */
static void print_table(const struct listing *listing)
{
    char original[HUMAN_SIZE_MAX], stripped[HUMAN_SIZE_MAX], sidecars[HUMAN_SIZE_MAX];
    char count[COUNT_TEXT_MAX];

    table_print(listing->table, stdout);
    printf(
        "%s of %s; images of %s before, %s after\n", count_text(listing->count, "sidecar", count),
        human_size(listing->sidecar_size, sidecars), human_size(listing->original_size, original),
        human_size(listing->stripped_size, stripped));
}

static bool list_store(struct listing *listing, const char *directory, struct error *error)
{
    bool done;

    if (listing->writer != NULL)
        json_begin_array(listing->writer, NULL);
    done = store_walk(directory, list_sidecar, listing, error);
    if (listing->writer != NULL)
        json_end_array(listing->writer);
    else if (done)
        print_table(listing);
    return done;
}

int command_store_list(const struct parsed_options *options)
{
    static const struct table_column columns[] = {
        {"UUID", TABLE_LEFT},      {"image", TABLE_LEFT},    {"format", TABLE_LEFT},
        {"machine", TABLE_LEFT},   {"added", TABLE_LEFT},    {"original", TABLE_RIGHT},
        {"stripped", TABLE_RIGHT}, {"sidecar", TABLE_RIGHT},
    };
    struct json_writer json = {.stream = stdout};
    struct listing listing = {
        .writer = option_given(options, OPTION_JSON) ? &json : NULL,
        .table = table_new(columns, sizeof(columns) / sizeof(columns[0]), 0),
    };
    const char *directory = options->operands[0];
    struct error error;
    bool done = selection_open(&listing.selection, options->operands + 1,
                               options->operand_count - 1, &error) &&
                list_store(&listing, directory, &error);

    if (!done)
        message_error(&error);
    else if (!listing.has_failed &&
             selection_report_unused(&listing.selection, directory, true) != 0)
        listing.has_failed = true;
    selection_close(&listing.selection);
    table_free(listing.table);
    return done && !listing.has_failed ? STATUS_DONE : STATUS_FAILED;
}
