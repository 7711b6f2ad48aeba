/*
 * Memory that runs out: everything that is done to an image, an object or an archive is done again
 * with each allocation refused once. It then fails with an error of memory, or does the same as
 * with all memory; it never refuses a good image, or keeps a section, for want of memory.
 *
 * Usage: fuzz_refused FILE-OR-DIRECTORY...      linked with replay.c
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/edit/edit.h"
#include "formats/image.h"
#include "formats/object/object.h"
#include "tests/fuzz/image.h"
#include "tests/unit/refused_memory.h"

/* ---- what came of it ---- */

/* What a step did: whether it failed, and a digest of what it made. While that is computed, all
 * memory is granted. */
struct outcome {
    struct error error;
    bool has_failed;
    bool was_refused; /* an allocation was */
    struct digest_stream made;
};

/* To be called once the step is done, before its result is looked at. */
static void stop_refusing(struct outcome *result)
{
    result->was_refused = memory_granted == MEMORY_ALL;
    memory_granted = MEMORY_ALL;
}

static bool add(void *result, struct bytes part, struct error *error)
{
    (void)error;
    digest_stream_add(&((struct outcome *)result)->made, part);
    return true;
}

static void add_text(struct outcome *result, const char *text)
{
    add(result, (struct bytes){(const uint8_t *)text, strlen(text) + 1}, NULL);
}

static void add_number(struct outcome *result, uint64_t number)
{
    add(result, (struct bytes){(const uint8_t *)&number, sizeof(number)}, NULL);
}

static void add_plan(struct outcome *result, const struct image_plan *plan,
                     const struct input *image)
{
    for (size_t i = 0; i < plan->section_count; i++) {
        const struct section *section = &plan->sections[i];

        add_number(result, section->kind);
        add_number(result, section->offset);
        add_number(result, section->fate);
        add_text(result, section->reason);
    }
    add_number(result, plan->already_split);
    if (plan->edits.count != 0)
        FUZZ_EXPECT(edit_script_stream(&plan->edits, image, add, result, &result->error),
                    "the edit script failed: %s", result->error.message);
}

/* ---- the steps ---- */

/* What is given to a step, all of it made with all memory. */
struct subject {
    struct input file;
    const struct image_plan *plan;
};

static void plan(const struct subject *subject, struct outcome *result)
{
    static const struct image_options options = {.sections = SECTION_DEFAULT};
    struct image_plan *made = image_plan_make(&subject->file, &options, &result->error);

    stop_refusing(result);
    result->has_failed = made == NULL;
    if (made != NULL)
        add_plan(result, made, &subject->file);
    image_plan_free(made);
}

static void describe(const struct subject *subject, struct outcome *result)
{
    struct image_plan *made = image_describe(&subject->file, &result->error);

    stop_refusing(result);
    result->has_failed = made == NULL;
    if (made != NULL)
        add_plan(result, made, &subject->file);
    image_plan_free(made);
}

static void outline(const struct subject *subject, struct outcome *result)
{
    struct buffer made = {0};

    result->has_failed = !image_outline(&subject->file, &made, &result->error);
    stop_refusing(result);
    add(result, buffer_view(&made), NULL);
    buffer_free(&made);
}

static void find_split(const struct subject *subject, struct outcome *result)
{
    struct split_image split = {.uuid_is_stub = false};
    bool is_split = image_find_split(&subject->file, &split, &result->error);

    stop_refusing(result);
    result->has_failed = error_is_of_memory(&result->error);
    add_number(result, is_split);
    add(result, (struct bytes){split.uuid.bytes, split.uuid.size}, NULL);
}

static void make_ordinary(const struct subject *subject, struct outcome *result)
{
    struct edit_script edits;
    struct packed_counts counts;

    edit_script_init(&edits, subject->file.bytes.size);
    result->has_failed = !ordinary_count(&subject->file, subject->plan, &counts, &result->error) ||
                         !ordinary_plan(&subject->file, subject->plan, 0, &edits, &result->error);
    stop_refusing(result);
    if (!result->has_failed)
        edit_script_stream(&edits, &subject->file, add, result, &result->error);
    edit_script_free(&edits);
}

static void open_container(const struct subject *subject, struct outcome *result)
{
    struct container container;

    result->has_failed = !container_open(&container, &subject->file, &result->error);
    stop_refusing(result);
    for (size_t i = 0; i < container.count; i++)
        add(result, container.slices[i].input.bytes, NULL);
    container_close(&container);
}

static void pack(const struct subject *subject, struct outcome *result)
{
    struct object_packing packing = {.outcome = OBJECT_NOT_ONE};

    result->has_failed =
        !object_pack(subject->file.bytes, subject->file.path, &packing, &result->error);
    stop_refusing(result);
    add_number(result, packing.outcome);
    add_text(result, packing.reason);
    add(result, buffer_view(&packing.contents), NULL);
    object_packing_free(&packing);
}

/* Leaves the symbols of all records out of the index, so that it is made anew. */
static void write_archive(const struct subject *subject, struct outcome *result)
{
    struct archive archive = {.count = 0};
    bool done = archive_read(&archive, subject->file.bytes, subject->file.path, &result->error);

    for (size_t i = 0; done && i < archive.count; i++)
        archive.members[i].has_no_records = archive.members[i].role == ARCHIVE_FILE;
    result->has_failed = !done || !archive_write(&archive, add, result, &result->error);
    stop_refusing(result);
    archive_free(&archive);
}

/* ---- the loop ---- */

typedef void (*step_function)(const struct subject *, struct outcome *);

static struct outcome run(step_function step, const struct subject *subject, size_t granted)
{
    struct outcome result = {.has_failed = false};

    digest_stream_start(&result.made);
    memory_growth_counts = true;
    memory_granted = granted;
    step(subject, &result);
    return result;
}

static void refuse_each(step_function step, const char *name, const struct subject *subject)
{
    struct outcome whole = run(step, subject, MEMORY_ALL), result;
    struct digest made = digest_stream_finish(&whole.made);
    size_t granted = 0;

    do {
        struct digest again;

        result = run(step, subject, granted++);
        again = digest_stream_finish(&result.made);
        FUZZ_EXPECT(error_is_of_memory(&result.error)
                        ? result.has_failed && result.was_refused
                        : result.has_failed == whole.has_failed && digest_equal(&made, &again) &&
                              strcmp(result.error.message, whole.error.message) == 0,
                    "%s: with allocation %zu refused: %s", name, granted,
                    result.has_failed ? result.error.message : "another result");
    } while (result.was_refused);
}

#define REFUSE_EACH(step, subject) refuse_each(step, #step, subject)

static void try_slice(const struct input *file)
{
    struct error error;
    struct image_plan *described = image_describe(file, &error);
    struct subject subject = {*file, described};

    REFUSE_EACH(plan, &subject);
    REFUSE_EACH(describe, &subject);
    REFUSE_EACH(outline, &subject);
    REFUSE_EACH(find_split, &subject);
    if (described != NULL && described->is_packed)
        REFUSE_EACH(make_ordinary, &subject);
    image_plan_free(described);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "file";
    const char *format;
    bool is_image = container_is_universal((struct bytes){data, size}) ||
                    (image_recognize((struct bytes){data, size}, &format) &&
                     image_is_linked((struct bytes){data, size}));
    /* Behind images there is a byte that chooses options: see image.h. */
    struct bytes bytes = {data, is_image ? size - 1 : size};
    struct subject subject = {fuzz_input(bytes, name), NULL};
    struct container container;
    struct error error;

    if (archive_recognize(subject.file.bytes)) {
        REFUSE_EACH(write_archive, &subject);
        return 0;
    }
    REFUSE_EACH(pack, &subject);
    REFUSE_EACH(open_container, &subject);
    if (container_open(&container, &subject.file, &error)) {
        for (size_t i = 0; i < container.count; i++)
            try_slice(&container.slices[i].input);
        container_close(&container);
    }
    return 0;
}
