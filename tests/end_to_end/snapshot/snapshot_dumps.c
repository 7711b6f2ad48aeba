/*
 * Dumps in all the forms that they are stored in: cores from pipes, compressed, cut, of 4 GB and of
 * 60,000 mappings.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/crash.h"
#include "tests/support/raw_profile.h"

#define FUNCTIONS 40
#define GIB       (UINT64_C(1) << 30)

static const struct program program = {.clang = "19",
                                       .linker = "lld",
                                       .kind = LINK_SHARED,
                                       .language = LANGUAGE_C,
                                       .optimization = "-O1",
                                       .functions = FUNCTIONS};

static struct crash crash;

static void prepare(void)
{
    crash = crash_create(&program, true, scratch_create("dumps"));
}

static const char *new_output(const char *name)
{
    return path_join(crash.directory, text_format("out-%s", name));
}

/* Expects that a snapshot of the core is right. */
static struct outcome expect_exact(const char *core, const char *label)
{
    struct verdict verdict = {0};
    const char *out = new_output(label);
    struct outcome outcome = crash_snapshot(&crash, core, "", out);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s: %s", label, outcome.errors);
    crash_check(&crash, out, true, &verdict);
    verdict_assert(&verdict, label);
    return outcome;
}

static void expect_all(const char *core, const char *label)
{
    struct outcome outcome = expect_exact(core, label);
    outcome_free(&outcome);
}

/* Expects a failure with these words in the message, and no profile. */
static void expect_none(const char *core, const char *label, const char *words)
{
    const char *out = new_output(label);
    struct outcome outcome = crash_snapshot(&crash, core, "", out);
    ck_assert_msg(outcome_exited(&outcome, 1), "%s: %s", label, outcome.errors);
    assert_contains(outcome.errors, words);
    if (file_exists(out)) {
        struct text_list names = directory_list(out);
        ck_assert_uint_eq(names.count, 0);
    }
    outcome_free(&outcome);
}

/* A shell's command line, for pipes; its directory is that of the dumps. */
static struct outcome run_shell(const char *line)
{
    struct command command = {.directory = crash.directory};
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, line);
    text_list_add_format(&command.environment, "COVSPLIT=%s", covsplit_path());
    struct outcome outcome = command_run(&command);
    command_free(&command);
    return outcome;
}

/* ---- compressed, and from pipes ---- */

START_TEST(test_zstd)
{
    run_or_abort(crash.directory, "zstd", "-q", "program.core", "-o", "program.core.zst", NULL);
    expect_all("program.core.zst", "zstd");
}
END_TEST

/* zstd files may consist of several frames. */
START_TEST(test_zstd_frames)
{
    struct outcome outcome = run_shell("head -c 100000 program.core | zstd -q > frames.zst && "
                                       "tail -c +100001 program.core | zstd -q -19 >> frames.zst");
    ck_assert(outcome_exited(&outcome, 0));
    outcome_free(&outcome);
    expect_all("frames.zst", "frames");
}
END_TEST

static void expect_from_pipe(const char *line, const char *label)
{
    struct verdict verdict = {0};
    const char *out = new_output(label);
    struct outcome outcome = run_shell(
        text_format("%s | \"$COVSPLIT\" snapshot --core - --store store -o %s", line, out));
    ck_assert_msg(outcome_exited(&outcome, 0), "%s: %s", label, outcome.errors);
    crash_check(&crash, out, true, &verdict);
    verdict_assert(&verdict, label);
    outcome_free(&outcome);
}

START_TEST(test_pipes)
{
    expect_from_pipe("cat program.core", "plain");
    expect_from_pipe("zstd -qc program.core", "zstd-pipe");
    expect_from_pipe("gzip -c program.core | gzip -dc", "gzip-pipe");
    run_or_abort(crash.directory, "mkfifo", "fifo", NULL);
    struct outcome outcome = run_shell(text_format(
        "cat program.core > fifo & \"$COVSPLIT\" snapshot --core fifo --store store -o %s",
        new_output("fifo")));
    struct verdict verdict = {0};
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    crash_check(&crash, new_output("fifo"), true, &verdict);
    verdict_assert(&verdict, "a FIFO");
    outcome_free(&outcome);
}
END_TEST

/* For a file that covsplit cannot decompress, it says how to. */
START_TEST(test_others)
{
    static const char *const programs[] = {"gzip", "xz"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct outcome outcome =
            run_shell(text_format("head -c 100000 program.core | %s -c > other", programs[i]));
        ck_assert(outcome_exited(&outcome, 0));
        outcome_free(&outcome);
        expect_none("other", programs[i], text_format("%s -dc", programs[i]));
    }
    file_write(path_join(crash.directory, "other"), "\x04\x22\x4d\x18 and more of it", 20);
    expect_none("other", "lz4", "lz4 -dc");
    file_write(path_join(crash.directory, "other"), "BZh91AY&SY and more", 20);
    expect_none("other", "bzip2", "bzip2 -dc");
}
END_TEST

/* A stream that is no dump is not read to its end, which may never come. */
START_TEST(test_endless)
{
    expect_none("/dev/zero", "zeros", "core");
    struct outcome outcome =
        run_shell("yes | \"$COVSPLIT\" snapshot --core - --store store -o endless");
    ck_assert(outcome_exited(&outcome, 1));
    assert_contains(outcome.errors, "standard input: ");
    outcome_free(&outcome);
    expect_none("/dev/null", "nothing", "core");
    expect_none(".", "directory", "directory");
}
END_TEST

/* Nothing is left of the copy, and where there is no room for one, that is said. */
START_TEST(test_temporary_files)
{
    const char *temporary = path_join(crash.directory, "temporary");
    directory_create(temporary);
    struct outcome outcome =
        run_shell(text_format("cat program.core | TMPDIR=%s \"$COVSPLIT\" snapshot --core - "
                              "--store store -o %s",
                              temporary, new_output("temporary")));
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    ck_assert_uint_eq(directory_list(temporary).count, 0);
    outcome_free(&outcome);
    outcome = run_shell("cat program.core | TMPDIR=/nonexistent \"$COVSPLIT\" snapshot --core - "
                        "--store store -o none");
    ck_assert(outcome_exited(&outcome, 1));
    assert_contains(outcome.errors, "TMPDIR");
    outcome_free(&outcome);
}
END_TEST

/* Images that were not split give the same, as long as they are there. */
START_TEST(test_not_split)
{
    struct crash split = crash;
    crash = crash_create(&program, false, scratch_create("not-split"));
    expect_all("program.core", "core");
    expect_from_pipe("zstd -qc program.core", "pipe");
    ck_assert_int_eq(unlink(path_join(crash.directory, PROGRAM_NAME)), 0);
    ck_assert_int_eq(unlink(path_join(crash.directory, PROGRAM_LIBRARY)), 0);
    expect_none("program.core", "no-images", "has coverage");
    crash = split;
}
END_TEST

/* ---- cut ---- */

static void write_at(int fd, const void *data, size_t size, uint64_t offset)
{
    ck_assert_int_eq(pwrite(fd, data, size, (off_t)offset), (ssize_t)size);
}

/* Writes the core anew, with `count` more segments of `size` bytes each in it, which are heap: a
 * byte that is not zero in each, if `is_filled`. The notes come before the memory, where the kernel
 * puts them. */
static void enlarge(const char *name, uint64_t count, uint64_t size, bool is_filled)
{
    struct contents core = file_read(crash.core);
    Elf64_Ehdr header;
    memcpy(&header, core.data, sizeof header);
    uint64_t total = header.e_phnum + count, shift = (count + 1) * sizeof(Elf64_Phdr) + 65536;
    shift -= shift % 4096;
    int fd = open(path_join(crash.directory, name), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    uint64_t old_end = header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr);
    uint64_t heap = (core.size + shift + 4095) / 4096 * 4096, address = UINT64_C(0x10000000);
    Elf64_Phdr *segments = calloc(total, sizeof *segments);
    write_at(fd, core.data + old_end, core.size - old_end, old_end + shift);
    memcpy(segments, core.data + header.e_phoff, header.e_phnum * sizeof *segments);
    for (uint64_t i = 0; i < total; i++) {
        if (i < header.e_phnum && segments[i].p_type == PT_NOTE) {
            uint64_t place = header.e_phoff + total * sizeof *segments;
            ck_assert_uint_le(place + segments[i].p_filesz, old_end + shift);
            write_at(fd, core.data + segments[i].p_offset, segments[i].p_filesz, place);
            segments[i].p_offset = place;
        } else if (i < header.e_phnum) {
            segments[i].p_offset += shift;
        }
        if (i < header.e_phnum) {
            continue;
        }
        segments[i] = (Elf64_Phdr){.p_type = PT_LOAD,
                                   .p_flags = PF_R | PF_W,
                                   .p_offset = heap,
                                   .p_vaddr = address,
                                   .p_filesz = size,
                                   .p_memsz = size};
        if (is_filled) {
            write_at(fd, "x", 1, heap + size / 2);
        }
        heap += size;
        address += size + 4096;
    }
    Elf64_Shdr counts = {.sh_info = (Elf64_Word)total};
    bool is_counted = total >= PN_XNUM; /* in the first section header */
    header.e_phnum = (Elf64_Half)(is_counted ? PN_XNUM : total);
    header.e_shnum = is_counted;
    header.e_shoff = is_counted ? heap : 0;
    header.e_shentsize = sizeof counts;
    header.e_shstrndx = 0;
    write_at(fd, &counts, sizeof counts, heap);
    write_at(fd, &header, sizeof header, 0);
    write_at(fd, segments, total * sizeof *segments, header.e_phoff);
    close(fd);
    free(segments);
    contents_free(&core);
}

/* Where a core has the counters that are in a profile: at the last such place, as others are in
 * buffers that the runtime wrote from. */
static uint64_t find_counters(const struct contents *core, const char *path)
{
    struct verdict verdict = {0};
    struct raw_profile profile;
    uint64_t place = 0;
    raw_profile_read(path, &profile, &verdict);
    verdict_assert(&verdict, path);
    const uint8_t *counters = profile.counters.data, *from = core->data;
    size_t size = profile.counters.size;
    while ((from = memmem(from, core->size - (size_t)(from - core->data), counters, size)) !=
           NULL) {
        place = (uint64_t)(from - core->data);
        from++;
    }
    raw_profile_free(&profile);
    ck_assert_uint_ne(place, 0);
    return place;
}

/* Of a core that ends between the counters of the two images, the first image's are written; the
 * message tells of the other's. */
static void check_cut(const char *name)
{
    struct contents core = file_read(path_join(crash.directory, name));
    struct text_list names = directory_list(crash.profiles);
    struct verdict verdict = {0};
    ck_assert_uint_eq(names.count, 2);
    uint64_t first = find_counters(&core, path_join(crash.profiles, names.items[0]));
    uint64_t second = find_counters(&core, path_join(crash.profiles, names.items[1]));
    uint64_t later = first > second ? first : second;
    file_write(path_join(crash.directory, "cut"), core.data, later + 8);
    const char *out = new_output("cut");
    struct outcome outcome = crash_snapshot(&crash, "cut", "", out);
    ck_assert_msg(outcome_exited(&outcome, 1), "%s", outcome.errors);
    assert_contains(outcome.errors, "__llvm_prf_cnts");
    assert_contains(outcome.errors, "bytes at 0x");
    ck_assert_uint_eq(directory_list(out).count, 1);
    crash_check(&crash, out, false, &verdict);
    verdict_assert(&verdict, "cut");
    outcome_free(&outcome);
    contents_free(&core);
    directory_remove(out);
}

START_TEST(test_cut)
{
    check_cut("program.core");
    enlarge("kernel.core", 0, 0, false);
    check_cut("kernel.core");
    expect_from_pipe("cat kernel.core", "kernel-pipe");
}
END_TEST

/* ---- large ---- */

/* Costs of a snapshot. */
static struct outcome costs_of(const char *core, const char *label)
{
    struct outcome outcome = expect_exact(core, label);
    printf("%s: %.2f seconds of processor time, %ld KiB\n", label, outcome.processor_seconds,
           outcome.peak_resident_kib);
    return outcome;
}

static void assert_costs(const struct outcome *large, const struct outcome *small, long more_kib,
                         double more_seconds)
{
    if (covsplit_is_sanitized()) {
        return;
    }
    ck_assert_int_lt(large->peak_resident_kib, small->peak_resident_kib + more_kib);
    ck_assert(large->processor_seconds < small->processor_seconds + more_seconds);
}

START_TEST(test_large)
{
    struct outcome small = costs_of("program.core", "the core as it is");
    enlarge("large.core", 4, GIB, true);
    struct outcome large = costs_of("large.core", "with 4 GiB of heap");
    assert_costs(&large, &small, 4096, 0.2);
    enlarge("many.core", 60000, 4096, true);
    struct outcome many = costs_of("many.core", "with 60,000 mappings");
    assert_costs(&many, &small, 65536, 1);
    enlarge("more.core", 70000, 4096, false);
    struct outcome more = costs_of("more.core", "with 70,000 mappings");
    assert_costs(&more, &small, 65536, 1);
    expect_from_pipe("cat many.core", "many-pipe");
    expect_from_pipe("cat more.core", "more-pipe");
    if (rounds_are_all()) { /* reading holes takes time */
        run_or_abort(crash.directory, "zstd", "-q", "-1", "large.core", "-o", "large.zst", NULL);
        struct outcome compressed = costs_of("large.zst", "with 4 GiB of heap, by zstd");
        assert_costs(&compressed, &small, 32768, 8);
    }
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("all", 300, prepare);
    suite_tests(test_case, test_zstd, test_zstd_frames, test_pipes, test_others, test_endless,
                test_temporary_files, test_not_split, test_cut, test_large);
    return suite_main("dumps", test_case);
}
