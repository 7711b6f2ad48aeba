/*
 * Packing files that a compiler made, or that exist: an object (formats/object/packing.h), or all
 * objects of an archive, in place.
 *
 * A file that changes is replaced by one rename, so it is the old one or the new one at any moment.
 * Mode, owner and modification time stay: what is linked from it means the same, so nothing has to
 * be built again, and the symbol table of a BSD archive does not look older than the archive. Other
 * names of the file (hard links) keep the old form, so the cache of a compiler does not change when
 * an object is a link to what is in it.
 */
#ifndef COVSPLIT_SPLIT_COMPILE_COMPILE_H
#define COVSPLIT_SPLIT_COMPILE_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "split/cli/path_list.h"

enum pack_outcome {
    PACK_NOTHING, /* an object or archive that has nothing to pack: not touched */
    PACK_DONE,    /* the file, or an object of a thin archive, has changed */
    PACK_KEPT,    /* nothing could be packed; the notes say why */
    PACK_IMAGE,   /* a linked image, which is split and not packed: not touched */
    PACK_OTHER,   /* neither an object nor an archive, as far as can be told: not touched */
};

struct pack_options {
    const char *output_path; /* write to this file, even if nothing changes; NULL: in place */
    unsigned threads;        /* 1 or more: for the members of an archive */
    /* Do not wait until the new file is on the disk, as compilers do not: for an object that a
     * build makes again if power fails. */
    bool is_fast;
};

/* The changes to a file. Initialize to {0}; free with pack_result_free. */
struct pack_result {
    enum pack_outcome outcome;
    uint64_t size_before, size_after; /* bytes; with the objects of a thin archive */
    uint64_t object_count;            /* how many objects were packed */
    uint64_t kept_count;              /* how many have coverage mapping but must stay as they are */
    struct buffer notes;              /* for each of those, in their order: see notes_add */
};

/* Packs the file at the path. On failure it is as it was; objects of a thin archive may be packed
 * already, which is not wrong. */
bool pack_file(const char *path, const struct pack_options *options, struct pack_result *result,
               struct error *error);
void pack_result_free(struct pack_result *result);

/* Prints the sizes, or that there was nothing to pack. */
void pack_result_print(const struct pack_result *result, const char *path);

/* Appends to the list the object files that a compiler's command line may write. False if a
 * response file is invalid.
 *
 * The options of GCC, Clang, flang, clang-cl, cl and rustc are understood, and launchers and
 * response files (cli/command_words.h). The list may have files that the command does not write, or
 * that are no objects: only the file itself shows if it was written, and what it is. But it has no
 * files that another command of the same build is likely to write at the same time.
 *
 * Not found are outputs that the command line does not name: crates whose name is only in the
 * source, and what environment variables and configuration files of compilers add. */
bool compiler_outputs_read(struct path_list *outputs, const char *const *words, size_t count,
                           struct error *error);

#endif
