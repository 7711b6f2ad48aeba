/*
 * Splitting an image in memory, and joining it: see image.h.
 *
 * This is what `covsplit split` does, less the files and less the codec, which takes far longer
 * than everything else: the plan, the edit script, its inverse, and the mapping of packed units.
 */
#include "tests/fuzz/image.h"

#include <string.h>

#include "common/edit/edit.h"
#include "common/edit/symbols.h"
#include "formats/image.h"
#include "tests/support/freed.h"

DEFINE_DROP(drop_plan, struct image_plan, image_plan_free)

/* What an edit script may add to an image: headers and tables that are written anew. */
#define GROWTH_MAX (UINT64_C(1) << 20)
#define UUID_BYTE  0x5a

/* ---- options ---- */

#define CHOICE_SECTIONS  0x07 /* one of the masks below */
#define CHOICE_UUID      0x08
#define CHOICE_SIGNATURE 0x10

static struct image_options options_of(uint8_t choice, const struct input *map)
{
    static const unsigned masks[CHOICE_SECTIONS + 1] = {
        SECTION_DEFAULT,
        SECTION_BIT(SECTION_COVMAP) | SECTION_BIT(SECTION_COVFUN) | SECTION_ZEROS,
        SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_DATA),
        SECTION_BIT(SECTION_NAMES) | SECTION_ZEROS,
        SECTION_BIT(SECTION_DATA),
        SECTION_BIT(SECTION_COVMAP),
        SECTION_BIT(SECTION_COVFUN) | SECTION_BIT(SECTION_DATA),
        SECTION_REMOVABLE,
    };
    struct image_options options = {
        .sections = masks[choice & CHOICE_SECTIONS],
        .map = map,
        .drop_signature = (choice & CHOICE_SIGNATURE) != 0,
    };

    if ((choice & CHOICE_UUID) != 0) {
        options.uuid.size = UUID_SIZE_MAX;
        memset(options.uuid.bytes, UUID_BYTE, UUID_SIZE_MAX);
    }
    return options;
}

/* ---- forward ---- */

static struct buffer apply(const struct edit_script *edits, const struct input *image)
{
    struct fuzz_collection result = {.limit = image->bytes.size + GROWTH_MAX};
    struct error error;

    FUZZ_EXPECT(edit_script_stream(edits, image, fuzz_collect, &result, &error),
                "the edit script failed: %s", error.message);
    FUZZ_EXPECT(result.bytes.size == edit_script_result_size(edits),
                "the edit script's result has not the size that it told");
    return result.bytes;
}

/* ---- inverse ---- */

static struct bytes section_part(const struct image_plan *plan, const struct input *image,
                                 const struct inverse_step *step)
{
    struct bytes part = {0};

    for (size_t i = 0; i < plan->section_count; i++) {
        const struct section *section = &plan->sections[i];

        if (section_goes(section) && image_plan_stored_kind(plan, section->kind) == step->source)
            FUZZ_EXPECT(bytes_slice(image->bytes, section->offset + step->source_offset,
                                    step->insert, &part),
                        "a section is not in the image");
    }
    FUZZ_EXPECT(part.size == step->insert, "the inverse needs a section that is not stored");
    return part;
}

static void append(struct buffer *joined, struct bytes whole, uint64_t offset, uint64_t size)
{
    struct bytes part;

    FUZZ_EXPECT(bytes_slice(whole, offset, size, &part) &&
                    buffer_append(joined, part.data, part.size),
                "the inverse goes beyond the stripped image");
}

/* The symbol tables, which are made of the stripped image and the records of the original. */
static struct bytes tables_part(struct image_plan *plan, const struct input *image,
                                struct bytes stripped, const struct inverse *inverse,
                                const struct inverse_step *step, struct buffer *tables)
{
    const struct section *records = image_plan_section(plan, SECTION_COVFUN);
    struct elf_form form = elf_form_of(plan->facts.elf_class, plan->facts.elf_data);
    FREED_BY(record_list_free) struct record_list list = {0};
    struct bytes content = {0}, part = {0};
    struct error error;

    FUZZ_EXPECT(records != NULL &&
                    bytes_slice(image->bytes, records->offset, records->size, &content),
                "symbols of no records");
    record_list_start(&list, content.size, form.big_endian);
    FUZZ_EXPECT(record_list_add(&list, content), "no memory");
    tables->size = 0;
    FUZZ_EXPECT(symbol_recipe_apply(inverse->recipe, form, stripped, &list, UINT64_MAX, image->path,
                                    tables, &error),
                "no symbol tables: %s", error.message);
    FUZZ_EXPECT(bytes_slice(buffer_view(tables), step->source_offset, step->insert, &part),
                "the symbol tables are too short");
    return part;
}

static void expect_inverse(struct image_plan *plan, const struct input *image,
                           struct bytes stripped)
{
    struct section sections[SECTION_KIND_MAX];
    struct inverse_step step;
    uint64_t place = 0;
    FREED_BY(buffer_free) struct buffer encoded = {0}, joined = {0}, tables = {0};
    struct inverse inverse;
    struct error error;

    for (size_t i = 0; i < plan->section_count; i++) {
        sections[i] = plan->sections[i];
        sections[i].kind = image_plan_stored_kind(plan, sections[i].kind);
    }
    FUZZ_EXPECT(inverse_encode(&plan->edits, image->bytes, sections, plan->section_count,
                               image->path, &encoded, &error),
                "no inverse: %s", error.message);
    inverse = inverse_open(buffer_view(&encoded), stripped.size, image->bytes.size, sections,
                           plan->section_count);
    while (inverse_next(&inverse, &step)) {
        struct bytes part = step.source == 0 ? step.literals
                            : step.source == INVERSE_TABLES
                                ? tables_part(plan, image, stripped, &inverse, &step, &tables)
                                : section_part(plan, image, &step);

        append(&joined, stripped, place, step.keep);
        append(&joined, part, 0, part.size);
        place += step.keep + step.drop;
    }
    FUZZ_EXPECT(inverse_finish(&inverse, image->path, &error), "the inverse is not valid: %s",
                error.message);
    append(&joined, stripped, place, stripped.size - place);
    FUZZ_EXPECT(bytes_equal(buffer_view(&joined), image->bytes), "joined, it is another image");
}

/* ---- the stripped image ---- */

/* It must be known for what it is: a second split has nothing to do. */
static void expect_known_as_split(struct image_plan *plan, struct bytes stripped,
                                  const struct input *image, const struct image_options *options)
{
    struct input again = fuzz_input(stripped, image->path);
    struct split_image split;
    struct error error;
    FREED_BY(drop_plan) struct image_plan *second;

    FUZZ_EXPECT(image_read_stripped_id(&again, &split, &error),
                "a stripped image is not known as one");
    second = image_plan_make(&again, options, &error);
    FUZZ_EXPECT(second != NULL, "a stripped image is refused: %s", error.message);
    FUZZ_EXPECT(second->already_split && second->edits.count == 0,
                "a stripped image would be split again");
    /* Where neither names nor data go, and there is no build ID, only the sidecar knows it. */
    FUZZ_EXPECT(split.uuid.size != 0 ||
                    (!plan->facts.has_stub && plan->facts.uuid_source != UUID_FROM_BUILD_ID),
                "a stripped image has lost its UUID");
    /* Nor can the record of a COFF image's only function, which stayed, be told from a stub: what
     * is taken for its UUID then is that of no sidecar. */
    FUZZ_EXPECT((split.uuid_is_stub && !plan->facts.has_stub) ||
                    memcmp(split.uuid.bytes, plan->facts.uuid.bytes, split.uuid.size) == 0,
                "a stripped image has another UUID");
}

/* ---- packed units ---- */

/* They are refused, or give a mapping; and so does the image as a whole, if there is room. */
static void try_ordinary(const struct image_plan *plan, const struct input *image)
{
    FREED_BY(buffer_free) struct buffer covmap = {0}, covfun = {0};
    struct packed_counts counts;
    struct error error;

    if (!image_plan_unpack(plan, image, 0, &covmap, &covfun, &error)) {
        fuzz_expect_reason(&error);
    } else {
        FREED_BY(edit_script_free) struct edit_script edits;

        FUZZ_EXPECT(ordinary_count(image, plan, &counts, &error), "not counted: %s", error.message);
        edit_script_init(&edits, image->bytes.size);
        if (!ordinary_plan(image, plan, 0, &edits, &error)) {
            fuzz_expect_reason(&error);
        } else {
            FREED_BY(buffer_free) struct buffer ordinary = apply(&edits, image);
            struct input result = fuzz_input(buffer_view(&ordinary), image->path);
            FREED_BY(drop_plan) struct image_plan *described = image_describe(&result, &error);

            FUZZ_EXPECT(described != NULL, "with ordinary mapping, refused: %s", error.message);
            FUZZ_EXPECT(!described->is_packed, "there are packed units in the ordinary mapping");
        }
    }
}

/* ---- the whole ---- */

static void describe(const struct input *image)
{
    struct buffer outline = {0};
    struct split_image split;
    struct error error;
    FREED_BY(drop_plan) struct image_plan *plan;

    image_is_linked(image->bytes);
    image_read_stripped_id(image, &split, &error);
    FUZZ_EXPECT(!error_is_of_memory(&error), "out of memory: %s", error.message);
    if (!image_outline(image, &outline, &error))
        fuzz_expect_reason(&error);
    buffer_free(&outline);
    plan = image_describe(image, &error);
    if (plan == NULL)
        fuzz_expect_reason(&error);
    else if (plan->is_packed)
        try_ordinary(plan, image);
}

struct buffer fuzz_image_split(const struct input *image, uint8_t choice, const struct input *map)
{
    struct buffer stripped = {0};
    struct image_options options = options_of(choice, map);
    struct error error;
    FREED_BY(drop_plan) struct image_plan *plan = image_plan_make(image, &options, &error);

    if (plan == NULL) {
        fuzz_expect_reason(&error);
        return stripped;
    }
    if (plan->already_split || !plan->removes_sections) {
        FUZZ_EXPECT(plan->edits.count == 0, "edits of an image from which nothing is taken");
    } else {
        stripped = apply(&plan->edits, image);
        expect_inverse(plan, image, buffer_view(&stripped));
        expect_known_as_split(plan, buffer_view(&stripped), image, &options);
    }
    return stripped;
}

/* ---- universal images ---- */

/* What becomes of the slices: empty for those that stay. */
struct slices {
    const struct container *container;
    struct buffer stripped[SLICES_MAX];
    struct fuzz_collection *file;
};

static struct bytes slice_bytes(const struct slices *slices, size_t index)
{
    return slices->stripped[index].size != 0 ? buffer_view(&slices->stripped[index])
                                             : slices->container->slices[index].input.bytes;
}

/* A slice_writer. */
static bool write_slice(void *context, size_t index, struct error *error)
{
    const struct slices *slices = context;

    return fuzz_collect(slices->file, slice_bytes(slices, index), error);
}

/* The slices must fit into one file again, and be found in it. */
static void expect_composed(struct container *container, struct slices *slices, char *name)
{
    struct fuzz_collection file = {.limit = GROWTH_MAX};
    FREED_BY(container_close) struct container composed;
    struct input input;
    struct error error;

    slices->file = &file;
    for (size_t i = 0; i < container->count; i++) {
        container->slices[i].size = slice_bytes(slices, i).size;
        file.limit += container->slices[i].size;
    }
    FUZZ_EXPECT(
        container_lay_out(container, name, &error) &&
            container_write(container, name, fuzz_collect, &file, write_slice, slices, &error),
        "a universal image cannot be written: %s", error.message);
    input = fuzz_input(buffer_view(&file.bytes), name);
    FUZZ_EXPECT(container_open(&composed, &input, &error), "a universal image cannot be read: %s",
                error.message);
    FUZZ_EXPECT(composed.count == container->count, "a universal image has lost slices");
    for (size_t i = 0; i < composed.count; i++)
        FUZZ_EXPECT(bytes_equal(composed.slices[i].input.bytes, slice_bytes(slices, i)),
                    "a slice has become another");
    buffer_free(&file.bytes);
}

static void split_slices(struct container *container, uint8_t choice, char *name)
{
    struct slices slices = {.container = container};

    for (size_t i = 0; i < container->count; i++) {
        const struct input *image = &container->slices[i].input;

        describe(image);
        slices.stripped[i] = fuzz_image_split(image, choice, NULL);
    }
    if (container->is_universal)
        expect_composed(container, &slices, name);
    for (size_t i = 0; i < container->count; i++)
        buffer_free(&slices.stripped[i]);
}

static bool is_of_format(struct bytes bytes, enum image_format format)
{
    const char *name;

    return container_is_universal(bytes)
               ? format == IMAGE_MACHO
               : image_recognize(bytes, &name) && strcmp(name, image_format_name(format)) == 0;
}

int fuzz_image(const uint8_t *data, size_t size, enum image_format format)
{
    static char name[] = "image";
    struct bytes bytes = {data, size == 0 ? 0 : size - 1};
    struct input file = fuzz_input(bytes, name);
    struct container container;
    struct error error;

    if (!is_of_format(bytes, format))
        return -1;
    if (!container_open(&container, &file, &error))
        fuzz_expect_reason(&error);
    else
        split_slices(&container, data[size - 1], name);
    container_close(&container);
    return 0;
}
