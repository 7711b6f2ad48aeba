/*
 * Parts: see part.h.
 *
 * A sum is stored as the raw profile that it is. With byte coverage that is plane 0, and for the
 * other planes only the counters follow (profile_sum.h).
 */
#include "common/state/part.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/llvm/profile.h"
#include "common/state/reached.h"

/* Sums with more planes are taken for damage: they would have counted 2^48 profiles. */
#define PLANES_MAX 48

/* ---- writing ---- */

static bool put_head(struct state_writer *writer, const struct state_part *part,
                     struct error *error)
{
    uint8_t head[STATE_PART_RECORD_SIZE];

    memcpy(head, part->identity.bytes, DIGEST_SIZE);
    store_u64(head + DIGEST_SIZE, part->profile_count, false);
    return state_writer_put(writer, STATE_RECORD_PART, (struct bytes){head, sizeof(head)}, error);
}

static bool put_plane(struct state_writer *writer, struct profile_sum *sum, unsigned plane,
                      struct error *error)
{
    struct bytes bytes = profile_sum_plane(sum, plane);
    struct profile profile;

    if (plane == 0)
        return state_writer_put(writer, STATE_RECORD_PROFILE, bytes, error);
    return profile_parse(bytes, 0, writer->output.path, &profile, error) &&
           state_writer_put(writer, STATE_RECORD_PLANE, profile_whole_counters(&profile), error);
}

bool state_writer_put_part(struct state_writer *writer, const struct state_part *part,
                           struct error *error)
{
    unsigned planes = profile_sum_plane_count(part->sum);
    bool done = put_head(writer, part, error);

    for (unsigned plane = 0; done && plane < planes; plane++)
        done = put_plane(writer, part->sum, plane, error);
    return done && (part->tests.size == 0 ||
                    state_writer_put(writer, STATE_RECORD_TESTS, part->tests, error));
}

/* ---- reading ---- */

bool state_read_part_head(const struct state_file *file, size_t record, struct digest *identity,
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

/* What is read of a part. */
struct loading {
    const struct state_file *file;
    size_t record; /* the next one */
    uint64_t limit;
    struct buffer content;
};

/* Reads the next record if it has this tag. */
static bool next_is(struct loading *loading, enum state_record_tag tag, bool *is,
                    struct error *error)
{
    const struct state_file *file = loading->file;

    *is = loading->record < file->count && file->records[loading->record].tag == tag;
    return !*is ||
           state_file_read(file, loading->record++, loading->limit, &loading->content, error);
}

/* Everything that the sum relies on is checked: the digest of the file is no proof of it. */
static bool check_profile(const struct loading *loading, const struct digest *expected,
                          struct profile *profile, struct error *error)
{
    const char *path = loading->file->path;
    struct bytes content = buffer_view(&loading->content);
    struct digest identity;

    if (!profile_parse(content, 0, path, profile, error) ||
        !profile_identity(profile, path, &identity, error))
        return false;
    if (profile->size != content.size || !profile_can_be_summed(profile) ||
        profile->lacks_value_data)
        return state_file_damaged(path, "a sum is not one", error);
    return digest_equal(&identity, expected) ||
           state_file_damaged(path, "a sum is that of another image", error);
}

static bool load_planes(struct loading *loading, struct profile_sum *sum, uint64_t size,
                        bool are_allowed, struct error *error)
{
    const char *path = loading->file->path;
    bool is_plane;

    for (unsigned plane = 1;; plane++) {
        if (!next_is(loading, STATE_RECORD_PLANE, &is_plane, error))
            return false;
        if (!is_plane)
            return true;
        if (!are_allowed || plane == PLANES_MAX || loading->content.size != size)
            return state_file_damaged(path, "its counters are not as many as they should be",
                                      error);
        if (!profile_sum_add_plane(sum, plane, buffer_view(&loading->content), error))
            return false;
    }
}

static bool load_sum(struct loading *loading, struct state_part *part, struct error *error)
{
    const char *path = loading->file->path;
    struct profile profile;
    bool is_profile;

    if (!next_is(loading, STATE_RECORD_PROFILE, &is_profile, error))
        return false;
    if (!is_profile)
        return state_file_damaged(path, "a sum is missing", error);
    if (!check_profile(loading, &part->identity, &profile, error))
        return false;
    part->sum = profile_sum_new(&profile, path, error);
    return part->sum != NULL &&
           load_planes(loading, part->sum, profile_whole_counters(&profile).size,
                       (profile.header.version & PROFILE_VARIANT_BYTE_COVERAGE) != 0, error);
}

static bool load_tests(struct loading *loading, struct whole_part *whole, struct error *error)
{
    bool has_tests;

    return next_is(loading, STATE_RECORD_TESTS, &has_tests, error) &&
           (!has_tests || reached_unite(&whole->tests, buffer_view(&loading->content),
                                        loading->file->path, error));
}

static bool add_sum(struct state_part *whole, struct state_part *part, struct error *error)
{
    uint64_t count;

    if (whole->sum == NULL) {
        *whole = *part;
        part->sum = NULL;
        return true;
    }
    whole->profile_count =
        add_fits(whole->profile_count, part->profile_count, &count) ? count : UINT64_MAX;
    return profile_sum_add_sum(whole->sum, part->sum, error);
}

bool whole_part_add(struct whole_part *whole, const struct state_file *file, size_t record,
                    uint64_t limit, struct error *error)
{
    struct loading loading = {.file = file, .record = record + 1, .limit = limit};
    struct state_part part = {0};
    bool done = state_read_part_head(file, record, &part.identity, &part.profile_count, error) &&
                load_sum(&loading, &part, error) && add_sum(&whole->part, &part, error) &&
                load_tests(&loading, whole, error);

    profile_sum_free(part.sum);
    buffer_free(&loading.content);
    return done;
}

struct state_part *whole_part_view(struct whole_part *whole)
{
    whole->part.tests = buffer_view(&whole->tests);
    return &whole->part;
}

void whole_part_free(struct whole_part *whole)
{
    profile_sum_free(whole->part.sum);
    buffer_free(&whole->tests);
    *whole = (struct whole_part){0};
}
