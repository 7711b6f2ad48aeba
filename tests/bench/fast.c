/*
 * A benchmark, run by hand: what a split costs in the loop of editing, compiling and running,
 * beside the link that it follows.
 *
 * An image is linked, copied, split with --fast and without, and the sidecar of --fast is repacked.
 * These are run in turn, so that whatever else the machine does hits all of them, and each is also
 * printed as a ratio to the link.
 *
 * Usage: bench_fast [DIRECTORY COMMAND]    COMMAND is for sh: it links the image "$1" in DIRECTORY
 *
 * Without arguments, the image is the library of RE2 and Abseil by clang-19 and lld.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/cost.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/real_programs.h"

#define TURNS 15
#define CLANG "19"

static char *scratch;

struct step {
    const char *name;
    const char *words; /* of covsplit; NULL: `command` */
    struct command command;
    const char *sidecar; /* that it writes; NULL: none */
    struct cost best;
};

/* ninja's own command for RE2_LIBRARY, with another output. */
static char *link_of_re2(const char *directory)
{
    const char *commands = run_or_abort(directory, "ninja", "-t", "commands", RE2_LIBRARY, NULL);
    struct text_list lines = text_list_of_lines(commands);
    return text_replace(lines.items[lines.count - 1], "-o " RE2_LIBRARY, "-o \"$1\"");
}

static struct command command_of(const char *directory, const char *shell)
{
    struct command command = {.directory = directory};
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, shell);
    text_list_add(&command.arguments, "sh");
    text_list_add(&command.arguments, path_join(scratch, "image"));
    return command;
}

static void take(struct step *step)
{
    if (step->words != NULL && strncmp(step->words, "repack", 6) == 0) {
        file_copy(path_join(scratch, "fast"), path_join(scratch, "repacked"));
    }
    cost_keep_best(&step->best, cost_of(&step->command));
}

static void print_steps(const struct step *steps, size_t count)
{
    printf("%.1f MB: the best of %d turns; CPU and wall also as ratios to the link\n",
           (double)file_size(path_join(scratch, "image")) / 1e6, TURNS);
    printf("  %-16s %9s %9s %9s %9s %9s %12s\n", "", "CPU s", "wall s", "peak MiB", "CPU", "wall",
           "sidecar");
    for (size_t i = 0; i < count; i++) {
        const struct cost *best = &steps[i].best;
        printf("  %-16s %9.3f %9.3f %9.1f %9.2f %9.2f", steps[i].name, best->processor_seconds,
               best->wall_seconds, (double)best->peak_kib / 1024,
               best->processor_seconds / steps[0].best.processor_seconds,
               best->wall_seconds / steps[0].best.wall_seconds);
        if (steps[i].sidecar != NULL) {
            printf(" %12lu", (unsigned long)file_size(path_join(scratch, steps[i].sidecar)));
        }
        printf("\n");
    }
}

int main(int argument_count, char **arguments)
{
    const char *directory = argument_count == 3 ? arguments[1] : re2_images(CLANG);
    const char *link = argument_count == 3 ? arguments[2] : link_of_re2(directory);
    scratch = scratch_create("bench-fast");
    struct step steps[] = {
        {.name = "link", .command = command_of(directory, link)},
        {.name = "cp", .command = command_of(scratch, "cp image copy")},
        {.name = "split --fast",
         .words = "split --fast -o stripped --sidecar fast image",
         .sidecar = "fast"},
        {.name = "split",
         .words = "split -o stripped --sidecar compact image",
         .sidecar = "compact"},
        {.name = "repack", .words = "repack repacked", .sidecar = "repacked"},
    };
    const size_t count = sizeof steps / sizeof *steps;
    for (size_t i = 0; i < count; i++) {
        if (steps[i].words != NULL) {
            steps[i].command = covsplit_words(scratch, steps[i].words);
        }
    }
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < count; i++) {
            take(&steps[i]);
        }
    }
    files_assert_equal(path_join(scratch, "repacked"), path_join(scratch, "compact"), "repacked");
    print_steps(steps, count);
    scratch_remove(scratch);
    return EXIT_SUCCESS;
}
