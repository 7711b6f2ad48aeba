/*
 * Bad dumps: thousands of damaged cores, plain and compressed, and cuts of them.
 *
 * Whatever comes in, covsplit ends by itself with 0 or 1, soon and using little memory. With 1 it
 * has said why, in lines of the usual form. What it writes in either case are profiles that the
 * program wrote, or whole profiles with other counters, where the damage is in these; never one
 * with zeros in place of counters that are not there.
 *
 * Usage: snapshot_bad FIRST COUNT      seeds of the mutations
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/crash.h"
#include "tests/support/mutation.h"
#include "tests/support/raw_profile.h"

#define PARTS_MAX 1024
#define PAGE_SIZE 4096
#define CUTS      200
#define PEAK_KIB  (256 * 1024)

/* A dump, and which parts of it are not just memory. */
struct dump {
    const char *name;
    struct contents file;
    struct mutated_part parts[PARTS_MAX];
    size_t part_count;
};

enum { CORE, BARE, COMPRESSED, DUMP_COUNT };

static struct dump dumps[DUMP_COUNT];
static struct crash crash;

/* ---- set-up ---- */

static void add_part(struct dump *dump, uint64_t offset, uint64_t size)
{
    ck_assert_uint_lt(dump->part_count, PARTS_MAX);
    if (offset < dump->file.size) {
        uint64_t left = dump->file.size - offset;
        dump->parts[dump->part_count++] = (struct mutated_part){offset, size < left ? size : left};
    }
}

/* The headers and notes, and the first page of each segment that begins with an ELF header. */
static void find_core_parts(struct dump *dump)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)dump->file.data;
    const Elf64_Phdr *segments =
        (const Elf64_Phdr *)(const void *)(dump->file.data + header->e_phoff);
    add_part(dump, 0, sizeof *header);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *segment = &segments[i];
        add_part(dump, header->e_phoff + i * sizeof *segment, sizeof *segment);
        if (segment->p_type == PT_NOTE) {
            for (uint64_t done = 0; done < segment->p_filesz; done += PAGE_SIZE) {
                uint64_t left = segment->p_filesz - done;
                add_part(dump, segment->p_offset + done, left < PAGE_SIZE ? left : PAGE_SIZE);
            }
        } else if (segment->p_filesz >= PAGE_SIZE &&
                   memcmp(dump->file.data + segment->p_offset, ELFMAG, SELFMAG) == 0) {
            add_part(dump, segment->p_offset, PAGE_SIZE / 4);
        }
    }
}

/* A copy of the core as qemu dumps it: without notes, and without the pages that have ELF headers.
 * What tells of modules is then in memory that can be written to. */
static void make_bare(struct dump *dump, const char *name)
{
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)dump->file.data;
    Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(dump->file.data + header->e_phoff);
    dump->name = name;
    add_part(dump, 0, sizeof *header);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr *segment = &segments[i];
        add_part(dump, header->e_phoff + i * sizeof *segment, sizeof *segment);
        if (segment->p_type == PT_NOTE) {
            segment->p_type = PT_NULL;
        } else if (segment->p_filesz != 0 &&
                   memcmp(dump->file.data + segment->p_offset, ELFMAG, SELFMAG) == 0) {
            segment->p_filesz = 0;
        } else if ((segment->p_flags & PF_W) != 0) {
            add_part(dump, segment->p_offset, segment->p_filesz);
        }
    }
}

static void read_dump(int number, const char *name)
{
    dumps[number].name = name;
    dumps[number].file = file_read(path_join(crash.directory, name));
}

static void prepare(void)
{
    static const struct program program = {.clang = "19",
                                           .linker = "lld",
                                           .kind = LINK_SHARED,
                                           .language = LANGUAGE_C,
                                           .optimization = "-O1",
                                           .functions = 40};
    hostile_in_memory();
    crash = crash_create(&program, true, scratch_create("bad-dumps"));
    read_dump(CORE, "program.core");
    find_core_parts(&dumps[CORE]);
    read_dump(BARE, "program.core");
    make_bare(&dumps[BARE], "the core without headers");
    run_or_abort(crash.directory, "zstd", "-q", "program.core", "-o", "program.core.zst", NULL);
    read_dump(COMPRESSED, "program.core.zst");
    add_part(&dumps[COMPRESSED], 0, 64);
    add_part(&dumps[COMPRESSED], 0, dumps[COMPRESSED].file.size);
}

/* ---- one damaged dump ---- */

/* Whether what is in the directory are whole profiles; if the counters themselves are not damaged,
 * those that the program wrote. */
static bool outputs_are_good(const char *out, bool is_exact, struct verdict *verdict)
{
    if (is_exact) {
        return crash_check(&crash, out, false, verdict);
    }
    struct text_list names = directory_list(out);
    bool good = true;
    for (size_t i = 0; i < names.count && good; i++) {
        struct raw_profile profile;
        good = raw_profile_read(path_join(out, names.items[i]), &profile, verdict);
        raw_profile_free(&profile);
    }
    text_list_free(&names);
    return good;
}

/* Several modules may be at fault, each with a line of its own. */
static bool behaved(const struct command *command, const struct outcome *outcome,
                    struct verdict *verdict)
{
    if (outcome->timed_out || outcome->signal != 0 ||
        outcome->processor_seconds > HOSTILE_PROCESSOR_SECONDS ||
        (outcome->exit_code != 0 && outcome->exit_code != 1)) {
        return verdict_fail(verdict, "a crash or a hang %s", outcome_describe(command, outcome));
    }
    if (!covsplit_is_sanitized() && outcome->peak_resident_kib > PEAK_KIB) {
        return verdict_fail(verdict, "%ld KiB of memory %s", outcome->peak_resident_kib,
                            outcome_describe(command, outcome));
    }
    bool has_error = strstr(outcome->errors, "covsplit: error: ") != NULL;
    return has_error == (outcome->exit_code == 1) ||
           verdict_fail(verdict, "messages and exit code differ %s",
                        outcome_describe(command, outcome));
}

static bool check_damaged(const char *directory, const struct contents *damaged, bool is_exact,
                          int *exit_code, struct verdict *verdict)
{
    const char *path = path_join(directory, "bad"), *out = path_join(directory, "out");
    file_write(path, damaged->data, damaged->size);
    struct command command = hostile_command(
        crash.directory, text_format("snapshot --core %s --store store -o %s", path, out));
    text_list_add_format(&command.environment, "TMPDIR=%s", directory);
    struct outcome outcome = command_run(&command);
    bool good = behaved(&command, &outcome, verdict) &&
                (!file_exists(out) || outputs_are_good(out, is_exact, verdict));
    *exit_code = outcome.exit_code;
    directory_remove(out);
    outcome_free(&outcome);
    command_free(&command);
    return good;
}

static struct contents damage(unsigned long seed, char **description)
{
    const struct dump *dump = &dumps[seed % DUMP_COUNT];
    struct contents damaged =
        mutate_parts(&dump->file, dump->parts, dump->part_count, seed, description);
    *description = text_format("%s, %s", dump->name, *description);
    return damaged;
}

static bool check_mutated(const char *directory, const struct contents *damaged, int *exit_code,
                          struct verdict *verdict)
{
    return check_damaged(directory, damaged, false, exit_code, verdict);
}

START_TEST(test_mutations)
{
    hostile_run_seeds(_i, scratch_create("bad-dump"), damage, check_mutated, true);
}
END_TEST

/* Undamaged, each of them gives both profiles. */
START_TEST(test_undamaged)
{
    struct verdict verdict = {0};
    const char *directory = scratch_create("good-dump");
    const char *path = path_join(directory, "dump"), *out = path_join(directory, "out");
    file_write(path, dumps[_i].file.data, dumps[_i].file.size);
    struct outcome outcome = crash_snapshot(&crash, path, "", out);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s: %s", dumps[_i].name, outcome.errors);
    crash_check(&crash, out, true, &verdict);
    verdict_assert(&verdict, dumps[_i].name);
    outcome_free(&outcome);
}
END_TEST

/* A dump that ends early gives the profiles that it still has, and nothing else. */
START_TEST(test_cuts)
{
    const char *directory = scratch_create("cut-dump");
    const struct dump *dump = &dumps[_i];
    unsigned cuts = rounds(CUTS);
    for (unsigned i = 0; i < cuts; i++) {
        struct verdict verdict = {0};
        int exit_code = -1;
        struct contents cut = {dump->file.data, dump->file.size * i / cuts};
        hostile_fork(i != 0);
        check_damaged(directory, &cut, true, &exit_code, &verdict);
        verdict_assert(&verdict, text_format("%s cut to %zu bytes", dump->name, cut.size));
    }
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *first, *count;
    suite_arguments(argument_count, arguments, "FIRST COUNT", &first, &count);
    hostile_seeds(first, count);
    TCase *mutations = suite_case("mutations", 600, prepare);
    TCase *cuts = suite_case("cuts", 600, NULL);
    suite_loops(mutations, hostile_tests(), test_mutations);
    suite_loops(cuts, DUMP_COUNT, test_undamaged, test_cuts);
    return suite_main("bad dumps", mutations, cuts);
}
