/*
 * The inverse edit script: see edit.h.
 *
 * Encoding splits the old bytes of each edit at the borders of sections, and goes through the edits
 * once for the steps and once for the literals, which can be large.
 * Decoding checks each step before it gives it out, so that restoring an image is a simple loop
 * over trusted steps.
 */
#include "common/edit/edit.h"

#include "common/edit/symbols.h"

/* ---- encoding ---- */

/* A range of the original that need not be stored as literals. */
struct source {
    uint64_t offset, size; /* in the original */
    uint64_t start;        /* where it starts in the source */
    unsigned number;       /* of the source */
};

struct encoder {
    struct bytes original;
    struct source sources[SECTION_KIND_MAX + EDIT_TABLES]; /* by offset */
    size_t count;
    uint64_t step_count, literal_size;
    struct buffer steps;
};

/* Sorts by insertion, since there are few. */
static void add_source(struct encoder *encoder, struct source source)
{
    size_t place = encoder->count++;

    for (; place > 0 && encoder->sources[place - 1].offset > source.offset; place--)
        encoder->sources[place] = encoder->sources[place - 1];
    encoder->sources[place] = source;
}

/* Lists the sections that go, and the symbol tables. False if two overlap or have the same kind,
 * which would break the rule that each source is used in ascending order. */
static bool take_sources(struct encoder *encoder, const struct edit_tables *tables,
                         const struct section *sections, size_t count)
{
    unsigned seen = 0;
    uint64_t start = 0;

    if (count > SECTION_KIND_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct section *section = &sections[i];

        if (!section_goes(section))
            continue;
        if (section_kind_name(section->kind) == NULL || (seen & SECTION_BIT(section->kind)) != 0)
            return false;
        seen |= SECTION_BIT(section->kind);
        add_source(encoder, (struct source){section->offset, section->size, 0, section->kind});
    }
    for (size_t i = 0; i < EDIT_TABLES && tables->recipe.size != 0; i++) {
        add_source(encoder, (struct source){tables->ranges[i].offset, tables->ranges[i].size, start,
                                            INVERSE_TABLES});
        start += tables->ranges[i].size;
    }
    for (size_t i = 0; i < encoder->count; i++) {
        const struct source *source = &encoder->sources[i];

        if (!range_within(source->offset, source->size, 0, encoder->original.size) ||
            (i > 0 && source->offset - source[-1].offset < source[-1].size))
            return false;
    }
    return true;
}

/* The source that has the byte at `offset`, or NULL. *size is reduced to the bytes from there
 * on for which the result is the same. */
static const struct source *source_at(const struct encoder *encoder, uint64_t offset,
                                      uint64_t *size)
{
    for (size_t i = 0; i < encoder->count; i++) {
        const struct source *source = &encoder->sources[i];
        uint64_t distance;

        if (source->size == 0)
            continue;
        if (offset < source->offset) {
            distance = source->offset - offset;
            *size = *size < distance ? *size : distance;
            return NULL;
        }
        if (offset - source->offset < source->size) {
            distance = source->size - (offset - source->offset);
            *size = *size < distance ? *size : distance;
            return source;
        }
    }
    return NULL;
}

/* Appends the steps that undo one edit, which starts `keep` bytes after the previous one. */
static void append_edit(struct encoder *encoder, const struct edit *edit, uint64_t keep)
{
    struct buffer *steps = &encoder->steps;
    uint64_t drop = edit->new_size, offset = edit->offset, left = edit->old_size;

    do {
        uint64_t insert = left;
        const struct source *source = insert == 0 ? NULL : source_at(encoder, offset, &insert);

        buffer_append_uleb128(steps, keep);
        buffer_append_uleb128(steps, drop);
        buffer_append_uleb128(steps, insert);
        buffer_append_uleb128(steps, source == NULL ? 0 : source->number);
        if (source != NULL)
            buffer_append_uleb128(steps, source->start + (offset - source->offset));
        else
            encoder->literal_size += insert;
        encoder->step_count++;
        offset += insert;
        left -= insert;
        keep = 0;
        drop = 0;
    } while (left != 0);
}

/* Appends the literals of one edit. */
static void append_literals(const struct encoder *encoder, const struct edit *edit,
                            struct buffer *encoded)
{
    uint64_t offset = edit->offset, left = edit->old_size, size;

    for (; left != 0; offset += size, left -= size) {
        size = left;
        if (source_at(encoder, offset, &size) == NULL)
            buffer_append(encoded, encoder->original.data + offset, (size_t)size);
    }
}

bool inverse_encode(const struct edit_script *script, struct bytes original,
                    const struct section *sections, size_t count, const char *name,
                    struct buffer *encoded, struct error *error)
{
    struct encoder encoder = {.original = original};
    bool is_sound = take_sources(&encoder, &script->tables, sections, count);
    uint64_t position = 0;

    for (size_t i = 0; is_sound && i < script->count; i++) {
        const struct edit *edit = &script->edits[i];

        /* As edit_script_finish guarantees: a wrong inverse would lose data. */
        is_sound = edit->offset >= position &&
                   range_within(edit->offset, edit->old_size, 0, original.size);
        if (is_sound)
            append_edit(&encoder, edit, edit->offset - position);
        position = edit->offset + edit->old_size;
    }
    if (!is_sound) {
        error_set(error, "%s: the planned edits or sections overlap; please report this image",
                  name);
    } else {
        buffer_append_uleb128(encoded, encoder.step_count);
        buffer_append_uleb128(encoded, encoder.literal_size);
        buffer_append_uleb128(encoded, script->tables.recipe.size);
        buffer_append(encoded, script->tables.recipe.data, script->tables.recipe.size);
        buffer_append(encoded, encoder.steps.data, encoder.steps.size);
        buffer_reserve(encoded, (size_t)encoder.literal_size);
        for (size_t i = 0; i < script->count && !encoded->failed; i++)
            append_literals(&encoder, &script->edits[i], encoded);
        if (encoder.steps.failed || encoded->failed)
            is_sound = error_out_of_memory(error, name, encoder.steps.size + encoder.literal_size);
    }
    buffer_free(&encoder.steps);
    return is_sound;
}

/* ---- decoding ---- */

struct inverse inverse_open(struct bytes encoded, uint64_t stripped_size, uint64_t original_size,
                            const struct section *sections, size_t count)
{
    struct inverse inverse = {
        .steps = cursor_open(encoded, false, false),
        .stripped_left = stripped_size,
        .original_left = original_size,
    };
    uint64_t literal_size;

    for (size_t i = 0; i < count; i++) {
        if ((SECTION_BIT(sections[i].kind) & SECTION_STORED) != 0)
            inverse.source_sizes[sections[i].kind] = sections[i].size;
    }
    inverse.steps_left = cursor_uleb128(&inverse.steps);
    literal_size = cursor_uleb128(&inverse.steps);
    inverse.recipe = cursor_bytes(&inverse.steps, cursor_uleb128(&inverse.steps));
    inverse.source_sizes[INVERSE_TABLES] = symbol_recipe_size(inverse.recipe);
    /* It is not stored where the literals begin: they are the last bytes. */
    if (literal_size > cursor_left(&inverse.steps)) {
        cursor_spoil(&inverse.steps);
    } else if (literal_size != 0) {
        inverse.steps.end -= literal_size;
        inverse.literals = (struct bytes){inverse.steps.end, literal_size};
    }
    return inverse;
}

static bool take_from(uint64_t *left, uint64_t size)
{
    if (size > *left)
        return false;
    *left -= size;
    return true;
}

bool inverse_next(struct inverse *inverse, struct inverse_step *step)
{
    struct cursor *steps = &inverse->steps;
    uint64_t source;

    if (inverse->steps_left == 0 || steps->bad)
        return false;
    inverse->steps_left--;
    *step = (struct inverse_step){0};
    step->keep = cursor_uleb128(steps);
    step->drop = cursor_uleb128(steps);
    step->insert = cursor_uleb128(steps);
    source = cursor_uleb128(steps);
    if (source != 0)
        step->source_offset = cursor_uleb128(steps);
    if (steps->bad || !take_from(&inverse->stripped_left, step->keep) ||
        !take_from(&inverse->stripped_left, step->drop) ||
        !take_from(&inverse->original_left, step->keep) ||
        !take_from(&inverse->original_left, step->insert) ||
        (step->keep | step->drop | step->insert) == 0 || source > INVERSE_SOURCE_MAX ||
        (source == 0 ? step->insert > inverse->literals.size
                     : step->source_offset < inverse->source_used[source] ||
                           !range_within(step->source_offset, step->insert, 0,
                                         inverse->source_sizes[source]))) {
        cursor_spoil(steps);
        return false;
    }
    step->source = (unsigned)source;
    if (source != 0) {
        inverse->source_used[source] = step->source_offset + step->insert;
    } else if (step->insert != 0) {
        step->literals = (struct bytes){inverse->literals.data, step->insert};
        inverse->literals.data += step->insert;
        inverse->literals.size -= step->insert;
    }
    return true;
}

bool inverse_finish(const struct inverse *inverse, const char *name, struct error *error)
{
    return (inverse->steps_left == 0 && cursor_finished(&inverse->steps) &&
            inverse->literals.size == 0 && inverse->stripped_left == inverse->original_left) ||
           error_set(error,
                     "%s: the inverse edit script is damaged or does not fit the image; get an "
                     "intact copy",
                     name);
}
