/*
 * The messages of a split, and its results as lines and as JSON.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/profile.h"
#include "split/cli/images.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/split/split.h"

static unsigned kinds_of(const struct image_plan *plan)
{
    unsigned found = 0;

    for (size_t i = 0; i < plan->section_count; i++)
        found |= SECTION_BIT(plan->sections[i].kind);
    return found;
}

/* With -profile-correlate=debug-info an image has neither data nor names. IR PGO marks such images
 * in the version, clang does not. This does not exist on Windows, where linkers also merge
 * sections. */
static bool is_for_debug_info(const struct image_plan *plan)
{
    unsigned found = kinds_of(plan);

    return (plan->facts.raw_version & PROFILE_VARIANT_DEBUG_INFO) != 0 ||
           (plan->facts.format != IMAGE_COFF && plan->facts.raw_version != 0 &&
            (found & SECTION_BIT(SECTION_COUNTERS)) != 0 &&
            (found & (SECTION_BIT(SECTION_DATA) | SECTION_BIT(SECTION_NAMES) |
                      SECTION_BIT(SECTION_COVDATA) | SECTION_BIT(SECTION_COVNAMES))) == 0);
}

/* True if reports will lack the image, although it counts: it was instrumented without coverage
 * mapping, or a linker of Windows images has removed that. IR PGO has none by design. */
static bool lacks_mapping(const struct image_plan *plan)
{
    bool counts = false, is_mapped = false;

    for (size_t i = 0; i < plan->section_count; i++) {
        enum section_kind kind = plan->sections[i].kind;

        if (plan->sections[i].size == 0)
            continue;
        is_mapped |= kind == SECTION_COVMAP || kind == SECTION_COVFUN;
        counts |= kind == SECTION_COUNTERS || kind == SECTION_DATA;
    }
    return counts && !is_mapped && plan->facts.raw_version != 0 &&
           (plan->facts.raw_version & PROFILE_VARIANT_IR) == 0 && !is_for_debug_info(plan) &&
           (kinds_of(plan) & SECTION_BIT(SECTION_COVDATA)) == 0;
}

/* The reason that there is nothing to take out of an image. */
static const char *nothing_because(const struct image_plan *plan)
{
    bool has_some = false, has_reason = false;

    for (size_t i = 0; i < plan->section_count; i++) {
        const struct section *section = &plan->sections[i];

        has_some |= section->size != 0 && (SECTION_BIT(section->kind) & SECTION_REMOVABLE) != 0;
        has_reason |= section->reason[0] != '\0';
    }
    return !has_some ? "no coverage data in it; compile and link it with -fprofile-instr-generate "
                       "-fcoverage-mapping (rustc: -C instrument-coverage)"
           : has_reason ? "all of its coverage data stays, for the reasons above"
                        : "none of its coverage data is in --sections; name others, or none";
}

void split_warn_of_sections(const struct slice_split *split)
{
    /* Of COFF images, linkers merge the counters into other data, but not the records. */
    bool counts =
        (kinds_of(split->plan) & (SECTION_BIT(SECTION_COUNTERS) | SECTION_BIT(SECTION_DATA))) != 0;
    size_t removed = 0;

    for (size_t i = 0; i < split->plan->section_count; i++)
        removed += section_goes(&split->plan->sections[i]);
    for (size_t i = 0; i < split->plan->section_count; i++) {
        const struct section *section = &split->plan->sections[i];

        /* In the profiles of an image without counters, as of Rust's tests where there are none,
         * nothing is lost by names that stay. */
        if (section->reason[0] != '\0' &&
            (counts || removed == 0 || section->kind != SECTION_NAMES))
            notes_add(&split->job->results->notes, "%s: %s %s: %s", split->image.path,
                      section->name,
                      section->fate == FATE_ZEROED    ? "is filled with zeros"
                      : section->fate == FATE_REMOVED ? "is cut in part"
                                                      : "stays",
                      section->reason);
    }
    if (split->plan->facts.is_assumed)
        notes_add(&split->job->results->notes,
                  "%s: assumed to be unreferenced, as --assume-unreferenced says, although %s",
                  split->image.path, split->plan->assumed);
    if (lacks_mapping(split->plan))
        notes_add(&split->job->results->notes,
                  "%s: the image has no coverage mapping, so reports will lack it; compile it "
                  "with -fcoverage-mapping%s",
                  split->image.path,
                  split->plan->facts.format == IMAGE_COFF ? ", and link it without --gc-sections"
                                                          : "");
    if (is_for_debug_info(split->plan))
        notes_add(
            &split->job->results->notes,
            "%s: %sneither data nor names are in sections of their own: either the image was "
            "built with -profile-correlate=debug-info (then merge its profiles with "
            "'llvm-profdata merge --debug-info=%s'), or a linker script puts them into others",
            split->image.path, removed == 0 ? "nothing to take out: " : "",
            split->job->output_path);
    else if (removed == 0 && !split->plan->already_split)
        notes_add(&split->job->results->notes, "%s: nothing to take out: %s", split->image.path,
                  nothing_because(split->plan));
}

void split_warn_of_what_stays(const struct slice_split *split)
{
    bool has_reason = false;

    for (size_t i = 0; i < split->plan->section_count; i++)
        has_reason |= split->plan->sections[i].reason[0] != '\0';
    if (has_reason)
        split_warn_of_sections(split);
}

/* ---- rows ---- */

static void write_sections(const struct slice_split *split, struct json_writer *json)
{
    const struct image_plan *plan = split->plan;

    json_begin_array(json, "sections");
    for (size_t i = 0; i < plan->section_count; i++) {
        struct section_row row = section_row_of_image(plan, &plan->sections[i]);
        enum section_kind kind = image_plan_stored_kind(plan, plan->sections[i].kind);

        if (split->stored_sizes[kind] != 0)
            row.stored_size = split->stored_sizes[kind];
        section_row_write(&row, json);
    }
    /* In place of packed units the sidecar has the ordinary mapping. */
    for (unsigned kind = SECTION_COVMAP; plan->is_packed && kind <= SECTION_COVFUN; kind++) {
        struct section_row row =
            section_row_make((enum section_kind)kind, split->sizes[kind], "made");

        row.stored_size = split->stored_sizes[kind];
        if (split->stored_sizes[kind] != 0)
            section_row_write(&row, json);
    }
    json_end_array(json);
}

/* The keys are those of `covsplit show --json`. If the image was split before, only its present
 * size is known, and the UUID only if that split left it in the image. */
static void write_row(const struct slice_split *split, struct json_writer *json)
{
    const struct sidecar_facts *facts = &split->plan->facts;
    bool already_split = split->plan->already_split;
    char machine[MACHINE_TEXT_MAX], uuid[UUID_HEX_MAX];
    struct bytes notes = buffer_view(&split->job->results->notes);
    struct error line;

    json_begin_object(json, NULL);
    json_string(json, "file", split->image.path);
    json_string(json, "output", split->job->output_path);
    json_string_or_null(json, "sidecar", split->sidecar_path);
    json_string(json, "format", image_format_name(facts->format));
    json_string(json, "machine", machine_text(facts, machine));
    json_string_or_null(json, "uuid",
                        already_split && facts->uuid_source == UUID_FROM_DIGEST
                            ? NULL
                            : uuid_format(&facts->uuid, uuid));
    json_boolean(json, "already_split", already_split);
    if (already_split)
        json_null(json, "original_size");
    else
        json_number(json, "original_size", facts->original_size);
    json_number(json, "stripped_size", facts->stripped_size);
    if (split->sidecar_size == 0)
        json_null(json, "sidecar_size");
    else
        json_number(json, "sidecar_size", split->sidecar_size);
    json_number(json, "zeros_size", split->plan->zeros_size);
    write_sections(split, json);
    bytes_slice(notes, split->notes_begin, split->notes_end - split->notes_begin, &notes);
    json_begin_array(json, "warnings");
    while (notes_take(&notes, &line))
        json_string(json, NULL, line.message);
    json_end_array(json);
    json_end_object(json);
}

void split_describe(struct slice_split *split)
{
    struct json_writer json = {.depth = 1};

    if (option_given(split->job->options, OPTION_JSON)) {
        /* Some warning would not be in it. */
        exit_unless_allocated(!split->job->results->notes.failed, sizeof(struct error));
        json.stream = json_text_stream(&split->json);
        write_row(split, &json);
        json_close_text(json.stream, &split->json);
    }
}

void split_add_row(struct slice_split *split)
{
    const struct sidecar_facts *facts = &split->plan->facts;
    struct split_results *results = split->job->results;

    if (split->plan->already_split && !option_given(split->job->options, OPTION_JSON))
        return;
    results->rows[results->row_count++] = (struct split_row){
        .name = split->row_name,
        .sidecar_path = split->sidecar_path,
        .uuid = facts->uuid,
        .size_before = facts->original_size,
        .size_after = facts->stripped_size,
        .sidecar_size = split->sidecar_size,
        .load_end = split->plan->load_end,
        .load_end_after = split->plan->load_end_after,
        .json = split->json,
    };
    split->row_name = split->sidecar_path = NULL;
    split->json = (struct buffer){0};
}

void split_results_print(const struct split_results *results, FILE *stream)
{
    for (size_t i = 0; i < results->row_count; i++) {
        const struct split_row *row = &results->rows[i];
        char before[COUNT_TEXT_MAX], after[COUNT_TEXT_MAX], sidecar[COUNT_TEXT_MAX];
        uint64_t grown = row->size_after + row->sidecar_size - row->size_before;
        struct error note = {.number = 0};

        if (row->sidecar_path == NULL) {
            if (stream == stdout) /* on a terminal a warning says so */
                message_line(stream, "%s: nothing to split", row->name);
            continue;
        }
        if (row->load_end != 0)
            error_set(&note, "; flash ends at 0x%" PRIx64 ", before at 0x%" PRIx64,
                      row->load_end_after, row->load_end);
        else if (row->size_after + row->sidecar_size > row->size_before)
            error_set(&note, " (%s more in all, as sidecars of small images have)",
                      count_text(grown, "byte", before));
        message_line(stream, "%s: %s before, %s after; %s in %s%.400s", row->name,
                     count_text(row->size_before, "byte", before),
                     number_text(row->size_after, after), number_text(row->sidecar_size, sidecar),
                     row->sidecar_path, note.message);
    }
}

void split_results_print_json(const struct split_results *results, struct json_writer *json)
{
    for (size_t i = 0; i < results->row_count; i++)
        json_add_text(json, buffer_view(&results->rows[i].json));
}

void split_results_free(struct split_results *results)
{
    for (size_t i = 0; i < results->row_count; i++) {
        free(results->rows[i].name);
        free(results->rows[i].sidecar_path);
        buffer_free(&results->rows[i].json);
    }
    buffer_free(&results->notes);
}
