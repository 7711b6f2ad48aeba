/*
 * The files of a state: see internal.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/state/internal.h"

/* The header: magic, version, kind, name. */
#define MAGIC_SIZE  8
#define HEADER_SIZE (MAGIC_SIZE + 2 * sizeof(uint32_t) + DIGEST_SIZE)

/* Before each record: its tag in 32 bits, 32 bits of zeros, its size in 64. Behind it, zeros up to
 * the next multiple of 8. */
#define RECORD_HEADER_SIZE (2 * sizeof(uint32_t) + sizeof(uint64_t))
#define RECORD_ALIGNMENT   8

#define PIECE_SIZE         ((size_t)256 << 10)

/* Sums with more planes are taken for damage: they would have counted 2^48 profiles. */
#define PLANES_MAX 48

/* ---- writing ---- */

static bool put_bytes(struct state_writer *writer, const void *data, uint64_t size,
                      struct error *error)
{
    struct bytes part = {data, size};

    digest_stream_add(&writer->digest, part);
    return output_write(&writer->output, part, error);
}

static void encode_header(uint8_t header[HEADER_SIZE], enum state_file_kind kind,
                          const struct digest *name)
{
    memcpy(header, STATE_FILE_MAGIC, MAGIC_SIZE);
    store_u32(header + MAGIC_SIZE, STATE_FILE_VERSION, false);
    store_u32(header + MAGIC_SIZE + sizeof(uint32_t), kind, false);
    memcpy(header + MAGIC_SIZE + 2 * sizeof(uint32_t), name->bytes, DIGEST_SIZE);
}

bool state_writer_start(struct state_writer *writer, const char *path, enum state_file_kind kind,
                        const struct digest *name, struct error *error)
{
    struct output_options options = {.mode = file_new_mode()};
    uint8_t header[HEADER_SIZE];

    *writer = (struct state_writer){.output = {.path = NULL}};
    digest_stream_start(&writer->digest);
    encode_header(header, kind, name);
    return output_create(&writer->output, path, &options, error) &&
           put_bytes(writer, header, sizeof(header), error);
}

bool state_writer_put(struct state_writer *writer, enum state_record_tag tag, struct bytes content,
                      struct error *error)
{
    static const uint8_t zeros[RECORD_ALIGNMENT];
    uint8_t header[RECORD_HEADER_SIZE] = {0};

    store_u32(header, tag, false);
    store_u64(header + 2 * sizeof(uint32_t), content.size, false);
    return put_bytes(writer, header, sizeof(header), error) &&
           put_bytes(writer, content.data, content.size, error) &&
           put_bytes(writer, zeros, align_up(content.size, RECORD_ALIGNMENT) - content.size, error);
}

bool state_writer_put_sum(struct state_writer *writer, struct profile_sum *sum, struct error *error)
{
    uint8_t head[STATE_PART_RECORD_SIZE];
    bool done;

    memcpy(head, sum->identity.bytes, DIGEST_SIZE);
    store_u64(head + DIGEST_SIZE, sum->profile_count, false);
    done = state_writer_put(writer, STATE_RECORD_PART, (struct bytes){head, sizeof(head)}, error) &&
           state_writer_put(writer, STATE_RECORD_PROFILE, profile_sum_plane(sum, 0), error);
    for (unsigned plane = 1; done && plane < profile_sum_plane_count(sum); plane++) {
        profile_sum_plane(sum, plane);
        done = state_writer_put(writer, STATE_RECORD_PLANE,
                                (struct bytes){sum->counters, sum->counters_size}, error);
    }
    return done;
}

static bool digest_file(int fd, const char *path, uint64_t size, struct digest *digest,
                        struct error *error)
{
    struct digest_stream stream;
    uint8_t *piece = malloc(PIECE_SIZE);
    bool done = piece != NULL || error_out_of_memory(error, path, PIECE_SIZE);

    digest_stream_start(&stream);
    for (uint64_t offset = 0; done && offset < size; offset += PIECE_SIZE) {
        size_t part = size - offset < PIECE_SIZE ? (size_t)(size - offset) : PIECE_SIZE;

        done = file_read_at(fd, path, offset, piece, part, error);
        if (done)
            digest_stream_add(&stream, (struct bytes){piece, part});
    }
    if (done)
        *digest = digest_stream_finish(&stream);
    free(piece);
    return done;
}

bool state_writer_end(struct state_writer *writer, struct error *error)
{
    struct output *output = &writer->output;
    struct digest digest = digest_stream_finish(&writer->digest), whole, found;
    struct bytes content = {digest.bytes, DIGEST_SIZE};

    if (!state_writer_put(writer, STATE_RECORD_END, content, error) || !output_sync(output, error))
        return false;
    whole = digest_stream_finish(&writer->digest);
    if (!digest_file(output->fd, output->path, output->size, &found, error))
        return false;
    return digest_equal(&whole, &found) ||
           error_set(error, "%s: was not written as it should be; check the disk", output->path);
}

void state_writer_free(struct state_writer *writer)
{
    output_discard(&writer->output);
    *writer = (struct state_writer){0};
}

/* ---- reading ---- */

bool state_file_damaged(const char *path, const char *what, struct error *error)
{
    return error_set(error,
                     "%s: damaged: %s; restore the state from a copy, or give up what this file "
                     "counts: remove it",
                     path, what);
}

/* True if a record may follow the one before; `previous` is STATE_RECORD_END for the first one. */
static bool may_follow(enum state_file_kind kind, enum state_record_tag previous,
                       enum state_record_tag tag)
{
    bool is_image = kind == STATE_FILE_IMAGE;
    bool has_sum = previous == STATE_RECORD_PROFILE || previous == STATE_RECORD_PLANE;

    switch (tag) {
    case STATE_RECORD_FOLDED:
        return is_image && previous == STATE_RECORD_END;
    case STATE_RECORD_PART:
        return previous != STATE_RECORD_PART && !(is_image && previous != STATE_RECORD_FOLDED);
    case STATE_RECORD_PROFILE:
        return previous == STATE_RECORD_PART;
    case STATE_RECORD_PLANE:
        return has_sum;
    case STATE_RECORD_CLAIM:
        return !is_image && previous != STATE_RECORD_PART;
    case STATE_RECORD_END:
        return is_image ? has_sum : previous != STATE_RECORD_PART;
    }
    return false;
}

/* Lists the records; *end is the last one. */
static bool list_records(int fd, struct state_file *file, enum state_file_kind kind, uint64_t size,
                         struct state_record *end, struct error *error)
{
    enum state_record_tag previous = STATE_RECORD_END;
    uint64_t offset = HEADER_SIZE;

    for (;;) {
        uint8_t header[RECORD_HEADER_SIZE];
        struct state_record record;
        uint64_t left = size - offset;

        if (left < RECORD_HEADER_SIZE)
            return state_file_damaged(file->path, "it is cut short", error);
        if (!file_read_at(fd, file->path, offset, header, sizeof(header), error))
            return false;
        record = (struct state_record){load_u32(header, false), offset + RECORD_HEADER_SIZE,
                                       load_u64(header + 2 * sizeof(uint32_t), false)};
        left -= RECORD_HEADER_SIZE;
        if (record.size > left || align_up(record.size, RECORD_ALIGNMENT) > left)
            return state_file_damaged(file->path, "it is cut short", error);
        if (load_u32(header + sizeof(uint32_t), false) != 0 ||
            (record.tag == STATE_RECORD_PART && record.size != STATE_PART_RECORD_SIZE) ||
            (record.tag == STATE_RECORD_FOLDED && record.size % DIGEST_SIZE != 0) ||
            (record.tag == STATE_RECORD_END && record.size != DIGEST_SIZE))
            return state_file_damaged(file->path, "a record is not what it should be", error);
        if (!may_follow(kind, previous, record.tag))
            return state_file_damaged(file->path, "its records are in no order", error);
        offset = record.offset + align_up(record.size, RECORD_ALIGNMENT);
        if (record.tag == STATE_RECORD_END) {
            *end = record;
            return offset == size ||
                   state_file_damaged(file->path, "something follows its end", error);
        }
        if (!ARRAY_ROOM_FOR_ONE(file->records, file->capacity, file->count))
            return error_out_of_memory(error, file->path, file->count * sizeof(record));
        file->records[file->count++] = record;
        previous = record.tag;
    }
}

static bool check_file(int fd, struct state_file *file, enum state_file_kind kind,
                       struct error *error)
{
    uint8_t header[HEADER_SIZE], known[HEADER_SIZE];
    const char *path = file->path;
    struct digest found, expected;
    struct state_record end = {0};
    struct stat status;
    uint64_t size;
    uint32_t version;

    if (fstat(fd, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    if (!S_ISREG(status.st_mode))
        return state_file_damaged(path, "it is not a regular file", error);
    size = (uint64_t)status.st_size;
    if (size < HEADER_SIZE)
        return state_file_damaged(path, "it is too short", error);
    if (!file_read_at(fd, path, 0, header, sizeof(header), error))
        return false;
    encode_header(known, kind, &file->name);
    version = load_u32(header + MAGIC_SIZE, false);
    if (memcmp(header, known, MAGIC_SIZE) != 0)
        return state_file_damaged(path, "it does not begin like a file of a state", error);
    if (version != STATE_FILE_VERSION)
        return error_set(error,
                         "%s: has version %u; this covsplit knows %d: use the version of covsplit "
                         "that wrote it",
                         path, (unsigned)version, STATE_FILE_VERSION);
    if (memcmp(header, known, HEADER_SIZE) != 0)
        return state_file_damaged(path, "it is the file of another name", error);
    if (!list_records(fd, file, kind, size, &end, error) ||
        !digest_file(fd, path, end.offset - RECORD_HEADER_SIZE, &found, error) ||
        !file_read_at(fd, path, end.offset, expected.bytes, DIGEST_SIZE, error))
        return false;
    return digest_equal(&found, &expected) ||
           state_file_damaged(path, "its digest is another one", error);
}

static int open_file(const char *path, struct error *error)
{
    int fd = file_open_as_it_is(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        error_set_errno(error, errno, "%s: cannot be read", path);
    return fd;
}

bool state_file_open(struct state_file *file, const char *path, enum state_file_kind kind,
                     const struct digest *name, struct error *error)
{
    int fd = open_file(path, error);
    bool done;

    *file = (struct state_file){.name = *name};
    if (fd < 0)
        return false;
    snprintf(file->path, sizeof(file->path), "%s", path);
    done = check_file(fd, file, kind, error);
    close(fd);
    if (!done)
        state_file_close(file);
    return done;
}

void state_file_close(struct state_file *file)
{
    free(file->records);
    *file = (struct state_file){0};
}

bool state_file_read(const struct state_file *file, size_t record, uint64_t limit,
                     struct buffer *content, struct error *error)
{
    uint64_t size = file->records[record].size;
    bool done;
    int fd;

    content->size = 0;
    if (!memory_limit_allows(limit, size, file->path, "a sum", error))
        return false;
    if (!buffer_reserve(content, (size_t)size + 1)) /* so that data is never NULL */
        return error_out_of_memory(error, file->path, size);
    fd = open_file(file->path, error);
    if (fd < 0)
        return false;
    done = file_read_at(fd, file->path, file->records[record].offset, content->data, (size_t)size,
                        error);
    close(fd);
    content->size = done ? (size_t)size : 0;
    return done;
}

/* ---- sums ---- */

bool state_file_read_head(const struct state_file *file, size_t record, struct digest *identity,
                          uint64_t *profile_count, struct error *error)
{
    struct buffer head = {0};
    bool done = state_file_read(file, record, STATE_PART_RECORD_SIZE, &head, error);

    if (done) {
        memcpy(identity->bytes, head.data, DIGEST_SIZE);
        *profile_count = load_u64(head.data + DIGEST_SIZE, false);
    }
    buffer_free(&head);
    return done && (*profile_count != 0 ||
                    state_file_damaged(file->path, "it has a sum of no profiles", error));
}

/* Reads the counters from this record on, which is that of a profile. *record is set to the one
 * after them. Everything that the sum relies on is checked: the digest of the file is no proof of
 * it. */
static bool read_counters(const struct state_file *file, size_t *record, uint64_t limit,
                          struct profile_sum *sum, struct buffer *content, struct error *error)
{
    const char *path = file->path;
    struct profile profile;
    struct digest identity;

    if (!state_file_read(file, (*record)++, limit, content, error) ||
        !profile_parse(buffer_view(content), 0, path, &profile, error))
        return false;
    if (profile.size != content->size || !profile_can_be_summed(&profile) ||
        profile.lacks_value_data)
        return state_file_damaged(path, "a sum is not one", error);
    identity = profile_identity(&profile);
    if (!digest_equal(&identity, &sum->identity))
        return state_file_damaged(path, "a sum is that of another image", error);
    if (!profile_sum_add(sum, &profile, 0, 1, error))
        return false;
    for (unsigned plane = 1;
         *record < file->count && file->records[*record].tag == STATE_RECORD_PLANE; plane++) {
        if (!state_file_read(file, (*record)++, limit, content, error))
            return false;
        if (sum->planes == NULL || plane == PLANES_MAX || content->size != sum->counters_size)
            return state_file_damaged(path, "its counters are not as many as they should be",
                                      error);
        if (!profile_sum_add_plane(sum, plane, buffer_view(content), error))
            return false;
    }
    return true;
}

bool state_file_add_sum(const struct state_file *file, size_t record, uint64_t limit,
                        struct profile_sum *sum, struct error *error)
{
    struct profile_sum *part = NULL;
    struct buffer content = {0};
    struct digest identity;
    uint64_t profile_count;
    bool done = state_file_read_head(file, record++, &identity, &profile_count, error) &&
                (part = profile_sum_new(&identity, error)) != NULL &&
                read_counters(file, &record, limit, part, &content, error);

    if (done && !digest_equal(&identity, &sum->identity))
        done = state_file_damaged(file->path, "its sum is that of another image", error);
    if (done) {
        part->profile_count = profile_count;
        done = profile_sum_add_sum(sum, part, error);
    }
    profile_sum_free(part);
    buffer_free(&content);
    return done;
}
