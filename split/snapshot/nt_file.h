/*
 * NT_FILE, the note in which a core lists the files that were mapped.
 *
 * It has the number of mappings and the unit of their offsets; then the start, the end and the
 * offset in the file of each; and then their paths, each with its NUL. All numbers are as wide as
 * addresses.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_NT_FILE_H
#define COVSPLIT_SPLIT_SNAPSHOT_NT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "split/snapshot/elf_header.h"

struct nt_file {
    uint64_t left; /* mappings that were not read yet */
    struct bytes entries, paths;
    bool is_damaged;
    unsigned word_size;
    bool big_endian;
};

struct nt_file_mapping {
    uint64_t start;
    uint64_t size;    /* 0 if the note says that it ends before its start */
    bool is_front;    /* the file is mapped from its first byte on */
    const char *path; /* in the note */
};

/* Starts to read the note's description; the header is that of the core. The description must
 * outlive the list, which owns nothing. */
void nt_file_open(struct nt_file *list, struct bytes description, const struct elf_header *header);

/* Reads the next mapping. False at the end; list->is_damaged is set if the note has fewer than it
 * says. */
bool nt_file_next(struct nt_file *list, struct nt_file_mapping *mapping);

#endif
