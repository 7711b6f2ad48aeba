/*
 * A trial: one application, split, and everything that must then hold.
 *
 * An application is a program and the shared libraries of the test that it loads, in one directory.
 * The trial keeps the originals in SCRATCH/original and the stripped images with their sidecars in
 * SCRATCH/stripped, and runs both in the same way.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TRIAL_H
#define COVSPLIT_TESTS_SUPPORT_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/text.h"

#define SIDECAR_SUFFIX ".covsplit"

struct trial {
    char *scratch;
    char *original; /* directories */
    char *stripped;
    const char *clang;          /* LLVM version, for the tools */
    const char *emulator;       /* words in front of the program's; NULL: it runs by itself */
    struct text_list images;    /* file names; the first one is run */
    struct text_list arguments; /* of the program */
    bool numbered_runs;         /* the number of the run is one more argument */
    struct text_list split_options;
    int exit_code;       /* that the program should end with */
    bool data_stays;     /* value profiling: the data section must not be touched */
    const char *refusal; /* why names and data must stay, as a message says it; NULL: they go */
    const char *refused; /* the image that this is about; NULL: all */
    size_t address_unit; /* of what code can make addresses; 0: any address */
    unsigned differing_permille; /* counters that may differ, for a program with threads */
    const char *messages;        /* what covsplit wrote to standard error, for all images */
};

/* Makes the directories. The images are then built into trial.original, and named. */
struct trial trial_create(const char *label);

/* True where names and data of the image must stay. */
bool trial_refuses(const struct trial *trial, const char *image);

/* Names and data of each image have a whole page in them, wherever they begin: fails the Check test
 * where the program was too small for that. */
void trial_assert_whole_pages(const struct trial *trial);

/* Splits every image. */
bool trial_split(struct trial *trial, struct verdict *verdict);

/* trial_split, and then everything below down to trial_check_readers. */
bool trial_check_all(struct trial *trial, struct verdict *verdict);

/* The stripped images print and exit as the originals, and leave profiles with the same counters
 * after one run and after three into one %m profile; the profiles are as small as they can be. */
bool trial_check_runs(const struct trial *trial, struct verdict *verdict);

/* join gives each original back, and verify agrees. */
bool trial_check_join(const struct trial *trial, struct verdict *verdict);

/* Splitting again gives the same bytes. */
bool trial_check_deterministic(const struct trial *trial, struct verdict *verdict);

/* The stripped images are as small as promised, and their UUIDs are where they belong. */
bool trial_check_sizes(const struct trial *trial, struct verdict *verdict);

/* readelf and eu-readelf find nothing wrong that they did not find in the original. */
bool trial_check_readers(const struct trial *trial, struct verdict *verdict);

/* What llvm-cov exports is equal to the byte: of the original images with the profiles that
 * trial_check_runs left of them, and of the stripped ones with theirs, by the sidecars. */
bool trial_check_report(const struct trial *trial, struct verdict *verdict);

/* After strip, llvm-strip and eu-strip the stripped images still run and count the same. */
bool trial_check_strip_tools(const struct trial *trial, struct verdict *verdict);

/* gdb stops at the function by name. */
bool trial_check_debugger(const struct trial *trial, const char *function, struct verdict *verdict);

#endif
