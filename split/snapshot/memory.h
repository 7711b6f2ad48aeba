/*
 * The target of a snapshot: something that has memory, and ELF files loaded in it. A running
 * process or a core file.
 *
 * A kind of target fills in a `struct memory` and supplies operations. It says only what it was
 * told: where files are mapped, and which. What a module is (its UUID, its load bias, its segments)
 * is read from its memory (module.c), in the same way for all targets.
 *
 * Everything in a target is hostile, its own lists included. Its arrays are bounded by its size.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_MEMORY_H
#define COVSPLIT_SPLIT_SNAPSHOT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"

/* A file that is mapped from its beginning: perhaps a loaded ELF file. */
struct memory_module {
    char *path;       /* as the target names it, for messages and to find the file; "" if unknown */
    uint64_t base;    /* the address of the file's first byte */
    uint64_t size;    /* of the module in memory, once it was examined */
    struct uuid uuid; /* once it was examined; its size is 0 if it has none */
    /* All that is known is a stub record (stubs_find), which is at `base`; its first
     * PROFILE_STUB_ID_SIZE bytes are in `uuid`. If that has no size, there are several records: the
     * module was not split. */
    bool is_stub;
    bool is_doubtful; /* the record may also be something else that happens to look like one */
    bool is_unread;   /* reading it failed, so it is not known which module this is */
};

struct memory;

struct memory_operations {
    /* The reason that memory may be missing, and what to do: for the ends of messages. */
    const char *absent_because;

    /* Copies the memory at `address`, up to `size` bytes, which is not 0. Returns the number of
     * bytes that are there without a gap; 0: the first one is missing, or reading has failed, which
     * is in memory->failure then. That an address is not in the target is no failure. */
    size_t (*read)(struct memory *memory, uint64_t address, void *to, size_t size);

    /* True if the memory at the address may be written to, as the target tells; true too if it does
     * not say. Counters are in such memory, and a file that is only read is not. */
    bool (*is_writable)(struct memory *memory, uint64_t address);

    /* True if something was mapped there that begins with this address. Only for targets that list
     * stub records as modules. */
    bool (*begins_at)(struct memory *memory, uint64_t address);

    /* Opens the module's file on disk. *is_same is set if it is known to be the very file that is
     * mapped; otherwise another file may have its path by now, and the caller must compare UUIDs.
     * Fails if there is no such file. */
    bool (*open_file)(struct memory *memory, const struct memory_module *module, struct input *file,
                      bool *is_same, struct error *error);

    /* Frees what the kind of target has beside the struct memory. */
    void (*close)(struct memory *memory);
};

/* A target. Its own kind of struct, which is freed with it, starts with it. */
struct memory {
    const struct memory_operations *operations;
    char *name;            /* in messages: "process 4711", or the path of a core */
    uint64_t process;      /* its number, for the names of outputs; 0: unknown */
    bool is_running;       /* its memory changes while it is read */
    struct timespec start; /* if it runs: since when; tv_sec is 0 if that is not known */
    bool is_cut;           /* it ends early: memory is missing that should be in it */
    /* The last failure to read it, "" if there was none: whoever reads looks here at the end, and
     * clears it before. Memory that cannot be read counts as missing until then. */
    struct error failure;
    /* The reason that modules may be missing in the list; "" if none are. */
    struct error lack;
    /* A raw profile is mapped into it, as in continuous mode (%c), in which counters are not where
     * the image has them. */
    bool maps_profile;
    struct memory_module *modules; /* in ascending order of their addresses; stub records last */
    size_t module_count, module_capacity;
};

/* The kinds of targets. NULL with an error; close with memory_close, which may be given NULL. */
struct memory *process_open(uint64_t process, struct error *error);

/* A core, plain or compressed, in a file or from a pipe; "-" is standard input. */
struct memory *core_open(const char *path, struct error *error);
void memory_close(struct memory *memory);

/* Copies what there is of a range of addresses. Returns the number of bytes that are missing; they
 * are zeros in the copy. */
uint64_t memory_read(struct memory *memory, uint64_t address, void *to, size_t size);

/* ---- for the kinds of targets ---- */

/* Adds a module; the path is copied, without the kernel's mark for a file that was deleted. */
struct memory_module *memory_add_module(struct memory *memory, const char *path, uint64_t base);

/* Sorts the modules. Called when all have been added. */
void memory_sort_modules(struct memory *memory);

/* Parts of a process's memory, or of a file. Tables of real cores have some ten thousands of
 * entries, one for each mapping, in any order. */
struct address_range {
    uint64_t address; /* first: see array_count_up_to */
    uint64_t size;
    uint64_t offset; /* in the file */
};

/* Initialize to {0}; `items` is freed by its owner. */
struct address_ranges {
    struct address_range *items;
    size_t count, capacity;
};

/* Adds a range. What lies beyond the end of the address space is left out. */
void address_ranges_add(struct address_ranges *ranges, uint64_t address, uint64_t size,
                        uint64_t offset);

/* Sorts the ranges and makes them disjoint: where two overlap, the one that begins first stays
 * whole. To be called once, after the last range was added. */
void address_ranges_sort(struct address_ranges *ranges);

/* Finds the bytes at an address: *offset is where they are in the file, *size how many follow in
 * the same range. False if there are none; *size is then the distance to the next range, or to the
 * end of the address space. */
bool address_ranges_find(const struct address_ranges *ranges, uint64_t address, uint64_t *offset,
                         uint64_t *size);

/* Searches memory that may be written to for stub records, but for that of the modules listed so
 * far, and adds what it finds as further modules. */
bool stubs_find(struct memory *memory, const struct address_ranges *writable, bool wide,
                bool big_endian, struct error *error);

/* ---- for cores ---- */

/* NT_FILE, the note in which a core lists the files that were mapped: the number of mappings and
 * the unit of their offsets; then the start, the end and the offset in the file of each; and then
 * their paths, each with its NUL. All numbers are as wide as addresses. */
struct nt_file {
    uint64_t left; /* mappings that were not read yet */
    struct cursor entries, paths;
    bool is_damaged;
};

struct nt_file_mapping {
    uint64_t start;
    uint64_t size;    /* 0 if the note says that it ends before its start */
    bool is_front;    /* the file is mapped from its first byte on */
    const char *path; /* in the note */
};

/* Starts to read the note's description, which must outlive the list; that owns nothing. */
void nt_file_open(struct nt_file *list, struct bytes description, bool wide, bool big_endian);

/* Reads the next mapping. False at the end; list->is_damaged is set if the note has fewer than it
 * says. */
bool nt_file_next(struct nt_file *list, struct nt_file_mapping *mapping);

/* If the first bytes of a file are those of a compressed one that only another program can
 * decompress, sets the error that says how to do that. Returns false then. */
bool spool_check_format(struct bytes front, const char *path, struct error *error);

/* Copies a core to a temporary file (spool.c): what follows from the descriptor's position,
 * decompressed if its first bytes are those of zstd. Returns the descriptor of the copy, -1 with an
 * error. `path` is the core's name in messages. A core that ends early is no error: the copy ends
 * there too. */
int spool_copy(int fd, const char *path, struct error *error);

#endif
