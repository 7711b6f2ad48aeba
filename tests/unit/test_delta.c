/*
 * Deltas that are written and read in memory: what must come back whatever the sections are.
 */
#include <string.h>

#include "common/llvm/names.h"
#include "common/sidecar/delta.h"
#include "tests/support/suite.h"
#include "tests/unit/name_chunk.h"
#include "tests/unit/sidecar_sample.h"

/* The names are mangled ones, with one long identifier many times in each. */
#define NAME_COUNT       10
#define IDENTIFIER_SIZE  100
#define IDENTIFIER_COUNT 100

static struct buffer base_file;

/* A base_finder. */
static bool find_base(void *context, const struct digest *digest, struct bytes *bytes)
{
    (void)context;
    (void)digest;
    *bytes = buffer_view(&base_file);
    return true;
}

/* A section of names that zlib makes hundreds of times smaller. */
static struct buffer long_names(char last)
{
    struct buffer text = {0}, section = {0};
    char identifier[IDENTIFIER_SIZE];

    memset(identifier, 'a', sizeof(identifier));
    for (int i = 0; i < NAME_COUNT; i++) {
        const char name[] = {'1', i + 1 == NAME_COUNT ? last : (char)('b' + i), 'E',
                             i + 1 == NAME_COUNT ? '\0' : NAME_SEPARATOR};

        buffer_append(&text, "_ZN", 3);
        for (size_t j = 0; j < IDENTIFIER_COUNT; j++) {
            buffer_append(&text, "100", 3);
            buffer_append(&text, identifier, sizeof(identifier));
        }
        buffer_append(&text, name, sizeof(name));
    }
    ck_assert(!text.failed);
    name_chunk_put(&section, (const char *)text.data, true);
    ck_assert_uint_lt(section.size * 100, text.size);
    buffer_free(&text);
    return section;
}

/* A sidecar with these names. */
static struct buffer sidecar_with(struct sample *sample, const struct buffer *names)
{
    for (size_t i = 0; i < SAMPLE_SECTIONS; i++) {
        if (sample->sections[i].kind == SECTION_NAMES) {
            sample->sections[i].content = buffer_view(names);
            sample->sections[i].size = names->size;
        }
    }
    sample->source.facts.has_stub = false;
    return sample_write_compact(&sample->source);
}

/* The text of such names takes more than streams of the section may, so that they stay codes. */
START_TEST(test_names_that_compress_well)
{
    const struct delta_options options = {.level = 9, .most = UINT64_MAX, .is_fast = _i == 0};
    FREED_BY(sidecar_bases_free) struct sidecar_bases bases = SIDECAR_BASES_EMPTY;
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free)
    struct buffer base_names = long_names('y'), names = long_names('z'), content = {0};
    FREED_BY(buffer_free) struct buffer whole_file;
    FREED_BY(drop_sidecar) struct sidecar *whole, *read;
    FREED_BY(names_free) struct names found = {.count = 0};
    FREED_BY(output_discard) struct output output;
    FREED_BY(input_close) struct input written;
    struct digest digest;
    struct error error;
    bool fits;

    base_file = sidecar_with(sample, &base_names);
    whole_file = sidecar_with(sample, &names);
    whole = sample_open(&whole_file);
    digest = digest_of(buffer_view(&base_file));
    bases.find = find_base;
    ck_assert(output_create_in_memory(&output, "delta", &error));
    ck_assert_msg(delta_write(whole, whole_file.size, &bases, "base", &digest, &options, &output,
                              &fits, &error),
                  "%s", error.message);
    ck_assert(fits && output_map(&output, &written, &error));
    read = sidecar_open(written.bytes, "delta", &error);
    ck_assert_msg(read != NULL, "%s", error.message);
    sidecar_share_bases(read, &bases);
    ck_assert_msg(sidecar_read_names(read, sidecar_find(read, SECTION_NAMES), &found, &error), "%s",
                  error.message);
    ck_assert_uint_eq(sidecar_find(read, SECTION_NAMES)->form, 0x6c760103);
    ck_assert_uint_eq(found.count, NAME_COUNT);
    ck_assert_msg(sidecar_read_section(read, sidecar_find(read, SECTION_NAMES), &content, &error),
                  "%s", error.message);
    ck_assert(bytes_equal(buffer_view(&content), buffer_view(&names)));
    ck_assert_msg(sidecar_verify(read, &error), "%s", error.message);

    buffer_free(&base_file);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);

    suite_loops(all, 2, test_names_that_compress_well);
    return suite_main("delta", all);
}
