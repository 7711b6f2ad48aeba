/*
 * Writing deltas: see delta.h. They are read by content.c.
 */
#include "common/sidecar/delta.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/codec/codec.h"
#include "common/codec/names/names.h"
#include "common/llvm/names.h"

/* Larger sections are only compressed as streams, which are several times smaller. */
#define CONTENT_MAX ((uint64_t)64 << 20)

/* What zstd supports on all machines: a window for the base's part and the own one, in bytes. */
#define WINDOW_MAX ((uint64_t)1 << 30)

/* The level at which content and streams are compared. If streams are so small at that, in parts of
 * the section's size, a fast writer does not look at the content, and is content with them. */
#define CHOICE_LEVEL CODEC_LEVEL_MIN
#define FAST_SHARE   16

/* By so many bytes a content must be smaller than streams. */
#define STREAMS_BONUS 512

struct writer {
    const struct sidecar *whole, *base;
    const struct delta_options *options;
    const char *name;
    struct sidecar_stored stored;
    struct digest flats[SECTION_KIND_MAX + 1]; /* of what was compressed */
    uint64_t size;                             /* of the parts so far */
    bool is_unfit; /* too large for a window of zstd or for readers, or the base cannot be read */
    struct error *error;
};

/* True if the names can be restored as a content: other sections refer to names by their numbers,
 * which come from the section then. */
static bool has_same_numbers(const struct writer *writer, const struct section *section,
                             struct bytes content, bool *are_same)
{
    const struct transform_context context = {.memory_limit = writer->whole->memory_limit};
    const struct encoded encoded = {section->content, section->size, writer->whole->name,
                                    section->name};
    struct names encoded_names = {.count = 0}, names = {.count = 0};
    bool done = names_decode(&context, &encoded, &encoded_names, NULL, writer->error) &&
                names_add_section(&names, content, writer->whole->memory_limit, writer->name,
                                  writer->error);

    *are_same = done && bytes_equal(buffer_view(&encoded_names.text), buffer_view(&names.text));
    names_free(&encoded_names);
    names_free(&names);
    return done;
}

/* What a section could be stored as. */
struct draft {
    bool is_of_streams;
    struct buffer text; /* of the base, and from `start` on of the section */
    uint64_t start;
    struct buffer frame;
};

static struct bytes draft_source(const struct draft *draft)
{
    struct bytes source = {0};

    bytes_slice(buffer_view(&draft->text), draft->start, draft->text.size - draft->start, &source);
    return source;
}

static void draft_free(struct draft *draft)
{
    buffer_free(&draft->text);
    buffer_free(&draft->frame);
}

/* What zstd makes of the base's part is kept for the next delta to it, unless it is made quickly.
 */
static bool compress(struct writer *writer, enum section_kind kind, struct draft *draft, int level)
{
    struct codec_prefix *quick = NULL;
    struct codec_prefix **kept =
        &writer->base->cache->sections[kind].prefixes[draft->is_of_streams];
    bool done;

    draft->frame.size = 0;
    done =
        codec_compress_after(level < CODEC_LEVEL_TREES ? &quick : kept, buffer_view(&draft->text),
                             draft->start, level, writer->name, &draft->frame, writer->error);
    codec_prefix_free(quick);
    return done;
}

static bool make_draft(struct writer *writer, const struct section *section, bool is_of_streams,
                       struct draft *draft)
{
    uint64_t limit = memory_limit_for(writer->base->input.bytes.size);
    struct bytes held;
    bool done = true;

    draft->is_of_streams = is_of_streams;
    if (!delta_flatten(writer->base, section->kind, is_of_streams, &draft->text, writer->error)) {
        done = !error_is_of_memory(writer->error);
        writer->is_unfit = true;
        draft->text.size = 0;
    }
    draft->start = draft->text.size;
    /* Sections that need this one do not decode it again then. */
    if (!is_of_streams && section->form != ELFCOMPRESS_ZSTD)
        done = done && sidecar_hold_section(writer->whole, section, &held, writer->error);
    done = done &&
           delta_flatten(writer->whole, section->kind, is_of_streams, &draft->text, writer->error);
    /* Whoever reads it has at least the limit that the base gives. */
    writer->is_unfit |= draft->text.size > WINDOW_MAX || draft->text.size - draft->start > limit ||
                        section->size > limit;
    return done && (writer->is_unfit || compress(writer, section->kind, draft, CHOICE_LEVEL));
}

/* True for streams that are good enough for a fast writer. */
static bool is_small(const struct writer *writer, const struct section *section,
                     const struct draft *streams)
{
    return writer->options->is_fast && streams->frame.size <= section->stored_size / FAST_SHARE;
}

/* Streams are read faster, so a content must be smaller by more than a little. */
static bool choose_draft(struct writer *writer, const struct section *section, struct draft *chosen)
{
    bool is_plain = section->form == ELFCOMPRESS_ZSTD, is_content = true, done;
    struct draft content = {.start = 0};

    if (!is_plain) {
        done = make_draft(writer, section, true, chosen);
        if (!done || section->size > CONTENT_MAX || is_small(writer, section, chosen))
            return done;
    }
    done = make_draft(writer, section, false, &content);
    if (done && !is_plain)
        is_content = content.frame.size + STREAMS_BONUS < chosen->frame.size;
    if (done && is_content && section->form == TRANSFORM_NAMES)
        done = has_same_numbers(writer, section, draft_source(&content), &is_content);
    if (is_content) {
        struct draft streams = *chosen;

        *chosen = content;
        content = streams;
    }
    draft_free(&content);
    return done;
}

static bool add_section(struct writer *writer, const struct section *section)
{
    const struct delta_options *options = writer->options;
    struct buffer *stored = &writer->stored.bytes[section->kind];
    struct draft draft = {.start = 0};
    bool done = choose_draft(writer, section, &draft);
    struct bytes source = draft_source(&draft);

    /* If that is far too much already, a better search does not help. */
    if (done && !writer->is_unfit && !(draft.is_of_streams && is_small(writer, section, &draft)) &&
        options->level > CHOICE_LEVEL && writer->size + draft.frame.size / 4 <= options->most)
        done = compress(writer, section->kind, &draft, options->level);
    writer->size += draft.frame.size;
    writer->flats[section->kind] = digest_of(source);
    writer->stored.types[section->kind] = SIDECAR_DELTA_TYPE;
    buffer_append_uleb128(stored, section->form);
    buffer_append_uleb128(stored, draft.is_of_streams);
    buffer_append_uleb128(stored, source.size);
    buffer_append(stored, draft.frame.data, draft.frame.size);
    draft_free(&draft);
    return done &&
           (!stored->failed || error_out_of_memory(writer->error, writer->name, stored->size));
}

/* The delta that was written must hold what the sidecar holds. */
static bool check_delta(const struct writer *writer, struct output *output,
                        struct sidecar_bases *bases, struct error *error)
{
    struct sidecar *written =
        sidecar_open_again(writer->whole, output, writer->whole->threads, NULL, error);
    bool done = written != NULL;

    if (done)
        sidecar_share_bases(written, bases);
    for (size_t i = 0; done && i <= written->section_count; i++) {
        const struct section *section =
            i < written->section_count ? &written->sections[i] : &written->inverse;
        struct digest found;

        if (section->form == 0)
            continue;
        done = delta_restore(written, section, error);
        found = digest_of(buffer_view(&written->cache->sections[section->kind].part));
        if (done && !digest_equal(&found, &writer->flats[section->kind]))
            done = error_set(error, "%s: does not come out as it was; it stays as it is",
                             writer->whole->name);
        /* Only their streams are others than those of the whole sidecar, which was decoded. The
         * names of a content are known since it was chosen. */
        if (done && section->form == TRANSFORM_NAMES &&
            written->parts[section->kind].is_of_streams) {
            struct names names = {.count = 0};

            done = sidecar_read_names(written, section, &names, error);
            names_free(&names);
        }
    }
    done = done && (writer->options->is_fast || sidecar_verify(written, error));
    sidecar_close(written);
    return done;
}

bool delta_write(const struct sidecar *whole, uint64_t size, struct sidecar_bases *bases,
                 const char *path, const struct digest *digest, const struct delta_options *options,
                 struct output *output, bool *fits, struct error *error)
{
    struct sidecar told = *whole;
    struct writer writer = {
        .whole = whole, .options = options, .name = output->path, .error = error};
    bool done;

    *fits = false;
    pthread_mutex_lock(&bases->lock);
    writer.base = sidecar_use_base(bases, whole->name, path, digest, error);
    done = writer.base != NULL || !error_is_of_memory(error);
    writer.is_unfit = writer.base == NULL;
    for (size_t i = 0;
         done && i <= whole->section_count && writer.size <= options->most && !writer.is_unfit;
         i++) {
        const struct section *section =
            i < whole->section_count ? &whole->sections[i] : &whole->inverse;

        done = section->form == 0 || add_section(&writer, section);
    }
    if (done && !writer.is_unfit)
        told.base = (struct sidecar_base){true, *digest, writer.base->input.bytes.size, size};
    pthread_mutex_unlock(&bases->lock);
    if (done && writer.size <= options->most && !writer.is_unfit) {
        done = sidecar_write_stored(&told, &writer.stored, output, error) &&
               check_delta(&writer, output, bases, error);
        *fits = done;
    }
    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++)
        buffer_free(&writer.stored.bytes[kind]);
    return done;
}
