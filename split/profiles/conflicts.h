/*
 * Conflicts: functions about which images disagree, and how. Found by find_conflicts.h.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_CONFLICTS_H
#define COVSPLIT_SPLIT_PROFILES_CONFLICTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/llvm/names.h"

/* What the images disagree about, and what becomes of the counts. */
enum conflict_kind {
    /* The numbers of counters, with one FuncHash: llvm-profdata keeps the counts of the first image
     * only. */
    CONFLICT_COUNTERS,
    /* The FuncHash, in one file: llvm-cov shows the function of the first object, and only its
     * counts. */
    CONFLICT_HASH,
    /* Lines and regions, in one file and with one FuncHash: the counts are added, and llvm-cov
     * shows them at the regions of the first object. */
    CONFLICT_REGIONS,
    /* The file, with one FuncHash: the counts are added, and shown for each of the functions. */
    CONFLICT_FILES,
    CONFLICT_KINDS,
};

#define CONFLICT_NO_FILE UINT32_MAX

/* A function as one image has it. */
struct conflict_row {
    uint64_t function; /* its number among those that are looked at */
    uint64_t hash;     /* FuncHash */
    uint64_t regions;  /* a digest of its lines and regions; 0: not known */
    uint32_t counters; /* NumCounters */
    uint32_t file;     /* the number of its file; CONFLICT_NO_FILE: not known */
    size_t image;
    size_t leader; /* the first image in which what is in conflict is the same */
};

/* The rows of one function. */
struct function_rows {
    const char *name;
    const struct conflict_row *rows;
    size_t count; /* at least one */
};

struct conflict {
    enum conflict_kind kind;
    bool is_possible; /* the file of some of them is not known, and may be another one */
    char *function;   /* its name as in the profile */
    size_t first_row, row_count;
};

/* Initialize to {0}; free with conflicts_free. */
struct conflicts {
    struct conflict *items; /* by kind and name; possible ones come last */
    size_t count, capacity;
    struct conflict_row *rows; /* of one conflict: by leader, then by image */
    size_t row_count, row_capacity;
    struct names files;
};

void conflicts_free(struct conflicts *conflicts);

/* Adds the conflicts among the rows of a function: those of the first two kinds; if `thorough`, of
 * all kinds. False if out of memory. */
bool conflicts_add(struct conflicts *conflicts, bool thorough, const struct function_rows *all);

/* Puts them in the order of `items`, when all have been added. */
void conflicts_sort(struct conflicts *conflicts);

/* Sets *name to that of a file; false if it is not known. */
bool conflicts_file(const struct conflicts *conflicts, uint32_t file, struct bytes *name);

#endif
