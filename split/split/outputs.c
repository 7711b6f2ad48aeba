/*
 * Writing and checking the two outputs of a split: see outputs.h.
 */
#include "split/split/outputs.h"

#include <string.h>

#include "common/base/file.h"
#include "common/codec/zstd.h"
#include "common/edit/apply.h"
#include "common/edit/inverse.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"
#include "common/sidecar/write.h"
#include "split/split/report.h"

/* Compressing a byte takes about as long as copying this many bytes. */
#define COMPRESSION_WEIGHT 20

/* ---- the stripped image ---- */

/* The image is copied once, and the stripped image is read twice to check it. */
static void start_progress(struct slice_split *split)
{
    uint64_t work = split->image.bytes.size + 2 * edit_script_result_size(&split->plan->edits);

    for (size_t i = 0; i < split->plan->range_count; i++)
        work += COMPRESSION_WEIGHT * split->plan->ranges[i].size;
    if (split->job->report->shows_progress)
        progress_start(&split->job->progress, split->image.path, work);
    split->image.released = progress_add;
    split->image.released_context = &split->job->progress;
}

bool outputs_write_stripped(struct slice_split *split, struct error *error)
{
    struct sidecar_facts *facts = &split->plan->facts;

    start_progress(split);
    if (!edit_script_apply(&split->plan->edits, &split->image, &split->stripped,
                           &facts->original_digest, &facts->stripped_digest, error))
        return false;
    output_start_sync(&split->stripped);
    facts->original_size = split->image.bytes.size;
    facts->stripped_size = split->stripped.size;
    return true;
}

/* ---- the sidecar ---- */

/* Without the original, nobody needs the mapping as it was linked. */
static bool is_stored(const struct slice_split *split, const struct image_section *section)
{
    bool is_linked = image_plan_stored_kind(split->plan, section->kind) != section->kind;

    return section->kind == SECTION_COUNTERS || section->kind == SECTION_BITMAP ||
           section->copied ||
           (section->fate != FATE_STAYS && !(is_linked && split->plan->facts.is_inexact));
}

/* Lists the sections that are removed or copied, with their contents, and those of which only the
 * place is recorded. */
static size_t list_sections(const struct slice_split *split,
                            struct sidecar_section_source sources[SECTION_KIND_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < split->plan->section_count; i++) {
        const struct image_section *section = &split->plan->sections[i];
        struct sidecar_section_source *source = &sources[count];
        bool recorded = section->kind == SECTION_COUNTERS || section->kind == SECTION_BITMAP;

        if (!is_stored(split, section))
            continue;
        *source = (struct sidecar_section_source){
            .kind = image_plan_stored_kind(split->plan, section->kind),
            .address = section->address,
            .alignment = section->alignment,
            .size = section->size,
            .image_offset = section->offset,
            .copied = section->copied,
        };
        if (!recorded)
            bytes_slice(split->image.bytes, section->offset, section->size, &source->content);
        count++;
    }
    return count;
}

/* Adds the mapping that was made of packed units, with the addresses of what it was made of. */
static size_t add_made_mapping(struct slice_split *split,
                               struct sidecar_section_source sources[SECTION_KIND_MAX],
                               size_t count)
{
    static const enum section_kind kinds[] = {SECTION_COVMAP, SECTION_COVFUN};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct image_section *section = image_plan_section(split->plan, kinds[i]);
        const struct buffer *content = &split->made[kinds[i]];

        if (content->size == 0)
            continue;
        sources[count++] = (struct sidecar_section_source){
            .kind = kinds[i],
            .address = section == NULL ? 0 : section->address,
            .alignment = section == NULL ? COVERAGE_ALIGNMENT : section->alignment,
            .size = content->size,
            .content = buffer_view(content),
            .made = true,
        };
    }
    return count;
}

static bool make_mapping(struct slice_split *split, struct error *error)
{
    uint64_t limit = option_number(split->job->options, OPTION_MEMORY_LIMIT);

    return !split->plan->is_packed || !image_plan_removes(split->plan, SECTION_COVMAP) ||
           image_plan_unpack(split->plan, &split->image, limit, &split->made[SECTION_COVMAP],
                             &split->made[SECTION_COVFUN], error);
}

static size_t list_kept(const struct slice_split *split, struct kept_section kept[SECTION_KIND_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < split->plan->section_count; i++) {
        const struct image_section *section = &split->plan->sections[i];
        if (section->fate == FATE_STAYS && section->reason[0] != '\0')
            kept[count++] = (struct kept_section){section->kind, section->size, section->reason};
    }
    return count;
}

/* If data records stay in the image, the value that correlating subtracts from the first of them
 * depends on the original size of the names (tripwire_signature), so these must not change. */
static bool is_replaceable(enum section_kind kind, const struct sidecar_facts *facts)
{
    return kind == SECTION_COVNAMES || (kind == SECTION_NAMES && facts->has_stub);
}

/* With --no-exact, replaces each section of names by one that holds every name once, uncompressed.
 * Names that cannot be read stay as they are. `contents` are empty at first, indexed by kind, and
 * owned by the caller, who must free them after the memo, which points into them. */
static bool replace_names(struct sidecar_section_source *sections, size_t count,
                          const struct sidecar_facts *facts,
                          struct buffer contents[SECTION_KIND_MAX + 1], const char *image_path,
                          struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct sidecar_section_source *section = &sections[i];
        struct buffer *content = &contents[section->kind];
        struct names set = {0};
        bool done;

        if (!is_replaceable(section->kind, facts))
            continue;
        done = names_add_section(&set, section->content, 0, image_path, error);
        if (done && set.count != 0) {
            done = names_encode(&set, content) ||
                   error_out_of_memory(error, image_path, set.text.size);
            section->content = buffer_view(content);
            section->size = content->size;
        }
        names_free(&set);
        if (!done && error_is_of_memory(error))
            return false;
    }
    return true;
}

static struct sidecar_write_options write_options_of(const struct slice_split *split)
{
    const struct parsed_options *options = split->job->options;
    bool is_fast = option_given(options, OPTION_FAST);

    return (struct sidecar_write_options){
        .level = is_fast ? CODEC_LEVEL_MIN : (int)option_number(options, OPTION_LEVEL),
        .threads = split->job->threads,
        .portable = is_fast || option_given(options, OPTION_PORTABLE),
        .memo = split->memo,
    };
}

bool outputs_write_sidecar(struct slice_split *split, struct error *error)
{
    struct sidecar_section_source sections[SECTION_KIND_MAX];
    struct kept_section kept[SECTION_KIND_MAX];
    struct sidecar_write_options write_options = write_options_of(split);
    struct buffer inverse = {0};
    struct sidecar_source source = {
        .facts = split->plan->facts,
        .image_name = path_file_name(split->image.path),
        .sections = sections,
        .kept = kept,
        .kept_count = list_kept(split, kept),
        .image = &split->image,
    };
    bool done;

    if (!make_mapping(split, error))
        return false;
    source.section_count = add_made_mapping(split, sections, list_sections(split, sections));
    done = source.facts.is_inexact
               ? replace_names(sections, source.section_count, &source.facts, split->made,
                               split->image.path, error)
               : inverse_encode(&split->plan->edits, split->image.bytes, split->plan->ranges,
                                split->plan->range_count, split->image.path, &inverse, error);

    source.inverse = buffer_view(&inverse);
    split->job->progress.weight = COMPRESSION_WEIGHT;
    done = done && sidecar_write(&source, &write_options, &split->sidecar, error);
    buffer_free(&inverse);
    return done;
}

/* ---- the check before anything gets a name ---- */

static bool ignore_part(void *context, struct bytes part, struct error *error)
{
    (void)context;
    (void)part;
    (void)error;
    return true;
}

/* Whether joining does not read the section: a copy of one that stayed in the image, or the
 * mapping that was made of packed units. */
static bool is_for_reports(const struct sidecar *sidecar, const struct sidecar_section *section)
{
    bool is_mapping = section->kind == SECTION_COVMAP || section->kind == SECTION_COVFUN;

    return section->has_content &&
           (section->copied ||
            (is_mapping && sidecar_find(sidecar, SECTION_LINKED_COVMAP) != NULL));
}

static bool check_rest(const struct sidecar *sidecar, struct error *error)
{
    for (size_t i = 0; i < sidecar_section_count(sidecar); i++) {
        const struct sidecar_section *section = sidecar_section(sidecar, i);

        if (is_for_reports(sidecar, section) &&
            !sidecar_stream_section(sidecar, section, ignore_part, NULL, error))
            return false;
    }
    return true;
}

/* Joins the outputs: sidecar_restore_input checks that the result has the digest of the
 * original. */
static bool check_join(struct slice_split *split, struct sidecar *sidecar, struct error *error)
{
    struct input stripped = {.fd = -1};
    bool done = output_map(&split->stripped, &stripped, error);

    split->job->progress.weight = 1;
    stripped.released = progress_add;
    stripped.released_context = &split->job->progress;
    done = done && sidecar_restore_input(sidecar, &stripped, ignore_part, NULL, error) &&
           check_rest(sidecar, error);
    input_close(&stripped);
    return done;
}

/* Checks each output on its own, if the original cannot be restored from them. */
static bool check_each(struct slice_split *split, const struct sidecar *sidecar,
                       struct error *error)
{
    struct input stripped = {.fd = -1};
    struct digest digest;
    bool done =
        output_map(&split->stripped, &stripped, error) && input_digest(&stripped, &digest, error);

    if (done && !digest_equal(&digest, &split->plan->facts.stripped_digest))
        done = error_set(error, "%s: was changed while it was written; run again",
                         split->job->output_path);
    input_close(&stripped);
    return done && sidecar_verify(sidecar, error);
}

static void note_sizes(struct slice_split *split, const struct sidecar *sidecar)
{
    for (size_t i = 0; i < sidecar_section_count(sidecar); i++) {
        const struct sidecar_section *section = sidecar_section(sidecar, i);

        split->sizes[section->kind] = section->size;
        split->stored_sizes[section->kind] = section->stored_size;
    }
}

bool outputs_check_with(struct slice_split *split, struct sidecar *sidecar, struct error *error)
{
    note_sizes(split, sidecar);
    sidecar_help_restore(sidecar, split->job->threads, split->memo);
    return sidecar_facts(sidecar)->is_inexact && split->plan->facts.is_inexact
               ? check_each(split, sidecar, error)
               : check_join(split, sidecar, error);
}

static bool check_outputs(struct slice_split *split, struct error *error)
{
    struct input sidecar_file = {.fd = -1};
    struct sidecar *sidecar = NULL;
    bool done = output_map(&split->sidecar, &sidecar_file, error);

    if (done)
        sidecar = sidecar_open(sidecar_file.bytes, split->sidecar_path, error);
    if (sidecar != NULL)
        sidecar_limit_memory(sidecar, UINT64_MAX); /* its contents have been in memory before */
    done = sidecar != NULL && outputs_check_with(split, sidecar, error);
    /* If the image changed, what was read of it before and after does not fit together. */
    if (done || !error_is_of_memory(error))
        done = input_unchanged(&split->image, error) && done;
    sidecar_close(sidecar);
    input_close(&sidecar_file);
    return done;
}

bool outputs_make_sidecar(struct slice_split *split, struct error *error)
{
    if (!outputs_write_sidecar(split, error) || !check_outputs(split, error) ||
        !output_sync(&split->sidecar, error) || !output_sync(&split->stripped, error))
        return false;
    split->sidecar_size = split->sidecar.size;
    return true;
}
