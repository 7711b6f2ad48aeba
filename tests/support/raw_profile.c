/*
 * The raw profiles behind raw_profile.h.
 *
 * The header is an array of 64-bit fields; which field is where depends on the version, so there is
 * one row of field positions for the versions without a bitmap and three for those with one.
 */
#include "tests/support/raw_profile.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define RAW_MAGIC     UINT64_C(0xff6c70726f667281) /* "\377lprofr\201" */
#define RAW_MAGIC_32  UINT64_C(0xff6c70726f665281) /* "\377lprofR\201" */
#define VERSION_MASK  UINT64_C(0x00ffffffffffffff)
#define BYTE_COVERAGE (UINT64_C(1) << 60)
#define NO_FIELD      0

/* Positions of header fields, counted in fields. */
struct header_layout {
    unsigned first_version;
    unsigned last_version;
    unsigned field_count;
    unsigned record_size;
    unsigned record_size_32;        /* of targets with 32 bits */
    unsigned bitmap_size;           /* the field behind it is the padding; NO_FIELD: no bitmap */
    unsigned uniform_counter_count; /* the field behind it is the padding; there are none */
    unsigned names_size;
};

static const struct header_layout layouts[] = {
    {7, 8, 11, 48, 40, NO_FIELD, NO_FIELD, 7},
    {9, 9, 14, 64, 48, 7, NO_FIELD, 9},
    {10, 10, 16, 64, 48, 7, NO_FIELD, 9},
    {11, 11, 19, 72, 56, 7, 9, 12},
};

enum {
    FIELD_MAGIC,
    FIELD_VERSION,
    FIELD_BINARY_IDS_SIZE,
    FIELD_RECORD_COUNT,
    FIELD_PADDING_AFTER_DATA,
    FIELD_COUNTER_COUNT,
    FIELD_PADDING_AFTER_COUNTERS,
    FIELDS_COMMON,
};

static const struct header_layout *layout_of(unsigned version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (version >= layouts[i].first_version && version <= layouts[i].last_version) {
            return &layouts[i];
        }
    }
    return NULL;
}

uint64_t raw_profile_number(const struct raw_profile *profile, const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        size_t place = profile->is_big_endian ? size - 1 - i : i;
        value |= (uint64_t)bytes[place] << 8 * i;
    }
    return value;
}

static uint64_t field(const struct raw_profile *profile, unsigned index)
{
    return raw_profile_number(profile, profile->file.data + index * sizeof(uint64_t),
                              sizeof(uint64_t));
}

/* The byte order and the size of addresses, which the magic number tells. */
static bool parse_magic(struct raw_profile *profile)
{
    for (int big = 0; big < 2; big++) {
        profile->is_big_endian = big != 0;
        uint64_t magic = field(profile, FIELD_MAGIC);
        profile->is_32_bit = magic == RAW_MAGIC_32;
        if (magic == RAW_MAGIC || magic == RAW_MAGIC_32) {
            return true;
        }
    }
    return false;
}

uint32_t raw_profile_record_counters(const struct raw_profile *profile, uint64_t record)
{
    /* Behind NameRef and FuncHash and three pointers, or four with one to the bitmap. */
    uint64_t pointers = layout_of(profile->version)->bitmap_size != NO_FIELD ? 4 : 3;
    uint64_t position = 2 * sizeof(uint64_t) + pointers * (profile->is_32_bit ? 4 : 8);
    return (uint32_t)raw_profile_number(
        profile, profile->data.data + record * profile->record_size + position, sizeof(uint32_t));
}

/* Takes `size` bytes from *offset on. False where the file ends before. */
static bool take(const struct contents *file, uint64_t *offset, uint64_t size, struct part *part)
{
    if (*offset > file->size || size > file->size - *offset) {
        return false;
    }
    *part = (struct part){file->data + *offset, size};
    *offset += size;
    return true;
}

/* Takes padding, which must be zero. */
static bool skip_padding(struct raw_profile *profile, uint64_t *offset, uint64_t size)
{
    struct part padding;
    if (!take(&profile->file, offset, size, &padding)) {
        return false;
    }
    for (uint64_t i = 0; i < size; i++) {
        if (padding.data[i] != 0) {
            return false;
        }
    }
    profile->padding += size;
    return true;
}

static bool parse_parts(struct raw_profile *profile, const struct header_layout *layout)
{
    const struct contents *file = &profile->file;
    profile->counter_size = (profile->variants & BYTE_COVERAGE) != 0 ? 1 : 8;
    uint64_t record_count = field(profile, FIELD_RECORD_COUNT);
    uint64_t counter_count = field(profile, FIELD_COUNTER_COUNT);
    if (record_count > file->size || counter_count > file->size) {
        return false;
    }
    uint64_t offset = profile->header_size;
    profile->record_count = record_count;
    profile->record_size = profile->is_32_bit ? layout->record_size_32 : layout->record_size;
    bool fits = take(file, &offset, field(profile, FIELD_BINARY_IDS_SIZE), &profile->binary_ids) &&
                take(file, &offset, record_count * profile->record_size, &profile->data) &&
                skip_padding(profile, &offset, field(profile, FIELD_PADDING_AFTER_DATA)) &&
                take(file, &offset, counter_count * profile->counter_size, &profile->counters) &&
                skip_padding(profile, &offset, field(profile, FIELD_PADDING_AFTER_COUNTERS));
    if (fits && layout->bitmap_size != NO_FIELD) {
        fits = take(file, &offset, field(profile, layout->bitmap_size), &profile->bitmap) &&
               skip_padding(profile, &offset, field(profile, layout->bitmap_size + 1));
    }
    if (fits && layout->uniform_counter_count != NO_FIELD) {
        fits = field(profile, layout->uniform_counter_count) == 0 &&
               skip_padding(profile, &offset, field(profile, layout->uniform_counter_count + 1));
    }
    return fits && take(file, &offset, field(profile, layout->names_size), &profile->names) &&
           take(file, &offset, file->size - offset, &profile->values);
}

bool raw_profile_read(const char *path, struct raw_profile *profile, struct verdict *verdict)
{
    *profile = (struct raw_profile){.file = file_read(path)};
    const struct contents *file = &profile->file;
    if (file->size < FIELDS_COMMON * sizeof(uint64_t) || !parse_magic(profile)) {
        return verdict_fail(verdict, "%s (%zu bytes) is no raw profile", path, file->size);
    }
    profile->version = (unsigned)(field(profile, FIELD_VERSION) & VERSION_MASK);
    profile->variants = field(profile, FIELD_VERSION) & ~VERSION_MASK;
    const struct header_layout *layout = layout_of(profile->version);
    if (layout == NULL) {
        return verdict_fail(verdict, "%s has the unknown raw version %u", path, profile->version);
    }
    profile->header_size = layout->field_count * sizeof(uint64_t);
    if (file->size < profile->header_size || !parse_parts(profile, layout)) {
        return verdict_fail(verdict, "%s is cut short or its padding is not zero", path);
    }
    return true;
}

void raw_profile_free(struct raw_profile *profile)
{
    contents_free(&profile->file);
}

uint64_t raw_profile_total(const struct raw_profile *profile)
{
    uint64_t total = 0;
    for (uint64_t at = 0; at < profile->counters.size; at += profile->counter_size) {
        if (profile->counter_size == 1) {
            total += profile->counters.data[at] == 0;
        } else {
            total += raw_profile_number(profile, profile->counters.data + at, sizeof(uint64_t));
        }
    }
    return total;
}

bool parts_equal(struct part a, struct part b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static int compare_profiles(const void *a, const void *b)
{
    uint64_t size_a = ((const struct raw_profile *)a)->counters.size;
    uint64_t size_b = ((const struct raw_profile *)b)->counters.size;
    return size_a < size_b ? -1 : size_a > size_b;
}

bool profile_set_read(const char *directory, struct profile_set *set, struct verdict *verdict)
{
    struct text_list names = directory_list(directory);
    *set = (struct profile_set){calloc(names.count + 1, sizeof *set->profiles), 0};
    if (set->profiles == NULL) {
        abort();
    }
    bool good = true;
    for (size_t i = 0; i < names.count && good; i++) {
        char *path = path_join(directory, names.items[i]);
        good = raw_profile_read(path, &set->profiles[set->count++], verdict);
        free(path);
    }
    text_list_free(&names);
    if (good && set->count == 0) {
        return verdict_fail(verdict, "no profile was written to %s", directory);
    }
    if (good) {
        qsort(set->profiles, set->count, sizeof *set->profiles, compare_profiles);
    }
    return good;
}

void profile_set_free(struct profile_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        raw_profile_free(&set->profiles[i]);
    }
    free(set->profiles);
    *set = (struct profile_set){0};
}

/* ---- many profiles of many images ---- */

static struct farm_image make_image(const char *directory, size_t number, unsigned functions)
{
    const char *prefix = text_format("image%zu", number);
    source_generate(text_format("%s/%s.c", directory, prefix), LANGUAGE_C, prefix, functions);
    file_write_text(text_format("%s/%s-main.c", directory, prefix),
                    text_format("long %s_run(long seed);\n"
                                "int main(void) { %s_run(1); return 0; }\n",
                                prefix, prefix));
    run_or_abort(directory, "clang-19", "-O1", "-w", "-fprofile-instr-generate",
                 "-fcoverage-mapping", "-o", prefix, text_format("%s.c", prefix),
                 text_format("%s-main.c", prefix), NULL);
    struct outcome outcome = program_run(directory, prefix);
    ck_assert(outcome_exited(&outcome, 0));
    outcome_free(&outcome);
    struct raw_profile profile;
    struct verdict verdict = {0};
    raw_profile_read(text_format("%s/%s.profraw", directory, prefix), &profile, &verdict);
    verdict_assert(&verdict, prefix);
    return (struct farm_image){
        .profile = profile.file,
        .counters_offset = (size_t)(profile.counters.data - profile.file.data),
        .counter_count = profile.counters.size / sizeof(uint64_t),
    };
}

struct farm farm_create(const char *directory, size_t images, unsigned functions)
{
    struct farm farm = {.images = calloc(images, sizeof *farm.images), .image_count = images};
    directory_create(directory);
    for (size_t i = 0; i < images; i++) {
        farm.images[i] = make_image(directory, i, functions);
        farm.images[i].first = farm.counter_count;
        farm.counter_count += farm.images[i].counter_count;
    }
    return farm;
}

uint64_t *farm_sums_create(const struct farm *farm)
{
    uint64_t *sums = mmap(NULL, farm->counter_count * sizeof *sums, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(sums, MAP_FAILED);
    return sums;
}

void farm_sums_free(const struct farm *farm, uint64_t *sums)
{
    munmap(sums, farm->counter_count * sizeof *sums);
}

/* Small numbers, so that no sum is too large, and some zeros. */
#define COUNT_LIMIT 1000

void farm_write(const struct farm *farm, struct random_state *random, const char *path,
                uint64_t *sums)
{
    const struct farm_image *image = &farm->images[random_below(random, farm->image_count)];
    struct contents made = {malloc(image->profile.size), image->profile.size};
    memcpy(made.data, image->profile.data, made.size);
    for (size_t i = 0; i < image->counter_count; i++) {
        uint64_t count = random_below(random, COUNT_LIMIT);
        count = count % 3 == 0 ? 0 : count;
        memcpy(made.data + image->counters_offset + i * sizeof count, &count, sizeof count);
        __atomic_fetch_add(&sums[image->first + i], count, __ATOMIC_RELAXED);
    }
    file_write(path, made.data, made.size);
    contents_free(&made);
}

/* Where the image's profile is in a file of several; NULL: it is not. What comes before its
 * counters is the same in all of them. */
static const uint8_t *find_counters(const struct contents *file, const struct farm_image *image)
{
    const uint8_t *found =
        memmem(file->data, file->size, image->profile.data, image->counters_offset);
    return found == NULL ? NULL : found + image->counters_offset;
}

void farm_assert_sums(const struct farm *farm, const char *directory, const char *state,
                      const uint64_t *sums, const char *label)
{
    covsplit_assert(0, directory, "merge", state, "-o", "farm-sums.profraw", NULL);
    struct contents file = file_read(path_join(directory, "farm-sums.profraw"));
    for (size_t i = 0; i < farm->image_count; i++) {
        const struct farm_image *image = &farm->images[i];
        const uint8_t *counters = find_counters(&file, image);
        for (size_t j = 0; j < image->counter_count; j++) {
            uint64_t have = 0, expected = sums[image->first + j];
            if (counters != NULL) {
                memcpy(&have, counters + j * sizeof have, sizeof have);
            }
            ck_assert_msg(have == expected, "%s: image %zu, counter %zu: %llu, not %llu", label, i,
                          j, (unsigned long long)have, (unsigned long long)expected);
        }
    }
    contents_free(&file);
}
