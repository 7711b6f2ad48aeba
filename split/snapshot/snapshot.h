/*
 * The steps of `covsplit snapshot`, from a module of a target to its profile:
 *
 *   module_read        what the module is, as its memory shows it
 *   take_profile       the profile that the runtime would write
 *   examine_module     both, with the file or the sidecar that says where the runtime has its data
 *
 * The target is something that has memory, and ELF files loaded in it: a running process or a core
 * file.
 *
 * A kind of target fills in a `struct target` and supplies operations. It says only what it was
 * told: where files are mapped, and which. What a module is (its UUID, its load bias, its segments)
 * is read from its memory (module.c), in the same way for all targets.
 *
 * Everything in a target is hostile, its own lists included. Its arrays are bounded by its size.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_SNAPSHOT_H
#define COVSPLIT_SPLIT_SNAPSHOT_SNAPSHOT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/llvm/profile.h"
#include "common/llvm/section.h"
#include "common/llvm/tripwire.h"
#include "common/sidecar/sidecar.h"
#include "split/cli/find_sidecar.h"

/* ---- targets ---- */

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

struct target;

struct memory_operations {
    /* The reason that memory may be missing, and what to do: for the ends of messages. */
    const char *absent_because;

    /* Copies the memory at `address`, up to `size` bytes, which is not 0. Returns the number of
     * bytes that are there without a gap; 0: the first one is missing, or reading has failed, which
     * is in memory->failure then. That an address is not in the target is no failure. */
    size_t (*read)(struct target *memory, uint64_t address, void *to, size_t size);

    /* True if the memory at the address may be written to, as the target tells; true too if it does
     * not say. Counters are in such memory, and a file that is only read is not. */
    bool (*is_writable)(struct target *memory, uint64_t address);

    /* True if something was mapped there that begins with this address. Only for targets that list
     * stub records as modules. */
    bool (*begins_at)(struct target *memory, uint64_t address);

    /* Opens the module's file on disk. *is_same is set if it is known to be the very file that is
     * mapped; otherwise another file may have its path by now, and the caller must compare UUIDs.
     * Fails if there is no such file. */
    bool (*open_file)(struct target *memory, const struct memory_module *module, struct input *file,
                      bool *is_same, struct error *error);

    /* Frees what the kind of target has beside the struct target. */
    void (*close)(struct target *memory);
};

/* A target. Its own kind of struct, which is freed with it, starts with it. */
struct target {
    const struct memory_operations *operations;
    char *name;            /* in messages: "process 4711", or the path of a core */
    uint64_t process;      /* its number, for the names of outputs; 0: unknown */
    bool is_running;       /* its memory changes while it is read */
    struct timespec start; /* if it runs: since when; tv_sec is 0 if that is not known */
    unsigned machine;      /* e_machine of a core; 0: it is none */
    bool is_unlisted;      /* a core that does not list the files that were mapped, as qemu's */
    bool is_cut;           /* it ends early: memory is missing that should be in it */
    /* The last failure to read it, "" if there was none: whoever reads looks here at the end, and
     * clears it before. Memory that cannot be read counts as missing until then. */
    struct error failure;
    /* The reason that modules may be missing in the list; "" if none are. */
    struct error incomplete_because;
    /* A raw profile is mapped into it, as in continuous mode (%c), in which counters are not where
     * the image has them. */
    bool maps_profile;
    struct memory_module *modules; /* in ascending order of their addresses; stub records last */
    size_t module_count, module_capacity;
};

/* The kinds of targets. NULL with an error; close with memory_close, which may be given NULL. */
struct target *process_open(uint64_t process, struct error *error);

/* A core, plain or compressed, in a file or from a pipe; "-" is standard input. */
struct target *core_open(const char *path, struct error *error);
void memory_close(struct target *memory);

/* Copies memory. False if it is not all there. */
bool memory_read(struct target *memory, uint64_t address, void *to, size_t size);

/* True if a raw profile begins at the address. */
bool memory_has_profile(struct target *memory, uint64_t address);

/* Replaces what the buffer has by a copy of memory. False if it is not all there; the buffer ends
 * before the first byte that is not, or a little earlier. */
bool memory_copy(struct target *memory, uint64_t address, uint64_t size, struct buffer *buffer);

/* ---- for the kinds of targets ---- */

/* Adds a module; the path is copied, without the kernel's mark for a file that was deleted. */
struct memory_module *memory_add_module(struct target *memory, const char *path, uint64_t base);

/* Sorts the modules. Called when all have been added. */
void memory_sort_modules(struct target *memory);

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
bool stubs_find(struct target *memory, const struct address_ranges *writable, bool wide,
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

/* Makes a core one that can be read at any place (spool.c): what follows from the descriptor's
 * position is copied to a temporary file if it comes through a pipe or is compressed by zstd.
 * Returns the descriptor of the copy, or else `fd`; -1 with an error. `path` is the core's name in
 * messages. A core that ends early is no error: the copy ends there too. */
int spool_open(int fd, const char *path, struct error *error);

/* ---- modules ---- */

/* An ELF file that is loaded, with its segments and its UUID. The file on disk has no say in this:
 * it may be another build by now. */
struct module {
    const struct memory_module *listed;
    const char *name; /* in messages: its path, or "the module at 0x..." */
    char name_text[48];
    bool wide, big_endian;
    unsigned machine;  /* e_machine; 0: not known */
    bool is_fixed;     /* ET_EXEC */
    Elf64_Phdr *loads; /* its PT_LOAD segments */
    size_t load_count;
    uint64_t bias;         /* address in memory - address in the file, modulo 2^64 */
    struct uuid uuid;      /* the GNU build ID in memory; size 0: none */
    bool has_hidden_notes; /* or none was found, as notes are missing in the target */
    /* Its file was written to after the process had started. If it was loaded before that, its
     * memory is no longer what was loaded. */
    bool is_newer;
};

enum module_state {
    MODULE_READ,
    MODULE_IS_NONE, /* something else is mapped: not an ELF file, or one that is not loaded */
    MODULE_HIDDEN,  /* its ELF header or program headers are missing in the target */
};

/* Reads a module from memory. Free with module_free in any case. */
enum module_state module_read(struct target *memory, const struct memory_module *listed,
                              struct module *module);
void module_free(struct module *module);

/* True if all of a range of addresses of the file is in its loaded segments. */
bool module_has_range(const struct module *module, uint64_t address, uint64_t size);

/* An address of the file in memory. */
uint64_t module_address(const struct module *module, uint64_t address);

/* Traces of coverage in the memory of a module of which neither the file nor the sidecar is at
 * hand: what a split leaves, and what the profile runtime has among its constants. */
struct traces {
    bool is_split;    /* a tripwire or a stub record is in it */
    bool has_runtime; /* a message of compiler-rt's profile runtime is in it */
    bool is_whole;    /* all of the module is in the target */
    struct uuid uuid; /* of the tripwire; size 0 if that has none, or only a part of it */
};

struct traces traces_find(struct target *memory, const struct module *module);

/* The first fields of what has the form of a stub record in the module: of its stub, if it has one,
 * and now and then of something else. */
#define MODULE_STUBS_MAX 16
struct module_stubs {
    uint8_t ids[MODULE_STUBS_MAX][PROFILE_STUB_ID_SIZE];
    size_t count;
};

struct module_stubs module_find_stubs(struct target *memory, const struct module *module);

/* ---- coverage ---- */

/* The places of the profile runtime's data in a module, and the raw profiles that it writes. */
struct coverage {
    /* Counters, bitmap, data and names: addresses, and sizes as the runtime computes them. All
     * zeros if the image has none of the kind. */
    struct section sections[SECTION_KIND_MAX + 1];
    uint64_t raw_version; /* 0: not known */
    bool is_complete; /* all sections are known; false for a sidecar of an image that kept some */
    /* Variables that hold the distance from counters and bitmap to where the program counts in
     * fact, if it does so elsewhere (runtime counter relocation). 0: there is none. */
    uint64_t counter_bias, bitmap_bias;
    bool knows_biases; /* false without a symbol table */
    bool has_vtables;  /* there are sections for the profiling of virtual tables */
    /* The names section in memory, if it is a tripwire that the sidecar tells. Its size is 0
     * otherwise. */
    uint8_t tripwire[TRIPWIRE_SIZE_MAX];
    size_t tripwire_size;
    bool has_stub; /* the stub record is all that is left of the data, and starts with stub_id */
    uint8_t stub_id[PROFILE_STUB_ID_SIZE];
};

/* ---- profiles ---- */

/* A profile, which points into the buffers. Initialize to {0}. */
struct taken {
    struct profile profile;
    struct buffer binary_ids, data, counters, bitmap, names, values;
};

/* Takes the profile that the module's runtime would write at this moment, byte for byte, unless the
 * memory has failed. `file` is the module's, or NULL: names that are not in the target come from
 * there. Free with taken_free in any case. */
bool take_profile(struct target *memory, const struct module *module,
                  const struct coverage *coverage, const struct input *file, struct taken *taken,
                  struct error *error);
void taken_free(struct taken *taken);

/* ---- all of it ---- */

enum finding {
    FINDING_PROFILE,     /* it has coverage, and its profile was taken */
    FINDING_NO_COVERAGE, /* it has none */
    FINDING_NO_MODULE,   /* it is no loaded ELF file */
    FINDING_UNKNOWN,     /* nothing is known of it: the error says what is missing */
    FINDING_FAILED,      /* the error says why */
};

/* Finds out of a module whether it has coverage, and takes its profile. Free *module and *taken in
 * any case; *taken must be {0} at first. */
enum finding examine_module(struct target *memory, const struct memory_module *listed,
                            const struct sidecar_places *places, struct module *module,
                            struct taken *taken, struct error *error);

#endif
