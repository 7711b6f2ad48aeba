/*
 * Writing unions: see union.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sidecar/union_archive.h"
#include "common/sidecar/union_member.h"

struct union_writer {
    const char *name;
    bytes_sink sink;
    void *context;
    struct digest_set seen; /* of all records written */
    size_t member_count;
    uint64_t records_read, records_kept;
};

struct union_writer *union_new(const char *name, bytes_sink sink, void *context,
                               struct error *error)
{
    struct union_writer *writer = calloc(1, sizeof(*writer));

    if (writer == NULL)
        error_out_of_memory(error, name, sizeof(*writer));
    else
        *writer = (struct union_writer){.name = name, .sink = sink, .context = context};
    return writer;
}

void union_free(struct union_writer *writer)
{
    if (writer == NULL)
        return;
    digest_set_free(&writer->seen);
    free(writer);
}

size_t union_member_count(const struct union_writer *writer)
{
    return writer->member_count;
}

uint64_t union_records_read(const struct union_writer *writer)
{
    return writer->records_read;
}

uint64_t union_records_kept(const struct union_writer *writer)
{
    return writer->records_kept;
}

/* ---- the archive ---- */

/* Writes the member's name, padded with zeros up to the beginning of the object, and returns its
 * size. The name of an image may contain anything; that of a member must be a valid file name. */
static size_t make_name(const struct sidecar *sidecar, char text[UNION_NAME_MAX])
{
    const char *image_name = sidecar_image_name(sidecar);
    char uuid[UUID_HEX_MAX];
    size_t size = 0;

    memset(text, 0, UNION_NAME_MAX);
    for (; image_name[size] != '\0' && size < UNION_IMAGE_NAME_MAX; size++) {
        unsigned char byte = (unsigned char)image_name[size];

        text[size] = byte <= ' ' || byte == '/' || byte == 0x7f ? '_' : (char)byte;
    }
    uuid_format(&sidecar_facts(sidecar)->uuid, uuid);
    size += (size_t)snprintf(text + size, UNION_NAME_MAX - size, "-%.*s", UNION_UUID_DIGITS, uuid);
    return (size_t)align_up(UNION_HEADER_SIZE + size, UNION_ALIGNMENT) - UNION_HEADER_SIZE;
}

static bool put(struct union_writer *writer, const void *data, size_t size, struct error *error)
{
    return writer->sink(writer->context, (struct bytes){data, size}, error);
}

static bool put_header(struct union_writer *writer, const struct sidecar *sidecar, uint64_t size,
                       struct error *error)
{
    char header[UNION_HEADER_SIZE + 1], name[UNION_NAME_MAX];
    size_t name_size = make_name(sidecar, name);

    if (size > UNION_SIZE_MAX - name_size)
        return error_set(error,
                         "%s: its coverage takes %" PRIu64
                         " bytes, and a member of a union at most %" PRIu64
                         "; export it as an object of its own",
                         sidecar_name(sidecar), size, UNION_SIZE_MAX - name_size);
    snprintf(header, sizeof(header), UNION_HEADER_PRINTED, name_size, size + name_size);
    return (writer->member_count != 0 || put(writer, UNION_MAGIC, UNION_MAGIC_SIZE, error)) &&
           put(writer, header, UNION_HEADER_SIZE, error) && put(writer, name, name_size, error);
}

static bool put_member(struct union_writer *writer, const struct sidecar *sidecar,
                       struct object_coverage *coverage, struct error *error)
{
    struct object_writer *object = object_writer_new(sidecar, coverage, error);
    bool done = object != NULL && put_header(writer, sidecar, object_writer_size(object), error) &&
                object_writer_write(object, writer->sink, writer->context);

    object_writer_free(object);
    writer->member_count += done;
    return done;
}

/* ---- members ---- */

static bool has_content(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section != NULL && section->has_content && section->size != 0;
}

/* Without one of these, llvm-cov would take the whole union for a file without coverage. */
static bool check_coverage(const struct sidecar *sidecar, struct error *error)
{
    if (!sidecar_is_real(sidecar, error))
        return false;
    return (has_content(sidecar, SECTION_COVMAP) && has_content(sidecar, SECTION_COVFUN) &&
            (has_content(sidecar, SECTION_NAMES) || has_content(sidecar, SECTION_COVNAMES))) ||
           error_set(error,
                     "%s: holds no coverage mapping with names, which a union is made of; if the "
                     "image has some, split the original without --sections",
                     sidecar_name(sidecar));
}

static bool remember(struct union_writer *writer, const struct union_member *member,
                     struct error *error)
{
    for (size_t i = 0; i < member->count; i++) {
        if (member->entries[i].is_kept &&
            !digest_set_add(&writer->seen, &member->entries[i].digest))
            return error_out_of_memory(error, writer->name, writer->seen.count * DIGEST_SIZE);
    }
    writer->records_read += member->count;
    writer->records_kept += member->kept_count;
    return true;
}

bool union_add(struct union_writer *writer, const struct sidecar *sidecar, struct error *error)
{
    struct union_member member = {0};
    bool fits;
    bool done = check_coverage(sidecar, error) &&
                union_member_choose(&member, sidecar, &writer->seen, &fits, error);

    if (done && fits)
        done = put_member(writer, sidecar, &member.coverage, error) &&
               remember(writer, &member, error);
    else if (done)
        done = put_member(writer, sidecar, NULL, error);
    union_member_free(&member);
    return done;
}

bool union_finish(struct union_writer *writer, struct error *error)
{
    return writer->member_count != 0 ||
           error_set(error,
                     "%s: no sidecar with coverage to make a union of; give sidecars of images "
                     "that were built with coverage",
                     writer->name);
}
