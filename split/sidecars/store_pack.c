/*
 * covsplit store pack makes sidecars of a store differences to others
 * (common/sidecar/difference.h), and covsplit store unpack makes them whole again.
 *
 * Like repacking, each sidecar is replaced separately, by one rename, after the new one was read
 * back and synced to disk; the command can be killed at any time and run again, and other processes
 * may work on the store meanwhile. The largest sidecars come first, since most of the smaller ones
 * are in them: one that no base makes small enough becomes a base itself, and stays whole.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/sidecar/difference.h"
#include "common/store/store.h"
#include "split/cli/bases.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/selection.h"

#define PERMISSION_BITS 07777

enum outcome {
    OUTCOME_FAULT,
    OUTCOME_CHANGED, /* packed or unpacked */
    OUTCOME_BASE,    /* whole: it is a base */
    OUTCOME_LEFT,    /* as it should be, not chosen, or nothing to pack */
    OUTCOME_GONE,    /* removed or replaced by another process */
    OUTCOME_COUNT,
};

struct candidate {
    char *path;
    struct uuid uuid;
    uint64_t size; /* bytes */
};

struct packing {
    const struct parsed_options *options;
    struct selection selection; /* of pack: what stays whole; of unpack: what is unpacked */
    bool has_patterns, unpacks;
    struct candidate *items;
    size_t count, capacity;
    struct bases bases;
    uint64_t counts[OUTCOME_COUNT];
    uint64_t size_before, size_after; /* bytes; sums for those that were changed */
    uint64_t already;                 /* the number of differences that were there */
    struct progress progress;
};

/* ---- what there is to do ---- */

/* A store_visitor. Only headers and notes are read. */
static bool find_work(void *context, const char *path, const struct uuid *uuid, struct error *error)
{
    struct packing *packing = context;
    struct sidecar *sidecar = NULL;
    struct input input;
    struct error fault;
    bool is_chosen = false;

    (void)error;
    if (input_open(&input, path, &fault))
        sidecar = sidecar_open(input.bytes, path, &fault);
    if (sidecar == NULL) {
        if (fault.number != ENOENT) {
            message_error(&fault);
            packing->counts[OUTCOME_FAULT]++;
        }
    } else if (sidecar->base.is_needed != packing->unpacks) {
        packing->already += sidecar->base.is_needed;
    } else {
        is_chosen =
            packing->has_patterns && selection_has(&packing->selection, uuid, sidecar->image_name);
        /* The patterns of pack are of those that stay. */
        is_chosen = packing->unpacks ? is_chosen || !packing->has_patterns : !is_chosen;
        is_chosen = is_chosen && !sidecar->facts.is_placeholder && !sidecar_holds_nothing(sidecar);
        packing->counts[OUTCOME_LEFT] += !is_chosen;
    }
    if (is_chosen) {
        COMMAND_ROOM_FOR_ONE(packing->items, packing->capacity, packing->count);
        packing->items[packing->count++] =
            (struct candidate){command_copy(path), *uuid, input.bytes.size};
    }
    sidecar_close(sidecar);
    input_close(&input);
    return true;
}

/* The largest first; in the order of the UUIDs among those of one size. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;

    if (left->size != right->size)
        return left->size > right->size ? -1 : 1;
    return strcmp(left->path, right->path);
}

/* ---- one sidecar ---- */

/* Writes the new form to a started output. */
static enum outcome write_form(struct packing *packing, struct sidecar *sidecar,
                               const struct input *input, struct output *output,
                               struct error *error)
{
    const struct sidecar_write_options whole = {
        .level = (int)option_number(packing->options, OPTION_LEVEL),
        .threads = 1,
        .portable = !sidecar_is_compact(sidecar),
    };
    bool fits = false;

    if (packing->unpacks)
        return sidecar_repack(sidecar, &whole, output, error) ? OUTCOME_CHANGED : OUTCOME_FAULT;
    if (!bases_pack(&packing->bases, sidecar, input->bytes.size, whole.level, false, output, &fits,
                    error))
        return OUTCOME_FAULT;
    if (fits)
        return bases_hold(&packing->bases, error) ? OUTCOME_CHANGED : OUTCOME_FAULT;
    /* Differences depend on it from now on. */
    return sidecar_verify(sidecar, error) &&
                   bases_add(&packing->bases, sidecar->name, sidecar, input->bytes, error)
               ? OUTCOME_BASE
               : OUTCOME_FAULT;
}

static enum outcome change(struct packing *packing, const struct candidate *candidate,
                           struct sidecar *sidecar, const struct input *input, struct error *error)
{
    struct error unkept = {.number = 0};
    const struct output_options options = {
        .mode = input->status.st_mode & PERMISSION_BITS,
        .in_place = input,
        .unkept = &unkept,
        .is_other_form = true,
    };
    enum output_result result = OUTPUT_UNCHANGED;
    struct output output;
    enum outcome outcome;

    /* This fails too if the file has changed already. */
    if (!output_create(&output, candidate->path, &options, error))
        return error->number == 0 ? OUTCOME_GONE : OUTCOME_FAULT;
    outcome = write_form(packing, sidecar, input, &output, error);
    if (outcome == OUTCOME_CHANGED) {
        uint64_t size = output.size;

        if (output_commit(&output, &result, error)) {
            packing->size_before += input->bytes.size;
            packing->size_after += size;
        } else {
            outcome = result == OUTPUT_OVERTAKEN ? OUTCOME_GONE : OUTCOME_FAULT;
        }
    }
    output_discard(&output);
    if (outcome == OUTCOME_CHANGED && unkept.message[0] != '\0') {
        progress_finish(&packing->progress);
        message_warning("%s", unkept.message);
    }
    return outcome;
}

static enum outcome change_one(struct packing *packing, const struct candidate *candidate,
                               struct error *error)
{
    enum outcome outcome = OUTCOME_FAULT;
    struct sidecar *sidecar;
    struct input input;

    if (!input_read(&input, candidate->path, error))
        return error->number == ENOENT ? OUTCOME_GONE : OUTCOME_FAULT;
    sidecar = sidecar_open(input.bytes, candidate->path, error);
    if (sidecar != NULL && sidecar->base.is_needed != packing->unpacks) {
        outcome = OUTCOME_GONE; /* another process was faster */
    } else if (sidecar != NULL && !packing->unpacks &&
               bases_have(&packing->bases, &input.status, input.bytes)) {
        outcome = OUTCOME_BASE;
    } else if (sidecar != NULL &&
               store_check_uuid(candidate->path, &sidecar->facts.uuid, &candidate->uuid, error)) {
        sidecar_set_up(sidecar, packing->options);
        outcome = change(packing, candidate, sidecar, &input, error);
    }
    sidecar_close(sidecar);
    input_close(&input);
    return outcome;
}

/* ---- the whole ---- */

static void change_all(struct packing *packing)
{
    static const char *const notes[OUTCOME_COUNT] = {
        [OUTCOME_BASE] = "stays whole, as a base",
        [OUTCOME_GONE] = "skipped: was removed or replaced meanwhile",
    };

    progress_start(&packing->progress, "all sidecars", packing->count);
    for (size_t i = 0; i < packing->count; i++) {
        const struct candidate *candidate = &packing->items[i];
        uint64_t before = packing->size_after;
        struct error error = {.number = 0};
        enum outcome outcome = change_one(packing, candidate, &error);
        char old_size[HUMAN_SIZE_MAX], new_size[HUMAN_SIZE_MAX];

        packing->counts[outcome]++;
        progress_add(&packing->progress, 1);
        if (outcome == OUTCOME_FAULT || option_given(packing->options, OPTION_VERBOSE))
            progress_finish(&packing->progress);
        if (outcome == OUTCOME_FAULT)
            message_error(&error);
        else if (!option_given(packing->options, OPTION_VERBOSE))
            continue;
        else if (outcome == OUTCOME_CHANGED)
            message_line(stdout, "%s: %s before, %s after", candidate->path,
                         human_size(candidate->size, old_size),
                         human_size(packing->size_after - before, new_size));
        else
            message_line(stdout, "%s: %s", candidate->path, notes[outcome]);
    }
    progress_finish(&packing->progress);
}

static bool work(struct packing *packing, const char *directory, struct error *error)
{
    if (!store_walk(directory, find_work, packing, error) ||
        !bases_open(&packing->bases, directory, error))
        return false;
    if (packing->count != 0)
        qsort(packing->items, packing->count, sizeof(*packing->items), compare_candidates);
    change_all(packing);
    return true;
}

static int run(struct packing *packing, const char *const *patterns, size_t pattern_count)
{
    const char *directory = packing->options->operands[0];
    const uint64_t *counts = packing->counts;
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];
    char changed[COUNT_TEXT_MAX], whole[COUNT_TEXT_MAX], already[COUNT_TEXT_MAX];
    struct error error;
    bool done;

    packing->has_patterns = pattern_count != 0;
    done = selection_open(&packing->selection, patterns, pattern_count, &error) &&
           work(packing, directory, &error);
    bases_close(&packing->bases);
    if (!done)
        message_error(&error);
    else if (counts[OUTCOME_FAULT] == 0)
        selection_report_unused(&packing->selection, directory, false);
    if (done)
        printf("%s %s: %s before, %s after",
               count_text(counts[OUTCOME_CHANGED], "sidecar", changed),
               packing->unpacks ? "unpacked" : "packed", human_size(packing->size_before, before),
               human_size(packing->size_after, after));
    if (done && !packing->unpacks)
        printf("; %s packed already, %s whole", number_text(packing->already, already),
               number_text(counts[OUTCOME_BASE] + counts[OUTCOME_LEFT], whole));
    if (done)
        printf("\n");
    for (size_t i = 0; i < packing->count; i++)
        free(packing->items[i].path);
    free(packing->items);
    selection_close(&packing->selection);
    return done && counts[OUTCOME_FAULT] == 0 ? STATUS_DONE : STATUS_FAILED;
}

int command_store_pack(const struct parsed_options *options)
{
    struct packing packing = {.options = options};
    const char **patterns, *pattern;
    size_t count = 0;
    int status;

    while (option_text_at(options, OPTION_KEEP_WHOLE, count) != NULL)
        count++;
    patterns = command_array(count + 1, sizeof(*patterns));
    for (size_t i = 0; (pattern = option_text_at(options, OPTION_KEEP_WHOLE, i)) != NULL; i++)
        patterns[i] = pattern;
    status = run(&packing, patterns, count);
    free(patterns);
    return status;
}

int command_store_unpack(const struct parsed_options *options)
{
    struct packing packing = {.options = options, .unpacks = true};

    return run(&packing, options->operands + 1, options->operand_count - 1);
}
