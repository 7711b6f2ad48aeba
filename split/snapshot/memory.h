/*
 * The target of a snapshot: something that has memory, and ELF files loaded in it. A running
 * process, a core file, and whatever else holds the memory of a program.
 *
 * A kind of target fills in a `struct memory` and supplies three operations. It says only what it
 * was told: where files are mapped, and which. What a module is (its UUID, its load bias, its
 * segments) is read from its memory by module.h, in the same way for all targets.
 *
 * Everything in a target is hostile, its own lists included.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_MEMORY_H
#define COVSPLIT_SPLIT_SNAPSHOT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"

/* A file that is mapped from its beginning: perhaps a loaded ELF file. */
struct memory_module {
    char *path;    /* as the target names it, for messages and to find the file; "" if unknown */
    uint64_t base; /* the address of the file's first byte */
    uint64_t size; /* of the module in memory, once it was examined */
    /* What the target itself says of the module's UUID, apart from its memory. Its size is 0 if it
     * says nothing. */
    struct uuid uuid;
    /* All that is known is a stub record (stubs.h), which is at `base`; its first
     * PROFILE_STUB_ID_SIZE bytes are in `uuid`. If that has no size, there are several records: the
     * module was not split. */
    bool is_stub;
    bool is_doubtful; /* the record may also be something else that happens to look like one */
    bool is_unread;   /* reading it failed, so it is not known which module this is */
};

struct memory;

/* An operation that takes an error can fail, which concerns the whole target or the file. That an
 * address is not in the target is no failure. */
struct memory_operations {
    /* Why memory may be missing and what to do, for the ends of messages: "...; ..." */
    const char *absent_because;

    /* Copies the memory at `address`, up to `size` bytes, which is not 0. *got is the number of
     * bytes that are there without a gap; 0: the first one is missing. */
    bool (*read)(struct memory *memory, uint64_t address, void *to, size_t size, size_t *got,
                 struct error *error);

    /* Whether the memory at the address may be written to, as the target tells; true too if it does
     * not say. Counters are in such memory, and a file that is only read is not. */
    bool (*is_writable)(struct memory *memory, uint64_t address);

    /* Whether something was mapped there that begins with this address. Only for targets that list
     * stub records as modules. */
    bool (*begins_at)(struct memory *memory, uint64_t address);

    /* Opens the module's file on disk. *is_same is set if it is known to be the very file that is
     * mapped; otherwise another file may have its path by now, and the caller must compare UUIDs.
     * Fails if there is no such file. */
    bool (*open_file)(struct memory *memory, const struct memory_module *module, struct input *file,
                      bool *is_same, struct error *error);

    void (*close)(struct memory *memory);
};

/* A target. Its own kind of struct starts with it. */
struct memory {
    const struct memory_operations *operations;
    char *name;            /* in messages: "process 4711", or the path of a core */
    uint64_t process;      /* its number, for the names of outputs; 0: unknown */
    bool is_running;       /* its memory changes while it is read */
    struct timespec start; /* if it runs: since when; tv_sec is 0 if that is not known */
    bool is_cut;           /* it ends early: memory is missing that should be in it */
    /* Why modules may be missing in the list; "" if none are. */
    struct error lack;
    /* A raw profile is mapped into it, as in continuous mode (%c), in which counters are not where
     * the image has them. */
    bool maps_profile;
    struct memory_module *modules; /* in ascending order of their addresses; stub records last */
    size_t module_count;
    size_t module_capacity;
};

/* ---- for the kinds of targets ---- */

/* Adds a module; the path is copied, without the kernel's mark for a file that was deleted. */
bool memory_add_module(struct memory *memory, const char *path, uint64_t base, struct error *error);

/* Sorts the modules. Called when all have been added. */
void memory_sort_modules(struct memory *memory);

/* The operation open_file of a dump, which only has paths. It never knows that the file is the very
 * one. */
bool memory_open_by_path(struct memory *memory, const struct memory_module *module,
                         struct input *file, bool *is_same, struct error *error);

/* Frees name and modules. */
void memory_free_lists(struct memory *memory);

/* ---- for their users ---- */

/* NULL is allowed. */
void memory_close(struct memory *memory);

/* Copies what there is of a range of addresses. *missing is the number of bytes that are not in the
 * target; they are zeros in the copy. */
bool memory_read(struct memory *memory, uint64_t address, void *to, size_t size, uint64_t *missing,
                 struct error *error);

/* Whether all of it could be copied. False without an error if not. */
bool memory_read_whole(struct memory *memory, uint64_t address, void *to, size_t size,
                       struct error *error);

/* The kinds of targets. NULL with an error; close with memory_close. */
struct memory *process_open(uint64_t process, struct error *error);

/* A core, in whatever way it is stored; "-" is standard input. */
struct memory *dump_open(const char *path, struct error *error);

/* Takes over the descriptor of a regular file, even if it fails. `path` is for messages. */
struct memory *core_open(int fd, const char *path, struct error *error);

#endif
