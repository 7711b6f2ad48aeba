/*
 * Files of states that are made of the records of a good file in another order, or of records that
 * are not what they should be. Their digests are right: what is refused, is refused for the reason.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/state/internal.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"
#include "tests/unit/state_fixture.h"

#define HEADER_SIZE 32
#define RECORD_SIZE 16
#define PLANES_MAX  64

/* ---- records ---- */

/* The first record of each kind in a good file; and what others look like. */
struct good {
    struct contents file;
    struct bytes records[STATE_RECORD_END + 1];
};

static struct good read_good(const char *name)
{
    static const uint8_t nonce[DIGEST_SIZE];
    struct good good = {.file = file_read(name)};
    struct error error = {0};
    struct profile profile;

    for (size_t at = HEADER_SIZE; at < good.file.size;) {
        uint32_t tag = load_u32(good.file.data + at, false);
        uint64_t size = load_u64(good.file.data + at + 8, false);

        ck_assert_uint_le(tag, STATE_RECORD_END);
        if (good.records[tag].data == NULL)
            good.records[tag] = (struct bytes){good.file.data + at + RECORD_SIZE, size};
        at += RECORD_SIZE + (size_t)align_up(size, 8);
    }
    ck_assert(profile_parse(good.records[STATE_RECORD_PROFILE], 0, "sum", &profile, &error));
    good.records[STATE_RECORD_PLANE] = profile_whole_counters(&profile);
    good.records[STATE_RECORD_FOLDED] = (struct bytes){nonce, sizeof(nonce)};
    good.records[STATE_RECORD_CLAIM] = (struct bytes){(const uint8_t *)"/claim", 6};
    return good;
}

static void append(struct buffer *file, uint32_t tag, uint32_t zeros, uint64_t said,
                   struct bytes content)
{
    uint8_t header[RECORD_SIZE];

    store_u32(header, tag, false);
    store_u32(header + 4, zeros, false);
    store_u64(header + 8, said, false);
    ck_assert(buffer_append(file, header, sizeof(header)) &&
              buffer_append(file, content.data, (size_t)content.size) &&
              buffer_append_zeros(file, (size_t)(align_up(content.size, 8) - content.size)));
}

/* A part of the good file's image, or of another one. */
static void append_part(struct buffer *file, const struct good *good, uint64_t profiles,
                        uint8_t other)
{
    uint8_t part[STATE_PART_RECORD_SIZE];

    memcpy(part, good->records[STATE_RECORD_PART].data, sizeof(part));
    part[0] ^= other;
    store_u64(part + DIGEST_SIZE, profiles, false);
    append(file, STATE_RECORD_PART, 0, sizeof(part), (struct bytes){part, sizeof(part)});
}

static struct bytes shorter(struct bytes whole, uint64_t by)
{
    return (struct bytes){whole.data, whole.size - by};
}

static void append_twice(struct buffer *file, struct bytes profile)
{
    FREED_BY(buffer_free) struct buffer both = {0};

    ck_assert(buffer_append(&both, profile.data, (size_t)profile.size) &&
              buffer_append(&both, profile.data, (size_t)profile.size));
    append(file, STATE_RECORD_PROFILE, 0, both.size, buffer_view(&both));
}

static void append_end(struct buffer *file)
{
    struct digest digest = digest_of(buffer_view(file));

    append(file, STATE_RECORD_END, 0, DIGEST_SIZE, (struct bytes){digest.bytes, DIGEST_SIZE});
}

/* Appends what a letter stands for: F, P, S, N, C and E for the records of the good file, small
 * letters for others. */
static void append_letter(struct buffer *file, const struct good *good, char letter)
{
    static const char letters[] = " PSNFC";
    const char *known = strchr(letters, letter);
    uint32_t tag = known == NULL ? 0 : (uint32_t)(known - letters);
    struct bytes content = good->records[tag];

    switch (letter) {
    case 'E':
        append_end(file);
        break;
    case 'z': /* of no profiles */
        append_part(file, good, 0, 0);
        break;
    case 'm': /* of as many as can be */
        append_part(file, good, UINT64_MAX, 0);
        break;
    case 'o': /* of another image */
        append_part(file, good, 1, 1);
        break;
    case 's': /* a profile that is cut short */
        append(file, STATE_RECORD_PROFILE, 0, good->records[STATE_RECORD_PROFILE].size - 8,
               shorter(good->records[STATE_RECORD_PROFILE], 8));
        break;
    case 'd': /* two profiles in one record */
        append_twice(file, good->records[STATE_RECORD_PROFILE]);
        break;
    case 'n': /* a plane that is cut short */
        append(file, STATE_RECORD_PLANE, 0, good->records[STATE_RECORD_PLANE].size - 8,
               shorter(good->records[STATE_RECORD_PLANE], 8));
        break;
    case 'p': /* a part that is */
        append(file, STATE_RECORD_PART, 0, STATE_PART_RECORD_SIZE - 8,
               shorter(good->records[STATE_RECORD_PART], 8));
        break;
    case 'f': /* half a nonce */
        append(file, STATE_RECORD_FOLDED, 0, DIGEST_SIZE / 2,
               shorter(good->records[STATE_RECORD_PART], STATE_PART_RECORD_SIZE - DIGEST_SIZE / 2));
        break;
    case 'x': /* of a kind that nobody knows */
        append(file, 99, 0, 0, (struct bytes){0});
        break;
    case 'q': /* with something where zeros should be */
        append(file, STATE_RECORD_PLANE, 1, 0, (struct bytes){0});
        break;
    case 'l': /* longer than the file */
        append(file, STATE_RECORD_PLANE, 0, 1 << 20, (struct bytes){0});
        break;
    case 'w': /* so long that all wraps around */
        append(file, STATE_RECORD_PLANE, 0, UINT64_MAX, (struct bytes){0});
        break;
    case 'e': /* half a digest */
        append(file, STATE_RECORD_END, 0, DIGEST_SIZE / 2,
               shorter(good->records[STATE_RECORD_PART], STATE_PART_RECORD_SIZE - DIGEST_SIZE / 2));
        break;
    default:
        ck_assert_ptr_nonnull(content.data);
        append(file, tag, 0, content.size, content);
    }
}

static void write_recipe(const char *name, const struct good *good, const char *recipe)
{
    FREED_BY(buffer_free) struct buffer file = {0};

    ck_assert(buffer_append(&file, good->file.data, HEADER_SIZE));
    for (; *recipe != '\0'; recipe++)
        append_letter(&file, good, *recipe);
    file_write(name, file.data, file.size);
}

/* ---- the tables ---- */

#define NO_ORDER  "damaged: its records are in no order"
#define NOT_RIGHT "damaged: a record is not what it should be"
#define CUT       "damaged: it is cut short"
#define COUNTERS  "damaged: its counters are not as many as they should be"
#define OTHER_SUM "damaged: a sum is that of another image"

struct row {
    const char *recipe;
    const char *says; /* NULL: it is taken */
};

/* Files of images, of counters of 64 bits. */
static const struct row images[] = {
    {"FPSE", NULL},
    {"FmSE", NULL},
    {"FPSNE", COUNTERS},
    {"", CUT},
    {"FPS", CUT},
    {"E", NO_ORDER},
    {"FE", NO_ORDER},
    {"FPE", NO_ORDER},
    {"FSE", NO_ORDER},
    {"FNE", NO_ORDER},
    {"PSE", NO_ORDER},
    {"SE", NO_ORDER},
    {"FFPSE", NO_ORDER},
    {"FPPSE", NO_ORDER},
    {"FPNE", NO_ORDER},
    {"FPSSE", NO_ORDER},
    {"FPSPSE", NO_ORDER},
    {"FPSFE", NO_ORDER},
    {"FPSCE", NO_ORDER},
    {"CFPSE", NO_ORDER},
    {"FPSxE", NO_ORDER},
    {"FPSEE", "damaged: something follows its end"},
    {"fPSE", NOT_RIGHT},
    {"FpSE", NOT_RIGHT},
    {"FPSqE", NOT_RIGHT},
    {"FPSe", NOT_RIGHT},
    {"FPSlE", CUT},
    {"FPSwE", CUT},
    {"FzSE", "damaged: it has a sum of no profiles"},
    {"FoSE", OTHER_SUM},
    {"FPsE", "cut short in its names"},
    {"FPdE", "damaged: a sum is not one"},
};

/* Of byte coverage, which has planes. */
static const struct row planes[] = {
    {"FPSE", NULL},     {"FPSNE", NULL},     {"FPSNNE", NULL},     {"FPSNSNE", NO_ORDER},
    {"FPNE", NO_ORDER}, {"FPSnE", COUNTERS}, {"FPSNnE", COUNTERS},
};

static const struct row batches[] = {
    {"E", NULL},          {"CE", NULL},       {"PSE", NULL},
    {"PSCE", NULL},       {"CPSE", NULL},     {"CCE", NULL},
    {"PSPSE", NULL},      {"mSPSE", NULL},    {"FE", NO_ORDER},
    {"FPSE", NO_ORDER},   {"PE", NO_ORDER},   {"PCE", NO_ORDER},
    {"PPSE", NO_ORDER},   {"SE", NO_ORDER},   {"CSE", NO_ORDER},
    {"CNE", NO_ORDER},    {"NE", NO_ORDER},   {"PSPSzSE", "damaged: it has a sum of no profiles"},
    {"PSoSE", OTHER_SUM}, {"PSxE", NO_ORDER},
};

static void check_rows(const char *folder, const struct row *rows, size_t count)
{
    char *name = only_file(folder);
    struct good good = read_good(name);
    FREED_BY(drop_state) struct state *state = open_state(STATE_WRITE);

    for (size_t i = 0; i < count; i++) {
        FREED_BY(free_found) struct found found = {0};
        struct error error = {0};
        bool done;

        write_recipe(name, &good, rows[i].recipe);
        done = state_read(state, take_sum, &found, &error);
        ck_assert_msg(done == (rows[i].says == NULL), "%s: %s", rows[i].recipe, error.message);
        ck_assert_msg(done || (strncmp(error.message, name, strlen(name)) == 0 &&
                               strstr(error.message, rows[i].says) != NULL),
                      "%s: %s", rows[i].recipe, error.message);
        if (done && strchr(rows[i].recipe, 'm') != NULL)
            ck_assert_uint_eq(found.profile_counts[0], UINT64_MAX);
    }
    contents_free(&good.file);
}

/* A batch with a claim and a sum of four profiles of this form. */
static void make_batch(int index)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
    FREED_BY(drop_batch) struct state_batch *batch = start_batch(state);
    FREED_BY(buffer_free) struct buffer made = made_of(index);
    FREED_BY(drop_sum) struct profile_sum *sum = sum_of(&made);

    for (int i = 0; i < 3; i++)
        add_profile(&sum, &made);
    add_sum(batch, sum, 4);
    consume(batch, claim_new(batch, "a.profraw"));
    commit(batch);
}

static void make_image(int index)
{
    FREED_BY(drop_state) struct state *state;

    make_batch(index);
    state = open_state(STATE_WRITE);
    fold(state);
}

/* Claims that are none of the batch, or no paths: nothing is deleted, and all else counts. */
START_TEST(test_claims)
{
    static const struct {
        const char *path; /* with the batch's own nonce for N, and another one for M */
        const char *says;
    } rows[] = {
        {"", "damaged: a record is not what it should be"},
        {".a.covsplit-claim-N-1", "damaged: it names a file that is no claim of it"},
        {"/tmp/a", "damaged: it names a file that is no claim of it"},
        {"/tmp/.a.covsplit-claim-M-1", "damaged: it names a file that is no claim of it"},
        {"/", "damaged: it names a file that is no claim of it"},
        {"/proc/nowhere/.a.covsplit-claim-N-1", NULL},
        {"/proc/version/.a.covsplit-claim-N-1", NULL},
    };
    FREED_BY(drop_state) struct state *state;
    struct good good;
    char *name;

    make_batch(3);
    name = only_file("batches");
    good = read_good(name);
    state = open_state(STATE_WRITE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        FREED_BY(buffer_free) struct buffer claim = {0};
        struct error error = {0};
        bool done;

        ck_assert(buffer_append_zeros(&claim, 16));
        for (const char *c = rows[i].path; *c != '\0'; c++) {
            const char *text = *c == 'N'   ? path_file_name(name)
                               : *c == 'M' ? "00112233445566778899aabbccddeeff"
                                           : c;

            ck_assert(buffer_append(&claim, text, text == c ? 1 : strlen(text)));
        }
        good.records[STATE_RECORD_CLAIM] = buffer_view(&claim);
        write_recipe(name, &good, "PSCE");
        done = state_fold(state, &error);
        ck_assert_msg(done == (rows[i].says == NULL), "%s: %s", rows[i].path, error.message);
        ck_assert_msg(done || strstr(error.message, rows[i].says) != NULL, "%s: %s", rows[i].path,
                      error.message);
        ck_assert(file_exists(name));
        ck_assert_uint_eq(count_profiles(), 4);
    }
    contents_free(&good.file);
}
END_TEST

START_TEST(test_images)
{
    make_image(3);
    check_rows("images", images, sizeof(images) / sizeof(images[0]));
}
END_TEST

START_TEST(test_planes)
{
    static char many[PLANES_MAX + 8] = "FPS";
    const struct row too_many = {many, COUNTERS};

    make_image(24);
    check_rows("images", planes, sizeof(planes) / sizeof(planes[0]));
    memset(many + 3, 'N', PLANES_MAX);
    many[PLANES_MAX + 3] = 'E';
    check_rows("images", &too_many, 1);
}
END_TEST

START_TEST(test_batches)
{
    make_batch(3);
    check_rows("batches", batches, sizeof(batches) / sizeof(batches[0]));
}
END_TEST

int main(void)
{
    TCase *state = state_case();

    suite_tests(state, test_images, test_planes, test_batches, test_claims);
    return suite_main("state_records", state);
}
