/*
 * Writing and checking the two outputs of a split, the stripped image and the sidecar.
 */
#include <string.h>

#include "common/base/file.h"
#include "common/codec/zstd.h"
#include "common/edit/edit.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"
#include "common/sidecar/sidecar.h"
#include "split/split/split.h"

/* Compressing a byte takes about as long as copying this many bytes. */
#define COMPRESSION_WEIGHT 20

/* ---- the stripped image ---- */

bool outputs_write_stripped(struct slice_split *split, struct error *error)
{
    struct sidecar_facts *facts = &split->plan->facts;
    /* The image is copied once, and the stripped image is read twice to check it. */
    uint64_t work = split->image.bytes.size + 2 * edit_script_result_size(&split->plan->edits);

    for (size_t i = 0; i < split->plan->section_count; i++) {
        if (section_goes(&split->plan->sections[i]))
            work += COMPRESSION_WEIGHT * split->plan->sections[i].size;
    }
    if (split->job->results->shows_progress)
        progress_start(&split->job->progress, split->image.path, work);
    split->image.released = progress_add;
    split->image.released_context = &split->job->progress;
    if (!edit_script_apply(&split->plan->edits, &split->image, &split->stripped,
                           &facts->original_digest, &facts->stripped_digest, error))
        return false;
    output_start_sync(&split->stripped);
    facts->original_size = split->image.bytes.size;
    facts->stripped_size = split->stripped.size;
    return true;
}

/* ---- the sidecar ---- */

/* Lists the sections that are removed or copied, with their contents, those of which only the place
 * is recorded, and the mapping that was made of packed units, with the addresses of what it was
 * made of. */
static size_t list_sections(const struct slice_split *split,
                            struct section sources[SECTION_KIND_MAX])
{
    struct image_plan *plan = split->plan;
    size_t count = 0;

    for (size_t i = 0; i < plan->section_count; i++) {
        const struct section *section = &plan->sections[i];
        enum section_kind kind = image_plan_stored_kind(plan, section->kind);
        bool is_recorded = section->kind == SECTION_COUNTERS || section->kind == SECTION_BITMAP;

        if (!is_recorded && section->fate == FATE_STAYS)
            continue;
        sources[count] = *section;
        sources[count].kind = kind;
        if (!is_recorded)
            bytes_slice(split->image.bytes, section->offset, section->size,
                        &sources[count].content);
        count++;
    }
    for (unsigned kind = SECTION_COVMAP; kind <= SECTION_COVFUN; kind++) {
        const struct section *section = image_plan_section(plan, (enum section_kind)kind);
        const struct buffer *content = &split->made[kind];

        if (content->size == 0)
            continue;
        sources[count++] = (struct section){
            .kind = (enum section_kind)kind,
            .address = section == NULL ? 0 : section->address,
            .alignment = section == NULL ? COVERAGE_ALIGNMENT : section->alignment,
            .size = content->size,
            .content = buffer_view(content),
        };
    }
    return count;
}

bool outputs_write_sidecar(struct slice_split *split, struct error *error)
{
    const struct parsed_options *options = split->job->options;
    struct image_plan *plan = split->plan;
    bool is_fast = option_given(options, OPTION_FAST);
    struct section sections[SECTION_KIND_MAX];
    struct sidecar_write_options write_options = {
        .level = is_fast ? CODEC_LEVEL_MIN : (int)option_number(options, OPTION_LEVEL),
        .threads = split->job->threads,
        .portable = is_fast || option_given(options, OPTION_PORTABLE),
        .proved = &split->proved,
    };
    struct sidecar_source source = {
        .facts = plan->facts,
        .image_name = path_file_name(split->image.path),
        .sections = sections,
        .kept = plan->sections,
        .kept_count = plan->section_count,
        .script = &plan->edits,
        .image = &split->image,
    };

    if (plan->is_packed && image_plan_removes(plan, SECTION_COVMAP) &&
        !image_plan_unpack(plan, &split->image, option_number(options, OPTION_MEMORY_LIMIT),
                           &split->made[SECTION_COVMAP], &split->made[SECTION_COVFUN], error))
        return false;
    source.section_count = list_sections(split, sections);
    split->proved.image = &split->image;
    split->job->progress.weight = COMPRESSION_WEIGHT;
    return sidecar_write(&source, &write_options, &split->sidecar, error);
}

/* ---- the check before anything gets a name ---- */

/* Decodes what joining does not read: copies of sections that stayed in the image, and the mapping
 * that was made of packed units. */
static bool check_rest(const struct sidecar *sidecar, struct error *error)
{
    bool is_made = sidecar_find(sidecar, SECTION_LINKED_COVMAP) != NULL;

    for (size_t i = 0; i < sidecar->section_count; i++) {
        const struct section *section = &sidecar->sections[i];
        bool is_mapping = section->kind == SECTION_COVMAP || section->kind == SECTION_COVFUN;

        if ((section->fate == FATE_COPIED || (is_mapping && is_made)) &&
            !sidecar_stream_section(sidecar, section, NULL, NULL, error))
            return false;
    }
    return true;
}

void outputs_note_sizes(struct slice_split *split, const struct sidecar *sidecar)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        const struct section *section = &sidecar->sections[i];

        split->sizes[section->kind] = section->size;
        split->stored_sizes[section->kind] = section->stored_size;
    }
}

bool outputs_check_with(struct slice_split *split, struct sidecar *sidecar, struct error *error)
{
    struct input stripped = {.fd = -1};
    bool done;

    outputs_note_sizes(split, sidecar);
    sidecar_help_restore(sidecar, split->job->threads, &split->proved);
    split->job->progress.weight = 1;
    done = output_map(&split->stripped, &stripped, error);
    stripped.released = progress_add;
    stripped.released_context = &split->job->progress;
    /* This compares the digest of what comes out with that of the original. */
    done = done && sidecar_restore(sidecar, &stripped, NULL, NULL, error) &&
           check_rest(sidecar, error);
    input_close(&stripped);
    return done;
}

bool outputs_make_sidecar(struct slice_split *split, struct error *error)
{
    struct sidecar *sidecar;
    bool done;

    if (!outputs_write_sidecar(split, error))
        return false;
    sidecar = sidecar_read_back(&split->sidecar, error);
    done = sidecar != NULL && outputs_check_with(split, sidecar, error);
    /* If the image changed, what was read of it before and after does not fit together. */
    if (done || !error_is_of_memory(error))
        done = input_unchanged(&split->image, error) && done;
    sidecar_close(sidecar);
    if (!done || !output_sync(&split->sidecar, error) || !output_sync(&split->stripped, error))
        return false;
    split->sidecar_size = split->sidecar.size;
    return true;
}
