/*
 * The inverse edit script: see inverse.h.
 *
 * Encoding goes through the edits once and splits the old bytes of each at the borders of sections.
 * Decoding checks everything that later use relies on, so that restoring an image is a simple loop
 * over trusted steps.
 */
#include "common/edit/inverse.h"

#include <stdlib.h>

/* ---- encoding ---- */

struct encoder {
    struct bytes original;
    struct section_range ranges[SECTION_KIND_MAX]; /* by offset */
    size_t range_count;
    uint64_t step_count;
    struct buffer steps;
    struct buffer literals;
};

/* Copies and sorts the ranges, by insertion, since there are at most eight. False if two overlap or
 * have the same kind, which would break the rule that each section is used in ascending order. */
static bool take_ranges(struct encoder *encoder, const struct section_range *ranges, size_t count)
{
    unsigned seen = 0;

    if (count > SECTION_KIND_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t place = i;

        if (section_kind_name(ranges[i].kind) == NULL || (seen & SECTION_BIT(ranges[i].kind)) != 0)
            return false;
        seen |= SECTION_BIT(ranges[i].kind);
        for (; place > 0 && encoder->ranges[place - 1].offset > ranges[i].offset; place--)
            encoder->ranges[place] = encoder->ranges[place - 1];
        encoder->ranges[place] = ranges[i];
    }
    encoder->range_count = count;
    for (size_t i = 0; i < count; i++) {
        const struct section_range *range = &encoder->ranges[i];
        struct bytes part;

        if (!bytes_slice(encoder->original, range->offset, range->size, &part) ||
            (i > 0 && range->offset - range[-1].offset < range[-1].size))
            return false;
    }
    return true;
}

/* The range that contains the byte at `offset`, or NULL. *size is reduced to the bytes from there
 * on for which the result is the same. */
static const struct section_range *range_at(const struct encoder *encoder, uint64_t offset,
                                            uint64_t *size)
{
    for (size_t i = 0; i < encoder->range_count; i++) {
        const struct section_range *range = &encoder->ranges[i];
        uint64_t distance;

        if (range->size == 0)
            continue;
        if (offset < range->offset) {
            distance = range->offset - offset;
            *size = *size < distance ? *size : distance;
            return NULL;
        }
        if (offset - range->offset < range->size) {
            distance = range->size - (offset - range->offset);
            *size = *size < distance ? *size : distance;
            return range;
        }
    }
    return NULL;
}

static bool append_step(struct encoder *encoder, uint64_t keep, uint64_t drop, uint64_t insert,
                        const struct section_range *range, uint64_t offset)
{
    struct buffer *steps = &encoder->steps;
    struct bytes literals;

    encoder->step_count++;
    if (!buffer_append_uleb128(steps, keep) || !buffer_append_uleb128(steps, drop) ||
        !buffer_append_uleb128(steps, insert) ||
        !buffer_append_uleb128(steps, range == NULL ? 0 : range->kind))
        return false;
    if (range != NULL)
        return buffer_append_uleb128(steps, offset - range->offset);
    return bytes_slice(encoder->original, offset, insert, &literals) &&
           buffer_append(&encoder->literals, literals.data, (size_t)literals.size);
}

/* Appends the steps that undo one edit, which starts `keep` bytes after the previous one. */
static bool append_edit(struct encoder *encoder, const struct edit *edit, uint64_t keep)
{
    uint64_t drop = edit->new_size;
    uint64_t offset = edit->offset;
    uint64_t left = edit->old_size;

    do {
        uint64_t insert = left;
        const struct section_range *range = insert == 0 ? NULL : range_at(encoder, offset, &insert);

        if (!append_step(encoder, keep, drop, insert, range, offset))
            return false;
        offset += insert;
        left -= insert;
        keep = 0;
        drop = 0;
    } while (left != 0);
    return true;
}

static bool append_all(struct encoder *encoder, const struct edit_script *script,
                       struct buffer *encoded)
{
    uint64_t position = 0;

    for (size_t i = 0; i < script->count; i++) {
        const struct edit *edit = &script->edits[i];

        if (!append_edit(encoder, edit, edit->offset - position))
            return false;
        position = edit->offset + edit->old_size;
    }
    return buffer_append_uleb128(encoded, encoder->step_count) &&
           buffer_append_uleb128(encoded, encoder->literals.size) &&
           buffer_append(encoded, encoder->steps.data, encoder->steps.size) &&
           buffer_append(encoded, encoder->literals.data, encoder->literals.size);
}

/* Checks what edit_script_finish guarantees, because a wrong inverse would lose data. */
static bool edits_are_sound(const struct edit_script *script, struct bytes original)
{
    uint64_t position = 0;

    for (size_t i = 0; i < script->count; i++) {
        const struct edit *edit = &script->edits[i];
        struct bytes old;

        if (edit->offset < position || !bytes_slice(original, edit->offset, edit->old_size, &old))
            return false;
        position = edit->offset + edit->old_size;
    }
    return true;
}

bool inverse_encode(const struct edit_script *script, struct bytes original,
                    const struct section_range *ranges, size_t range_count, const char *name,
                    struct buffer *encoded, struct error *error)
{
    struct encoder encoder = {.original = original};
    bool done;

    if (!edits_are_sound(script, original) || !take_ranges(&encoder, ranges, range_count))
        return error_set(
            error, "%s: the planned edits or sections overlap; please report this image", name);
    done = append_all(&encoder, script, encoded) ||
           error_out_of_memory(error, name, (uint64_t)encoder.steps.size + encoder.literals.size);
    buffer_free(&encoder.steps);
    buffer_free(&encoder.literals);
    return done;
}

/* ---- decoding ---- */

/* The shortest step, four numbers of one byte each. Bounds the count before memory is allocated. */
#define STEP_SIZE_MIN 4

struct decoder {
    struct bytes steps;    /* those not yet decoded */
    struct bytes literals; /* those not yet used */
    const uint64_t *section_sizes;
    uint64_t section_used[SECTION_KIND_MAX + 1];
    uint64_t stripped_left;
    uint64_t original_left;
};

static bool take_from(uint64_t *left, uint64_t size)
{
    if (size > *left)
        return false;
    *left -= size;
    return true;
}

static bool take_literals(struct decoder *decoder, struct inverse_step *step)
{
    struct bytes *literals = &decoder->literals;

    return bytes_slice(*literals, 0, step->insert, &step->literals) &&
           bytes_slice(*literals, step->insert, literals->size - step->insert, literals);
}

static bool take_section_part(struct decoder *decoder, struct inverse_step *step, uint64_t source)
{
    if (source > SECTION_KIND_MAX || !bytes_take_uleb128(&decoder->steps, &step->source_offset) ||
        step->source_offset < decoder->section_used[source] ||
        !range_within(step->source_offset, step->insert, 0, decoder->section_sizes[source]))
        return false;
    step->source = (unsigned)source;
    decoder->section_used[source] = step->source_offset + step->insert;
    return true;
}

static bool take_step(struct decoder *decoder, struct inverse_step *step)
{
    uint64_t source;

    return bytes_take_uleb128(&decoder->steps, &step->keep) &&
           bytes_take_uleb128(&decoder->steps, &step->drop) &&
           bytes_take_uleb128(&decoder->steps, &step->insert) &&
           bytes_take_uleb128(&decoder->steps, &source) &&
           take_from(&decoder->stripped_left, step->keep) &&
           take_from(&decoder->stripped_left, step->drop) &&
           take_from(&decoder->original_left, step->keep) &&
           take_from(&decoder->original_left, step->insert) &&
           (step->keep | step->drop | step->insert) != 0 &&
           (source == 0 ? take_literals(decoder, step) : take_section_part(decoder, step, source));
}

/* It is not stored where the literals begin: they are the last bytes. */
static bool take_header(struct decoder *decoder, struct bytes encoded, uint64_t *count)
{
    uint64_t literal_size;

    return bytes_take_uleb128(&encoded, count) && bytes_take_uleb128(&encoded, &literal_size) &&
           literal_size <= encoded.size &&
           *count <= (encoded.size - literal_size) / STEP_SIZE_MIN &&
           bytes_slice(encoded, 0, encoded.size - literal_size, &decoder->steps) &&
           bytes_slice(encoded, encoded.size - literal_size, literal_size, &decoder->literals);
}

static bool take_steps(struct decoder *decoder, struct inverse *inverse)
{
    for (size_t i = 0; i < inverse->count; i++) {
        if (!take_step(decoder, &inverse->steps[i]))
            return false;
    }
    return decoder->steps.size == 0 && decoder->literals.size == 0 &&
           decoder->stripped_left == decoder->original_left;
}

static bool damaged(const char *name, struct error *error)
{
    return error_set(error,
                     "%s: the inverse edit script is damaged or does not fit the image; get an "
                     "intact copy",
                     name);
}

bool inverse_decode(struct bytes encoded, uint64_t stripped_size, uint64_t original_size,
                    const uint64_t section_sizes[SECTION_KIND_MAX + 1], const char *name,
                    struct inverse *inverse, struct error *error)
{
    struct decoder decoder = {.section_sizes = section_sizes,
                              .stripped_left = stripped_size,
                              .original_left = original_size};
    uint64_t count;

    *inverse = (struct inverse){0};
    if (!take_header(&decoder, encoded, &count))
        return damaged(name, error);
    inverse->steps = calloc((size_t)count + 1, sizeof(*inverse->steps));
    if (inverse->steps == NULL)
        return error_out_of_memory(error, name, count * sizeof(*inverse->steps));
    inverse->count = (size_t)count;
    if (!take_steps(&decoder, inverse)) {
        inverse_free(inverse);
        return damaged(name, error);
    }
    return true;
}

void inverse_free(struct inverse *inverse)
{
    free(inverse->steps);
    *inverse = (struct inverse){0};
}
