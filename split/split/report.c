/*
 * What a split says, and has done: see report.h.
 */
#include "split/split/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/profile.h"
#include "split/cli/message.h"

void split_warn(const struct split_job *job, const char *format, ...)
{
    struct error line;
    va_list arguments;

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    /* Without memory for later, now is better than never. */
    if (!buffer_reserve(&job->report->notes, strlen(line.message) + 1)) {
        message_warning("%s", line.message);
        return;
    }
    buffer_append(&job->report->notes, line.message, strlen(line.message));
    buffer_append(&job->report->notes, "\n", 1);
}

static const char *fate_name(enum section_fate fate)
{
    return fate == FATE_STAYS    ? "stays"
           : fate == FATE_ZEROED ? "is filled with zeros"
                                 : "is cut in part";
}

/* With -profile-correlate=debug-info there is neither data nor names. IR PGO says so, clang does
 * not; Windows has no such thing, and linkers for it merge sections. */
static bool is_for_debug_info(const struct image_plan *plan)
{
    unsigned found = 0;

    for (size_t i = 0; i < plan->section_count; i++)
        found |= SECTION_BIT(plan->sections[i].kind);
    return (plan->facts.raw_version & PROFILE_VARIANT_DEBUG_INFO) != 0 ||
           (plan->facts.format != IMAGE_COFF && plan->facts.raw_version != 0 &&
            (found & SECTION_BIT(SECTION_COUNTERS)) != 0 &&
            (found & (SECTION_BIT(SECTION_DATA) | SECTION_BIT(SECTION_NAMES) |
                      SECTION_BIT(SECTION_COVDATA) | SECTION_BIT(SECTION_COVNAMES))) == 0);
}

/* Why an image has nothing that could go. */
static const char *nothing_because(const struct image_plan *plan)
{
    bool has_some = false, has_reason = false;

    for (size_t i = 0; i < plan->section_count; i++) {
        const struct image_section *section = &plan->sections[i];

        has_some |= (SECTION_BIT(section->kind) & SECTION_REMOVABLE) != 0;
        has_reason |= section->reason[0] != '\0';
    }
    return !has_some ? "no coverage data in it; compile and link it with -fprofile-instr-generate "
                       "-fcoverage-mapping (rustc: -C instrument-coverage)"
           : has_reason ? "all of its coverage data stays, for the reasons above"
                        : "none of its coverage data is in --sections; name others, or none";
}

void split_warn_of_sections(const struct slice_split *split)
{
    size_t removed = 0;

    for (size_t i = 0; i < split->plan->section_count; i++) {
        const struct image_section *section = &split->plan->sections[i];

        if (section->fate != FATE_STAYS)
            removed++;
        if (section->reason[0] != '\0')
            split_warn(split->job, "%s: %s %s: %s", split->image.path, section->name,
                       fate_name(section->fate), section->reason);
    }
    if (is_for_debug_info(split->plan))
        split_warn(
            split->job,
            "%s: %sthe image was built with -profile-correlate=debug-info: data and names are "
            "in its debug information; merge its profiles with 'llvm-profdata merge "
            "--debug-info=%s'",
            split->image.path, removed == 0 ? "nothing to take out: " : "",
            split->job->output_path);
    else if (removed == 0 && !split->plan->already_split)
        split_warn(split->job, "%s: nothing to take out: %s", split->image.path,
                   nothing_because(split->plan));
}

/* Takes over the two texts. */
void split_add_row(struct slice_split *split)
{
    const struct sidecar_facts *facts = &split->plan->facts;
    struct split_row *row = &split->job->report->rows[split->job->report->row_count++];

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

void split_report_print_rows(const struct split_report *report)
{
    for (size_t i = 0; i < report->row_count; i++) {
        const struct split_row *row = &report->rows[i];

        if (row->sidecar_path == NULL) {
            message_line(stdout, "%s: nothing to split", row->name);
            continue;
        }
        message_line(stdout, "%s: %" PRIu64 " bytes before, %" PRIu64 " after; %" PRIu64 " in %s",
                     row->name, row->size_before, row->size_after, row->sidecar_size,
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
