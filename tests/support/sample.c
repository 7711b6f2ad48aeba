/*
 * The sample behind sample.h.
 */
#include "tests/support/sample.h"

#include <check.h>
#include <stdlib.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"

struct sample sample_create(const char *label, unsigned functions)
{
    return sample_create_for(NULL, label, functions);
}

struct sample sample_create_for(const struct target *target, const char *label, unsigned functions)
{
    struct program program = {
        .clang = "19",
        .linker = target != NULL ? "lld" : "bfd",
        .target = target,
        .kind = target != NULL && target->is_freestanding ? LINK_STATIC_PIE : LINK_PIE,
        .language = LANGUAGE_C,
        .optimization = "-O1",
        .link_options = target != NULL ? target_page_option(target) : NULL,
        .functions = functions,
    };
    struct sample sample = {.scratch = scratch_create(label)};
    char *directory = path_join(sample.scratch, "sample");
    directory_create(directory);
    program_build(&program, directory);
    sample.image = path_join(directory, PROGRAM_NAME);
    sample.stripped = path_join(directory, "stripped");
    sample.sidecar = path_join(directory, "stripped.covsplit");
    free(directory);
    return sample;
}

void sample_split(struct sample *sample)
{
    struct verdict verdict = {0};
    covsplit_expect(&verdict, 0, NULL, NULL, "split", "-o", sample->stripped, "--sidecar",
                    sample->sidecar, sample->image, NULL);
    ck_assert_msg(verdict.problem == NULL, "%s", verdict.problem);
}

char *sample_directory(const struct sample *sample)
{
    char *directory = text_format("%s/test-XXXXXX", sample->scratch);
    if (mkdtemp(directory) == NULL) {
        ck_abort_msg("cannot make %s", directory);
    }
    return directory;
}

char *sample_copy(const struct sample *sample, const char *directory, const char *name)
{
    char *copy = path_join(directory, name);
    file_copy(sample->image, copy);
    return copy;
}
