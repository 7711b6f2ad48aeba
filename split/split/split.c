/*
 * covsplit split: takes the coverage data out of an image.
 *
 * The format plans the edits; this file turns the plan into two outputs and makes sure that nothing
 * can be lost: both outputs are complete and checked (joining them in memory gives the original's
 * digest) before either gets its name, and the sidecar gets its name before the image does.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/codec/deflate/memo.h"
#include "common/edit/apply.h"
#include "common/edit/inverse.h"
#include "common/llvm/name_set.h"
#include "common/llvm/profile.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/cli/store_output.h"
#include "split/split/batch.h"
#include "split/split/existing.h"
#include "split/split/found_image.h"
#include "split/split/job.h"
#include "split/split/universal.h"

#define PERMISSION_BITS 07777

/* Compressing a byte takes about as long as copying so many. */
#define COMPRESSION_WEIGHT 20

/* ---- what was named on the command line ---- */

static bool check_map(const struct split *split, struct error *error)
{
    const char *map = option_text(split->options, OPTION_MAP);

    if (map == NULL ||
        (!paths_meet(map, split->sidecar_path) && !paths_meet(map, split->output_path)))
        return true;
    return error_set(error, "%s: is the map file, and would be replaced; give another output", map);
}

/* --sidecar, or the place in --store, or IMAGE.covsplit. */
static bool choose_sidecar_path(struct split *split, struct error *error)
{
    const char *path = option_text(split->options, OPTION_SIDECAR);
    const char *store = option_text(split->options, OPTION_STORE);

    if (path != NULL)
        split->sidecar_path = strdup(path);
    else if (store != NULL)
        split->sidecar_path = store_path(store, &split->plan->facts.uuid);
    else if (asprintf(&split->sidecar_path, "%s.covsplit", split->image_path) < 0)
        split->sidecar_path = NULL;
    if (split->sidecar_path == NULL)
        return error_out_of_memory(error, split->image_path, strlen(split->image_path));
    if (paths_meet(split->sidecar_path, split->image_path) ||
        (split->whole_path != NULL && paths_meet(split->sidecar_path, split->whole_path)) ||
        paths_meet(split->sidecar_path, split->output_path))
        return error_set(
            error, "%s: is the image, which the sidecar would replace; give another --sidecar",
            split->sidecar_path);
    return check_map(split, error);
}

bool split_is_for_store(const struct split *split)
{
    return option_text(split->options, OPTION_SIDECAR) == NULL &&
           option_text(split->options, OPTION_STORE) != NULL;
}

/* The UUID by which a store is searched must be in the stripped image. */
static bool check_uuid(const struct split *split, struct error *error)
{
    const struct sidecar_facts *facts = &split->plan->facts;

    if (!split_is_for_store(split) || facts->uuid_source == UUID_FROM_BUILD_ID || facts->has_stub)
        return true;
    return error_set(error,
                     "%s: the stripped image would not say by which UUID to find it in a store; "
                     "link with --build-id, or use --sidecar",
                     split->image_path);
}

/* ---- making the outputs ---- */

static bool create_outputs(struct split *split, struct error *error)
{
    struct output_options image_options = {
        .mode = split->image.status.st_mode & PERMISSION_BITS,
        .in_place = paths_meet(split->output_path, split->image_path) ? &split->image : NULL,
    };
    struct output_options sidecar_options = {.mode = file_new_mode()};

    return (split_is_for_store(split)
                ? store_output_create(&split->sidecar, split->sidecar_path, &sidecar_options, error)
                : output_create(&split->sidecar, split->sidecar_path, &sidecar_options, error)) &&
           output_create(&split->stripped, split->output_path, &image_options, error);
}

static bool write_stripped(struct split *split, struct error *error)
{
    struct sidecar_facts *facts = &split->plan->facts;

    if (!edit_script_apply(&split->plan->edits, &split->image, &split->stripped,
                           &facts->original_digest, &facts->stripped_digest, error))
        return false;
    facts->original_size = split->image.bytes.size;
    facts->stripped_size = split->stripped.size;
    return true;
}

/* The sections that go or are copied, with contents, and those of which only the place is recorded.
 */
static size_t list_sections(const struct split *split,
                            struct sidecar_section_source sources[SECTION_KIND_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < split->plan->section_count; i++) {
        const struct image_section *section = &split->plan->sections[i];
        struct sidecar_section_source *source = &sources[count];
        bool recorded = section->kind == SECTION_COUNTERS || section->kind == SECTION_BITMAP;

        if (section->fate == FATE_STAYS && !recorded && !section->copied)
            continue;
        *source = (struct sidecar_section_source){
            .kind = section->kind,
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

static size_t list_kept(const struct split *split, struct kept_section kept[SECTION_KIND_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < split->plan->section_count; i++) {
        const struct image_section *section = &split->plan->sections[i];
        if (section->fate == FATE_STAYS && section->reason[0] != '\0')
            kept[count++] = (struct kept_section){section->kind, section->size, section->reason};
    }
    return count;
}

/* What correlating takes off the first one of records that stay depends on the size that the names
 * had (tripwire_signature). */
static bool is_replaceable(enum section_kind kind, const struct sidecar_facts *facts)
{
    return kind == SECTION_COVNAMES || (kind == SECTION_NAMES && facts->has_stub);
}

/* With --no-exact: each section of names becomes one that holds every name once, not compressed.
 * Names that cannot be read stay as they are. `contents` are by kind, empty, and the caller's to
 * free: not before the memo, which views them. */
static bool replace_names(struct sidecar_section_source *sections, size_t count,
                          const struct sidecar_facts *facts,
                          struct buffer contents[SECTION_KIND_MAX + 1], const char *image_path,
                          struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct sidecar_section_source *section = &sections[i];
        struct buffer *content = &contents[section->kind];
        struct name_set set = {0};
        bool done;

        if (!is_replaceable(section->kind, facts))
            continue;
        done = name_set_read(&set, section->content, image_path, error);
        if (done && set.count != 0) {
            done = name_set_encode(&set, content) ||
                   error_out_of_memory(error, image_path, set.text.size);
            section->content = buffer_view(content);
            section->size = content->size;
        }
        name_set_free(&set);
        if (!done && error_is_of_memory(error))
            return false;
    }
    return true;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static bool write_sidecar(struct split *split, struct error *error)
{
    struct sidecar_section_source sections[SECTION_KIND_MAX];
    struct kept_section kept[SECTION_KIND_MAX];
    struct sidecar_write_options write_options = {
        .level = (int)option_number(split->options, OPTION_LEVEL),
        .threads = split->threads,
        .portable = option_given(split->options, OPTION_PORTABLE),
        .memo = split->memo,
    };
    struct buffer inverse = {0};
    struct sidecar_source source = {
        .facts = split->plan->facts,
        .image_name = name_of(split->image_path),
        .sections = sections,
        .section_count = list_sections(split, sections),
        .kept = kept,
        .kept_count = list_kept(split, kept),
        .image = &split->image,
    };
    bool done = source.facts.is_inexact
                    ? replace_names(sections, source.section_count, &source.facts, split->names,
                                    split->image_path, error)
                    : inverse_encode(&split->plan->edits, split->image.bytes, split->plan->ranges,
                                     split->plan->range_count, split->image_path, &inverse, error);

    source.inverse = buffer_view(&inverse);
    split->progress.weight = COMPRESSION_WEIGHT;
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

/* Sections that stayed in the image are no part of what is joined. */
static bool check_copies(const struct sidecar *sidecar, struct error *error)
{
    for (size_t i = 0; i < sidecar_section_count(sidecar); i++) {
        const struct sidecar_section *section = sidecar_section(sidecar, i);

        if (section->copied && section->has_content &&
            !sidecar_stream_section(sidecar, section, ignore_part, NULL, error))
            return false;
    }
    return true;
}

/* Joins what was written: sidecar_restore_input checks that the result has the digest of the
 * original. */
static bool check_join(struct split *split, struct sidecar *sidecar, struct error *error)
{
    struct input stripped = {.fd = -1};
    bool done = output_map(&split->stripped, &stripped, error);

    split->progress.weight = 1;
    stripped.released = progress_add;
    stripped.released_context = &split->progress;
    done = done && sidecar_restore_input(sidecar, &stripped, ignore_part, NULL, error) &&
           check_copies(sidecar, error);
    input_close(&stripped);
    return done;
}

/* Where there is nothing to join: that both are what they were meant to be. */
static bool check_each(struct split *split, const struct sidecar *sidecar, struct error *error)
{
    struct input stripped = {.fd = -1};
    struct digest digest;
    bool done =
        output_map(&split->stripped, &stripped, error) && input_digest(&stripped, &digest, error);

    if (done && !digest_equal(&digest, &split->plan->facts.stripped_digest))
        done =
            error_set(error, "%s: was changed while it was written; run again", split->output_path);
    input_close(&stripped);
    return done && sidecar_verify(sidecar, error);
}

static bool check_with(struct split *split, struct sidecar *sidecar, struct error *error)
{
    sidecar_help_restore(sidecar, split->threads, split->memo);
    return sidecar_facts(sidecar)->is_inexact && split->plan->facts.is_inexact
               ? check_each(split, sidecar, error)
               : check_join(split, sidecar, error);
}

static bool check_outputs(struct split *split, struct error *error)
{
    struct input sidecar_file = {.fd = -1};
    struct sidecar *sidecar = NULL;
    bool done = output_map(&split->sidecar, &sidecar_file, error);

    if (done)
        sidecar = sidecar_open(sidecar_file.bytes, split->sidecar_path, error);
    if (sidecar != NULL)
        sidecar_limit_memory(sidecar, UINT64_MAX); /* what is in it has been in memory */
    done = sidecar != NULL && check_with(split, sidecar, error) &&
           input_unchanged(&split->image, error);
    sidecar_close(sidecar);
    input_close(&sidecar_file);
    return done;
}

/* All that can fail for lack of space has to happen before the first output gets its name. */
static bool make_sidecar(struct split *split, struct error *error)
{
    if (!write_sidecar(split, error) || !check_outputs(split, error) ||
        !output_sync(&split->sidecar, error) || !output_sync(&split->stripped, error))
        return false;
    split->sidecar_size = split->sidecar.size;
    return true;
}

/* ---- a sidecar that several may write ---- */

/* The sidecar that the store has stays where it restores the original from our stripped image, or
 * nobody asks for that. */
static bool keep_existing(struct split *split, const struct existing *existing,
                          const struct new_split *ours, struct error *error)
{
    struct error cause;

    if (!existing_check_same(existing, ours, error))
        return false;
    if (!check_with(split, existing->sidecar, &cause)) {
        *error = cause;
        return cause.number != 0 ? false
                                 : error_set(error, "%.900s, or give --replace", cause.message);
    }
    split->sidecar_size = existing->input.bytes.size;
    return input_unchanged(&split->image, error) && output_sync(&split->stripped, error);
}

/* Looks, and where nothing is there tries to be the first. *settled: one of the two came out. */
static bool try_store(struct split *split, const struct new_split *ours, bool *settled,
                      struct error *error)
{
    bool replaces = option_given(split->options, OPTION_REPLACE);
    enum output_result result = OUTPUT_NAME_TAKEN;
    struct existing existing;
    bool done;

    done = existing_open(&existing, split->sidecar_path, error) &&
           existing_check_own(&existing, ours, error);
    if (done && existing.is_there && (!replaces || existing_is_better(&existing, ours))) {
        *settled = keep_existing(split, &existing, ours, error);
        /* What would be better, but is damaged, is replaced after all. */
        done = *settled || (replaces && error->number == 0);
    }
    existing_close(&existing);
    if (!done || *settled)
        return done;
    if (split->sidecar.size == 0 && !make_sidecar(split, error))
        return false;
    if (!output_can_replace(&split->stripped, error) ||
        !store_output_commit(&split->sidecar, replaces, &result, error))
        return false;
    *settled = result != OUTPUT_NAME_TAKEN;
    return true;
}

/* Others may write the same UUID and clean the store up at the same time. Once the sidecar is
 * there it stays, even if the image cannot be written then: another split may count on it. */
static bool add_to_store(struct split *split, const struct new_split *ours, struct error *error)
{
    bool settled = false;

    for (unsigned attempt = 0; attempt < STORE_ATTEMPTS && !settled; attempt++) {
        if (!try_store(split, ours, &settled, error))
            return false;
    }
    return settled || error_set(error,
                                "%s: comes and goes all the time; run again when nobody "
                                "removes sidecars",
                                split->sidecar_path);
}

/* ---- a sidecar at a path of its own ---- */

static bool write_sidecar_file(struct split *split, const struct new_split *ours,
                               struct error *error)
{
    struct existing existing;
    bool done;

    done = existing_open(&existing, split->sidecar_path, error) &&
           existing_check_own(&existing, ours, error);
    existing_close(&existing);
    return done && make_sidecar(split, error);
}

static bool commit_files(struct split *split, struct error *error)
{
    bool is_new = file_is_missing(split->sidecar_path, AT_SYMLINK_NOFOLLOW);
    enum output_result sidecar_result, stripped_result;

    if (!output_can_replace(&split->stripped, error) ||
        !output_commit(&split->sidecar, &sidecar_result, error))
        return false;
    if (output_commit(&split->stripped, &stripped_result, error))
        return true;
    /* Of an image that is half written the sidecar has the rest. */
    if (is_new && stripped_result != OUTPUT_HALF_WRITTEN)
        unlink(split->sidecar_path);
    return false;
}

/* ---- what the user is told ---- */

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

static void warn_of_sections(const struct split *split)
{
    size_t removed = 0;

    for (size_t i = 0; i < split->plan->section_count; i++) {
        const struct image_section *section = &split->plan->sections[i];

        if (section->fate != FATE_STAYS)
            removed++;
        if (section->reason[0] != '\0')
            split_warn(split, "%s: %s %s: %s", split->image_path, section->name,
                       fate_name(section->fate), section->reason);
    }
    if (is_for_debug_info(split->plan))
        split_warn(
            split,
            "%s: %sthe image was built with -profile-correlate=debug-info: data and names are "
            "in its debug information; merge its profiles with 'llvm-profdata merge "
            "--debug-info=%s'",
            split->image_path, removed == 0 ? "nothing to take out: " : "", split->output_path);
    else if (removed == 0 && !split->plan->already_split)
        split_warn(split, "%s: nothing to take out: the image has no coverage sections that can go",
                   split->image_path);
}

/* ---- the two ways through ---- */

/* An image that was split before is passed on as it is, and its sidecar must not be replaced: it
 * alone has the original's sections. Only where there is none, a placeholder is written, since
 * build tools expect the outputs that they were told of; never to a store, which is only for real
 * ones. */
static bool pass_on(struct split *split, struct error *error)
{
    struct existing existing;
    bool is_known = existing_open(&existing, split->sidecar_path, error);
    bool is_there = existing_counts(&existing), needs_placeholder;
    enum output_result result;

    existing_close(&existing);
    if (!is_known)
        return false;
    needs_placeholder = !is_there && !split_is_for_store(split);
    progress_finish(&split->progress);
    split_warn(split, "%s: split already; it is passed on unchanged, and %s", split->image_path,
               is_there            ? "the sidecar that is there is kept"
               : needs_placeholder ? "a placeholder takes the place of its sidecar"
                                   : "its sidecar is not in the store");
    split->plan->facts.is_placeholder = true;
    if (needs_placeholder && !write_sidecar(split, error))
        return false;
    if (!input_unchanged(&split->image, error) || !output_sync(&split->stripped, error) ||
        !output_can_replace(&split->stripped, error))
        return false;
    return needs_placeholder ? commit_files(split, error)
                             : output_commit(&split->stripped, &result, error);
}

/* The image is copied once, and its stripped form read twice to check it. */
static void start_progress(struct split *split)
{
    uint64_t work = split->image.bytes.size + 2 * edit_script_result_size(&split->plan->edits);

    for (size_t i = 0; i < split->plan->range_count; i++)
        work += COMPRESSION_WEIGHT * split->plan->ranges[i].size;
    if (split->report == NULL)
        progress_start(&split->progress, split->image_path, work);
    split->image.released = progress_add;
    split->image.released_context = &split->progress;
}

bool split_prepare(struct split *split, struct error *error)
{
    struct new_split ours = {
        .image_path = split->image_path,
        .facts = &split->plan->facts,
        .takes_nothing_out = split->plan->range_count == 0,
    };

    start_progress(split);
    if (!split_prepare_to_tell(split, error) || !choose_sidecar_path(split, error) ||
        !create_outputs(split, error) || !write_stripped(split, error))
        return false;
    if (split->plan->already_split)
        return true;
    if (!check_uuid(split, error) ||
        !(split_is_for_store(split) ? add_to_store(split, &ours, error)
                                    : write_sidecar_file(split, &ours, error)))
        return false;
    progress_finish(&split->progress);
    warn_of_sections(split);
    return true;
}

static bool finish(struct split *split, struct error *error)
{
    enum output_result result;

    if (split->plan->already_split)
        return pass_on(split, error);
    if (!(split_is_for_store(split) ? output_commit(&split->stripped, &result, error)
                                    : commit_files(split, error)))
        return false;
    split_tell(split, split->output_path);
    return true;
}

bool split_plan(struct split *split, struct error *error)
{
    struct image_options image_options = {
        .sections = option_sections(split->options, OPTION_SECTIONS),
        .uuid = option_uuid(split->options, OPTION_UUID),
        .drop_signature = option_given(split->options, OPTION_DROP_SIGNATURE),
        .map = option_given(split->options, OPTION_MAP) ? &split->map : NULL,
    };

    if (!option_given(split->options, OPTION_SECTIONS))
        image_options.sections = SECTION_REMOVABLE;
    split->plan = image_plan_make(&split->image, &image_options, error);
    if (split->plan == NULL)
        return false;
    split->plan->facts.is_inexact = option_given(split->options, OPTION_NO_EXACT);
    return true;
}

struct split split_start(const struct parsed_options *options, const char *image_path,
                         unsigned threads, struct split_report *report)
{
    const char *output = option_text(options, OPTION_OUTPUT);

    return (struct split){
        .options = options,
        .report = report,
        .threads = threads,
        .image_path = image_path,
        .output_path = output != NULL ? output : image_path,
        .image = {.fd = -1},
        .map = {.fd = -1},
        .stripped = {.fd = -1},
        .sidecar = {.fd = -1},
        /* Without one, streams are made twice. */
        .memo = zlib_memo_new(),
    };
}

void split_end(struct split *split)
{
    progress_finish(&split->progress);
    output_discard(&split->stripped);
    output_discard(&split->sidecar);
    zlib_memo_free(split->memo);
    for (size_t i = 0; i <= SECTION_KIND_MAX; i++)
        buffer_free(&split->names[i]);
    image_plan_free(split->plan);
    input_close(&split->map);
    free(split->sidecar_path);
    free(split->row_name);
}

bool split_is_needless(const struct split *split)
{
    return split->report != NULL && split->report->was_found &&
           (split->plan->already_split || split->plan->range_count == 0);
}

static bool run_split(struct split *split, struct error *error)
{
    const char *map = option_text(split->options, OPTION_MAP);

    if (map != NULL && !input_open(&split->map, map, error))
        return false;
    if (option_text(split->options, OPTION_ARCH) != NULL)
        return error_set(error,
                         "%s: no universal image, of which --arch could select a slice; "
                         "leave --arch out",
                         split->image_path);
    if (!split_plan(split, error))
        return false;
    return split_is_needless(split) || (split_prepare(split, error) && finish(split, error));
}

bool split_image(const struct parsed_options *options, const char *path, unsigned threads,
                 struct split_report *report, struct error *error)
{
    struct split split = split_start(options, path, threads, report);
    bool done = input_open(&split.image, path, error);

    if (done)
        done = universal_recognize(split.image.bytes) ? universal_split(&split, error)
                                                      : run_split(&split, error);
    if (!done && split.image.fd >= 0 && report != NULL && report->was_found)
        done = found_image_has_no_coverage(split.image.bytes);
    split_end(&split);
    input_close(&split.image);
    return done;
}

static bool is_directory(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int command_split(const struct parsed_options *options)
{
    struct error error;

    if (option_given(options, OPTION_REPLACE) && option_text(options, OPTION_STORE) == NULL)
        return message_usage("split", "'--replace' is for '--store DIR'");
    if (options->operand_count != 1 || option_given(options, OPTION_RECURSIVE) ||
        is_directory(options->operands[0]))
        return split_batch(options);
    if (split_image(options, options->operands[0], option_threads(options), NULL, &error))
        return STATUS_DONE;
    message_error(&error);
    return STATUS_FAILED;
}
