/*
 * See sidecar_sample.h.
 */
#include "tests/unit/sidecar_sample.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/edit/edit.h"
#include "tests/support/random.h"
#include "tests/unit/forward.h"

#define ORIGINAL_SIZE 4000
#define COVMAP_OFFSET 200
#define COVMAP_SIZE   300
#define COVFUN_OFFSET 504
#define COVFUN_SIZE   800
#define NAMES_OFFSET  1501
#define NAMES_SIZE    121
#define DATA_OFFSET   2000
#define DATA_SIZE     640

const struct sample_shape sample_shapes[SAMPLE_SHAPES] = {
    {ELFCLASS64, ELFDATA2LSB, ET_DYN, EM_X86_64},
    {ELFCLASS32, ELFDATA2LSB, ET_EXEC, EM_386},
    {ELFCLASS64, ELFDATA2MSB, ET_EXEC, EM_S390},
    {ELFCLASS32, ELFDATA2MSB, ET_DYN, EM_PPC},
};

/* Sections that compress, in bytes that do not. */
static void fill_original(struct sample *sample)
{
    struct random_state random = random_start(42);

    for (size_t i = 0; i < ORIGINAL_SIZE; i++) {
        uint8_t byte = (uint8_t)(random_next(&random) & (i < COVFUN_OFFSET ? 0x0f : 0xff));
        ck_assert(buffer_append(&sample->original, &byte, 1));
    }
    /* One chunk of names, as they are: a size of one byte, and none of compressed bytes. */
    sample->original.data[NAMES_OFFSET] = NAMES_SIZE - 2;
    sample->original.data[NAMES_OFFSET + 1] = 0;
    memset(sample->original.data + COVFUN_OFFSET + 10, 'c', COVFUN_SIZE - 20);
}

/* One of each: cuts, an overwrite, a zeroing that starts inside a section, an insertion. */
static void split(struct sample *sample)
{
    const struct section sections[] = {
        {.kind = SECTION_DATA, .offset = DATA_OFFSET, .size = DATA_SIZE, .fate = FATE_ZEROED},
        {.kind = SECTION_COVMAP,
         .offset = COVMAP_OFFSET,
         .size = COVMAP_SIZE,
         .fate = FATE_REMOVED},
        {.kind = SECTION_COVFUN,
         .offset = COVFUN_OFFSET,
         .size = COVFUN_SIZE,
         .fate = FATE_REMOVED},
        {.kind = SECTION_NAMES, .offset = NAMES_OFFSET, .size = NAMES_SIZE, .fate = FATE_REMOVED},
    };
    struct bytes original = buffer_view(&sample->original);
    FREED_BY(edit_script_free) struct edit_script script;
    struct error error = {0};

    edit_script_init(&script, original.size);
    ck_assert(edit_replace(&script, 0, 8, (struct bytes){(const uint8_t *)"STRIPPED", 8}));
    ck_assert(
        edit_cut(&script, COVMAP_OFFSET - 3, COVFUN_OFFSET + COVFUN_SIZE - COVMAP_OFFSET + 3));
    ck_assert(edit_cut(&script, NAMES_OFFSET, NAMES_SIZE));
    ck_assert(edit_replace(&script, DATA_OFFSET, 16, (struct bytes){(const uint8_t *)"", 1}));
    ck_assert(edit_replace_by_zeros(&script, DATA_OFFSET + 64, DATA_SIZE, DATA_SIZE));
    ck_assert(edit_replace(&script, 3500, 0, (struct bytes){(const uint8_t *)"inserted", 8}));
    ck_assert_msg(edit_script_finish(&script, "sample", &error), "%s", error.message);
    ck_assert_msg(
        inverse_encode(&script, original, sections, 4, "sample", &sample->inverse, &error), "%s",
        error.message);
    sample->stripped = apply_forward(&script, original);
}

static struct section section_at(const struct sample *sample, enum section_kind kind,
                                 uint64_t address, uint64_t alignment, uint64_t offset,
                                 uint64_t size)
{
    struct section section = {
        .kind = kind, .address = address, .alignment = alignment, .size = size, .offset = offset};

    if (offset != 0)
        ck_assert(bytes_slice(buffer_view(&sample->original), offset, size, &section.content));
    return section;
}

static void describe(struct sample *sample, const struct sample_shape *shape)
{
    struct sidecar_facts facts = {.format = IMAGE_ELF,
                                  .elf_class = shape->elf_class,
                                  .elf_data = shape->elf_data,
                                  .elf_type = shape->elf_type,
                                  .machine = shape->machine,
                                  .raw_version = UINT64_C(0x8100000000000008),
                                  .uuid_source = UUID_FROM_BUILD_ID,
                                  .original_size = sample->original.size,
                                  .original_digest = digest_of(buffer_view(&sample->original)),
                                  .stripped_size = sample->stripped.size,
                                  .stripped_digest = digest_of(buffer_view(&sample->stripped)),
                                  .pointer_size = shape->elf_class == ELFCLASS64 ? 8 : 4,
                                  .has_stub = true};
    const struct section sections[SAMPLE_SECTIONS] = {
        section_at(sample, SECTION_COVMAP, 0, 8, COVMAP_OFFSET, COVMAP_SIZE),
        section_at(sample, SECTION_COVFUN, 0, 8, COVFUN_OFFSET, COVFUN_SIZE),
        /* Names need no alignment: an odd address must not disturb. */
        section_at(sample, SECTION_NAMES, 0x401235, 1, NAMES_OFFSET, NAMES_SIZE),
        section_at(sample, SECTION_DATA, 0x405008, 8, DATA_OFFSET, DATA_SIZE),
        section_at(sample, SECTION_COUNTERS, 0x416000, 8, 0, 8000),
        section_at(sample, SECTION_BITMAP, 0x418001, 1, 0, 33),
    };

    ck_assert(uuid_parse(SAMPLE_UUID, &facts.uuid));
    memcpy(sample->sections, sections, sizeof(sections));
    sample->kept = (struct section){.kind = SECTION_COVDATA, .size = 77, .reason = SAMPLE_REASON};
    sample->source = (struct sidecar_source){.facts = facts,
                                             .image_name = "sample-image",
                                             .sections = sample->sections,
                                             .section_count = SAMPLE_SECTIONS,
                                             .kept = &sample->kept,
                                             .kept_count = 1,
                                             .inverse = buffer_view(&sample->inverse)};
}

struct sample *sample_make(const struct sample_shape *shape)
{
    struct sample *sample = calloc(1, sizeof(*sample));

    ck_assert_ptr_nonnull(sample);
    fill_original(sample);
    split(sample);
    describe(sample, shape);
    return sample;
}

void sample_free(struct sample *sample)
{
    buffer_free(&sample->original);
    buffer_free(&sample->stripped);
    buffer_free(&sample->inverse);
    free(sample);
}

/* ---- writing ---- */

static bool write_to(const char *path, const struct sidecar_source *source,
                     const struct sidecar_write_options *how, struct error *error)
{
    const struct output_options options = {.mode = 0600};
    FREED_BY(output_discard) struct output output = {0};
    enum output_result result;
    bool done;

    ck_assert_msg(output_create(&output, path, &options, error), "%s", error->message);
    done = sidecar_write(source, how, &output, error);
    if (done)
        ck_assert_msg(output_commit(&output, &result, error), "%s", error->message);
    return done;
}

/* As the split makes it, unless the test did. */
static void identify(struct sidecar_source *source)
{
    static const enum section_kind kinds[STUB_KIND_COUNT] = STUB_KINDS;
    struct digest digests[STUB_KIND_COUNT];

    if (!bytes_all_zero((struct bytes){source->facts.stub_id, PROFILE_STUB_ID_SIZE}))
        return;
    for (size_t i = 0; i < STUB_KIND_COUNT; i++) {
        struct bytes content = {0};

        for (size_t k = 0; k < source->section_count; k++) {
            if (source->sections[k].kind == kinds[i])
                content = source->sections[k].content;
        }
        digests[i] = digest_of(content);
    }
    facts_make_stub_id(source->facts.stub_id, &source->facts.uuid, digests);
}

static struct buffer write_as(const struct sidecar_source *original,
                              const struct sidecar_write_options *how)
{
    struct sidecar_source identified = *original, *source = &identified;
    char directory[] = "/tmp/covsplit-unit-XXXXXX", path[64];
    struct input input = {0};
    struct buffer file = {0};
    struct error error = {0};

    identify(source);
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/sidecar", directory);
    ck_assert_msg(write_to(path, source, how, &error), "%s", error.message);
    ck_assert_msg(input_open(&input, path, &error), "%s", error.message);
    ck_assert(buffer_append(&file, input.bytes.data, (size_t)input.bytes.size));
    input_close(&input);
    unlink(path);
    rmdir(directory);
    return file;
}

struct buffer sample_write(const struct sidecar_source *source, int level, unsigned threads)
{
    const struct sidecar_write_options how = {.level = level, .threads = threads, .portable = true};

    return write_as(source, &how);
}

struct buffer sample_write_compact(const struct sidecar_source *source)
{
    const struct sidecar_write_options how = {.level = 9, .threads = 2};

    return write_as(source, &how);
}

struct buffer sample_write_blocks(const struct sidecar_source *source, uint64_t block_size,
                                  unsigned threads)
{
    const struct sidecar_write_options how = {
        .level = 9, .threads = threads, .block_size = block_size};

    return write_as(source, &how);
}

const char *sample_write_refused(const struct sidecar_source *source)
{
    const struct sidecar_write_options how = {.level = 3, .threads = 1};
    static struct error error;
    char directory[] = "/tmp/covsplit-unit-XXXXXX", path[64];

    error = (struct error){0};
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/sidecar", directory);
    ck_assert(!write_to(path, source, &how, &error));
    ck_assert_str_ne(error.message, "");
    ck_assert_int_ne(access(path, F_OK), 0);
    rmdir(directory);
    return error.message;
}

/* ---- comparing ---- */

struct sidecar *sample_open(const struct buffer *file)
{
    struct error error = {0};
    struct sidecar *sidecar = sidecar_open(buffer_view(file), "sample", &error);

    ck_assert_msg(sidecar != NULL, "%s", error.message);
    return sidecar;
}

bool sample_collect(void *buffer, struct bytes part, struct error *error)
{
    return buffer_append(buffer, part.data, (size_t)part.size) ||
           error_out_of_memory(error, "part", part.size);
}

bool sample_ignore(void *context, struct bytes part, struct error *error)
{
    (void)context;
    (void)part;
    (void)error;
    return true;
}

bool sample_restores(const struct sample *sample, const struct sidecar *sidecar)
{
    struct input stripped = input_of_bytes(buffer_view(&sample->stripped), "stripped");
    FREED_BY(buffer_free) struct buffer restored = {0};
    struct error error = {0};
    bool done = sidecar_restore(sidecar, &stripped, sample_collect, &restored, &error);

    ck_assert(done == (error.message[0] == '\0'));
    done = done && bytes_equal(buffer_view(&restored), buffer_view(&sample->original));
    return done;
}

static bool same_facts(const struct sidecar_facts *a, const struct sidecar_facts *b)
{
    return a->format == b->format && a->elf_class == b->elf_class && a->elf_data == b->elf_data &&
           a->elf_type == b->elf_type && a->machine == b->machine &&
           a->raw_version == b->raw_version && uuid_equal(&a->uuid, &b->uuid) &&
           a->uuid_source == b->uuid_source && a->original_size == b->original_size &&
           digest_equal(&a->original_digest, &b->original_digest) &&
           a->stripped_size == b->stripped_size &&
           digest_equal(&a->stripped_digest, &b->stripped_digest) &&
           a->pointer_size == b->pointer_size && a->has_stub == b->has_stub;
}

static bool same_section(const struct sidecar *sidecar, const struct section *found,
                         const struct section *made)
{
    FREED_BY(buffer_free) struct buffer content = {0};
    struct error error = {0};
    bool same = found->kind == made->kind && found->address == made->address &&
                found->alignment == made->alignment && found->size == made->size &&
                strcmp(found->name, section_kind_name(made->kind)) == 0 &&
                (found->form != 0) == (made->content.size != 0) &&
                (found->fate == FATE_COPIED) == (made->fate == FATE_COPIED) &&
                sidecar_find(sidecar, made->kind) == found;

    if (same && found->form != 0) {
        const struct digest digest = digest_of(made->content);
        same = sidecar_read_section(sidecar, found, &content, &error) &&
               bytes_equal(buffer_view(&content), made->content) &&
               digest_equal(&digest, &found->digest);
    }
    return same;
}

bool sample_agrees(const struct sample *sample, const struct sidecar *sidecar)
{
    const struct sidecar_source *source = &sample->source;
    bool same = same_facts(&sidecar->facts, &source->facts) &&
                strcmp(sidecar->image_name, source->image_name) == 0 &&
                sidecar->section_count == source->section_count &&
                sidecar->kept_count == source->kept_count;

    for (size_t i = 0; same && i < source->section_count; i++)
        same = same_section(sidecar, &sidecar->sections[i], &source->sections[i]);
    for (size_t i = 0; same && i < source->kept_count; i++) {
        const struct section *kept = &sidecar->kept[i];
        same = kept->kind == source->kept[i].kind && kept->size == source->kept[i].size &&
               strcmp(kept->reason, source->kept[i].reason) == 0;
    }
    return same;
}
