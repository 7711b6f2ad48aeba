/*
 * Damaged archives: packed or refused, but never a crash, and never a file that another pack would
 * change again. A refused archive is not touched.
 *
 * Usage: bad_archives FIRST COUNT      seeds of the mutations
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/mutation.h"
#include "tests/support/program.h"

#define TEST_TIMEOUT_SECONDS 1500
#define MAGIC_SIZE           8
#define HEADER_SIZE          60
#define PARTS_MAX            32

/* Of how much of a member, from its header on, numbers are changed: a whole index, and the headers
 * of an object. */
#define PART_SIZE 600

static const char *const kinds[] = {"gnu", "gnu64", "thin"};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

static char *scratch;

/* The archives in scratch, and in "place" the objects of the thin one. */
static void prepare(void)
{
    scratch = scratch_create("bad-archives");
    many_units_write(scratch);
    run_or_abort(scratch, "sh", "-ec",
                 "for i in 0 1; do\n"
                 "  clang++-19 " INSTRUMENT_COVERAGE
                 " -c unit$i.cc -o a-long-name-of-an-object-$i.o\n"
                 "done\n"
                 "llvm-ar-22 rcs gnu *.o; SYM64_THRESHOLD=1 llvm-ar-22 rcs gnu64 *.o\n"
                 "mkdir place; cp *.o place; cd place; ar rcsT ../thin *.o",
                 NULL);
}

/* The headers of all members, and what follows them. */
static size_t list_parts(const struct contents *archive, struct mutated_part parts[PARTS_MAX])
{
    bool is_thin = memcmp(archive->data, "!<thin>\n", MAGIC_SIZE) == 0;
    size_t count = 0, at = MAGIC_SIZE;

    while (at + HEADER_SIZE <= archive->size) {
        const char *header = (const char *)archive->data + at;
        bool has_contents = !is_thin || strncmp(header, "/ ", 2) == 0 || header[1] == '/';
        size_t size = has_contents ? strtoul(header + 48, NULL, 10) : 0;
        size_t part = HEADER_SIZE + size < PART_SIZE ? HEADER_SIZE + size : PART_SIZE;

        ck_assert_uint_lt(count, PARTS_MAX);
        parts[count++] = (struct mutated_part){at, HEADER_SIZE};
        parts[count++] = (struct mutated_part){at, part};
        at += HEADER_SIZE + size + size % 2;
    }
    return count;
}

static bool check(const char *place, const struct contents *damaged, int *exit_code,
                  struct verdict *verdict)
{
    int again = -1;
    file_write(path_join(place, "input"), damaged->data, damaged->size);
    if (!hostile_run(place, "pack -j1 input", exit_code, verdict)) {
        return false;
    }
    if (*exit_code == 1) {
        return hostile_holds(place, "input", damaged, verdict);
    }
    struct contents packed = file_read(path_join(place, "input"));
    if (hostile_run(place, "pack -j1 input", &again, verdict) && again != 0) {
        verdict_fail(verdict, "what was packed is damaged");
    }
    bool good = hostile_holds(place, "input", &packed, verdict);
    contents_free(&packed);
    return good;
}

static struct contents damage(unsigned long seed, char **description)
{
    struct mutated_part parts[PARTS_MAX];
    struct contents archive = file_read(path_join(scratch, kinds[seed % KIND_COUNT]));
    size_t count = list_parts(&archive, parts);
    struct contents damaged = mutate_parts(&archive, parts, count, seed, description);
    *description = text_format("%s: %s", kinds[seed % KIND_COUNT], *description);
    contents_free(&archive);
    return damaged;
}

START_TEST(test_damaged)
{
    hostile_run_seeds(_i, path_join(scratch, "place"), damage, check, true);
}
END_TEST

int main(int argument_count, char **arguments)
{
    TCase *mutations = suite_case("mutations", TEST_TIMEOUT_SECONDS, prepare);

    hostile_in_memory();
    if (argument_count != 3)
        return suite_usage(arguments[0], "FIRST COUNT");
    hostile_seeds(arguments[1], arguments[2]);
    suite_loops(mutations, hostile_tests(), test_damaged);
    return suite_main("bad archives", mutations);
}
