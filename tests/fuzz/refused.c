/*
 * Memory that runs out: everything that is done to an image, an object or an archive is done again
 * with each allocation refused once, and everything that is done with sidecars and profiles once
 * for each way in which it asks for memory. It then fails with an error of memory, or does the same
 * as with all memory; it never refuses a good image, or keeps a section, for want of memory.
 *
 * Usage: fuzz_refused FILE-OR-DIRECTORY...      linked with replay.c
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/output.h"
#include "common/edit/edit.h"
#include "common/llvm/names.h"
#include "common/llvm/profile_reader.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/exported.h"
#include "common/sidecar/union.h"
#include "formats/image.h"
#include "formats/object/packing.h"
#include "tests/fuzz/image.h"
#include "tests/fuzz/parts.h"
#include "tests/support/freed.h"
#include "tests/unit/refused_memory.h"

DEFINE_DROP(drop_sidecar, struct sidecar, sidecar_close)
DEFINE_DROP(drop_plan, struct image_plan, image_plan_free)

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
    memory_watch = NULL;
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
    struct bytes sidecar, stripped; /* or sidecars */
    struct bytes profile;
};

static void plan(const struct subject *subject, struct outcome *result)
{
    static const struct image_options options = {.sections = SECTION_DEFAULT};
    FREED_BY(drop_plan)
    struct image_plan *made = image_plan_make(&subject->file, &options, &result->error);

    stop_refusing(result);
    result->has_failed = made == NULL;
    if (made != NULL)
        add_plan(result, made, &subject->file);
}

static void describe(const struct subject *subject, struct outcome *result)
{
    FREED_BY(drop_plan) struct image_plan *made = image_describe(&subject->file, &result->error);

    stop_refusing(result);
    result->has_failed = made == NULL;
    if (made != NULL)
        add_plan(result, made, &subject->file);
}

static void outline(const struct subject *subject, struct outcome *result)
{
    FREED_BY(buffer_free) struct buffer made = {0};

    result->has_failed = !image_outline(&subject->file, &made, &result->error);
    stop_refusing(result);
    add(result, buffer_view(&made), NULL);
}

static void find_split(const struct subject *subject, struct outcome *result)
{
    struct split_image split = {.uuid_is_stub = false};
    bool is_split = image_read_stripped_id(&subject->file, &split, &result->error);

    stop_refusing(result);
    result->has_failed = error_is_of_memory(&result->error);
    add_number(result, is_split);
    add(result, (struct bytes){split.uuid.bytes, split.uuid.size}, NULL);
}

static void make_ordinary(const struct subject *subject, struct outcome *result)
{
    FREED_BY(edit_script_free) struct edit_script edits;
    struct packed_counts counts;

    edit_script_init(&edits, subject->file.bytes.size);
    result->has_failed = !ordinary_count(&subject->file, subject->plan, &counts, &result->error) ||
                         !ordinary_plan(&subject->file, subject->plan, 0, &edits, &result->error);
    stop_refusing(result);
    if (!result->has_failed)
        edit_script_stream(&edits, &subject->file, add, result, &result->error);
}

static void open_container(const struct subject *subject, struct outcome *result)
{
    FREED_BY(container_close) struct container container;

    result->has_failed = !container_open(&container, &subject->file, &result->error);
    stop_refusing(result);
    for (size_t i = 0; i < container.count; i++)
        add(result, container.slices[i].input.bytes, NULL);
}

static void pack(const struct subject *subject, struct outcome *result)
{
    FREED_BY(object_packing_free) struct object_packing packing = {.outcome = OBJECT_NOT_ONE};

    result->has_failed =
        !object_pack(subject->file.bytes, subject->file.path, &packing, &result->error);
    stop_refusing(result);
    add_number(result, packing.outcome);
    add_text(result, packing.reason);
    add(result, buffer_view(&packing.contents), NULL);
}

/* Leaves the symbols of all records out of the index, so that it is made anew. */
static void write_archive(const struct subject *subject, struct outcome *result)
{
    FREED_BY(archive_free) struct archive archive = {.count = 0};
    bool done = archive_read(&archive, subject->file.bytes, subject->file.path, &result->error);

    for (size_t i = 0; done && i < archive.count; i++)
        archive.members[i].has_no_records = archive.members[i].role == ARCHIVE_FILE;
    result->has_failed = !done || !archive_write(&archive, add, result, &result->error);
    stop_refusing(result);
}

/* ---- steps with sidecars ---- */

static struct sidecar *open_sidecar(const struct subject *subject, struct outcome *result)
{
    return sidecar_open(subject->sidecar, "sidecar", &result->error);
}

static bool read_names(const struct sidecar *sidecar, struct outcome *result)
{
    const struct section *section = sidecar_find(sidecar, SECTION_NAMES);
    FREED_BY(names_free) struct names names = {0};

    return section == NULL || sidecar_read_names(sidecar, section, &names, &result->error);
}

/* The whole, the whole again as a stream, and a byte of it. */
static bool read_section(const struct sidecar *sidecar, const struct section *section,
                         struct buffer *all, struct outcome *result)
{
    FREED_BY(buffer_free) struct buffer part = {0};

    return sidecar_read_section(sidecar, section, all, &result->error) &&
           sidecar_stream_section(sidecar, section, NULL, NULL, &result->error) &&
           (section->size == 0 ||
            sidecar_read_part(sidecar, section, section->size / 2, 1, &part, &result->error));
}

/* The names first or the sections: those that come first keep what others need. */
static void read_all(const struct subject *subject, struct outcome *result, bool names_first)
{
    FREED_BY(drop_sidecar) struct sidecar *sidecar = open_sidecar(subject, result);
    struct buffer all[SECTION_KIND_MAX] = {{0}};
    bool done = sidecar != NULL && (!names_first || read_names(sidecar, result));

    for (size_t i = 0; done && i < sidecar->section_count; i++) {
        if (sidecar->sections[i].stored_size != 0)
            done = read_section(sidecar, &sidecar->sections[i], &all[i], result);
    }
    result->has_failed =
        !done || !read_names(sidecar, result) || !sidecar_verify(sidecar, &result->error);
    stop_refusing(result);
    for (size_t i = 0; i < SECTION_KIND_MAX; i++) {
        add(result, buffer_view(&all[i]), NULL);
        buffer_free(&all[i]);
    }
}

static void read_sections_first(const struct subject *subject, struct outcome *result)
{
    read_all(subject, result, false);
}

static void read_names_first(const struct subject *subject, struct outcome *result)
{
    read_all(subject, result, true);
}

/* Ends a step that has collected what it made. */
static void finish(struct outcome *result, bool done, const struct buffer *made)
{
    result->has_failed = !done;
    stop_refusing(result);
    if (done)
        add(result, buffer_view(made), NULL);
}

/* A bytes_sink that needs memory as all else does. */
static bool collect(void *made, struct bytes part, struct error *error)
{
    return buffer_append(made, part.data, (size_t)part.size) ||
           error_out_of_memory(error, "result", part.size);
}

static void restore(const struct subject *subject, struct outcome *result)
{
    const struct input stripped = input_of_bytes(subject->stripped, "stripped");
    FREED_BY(drop_sidecar) struct sidecar *sidecar = open_sidecar(subject, result);
    FREED_BY(buffer_free) struct buffer made = {0};

    finish(result,
           sidecar != NULL && sidecar_restore(sidecar, &stripped, collect, &made, &result->error),
           &made);
}

static void export(const struct subject *subject, struct outcome *result)
{
    FREED_BY(drop_sidecar) struct sidecar *sidecar = open_sidecar(subject, result);
    struct export_facts facts = {0};
    FREED_BY(buffer_free) struct buffer made = {0};

    finish(result,
           sidecar != NULL && export_write(sidecar, collect, &made, &result->error) &&
               export_read(buffer_view(&made), "object", &facts, &result->error),
           &made);
}

static void repack(const struct subject *subject, struct outcome *result, bool portable)
{
    const struct sidecar_write_options options = {.level = 1, .threads = 1, .portable = portable};
    FREED_BY(drop_sidecar) struct sidecar *sidecar = open_sidecar(subject, result);
    FREED_BY(output_discard) struct output output = {0};
    FREED_BY(input_close) struct input input = {0};
    FREED_BY(buffer_free) struct buffer made = {0};

    finish(result,
           sidecar != NULL && output_create_in_memory(&output, "repacked", &result->error) &&
               sidecar_repack(sidecar, &options, &output, &result->error) &&
               output_map(&output, &input, &result->error) &&
               collect(&made, input.bytes, &result->error),
           &made);
}

static void make_compact(const struct subject *subject, struct outcome *result)
{
    repack(subject, result, false);
}

static void make_portable(const struct subject *subject, struct outcome *result)
{
    repack(subject, result, true);
}

/* Of the image and itself, whose records are all left out the second time. */
static void unite(const struct subject *subject, struct outcome *result)
{
    FREED_BY(buffer_free) struct buffer made = {0};
    FREED_BY(union_free)
    struct union_writer writer = {.name = "union", .sink = collect, .context = &made};
    FREED_BY(drop_sidecar) struct sidecar *sidecar = open_sidecar(subject, result);

    finish(result,
           sidecar != NULL && union_add(&writer, sidecar, &result->error) &&
               union_add(&writer, sidecar, &result->error) && union_finish(&writer, &result->error),
           &made);
}

/* ---- steps with profiles ---- */

static void correlate(const struct subject *subject, struct outcome *result)
{
    FREED_BY(profile_reader_free)
    struct profile_reader reader = {.file = subject->profile, .name = "profile"};
    FREED_BY(profile_sidecar_close)
    struct profile_sidecar opened = {.sidecar = open_sidecar(subject, result)};
    FREED_BY(buffer_free) struct buffer made = {0};
    struct profile profile;

    finish(
        result,
        opened.sidecar != NULL && profile_reader_first(&reader, &profile, &result->error) &&
            profile_sidecar_correlate(&opened, &profile, "profile", collect, &made, &result->error),
        &made);
}

static void correlate_dump(const struct subject *subject, struct outcome *result)
{
    static const uint8_t zeros[1 << 16];
    FREED_BY(profile_sidecar_close)
    struct profile_sidecar opened = {.sidecar = open_sidecar(subject, result)};
    FREED_BY(dump_free) struct dump dump = {0};
    FREED_BY(buffer_free) struct buffer made = {0};
    bool done = opened.sidecar != NULL && profile_sidecar_load(&opened, &result->error) &&
                opened.counters_size <= sizeof(zeros) && opened.bitmap_size <= sizeof(zeros);

    dump.counters = (struct bytes){zeros, opened.counters_size};
    dump.bitmap = (struct bytes){zeros, opened.bitmap_size};
    done =
        done && dump_make(&dump, &opened, "dump", &result->error) &&
        profile_sidecar_correlate(&opened, &dump.profile, "dump", collect, &made, &result->error);
    finish(result, done, &made);
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

/* For want of memory a step fails and says so, or does what it does with all memory. */
static void expect_same(const struct outcome *result, const struct digest *made,
                        const struct outcome *whole, const struct digest *whole_made,
                        const char *name, size_t granted)
{
    FUZZ_EXPECT(error_is_of_memory(&result->error)
                    ? result->has_failed && result->was_refused
                    : result->has_failed == whole->has_failed && digest_equal(made, whole_made) &&
                          strcmp(result->error.message, whole->error.message) == 0,
                "%s: with allocation %zu refused: %s", name, granted,
                result->has_failed ? result->error.message : "another result");
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
        expect_same(&result, &again, &whole, &made, name, granted);
    } while (result.was_refused);
}

#define REFUSE_EACH(step, subject) refuse_each(step, #step, subject)

/* What a step makes with all memory, to compare it with what else it makes. */
struct trial {
    step_function step;
    const char *name;
    const struct subject *subject;
    bool is_known;
    struct outcome whole;
    struct digest made;
};

static bool run_trial(void *subject)
{
    struct trial *trial = subject;
    size_t granted = memory_granted;
    struct outcome result = run(trial->step, trial->subject, granted);
    struct digest made = digest_stream_finish(&result.made);

    if (!trial->is_known) {
        FUZZ_EXPECT(!error_is_of_memory(&result.error), "no memory for the test");
        trial->whole = result;
        trial->made = made;
        trial->is_known = true;
    }
    /* zstd says by a number why it failed, which is told like any other. */
    if (strstr(result.error.message, "use another version of libzstd") == NULL)
        expect_same(&result, &made, &trial->whole, &trial->made, trial->name, granted);
    return true;
}

static void refuse_ways(step_function step, const char *name, const struct subject *subject)
{
    struct trial trial = {.step = step, .name = name, .subject = subject};

    refuse_each_way(run_trial, &trial);
}

#define REFUSE_WAYS(step, subject) refuse_ways(step, #step, subject)

static void try_slice(const struct input *file)
{
    struct error error;
    FREED_BY(drop_plan) struct image_plan *described = image_describe(file, &error);
    struct subject subject = {.file = *file, .plan = described};

    REFUSE_EACH(plan, &subject);
    REFUSE_EACH(describe, &subject);
    REFUSE_EACH(outline, &subject);
    REFUSE_EACH(find_split, &subject);
    if (described != NULL && described->is_packed)
        REFUSE_EACH(make_ordinary, &subject);
}

/* An input of sidecar.c or of profile.c. */
static void try_parts(const struct parts *parts)
{
    struct subject subject = {.sidecar = parts_get(parts, 0), .stripped = parts_get(parts, 1)};

    if (profile_recognize(parts_get(parts, 0))) {
        subject.profile = parts_get(parts, 0);
        subject.sidecar = parts_get(parts, 2);
        REFUSE_WAYS(correlate, &subject);
        REFUSE_WAYS(correlate_dump, &subject);
        return;
    }
    REFUSE_WAYS(read_sections_first, &subject);
    REFUSE_WAYS(read_names_first, &subject);
    REFUSE_WAYS(restore, &subject);
    REFUSE_WAYS(export, &subject);
    REFUSE_WAYS(make_compact, &subject);
    REFUSE_WAYS(make_portable, &subject);
    REFUSE_WAYS(unite, &subject);
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
    struct subject subject = {.file = fuzz_input(bytes, name)};
    struct container container;
    struct parts parts;
    struct error error;

    parts_read(&parts, (struct bytes){data, size}, 4);
    if (sidecar_recognize(parts_get(&parts, 0)) || profile_recognize(parts_get(&parts, 0))) {
        try_parts(&parts);
        return 0;
    }
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
