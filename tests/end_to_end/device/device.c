/*
 * Streams beside compiler-rt: what libcovsplit-device writes, by pieces of any size, is to the byte
 * what __llvm_profile_write_file writes for the same counters, in unsplit and in split images. The
 * sparse form expands to the same. Counters that change are not torn.
 *
 * Usage: device CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define FUNCTIONS 60
#define FIXTURES  COVSPLIT_FIXTURE_DIRECTORY "/device"
#define SOURCES   COVSPLIT_FIXTURE_DIRECTORY "/../../device"
#define IR_PGO    "-fprofile-generate -mllvm -disable-vp"

static const char *clang_version;

/* Kinds of images and of instrumentation, each with one of the other. Of those that all compilers
 * have, the oldest and the latest compiler have every second each where not all rounds are run. */
static const struct row {
    enum link_kind kind;
    enum language language;
    const char *linker;
    const char *optimization;
    const char *instrumentation; /* NULL: coverage */
    int clang_min;
    bool data_stays; /* there is nothing to take out */
} rows[] = {
    {LINK_PIE, LANGUAGE_C, "bfd", "-O1", NULL, 14, false},
    {LINK_NO_PIE, LANGUAGE_CXX, "lld", "-O2", NULL, 14, false},
    {LINK_SHARED, LANGUAGE_C, "lld", "-Os", NULL, 14, false},
    {LINK_STATIC, LANGUAGE_C, "bfd", "-O0", NULL, 14, false},
    {LINK_STATIC_PIE, LANGUAGE_CXX, "bfd", "-O1", NULL, 14, false},
    {LINK_PIE, LANGUAGE_C, "gold", "-O1", NULL, 14, false},
    {LINK_SHARED, LANGUAGE_C, "gold", "-O2", NULL, 14, false},
    {LINK_PIE, LANGUAGE_C, "lld", "-O2", IR_PGO, 14, false},
    {LINK_SHARED, LANGUAGE_CXX, "bfd", "-O2", IR_PGO, 14, false},
    {LINK_PIE, LANGUAGE_C, "bfd", "-O1", IR_PGO " -mllvm -pgo-function-entry-coverage", 14, false},
    {LINK_NO_PIE, LANGUAGE_C, "lld", "-O1", INSTRUMENT_COVERAGE " -fcoverage-mcdc", 19, false},
    {LINK_SHARED, LANGUAGE_CXX, "lld", "-O1", INSTRUMENT_COVERAGE " -fcoverage-mcdc", 19, false},
    {LINK_PIE, LANGUAGE_C, "lld", "-O1",
     INSTRUMENT_COVERAGE " -mllvm -enable-single-byte-coverage=true", 19, false},
};

#define ROWS (sizeof rows / sizeof *rows)

static const char *const images[] = {"first", "second"};
static const char *const sizes[] = {"1", "7", "64", "4096"};

/* ---- building ---- */

static struct program program_of(const struct row *row)
{
    return (struct program){.clang = clang_version,
                            .linker = row->linker,
                            .kind = row->kind,
                            .language = row->language,
                            .optimization = row->optimization,
                            .instrumentation = row->instrumentation,
                            .functions = FUNCTIONS};
}

/* Compiles what is not instrumented: the fixtures, and the library. */
static void compile_plain(const struct program *program, const char *directory, const char *words,
                          const char *object)
{
    struct program plain = *program;
    plain.language = LANGUAGE_C;
    plain.instrumentation = "";
    plain.compile_options = text_format("-I. %s", words);
    program_compile(&plain, directory, "-w", object);
}

/* "app", and beside it the library of a shared program. */
static void build(const struct program *program, const char *directory)
{
    bool is_cxx = program->language == LANGUAGE_CXX, is_shared = program->kind == LINK_SHARED;
    static const char *const kinds[] = {
        [LINK_PIE] = "-pie",
        [LINK_NO_PIE] = "-no-pie",
        [LINK_SHARED] = "-pie",
        [LINK_STATIC] = "-static -no-pie",
        [LINK_STATIC_PIE] = "-static-pie",
    };
    const char *inputs = "hosted.o first-streams.o first.o stream.o";
    file_copy(SOURCES "/stream.c", path_join(directory, "stream.c"));
    file_copy(SOURCES "/covsplit-device.h", path_join(directory, "covsplit-device.h"));
    for (size_t i = 0; i < (is_shared ? 2 : 1); i++) {
        const char *source = text_format("%s.%s", images[i], is_cxx ? "cc" : "c");
        source_generate(path_join(directory, source), program->language, images[i],
                        program->functions + (unsigned)i);
        program_compile(program, directory, source, text_format("%s.o", images[i]));
        compile_plain(program, directory,
                      text_format("-DIMAGE=%s " FIXTURES "/streams.c", images[i]),
                      text_format("%s-streams.o", images[i]));
    }
    compile_plain(program, directory, "stream.c", "stream.o");
    compile_plain(program, directory,
                  text_format("%s " FIXTURES "/hosted.c", is_shared ? "-DSHARED" : ""), "hosted.o");
    if (is_shared) {
        program_link(program, directory, "-shared", "second-streams.o second.o stream.o",
                     PROGRAM_LIBRARY);
        inputs = text_format("%s " PROGRAM_LIBRARY " -Wl,-rpath,$ORIGIN", inputs);
    }
    program_link(program, directory, kinds[program->kind], text_format("%s -pthread", inputs),
                 "app");
}

/* Runs DIRECTORY/app in the directory. */
static const char *run_writing(const char *directory, const char *words, const char *profile)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, "./app");
    text_list_add_words(&command.arguments, words);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    struct outcome outcome = command_expect(&command, 0);
    return outcome.output;
}

static const char *run(const char *directory, const char *words)
{
    return run_writing(directory, words, "/dev/null");
}

static const char *split(const char *directory, const char *name)
{
    return covsplit_assert(0, directory, "split", "-o", text_format("split/%s", name), "--sidecar",
                           text_format("%s.covsplit", name), name, NULL);
}

/* ---- checks ---- */

/* ULEB128. */
static uint64_t take_number(const struct contents *file, size_t *at)
{
    uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
        ck_assert_uint_lt(*at, file->size);
        number |= (uint64_t)(file->data[*at] & 0x7f) << shift;
        if ((file->data[(*at)++] & 0x80) == 0) {
            return number;
        }
    }
}

/* Takes the next word of a profile, whose last one may lack bytes. */
static uint64_t take_word(const struct contents *file, size_t *at)
{
    uint64_t word = 0;
    ck_assert_uint_lt(*at, file->size);
    memcpy(&word, file->data + *at, file->size - *at < 8 ? file->size - *at : 8);
    *at += 8;
    return word;
}

/* Whether the sparse stream is that of these bytes, with runs as long as can be. */
static void check_sparse(const char *path, const char *plain_path)
{
    struct contents sparse = file_read(path), plain = file_read(plain_path);
    size_t at = 8, word = 0;
    ck_assert_int_eq(memcmp(sparse.data,
                            "\xff"
                            "cspar\x01l",
                            8),
                     0);
    while (at < sparse.size) {
        uint64_t number = take_number(&sparse, &at);
        if (number != 0) {
            ck_assert_uint_eq(number, take_word(&plain, &word));
            continue;
        }
        for (uint64_t zeros = take_number(&sparse, &at); zeros != 0; zeros--) {
            ck_assert_uint_eq(take_word(&plain, &word), 0);
        }
        ck_assert(at == sparse.size || sparse.data[at] != 0);
    }
    ck_assert_uint_ge(word, plain.size);
    contents_free(&plain);
    contents_free(&sparse);
}

static void check_streams(const char *directory, const char *image)
{
    const char *written = text_format("%s/%s-file", directory, image);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *stream = text_format("%s/%s-%s", directory, image, sizes[i]);
        files_assert_equal(written, stream, sizes[i]);
        check_sparse(text_format("%s-sparse", stream), stream);
        files_assert_equal(text_format("%s/%s-1-sparse", directory, image),
                           text_format("%s-sparse", stream), sizes[i]);
    }
}

static void check_counters(const char *directory, const char *image)
{
    struct raw_profile whole, half;
    struct verdict verdict = {0};
    if (!raw_profile_read(text_format("%s/%s-64", directory, image), &whole, &verdict) ||
        !raw_profile_read(text_format("%s/split/%s-64", directory, image), &half, &verdict)) {
        verdict_assert(&verdict, image);
    }
    ck_assert_uint_gt(whole.record_count, FUNCTIONS / 2);
    ck_assert_uint_eq(half.record_count, 1);
    ck_assert(parts_equal(whole.counters, half.counters));
    ck_assert(parts_equal(whole.bitmap, half.bitmap));
    ck_assert(parts_equal(whole.binary_ids, half.binary_ids));
    ck_assert_uint_gt(half.binary_ids.size, 0);
    ck_assert_uint_gt(raw_profile_total(&whole), 0);
    raw_profile_free(&whole);
    raw_profile_free(&half);
}

START_TEST(test_same_bytes)
{
    const struct row *row = &rows[_i];
    unsigned latest = strcmp(clang_version, "22") == 0;
    if (atoi(clang_version) < row->clang_min ||
        (row->clang_min == 14 && !rounds_have((unsigned)_i + latest, 2))) {
        return;
    }
    struct program program = program_of(row);
    char *directory = scratch_create("device");
    directory_create(path_join(directory, "split"));
    build(&program, directory);
    split(directory, "app");
    if (row->kind == LINK_SHARED) {
        split(directory, PROGRAM_LIBRARY);
    }
    run(directory, "streams 5");
    run(path_join(directory, "split"), "streams 5");
    for (size_t i = 0; i < (row->kind == LINK_SHARED ? 2 : 1); i++) {
        check_streams(directory, images[i]);
        check_streams(path_join(directory, "split"), images[i]);
        check_counters(directory, images[i]);
    }
    printf("%s: passed\n", program_describe(&program));
}
END_TEST

/* Records and names of virtual tables, which only the linker's optimizer makes. */
START_TEST(test_vtables)
{
    struct program program = program_of(&rows[0]);
    if (atoi(clang_version) < 19) {
        return;
    }
    char *directory = scratch_create("device");
    build(&program, directory);
    run_or_abort(directory, versioned_tool("clang++", clang_version), "-O2", "-w", "-flto",
                 "-fprofile-generate", "-fwhole-program-vtables", "-mllvm",
                 "-enable-vtable-value-profiling", "-mllvm", "-disable-vp", "-c",
                 FIXTURES "/vtables.cc", "-o", "first.o", NULL);
    run_or_abort(directory, versioned_tool("clang++", clang_version), "-flto", "-fuse-ld=lld",
                 "-fprofile-generate", "-Wl,-mllvm,-enable-vtable-value-profiling",
                 "-Wl,-mllvm,-disable-vp", "-Wl,--build-id", "hosted.o", "first-streams.o",
                 "first.o", "stream.o", "-pthread", "-o", "app", NULL);
    run(directory, "streams 5");
    check_streams(directory, "first");
    struct raw_profile profile;
    struct verdict verdict = {0};
    ck_assert(raw_profile_read(path_join(directory, "first-1"), &profile, &verdict));
    ck_assert_uint_ge(profile.values.size, 48 + 16); /* two records, and names */
    raw_profile_free(&profile);
}
END_TEST

/* ---- what is refused ---- */

static const struct {
    const char *instrumentation; /* NULL: coverage */
    int clang_min;
    const char *words;
    const char *error;
} errors[] = {
    {NULL, 14, "error 0", "0\n"},
    {NULL, 14, "error 2", "7\n"},
    {"-fprofile-generate", 14, "error 0", "3\n"},
    {IR_PGO " -mllvm -pgo-temporal-instrumentation", 19, "error 0", "2\n"},
    {INSTRUMENT_COVERAGE " -mllvm -runtime-counter-relocation", 14, "error 0", "4\n"},
    {"-fprofile-generate -mllvm -disable-vp -g -mllvm -profile-correlate=debug-info", 19, "error 0",
     "2\n"},
};

START_TEST(test_errors)
{
    if (atoi(clang_version) < errors[_i].clang_min) {
        return;
    }
    struct program program = program_of(&rows[0]);
    program.instrumentation = errors[_i].instrumentation;
    char *directory = scratch_create("device");
    build(&program, directory);
    /* %c: the counters are mapped, if the code can follow. */
    ck_assert_str_eq(run_writing(directory, errors[_i].words, "mapped%c"), errors[_i].error);
}
END_TEST

/* ---- counters that change ---- */

START_TEST(test_while_counting)
{
    struct program program = program_of(&rows[0]);
    char *directory = scratch_create("device");
    directory_create(path_join(directory, "split"));
    build(&program, directory);
    split(directory, "app");
    run(directory, "threads");
    printf("%s: a thread counted %s", program_describe(&program),
           run(path_join(directory, "split"), "threads"));
    run(directory, "steps");
}
END_TEST

/* Where a counter takes two loads, interrupts do not tear it. (Other processors may.) */
START_TEST(test_while_counting_32)
{
    struct program program = program_of(&rows[3]);
    if (strcmp(clang_version, "14") != 0 && strcmp(clang_version, "19") != 0) {
        return;
    }
    program.target = target_find("i386");
    char *directory = scratch_create("device");
    build(&program, directory);
    run(directory, "streams 5");
    check_streams(directory, "first");
    printf("%s: %s", program_describe(&program), run(directory, "steps"));
}
END_TEST

/* ---- memory ---- */

/* What __llvm_profile_write_buffer takes, the sections and a buffer, and what a stream takes. */
START_TEST(test_memory)
{
    struct program program = program_of(&rows[0]);
    program.functions = 1000;
    char *directory = scratch_create("device");
    directory_create(path_join(directory, "split"));
    build(&program, directory);
    split(directory, "app");
    run(directory, "streams 5");
    run(path_join(directory, "split"), "streams 5");
    struct raw_profile whole, half;
    struct verdict verdict = {0};
    if (!raw_profile_read(path_join(directory, "first-64"), &whole, &verdict) ||
        !raw_profile_read(path_join(directory, "split/first-64"), &half, &verdict)) {
        verdict_assert(&verdict, "streams");
    }
    unsigned long long buffer = strtoull(run(directory, "memory"), NULL, 10);
    unsigned long long before = whole.data.size + whole.counters.size + whole.names.size;
    unsigned long long after = half.data.size + half.counters.size + half.names.size;
    unsigned long long writer = 512 + 64;
    ck_assert_uint_eq(buffer, whole.file.size);
    printf("%s: %llu functions; sections and buffer: %llu + %llu bytes; sections, state and pieces "
           "of 64 bytes: %llu + %llu bytes\n",
           program_describe(&program), (unsigned long long)whole.record_count, before, buffer,
           after, writer);
    ck_assert_uint_lt(after + writer, (before + buffer) / 4);
    ck_assert_uint_lt(after, half.counters.size + 200);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("device", 300, NULL);
    suite_loops(test_case, ROWS, test_same_bytes);
    suite_loops(test_case, sizeof errors / sizeof *errors, test_errors);
    suite_tests(test_case, test_vtables, test_while_counting, test_while_counting_32, test_memory);
    return suite_main(text_format("device clang-%s", clang_version), test_case);
}
