/*
 * Fuzz target: a sidecar through the whole public interface of the library, and what the command
 * does with sidecars besides.
 *
 * An input: 4 bytes that vary what is asked for, and parts (parts.h): the sidecar, a stripped
 * image, and a second sidecar, for unions and as the base of a delta.
 *
 * A sidecar is refused with a reason, or every way to read a section gives the same bytes, as many
 * as it says that there are.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sidecar/exported.h"
#include "common/sidecar/sidecar.h"
#include "common/sidecar/union.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/parts.h"
#include "tests/fuzz/reader_api.h"
#include "tests/fuzz/sidecar_edit.h"
#include "tests/fuzz/support.h"

DEFINE_DROP(drop_sidecar, struct sidecar, sidecar_close)
DEFINE_DROP(drop_opened_sidecar, covsplit_sidecar, covsplit_sidecar_close)

#define FIXED 4

enum part { PART_SIDECAR, PART_STRIPPED, PART_OTHER, PARTS };

/* Bits of the first byte. */
enum variant {
    VARIANT_DESCRIPTOR = 1,
    VARIANT_UNION = 2,
    VARIANT_REPACK = 4,
    VARIANT_FILE = 8,
    VARIANT_SECTIONS = 16,
    VARIANT_FUNCTIONS = 32,
    VARIANT_EXPORT = 64,
    VARIANT_VERIFY = 128,
};

/* An input of a few kilobytes may claim as much. */
#define MEMORY_LIMIT ((uint64_t)2 << 20)

/* Several blocks of that are held at a time, and each is copied a few times. */
#define BLOCK_MOST ((size_t)96 << 20)
#define ALL_MOST   ((size_t)2 << 30)

/* A covsplit_base_finder. */
static bool give_other(void *context, const uint8_t *digest, const void **data, size_t *size)
{
    const struct parts *parts = context;
    struct bytes other = parts_get(parts, PART_OTHER);

    (void)digest;
    *data = other.data;
    *size = (size_t)other.size;
    return true;
}

/* ---- sections ---- */

static void check_part(covsplit_sidecar *sidecar, const char *name, struct bytes whole,
                       const uint8_t *fixed)
{
    uint64_t offset = whole.size == 0 ? 0 : fixed[1] * whole.size / 255;
    size_t size = (size_t)(whole.size - offset) * fixed[2] / 255;
    covsplit_error *error = NULL;
    void *part = covsplit_sidecar_read_part(sidecar, name, offset, size, &error);

    FUZZ_EXPECT(part != NULL, "a part is refused: %s", covsplit_error_message(error));
    FUZZ_EXPECT(size == 0 || memcmp(part, whole.data + offset, size) == 0,
                "a part differs from the whole");
    free(part);
    part = covsplit_sidecar_read_part(sidecar, name, whole.size, 1, &error);
    FUZZ_EXPECT(part == NULL, "a byte behind the end");
    api_refused(error);
}

static void check_section(covsplit_sidecar *sidecar, const covsplit_section *section,
                          const uint8_t *fixed)
{
    struct api_taken taken = {.limit = section->size};
    covsplit_error *error = NULL;
    const void *kept;
    size_t size, kept_size;
    FREED_BY(drop_memory)
    uint8_t *read = covsplit_sidecar_read(sidecar, section->name, &size, &error);

    if (read == NULL) {
        api_refused(error);
        error = NULL;
        if (covsplit_sidecar_content(sidecar, section->name, &size, &error) == NULL)
            api_refused(error);
        return;
    }
    FUZZ_EXPECT(size == section->size, "a section not of its size");
    kept = covsplit_sidecar_content(sidecar, section->name, &kept_size, &error);
    FUZZ_EXPECT(kept != NULL && kept_size == size && memcmp(kept, read, size) == 0,
                "a section is kept otherwise than it is read");
    FUZZ_EXPECT(covsplit_sidecar_stream(sidecar, section->name, api_take, &taken, &error),
                "a section that can be read is not passed on: %s", covsplit_error_message(error));
    FUZZ_EXPECT(taken.bytes.size == size &&
                    (size == 0 || memcmp(taken.bytes.data, read, size) == 0),
                "a section is passed on otherwise than it is read");
    check_part(sidecar, section->name, (struct bytes){read, size}, fixed);
    buffer_free(&taken.bytes);
}

static void check_sections(covsplit_sidecar *sidecar, const uint8_t *fixed)
{
    size_t count = covsplit_sidecar_section_count(sidecar);
    covsplit_section section, found;

    for (size_t i = 0; i < count; i++) {
        FUZZ_EXPECT(covsplit_sidecar_section(sidecar, i, &section), "a section is missing");
        FUZZ_EXPECT(covsplit_sidecar_find(sidecar, section.name, &found) &&
                        found.size == section.size,
                    "a section is not found");
        check_section(sidecar, &section, fixed);
    }
    FUZZ_EXPECT(!covsplit_sidecar_section(sidecar, count, &section), "a section too many");
}

static void check_functions(covsplit_sidecar *sidecar)
{
    covsplit_error *error = NULL;
    covsplit_functions *functions = covsplit_functions_open(sidecar, &error);
    covsplit_function function;

    if (functions == NULL) {
        api_refused(error);
        return;
    }
    for (size_t i = 0; covsplit_functions_get(functions, i, &function); i++)
        FUZZ_EXPECT(function.name == NULL || strlen(function.name) < MEMORY_LIMIT, "a long name");
    covsplit_functions_close(functions);
}

/* ---- what is made of it ---- */

/* An original has the digest that the sidecar tells, and was made of the image that it tells. */
static void check_original(struct bytes sidecar_bytes, struct bytes stripped, struct bytes original)
{
    struct digest of_stripped = digest_of(stripped), of_original = digest_of(original);
    struct error error = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sidecar_open(sidecar_bytes, "sidecar", &error);
    const struct sidecar_facts *facts;

    FUZZ_EXPECT(sidecar != NULL, "a sidecar that restores cannot be opened: %s", error.message);
    facts = &sidecar->facts;
    FUZZ_EXPECT(memcmp(of_stripped.bytes, facts->stripped_digest.bytes, DIGEST_SIZE) == 0,
                "an original was made of another stripped image");
    FUZZ_EXPECT(memcmp(of_original.bytes, facts->original_digest.bytes, DIGEST_SIZE) == 0,
                "what was restored is not the original");
}

static void check_restore(const covsplit_sidecar *sidecar, struct bytes bytes,
                          struct bytes stripped, unsigned variant)
{
    uint64_t original_size = covsplit_sidecar_original_size(sidecar);
    struct api_taken taken = {.limit = original_size};
    covsplit_error *error = NULL;
    bool done;

    if ((variant & VARIANT_FILE) != 0) {
        char path[API_PATH_SIZE];
        int descriptor = api_file(stripped, path);

        done = covsplit_sidecar_restore_file(sidecar, path, api_take, &taken, &error);
        close(descriptor);
    } else {
        done = covsplit_sidecar_restore(sidecar, stripped.data, stripped.size, "stripped", api_take,
                                        &taken, &error);
    }
    if (done) {
        FUZZ_EXPECT(taken.bytes.size == original_size, "an original not of its size");
        check_original(bytes, stripped, buffer_view(&taken.bytes));
    } else {
        api_refused(error);
    }
    buffer_free(&taken.bytes);
}

static void check_export(covsplit_sidecar *sidecar)
{
    struct api_taken taken = {.limit = ALL_MOST};
    struct export_facts facts = {0};
    covsplit_error *error = NULL;
    struct error why = {0};

    if (covsplit_sidecar_export(sidecar, api_take, &taken, &error)) {
        FUZZ_EXPECT(covsplit_is_object(taken.bytes.data, taken.bytes.size),
                    "what is exported is no object");
        FUZZ_EXPECT(export_read(buffer_view(&taken.bytes), "object", &facts, &why),
                    "what is exported cannot be read: %s", why.message);
    } else {
        api_refused(error);
    }
    buffer_free(&taken.bytes);
}

/* Whether the bytes are a union with that many members. */
static void check_members(const struct api_taken *taken, size_t count)
{
    struct union_member_view member;
    struct error error = {0};
    struct bytes rest;
    bool found = true;

    FUZZ_EXPECT(covsplit_is_union(taken->bytes.data, taken->bytes.size), "a union is none");
    FUZZ_EXPECT(union_open(buffer_view(&taken->bytes), "union", &rest, &error), "%s",
                error.message);
    for (size_t i = 0; i <= count; i++) {
        FUZZ_EXPECT(union_next(&rest, "union", &member, &found, &error), "%s", error.message);
        FUZZ_EXPECT(found == (i < count), "a union has another number of members");
    }
}

static void check_union(const covsplit_sidecar *sidecar, struct bytes other)
{
    struct api_taken taken = {.limit = ALL_MOST};
    covsplit_error *error = NULL;
    covsplit_union *all = covsplit_union_new(api_take, &taken, &error);
    FREED_BY(drop_opened_sidecar)
    covsplit_sidecar *second = covsplit_sidecar_open_memory(other.data, other.size, "other", NULL);

    if (second != NULL)
        covsplit_sidecar_limit_memory(second, MEMORY_LIMIT);
    if (covsplit_union_add(all, sidecar, &error) &&
        (second == NULL || covsplit_union_add(all, second, &error)) &&
        covsplit_union_finish(all, &error))
        check_members(&taken, second == NULL ? 1 : 2);
    else
        api_refused(error);
    covsplit_union_free(all);
    buffer_free(&taken.bytes);
}

/* Repacks it in memory; what comes out holds the same. */
static void check_repack(struct bytes bytes)
{
    const struct sidecar_write_options options = {.level = 1, .threads = 1};
    struct error error = {0};
    struct sidecar *sidecar = sidecar_open(bytes, "sidecar", &error), *again;
    FREED_BY(output_discard) struct output output = {0};
    struct input made = {0};

    if (sidecar == NULL)
        return;
    sidecar_limit_memory(sidecar, MEMORY_LIMIT);
    sidecar_is_compact(sidecar);
    FUZZ_EXPECT(output_create_in_memory(&output, "repacked", &error), "%s", error.message);
    if (sidecar_repack(sidecar, &options, &output, &error)) {
        FUZZ_EXPECT(output_map(&output, &made, &error), "%s", error.message);
        again = sidecar_open(made.bytes, "repacked", &error);
        FUZZ_EXPECT(again != NULL, "what is repacked cannot be opened: %s", error.message);
        FUZZ_EXPECT(sidecar_holds_same(sidecar, again), "what is repacked holds something else");
        sidecar_close(again);
        input_close(&made);
    } else {
        fuzz_expect_reason(&error);
    }
    sidecar_close(sidecar);
}

/* ---- the target ---- */

static covsplit_sidecar *open_sidecar(struct bytes bytes, unsigned variant, covsplit_error **error)
{
    covsplit_sidecar *sidecar;
    char path[API_PATH_SIZE];
    int descriptor;

    if ((variant & VARIANT_DESCRIPTOR) == 0)
        return covsplit_sidecar_open_memory(bytes.data, bytes.size, "sidecar", error);
    descriptor = api_file(bytes, path);
    sidecar = covsplit_sidecar_open_fd(descriptor, "sidecar", error);
    close(descriptor);
    return sidecar;
}

static void check_facts(const covsplit_sidecar *sidecar)
{
    size_t size;

    FUZZ_EXPECT(covsplit_sidecar_uuid(sidecar, &size) != NULL && size != 0, "no UUID");
    FUZZ_EXPECT(covsplit_sidecar_format(sidecar)[0] != '\0', "no format");
    FUZZ_EXPECT(covsplit_sidecar_image_name(sidecar) != NULL, "no name");
    covsplit_sidecar_machine(sidecar);
    covsplit_sidecar_raw_version(sidecar);
    covsplit_sidecar_stripped_size(sidecar);
    covsplit_sidecar_is_placeholder(sidecar);
}

static void run(struct parts *parts)
{
    unsigned variant = parts->fixed[0];
    struct bytes bytes = parts_get(parts, PART_SIDECAR);
    covsplit_error *error = NULL;
    covsplit_sidecar *sidecar = open_sidecar(bytes, variant, &error);

    if (sidecar == NULL) {
        api_refused(error);
        covsplit_is_sidecar(bytes.data, bytes.size);
        return;
    }
    FUZZ_EXPECT(covsplit_is_sidecar(bytes.data, bytes.size), "a sidecar that is none");
    covsplit_sidecar_limit_memory(sidecar, MEMORY_LIMIT);
    covsplit_sidecar_set_base_finder(sidecar, give_other, parts);
    check_facts(sidecar);
    check_restore(sidecar, bytes, parts_get(parts, PART_STRIPPED), variant);
    if ((variant & VARIANT_FUNCTIONS) != 0)
        check_functions(sidecar);
    if ((variant & VARIANT_SECTIONS) != 0)
        check_sections(sidecar, parts->fixed);
    if ((variant & VARIANT_VERIFY) != 0 && !covsplit_sidecar_verify(sidecar, &error))
        api_refused(error);
    if ((variant & VARIANT_EXPORT) != 0)
        check_export(sidecar);
    if ((variant & VARIANT_UNION) != 0)
        check_union(sidecar, parts_get(parts, PART_OTHER));
    covsplit_sidecar_close(sidecar);
    if ((variant & VARIANT_REPACK) != 0)
        check_repack(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parts parts;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    allocations_start();
    run(&parts);
    allocations_check(BLOCK_MOST, ALL_MOST);
    return 0;
}

/* ---- mutations ---- */

/* Changes the contents of a section, or the inverse script. */
static void mutate_content(struct buffer *sidecar, struct random_state *random)
{
    FREED_BY(buffer_free) struct buffer content = {0}, changed = {0};
    const char *name = NULL;
    char copied[64];

    for (size_t tries = 0; name == NULL && tries < 8; tries++)
        name = sidecar_edit_name(buffer_view(sidecar), random_below(random, 8));
    if (name == NULL || strlen(name) >= sizeof(copied))
        return;
    strcpy(copied, name);
    if (sidecar_edit_read(buffer_view(sidecar), copied, &content)) {
        part_mutate(buffer_view(&content), random, &changed);
        sidecar_edit_write(sidecar, copied, buffer_view(&changed));
    }
}

static void mutate(struct parts *parts, struct buffer rooms[2], struct random_state *random)
{
    struct bytes *sidecar = &parts->part[PART_SIDECAR], *stripped = &parts->part[PART_STRIPPED];

    switch (random_below(random, 8)) {
    case 0:
        parts->fixed[0] ^= (uint8_t)(1u << random_below(random, 8));
        mutate_bytes(parts->fixed + 1, FIXED - 1, FIXED - 1);
        return;
    case 1:
        part_mutate(*stripped, random, &rooms[1]);
        *stripped = buffer_view(&rooms[1]);
        break;
    case 2:
        part_mutate(parts->part[PART_OTHER], random, &rooms[1]);
        parts->part[PART_OTHER] = buffer_view(&rooms[1]);
        return;
    case 3:
    case 4:
        part_mutate(*sidecar, random, &rooms[0]);
        *sidecar = buffer_view(&rooms[0]);
        break;
    default:
        if (!buffer_append(&rooms[0], sidecar->data, (size_t)sidecar->size))
            return;
        mutate_content(&rooms[0], random);
        *sidecar = buffer_view(&rooms[0]);
        break;
    }
    if (rooms[0].size == 0 && !buffer_append(&rooms[0], sidecar->data, (size_t)sidecar->size))
        return;
    if (random_below(random, 4) != 0)
        sidecar_edit_fit_image(&rooms[0], stripped->size);
    *sidecar = buffer_view(&rooms[0]);
}

/* Reads everything that has a digest. */
static void read_input(const uint8_t *data, size_t size)
{
    struct api_taken taken = {.limit = ALL_MOST};
    struct parts parts;
    struct bytes bytes, stripped;
    covsplit_sidecar *sidecar;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    bytes = parts_get(&parts, PART_SIDECAR);
    stripped = parts_get(&parts, PART_STRIPPED);
    sidecar = covsplit_sidecar_open_memory(bytes.data, bytes.size, "sidecar", NULL);
    if (sidecar == NULL)
        return;
    covsplit_sidecar_limit_memory(sidecar, MEMORY_LIMIT);
    covsplit_sidecar_set_base_finder(sidecar, give_other, &parts);
    covsplit_sidecar_verify(sidecar, NULL);
    covsplit_sidecar_restore(sidecar, stripped.data, stripped.size, "stripped", api_take, &taken,
                             NULL);
    covsplit_sidecar_close(sidecar);
    buffer_free(&taken.bytes);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct random_state random = random_start(seed);
    struct buffer rooms[2] = {{0}};
    struct parts parts;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    while (parts.count < PARTS)
        parts.part[parts.count++] = (struct bytes){0};
    mutate(&parts, rooms, &random);
    size = parts_write(&parts, data, size, most);
    buffer_free(&rooms[0]);
    buffer_free(&rooms[1]);
    if (random_below(&random, 8) != 0)
        digests_heal(data, size, read_input);
    return size;
}
