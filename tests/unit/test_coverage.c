/*
 * Filenames and records of functions in coverage mapping: what is cut short, or says that there is
 * more than there is, is refused and not read beyond its end.
 */
#include <string.h>

#include "common/llvm/coverage.h"
#include "tests/support/suite.h"

/* ---- filenames ---- */

#define LIMIT (4 * sizeof(struct bytes))

static const struct {
    const char *bytes;
    size_t size;
    enum result result;
} filenames[] = {
    {"\2\4\0\1a\1b", 7, RESULT_OK},
    {"\0\0\0", 3, RESULT_OK},
    {"", 0, RESULT_UNFIT},
    {"\2", 1, RESULT_UNFIT},
    {"\2\4", 2, RESULT_UNFIT},
    {"\2\5\0\1a\1b", 7, RESULT_UNFIT},  /* the size is not that of what follows */
    {"\2\4\1\1a\1b", 7, RESULT_UNFIT},  /* nor is the compressed size */
    {"\2\4\4\1a\1b", 7, RESULT_UNFIT},  /* what follows is no zlib stream */
    {"\5\4\0\1a\1b", 7, RESULT_UNFIT},  /* more names than bytes */
    {"\3\4\0\1a\1b", 7, RESULT_UNFIT},  /* one name too many */
    {"\1\4\0\1a\1b", 7, RESULT_UNFIT},  /* one too few */
    {"\2\4\0\1a\2b", 7, RESULT_UNFIT},  /* a name reaches over the end */
    {"\2\4\0\1a\1\x80", 7, RESULT_OK},  /* a name may have any bytes */
    {"\2\3\0\1a\x80", 6, RESULT_UNFIT}, /* but a size ends */
    {"\5\5\0\0\0\0\0\0", 8, RESULT_OVER_LIMIT},
    {"\1\xff\7\1x", 5, RESULT_OVER_LIMIT}, /* decompressed, it would be too large */
};

START_TEST(test_filenames)
{
    FREED_BY(covmap_names_free) struct covmap_names names = {0};
    struct bytes bytes = {(const uint8_t *)filenames[_i].bytes, filenames[_i].size};

    ck_assert_int_eq(covmap_names_read(&names, bytes, LIMIT), filenames[_i].result);
    if (filenames[_i].result == RESULT_OK && names.count != 0)
        ck_assert(bytes_equal(names.names[0], (struct bytes){(const uint8_t *)"a", 1}));
}
END_TEST

/* ---- mappings of functions ---- */

static const struct {
    const char *mapping;
    size_t size;
    bool is_sound, is_dummy;
} mappings[] = {
    {"\1\0\0\1\0\1\1\0\1", 9, true, true},
    {"\1\0\0\1\1\1\1\0\1", 9, true, false}, /* a region with a counter */
    {"\1\0\0\2\0", 5, true, false},         /* two regions */
    {"\1\0\1", 3, true, false},             /* an expression */
    {"\2\0\0", 3, true, false},             /* two files */
    {"", 0, false, false},
    {"\1", 1, false, false},
    {"\1\0", 2, false, false},
    {"\1\0\0", 3, false, false},
    {"\1\0\0\1", 4, false, false},
};

START_TEST(test_dummies)
{
    struct covfun_record record = {
        .mapping = {(const uint8_t *)mappings[_i].mapping, mappings[_i].size}};
    bool is_dummy = true;

    ck_assert(covfun_tell_dummy(&record, &is_dummy) == mappings[_i].is_sound);
    ck_assert(is_dummy == mappings[_i].is_dummy);
    record.function_hash = 1;
    ck_assert(covfun_tell_dummy(&record, &is_dummy) && !is_dummy);
}
END_TEST

START_TEST(test_files_of_function)
{
    static const uint8_t mapping[] = {3, 0, 0x81, 1, 2, 7};
    struct covfun_record record = {.mapping = {mapping, sizeof(mapping)}};
    struct covfun_files files;

    ck_assert(covfun_read_files(&record, &files));
    ck_assert_uint_eq(files.count, 3);
    ck_assert_uint_eq(files.numbers.size, 4);
    ck_assert_uint_eq(files.rest.size, 1);
    for (record.mapping.size = 0; record.mapping.size < sizeof(mapping) - 1; record.mapping.size++)
        ck_assert(!covfun_read_files(&record, &files));
}
END_TEST

/* ---- paths ---- */

static const struct {
    const char *directory, *name;
    bool is_windows;
    const char *path;
} paths[] = {
    {"/src", "a.c", false, "/src/a.c"},
    {"/src", "/inc/a.h", false, "/inc/a.h"},
    {"", "a.c", false, "a.c"},
    {"", "./a//b.c", false, "a/b.c"},
    {"/src/build", "../a.c", false, "/src/a.c"},
    {"/src", "/src/x/../../inc/./a.h", false, "/inc/a.h"},
    {"/src", "../../../a.c", false, "/a.c"},
    {".", "src/a.c", false, "src/a.c"},
    {"./build", "../src/a.c", false, "src/a.c"},
    {".", "../src/a.c", false, "../src/a.c"},
    {"..", "../a.c", false, "../../a.c"},
    {"/src", "a\\b.c", false, "/src/a\\b.c"},
    {"/src", "a\\b.c", true, "/src/a/b.c"},
    {"C:\\proj", "src\\a.c", false, "C:/proj/src/a.c"},
    {"C:\\proj", "C:\\proj\\..\\inc\\a.h", false, "C:/inc/a.h"},
    {"/src", "C:/proj/a.c", false, "C:/proj/a.c"},
    {"C:\\", "..\\..\\a.c", true, "C:/a.c"},
    {"\\\\host\\share", "a.c", true, "/host/share/a.c"},
    {"/", "a.c", false, "/a.c"},
    {"", ".", false, "."},
    {"", "", false, ""},
};

/* Each file has one name, also when it is normalized once more. */
START_TEST(test_paths)
{
    FREED_BY(buffer_free) struct buffer scratch = {0}, again = {0};
    const char *texts[] = {paths[_i].directory, paths[_i].name};
    struct bytes parts[2], path;

    for (size_t i = 0; i < 2; i++)
        parts[i] = (struct bytes){(const uint8_t *)texts[i], strlen(texts[i])};
    ck_assert(covmap_path(parts[0], parts[1], paths[_i].is_windows, &scratch, &path));
    ck_assert_uint_eq(path.size, strlen(paths[_i].path));
    ck_assert_mem_eq(path.data, paths[_i].path, (size_t)path.size);
    ck_assert(covmap_path((struct bytes){0}, path, paths[_i].is_windows, &again, &parts[0]));
    ck_assert(bytes_equal(parts[0], path));
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 10, NULL);

    suite_loops(all, (int)(sizeof(filenames) / sizeof(filenames[0])), test_filenames);
    suite_loops(all, (int)(sizeof(mappings) / sizeof(mappings[0])), test_dummies);
    suite_loops(all, (int)(sizeof(paths) / sizeof(paths[0])), test_paths);
    suite_tests(all, test_files_of_function);
    return suite_main("coverage", all);
}
