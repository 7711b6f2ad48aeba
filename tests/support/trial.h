/*
 * A trial: splits an application and checks everything that must hold after that.
 *
 * An application is a program and the shared libraries of the test that it loads, in one directory.
 * The trial keeps the originals in SCRATCH/original and the stripped images with their sidecars in
 * SCRATCH/stripped, and runs both in the same way.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TRIAL_H
#define COVSPLIT_TESTS_SUPPORT_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define SIDECAR_SUFFIX ".covsplit"

struct trial {
    char *scratch;
    char *original; /* directories */
    char *stripped;
    const char *clang;          /* LLVM version, for the tools */
    const char *emulator;       /* words before the program's name; NULL: it runs by itself */
    struct text_list images;    /* file names; the first one is run */
    struct text_list arguments; /* arguments of the program */
    bool numbered_runs;         /* the number of the run is one more argument */
    struct text_list split_options;
    int exit_code;         /* the expected exit code of the program */
    bool skips_expansions; /* reports leave out the macros in macros, which can take minutes */
    bool data_stays;       /* value profiling: the data section must not be touched */
    const char *refusal;   /* the message that says why names and data must stay; or NULL */
    const struct program *program; /* one whose names may stay by chance; NULL: none */
    const char *refused;           /* the image for which `refusal` is expected; NULL: all */
    size_t address_unit; /* the alignment of the addresses that code can form; 0: any address */
    unsigned
        differing_permille; /* per mille of counters that may differ, for a program with threads */
    const char *messages;   /* what covsplit wrote to standard error, for all images */
};

/* Makes the directories. The caller then builds the images into trial.original and adds their
 * names. */
struct trial trial_create(const char *label);

/* True if names and data of the image must stay. */
bool trial_refuses(const struct trial *trial, const char *image);

/* Fails the Check test unless names and data of each image contain a whole page, wherever they
 * begin: otherwise the program is too small. */
void trial_assert_whole_pages(const struct trial *trial);

/* Splits every image. */
bool trial_split(struct trial *trial, struct verdict *verdict);

/* Calls trial_split, then all checks below up to trial_check_readers. */
bool trial_check_all(struct trial *trial, struct verdict *verdict);

/* The stripped images print and exit like the originals, and write profiles with the same counters,
 * after one run and after three runs into one %m profile; and the profiles are as small as
 * possible. */
bool trial_check_runs(const struct trial *trial, struct verdict *verdict);

/* join gives each original back, and verify agrees. */
bool trial_check_join(const struct trial *trial, struct verdict *verdict);

/* Splitting again gives the same bytes. */
bool trial_check_deterministic(const struct trial *trial, struct verdict *verdict);

/* The stripped images are as small as promised, and their UUIDs are where they belong. */
bool trial_check_sizes(const struct trial *trial, struct verdict *verdict);

/* readelf and eu-readelf find nothing wrong that they did not find in the original. */
bool trial_check_readers(const struct trial *trial, struct verdict *verdict);

/* What llvm-cov exports is the same to the byte for the original images, with the profiles that
 * trial_check_runs left of them, and for the stripped ones with theirs and the sidecars. */
bool trial_check_report(const struct trial *trial, struct verdict *verdict);

/* After strip, llvm-strip and eu-strip, the stripped images still run with the same counters. */
bool trial_check_strip_tools(const struct trial *trial, struct verdict *verdict);

/* gdb can stop at the function by its name. */
bool trial_check_debugger(const struct trial *trial, const char *function, struct verdict *verdict);

/* ---- for the harness's own tests ---- */

/* Runs the application in `directory` `runs` times, with its profiles written to a new directory
 * `profiles`. Returns exit codes and outputs as one text; never freed. */
const char *application_run(const struct trial *trial, const char *directory, const char *profiles,
                            unsigned runs);

/* Whether the profiles of the stripped images agree with those of the originals, and have exactly
 * the size that they should have. */
bool profiles_agree(const struct trial *trial, const char *original_profiles,
                    const char *stripped_profiles, struct verdict *verdict);

#endif
