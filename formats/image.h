/*
 * Images of all formats behind one interface.
 *
 * A format recognizes an image, describes it, and *plans* the edits that strip it. It writes no
 * file and prints nothing. A plan says what a split would do: the sections of the image, what
 * becomes of each and why, and the edits. It depends on no format; the command carries it out. A
 * new format is one folder, declared in format.h, and one line in the table of planner.c.
 */
#ifndef COVSPLIT_FORMATS_IMAGE_H
#define COVSPLIT_FORMATS_IMAGE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/edit/edit.h"
#include "common/llvm/section.h"
#include "common/sidecar/sidecar.h"

/* The index of a section that an image does not have. */
#define NO_INDEX SIZE_MAX

/* A longer reason is truncated. */
#define IMAGE_REASON_MAX 256

struct image_options {
    unsigned sections;       /* mask of SECTION_BIT: what to remove */
    struct uuid uuid;        /* --uuid; size 0: none given */
    const struct input *map; /* COFF: a linker's map file, which names functions; NULL: none */
    bool drop_signature;     /* remove a code signature that cannot be made again */
    /* Names and data may go where something seems to refer to them. */
    bool assume_unreferenced;
};

/* The description of an image, and of what a split would do to it. Owns everything in it, except
 * the input. */
struct image_plan {
    struct sidecar_facts facts; /* except sizes and digests, which only the split knows */
    bool already_split;         /* the image is a stripped one: nothing is planned */
    uint64_t zeros_size;        /* bytes of zeros of sections that stay, which leave the file */
    bool is_packed;             /* its coverage mapping, or some of it, is in packed units */
    struct section sections[SECTION_KIND_MAX]; /* those present, by file offset */
    size_t section_count;
    bool removes_sections; /* some of them go */
    /* Why names or data would stay if it were not for assume_unreferenced; NULL: for no reason. */
    const char *assumed;
    /* Of firmware: the end of what is written to memory before it runs, as linked and split. */
    uint64_t load_end, load_end_after;
    struct edit_script edits; /* finished */
    struct arena reasons;     /* the texts of `sections` */
};

/* The identity of a stripped image and its sidecar. */
struct split_image {
    struct uuid uuid;     /* that it had when it was split; size 0: not in the image */
    bool uuid_is_stub;    /* only the part of it in the stub record (uuid.h) */
    struct uuid own_uuid; /* that it has now, by its format's own means; size 0: none */
    bool has_stub;        /* the image has a stub record, which begins with stub_id */
    uint8_t stub_id[PROFILE_STUB_ID_SIZE];
    /* Sizes in bytes of sections that stay, for comparison with the sidecar's. 0: none. */
    uint64_t counters_size;
    uint64_t bitmap_size;
    /* Told of any image: */
    bool has_mapping; /* there is coverage mapping, or what is left of it */
    bool is_packed;   /* there are packed units in it */
};

/* An empty plan for the input; NULL if memory runs out. To be freed with image_plan_free. */
struct image_plan *image_plan_new(const struct input *input, struct error *error);
void image_plan_free(struct image_plan *plan);

/* The description of a section; NULL if the image has none of that kind. */
struct section *image_plan_section(struct image_plan *plan, enum section_kind kind);

/* Its bytes in the image; empty if the image has none of that kind. */
struct bytes image_plan_bytes(const struct image_plan *plan, const struct input *image,
                              enum section_kind kind);

/* True if the image has the section and the plan moves it to the sidecar. */
bool image_plan_removes(struct image_plan *plan, enum section_kind kind);

/* The kind under which a sidecar keeps the bytes of an image's section. */
enum section_kind image_plan_stored_kind(const struct image_plan *plan, enum section_kind kind);

/* Gives a section of the plan another reason. If memory runs out, plan->reasons has failed, and the
 * plan is not given out. */
void image_plan_explain(struct image_plan *plan, struct section *section, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Keeps the section in the image, for this reason. Returns false, so that checks can return it. */
bool image_plan_keep(struct image_plan *plan, enum section_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a section; call image_plan_sort after the last one. */
void image_plan_add(struct image_plan *plan, const struct section *section);
void image_plan_sort(struct image_plan *plan);

/* ---- images (planner.c) ---- */

/* True if some format recognizes the bytes; *format_name is then its name. */
bool image_recognize(struct bytes bytes, const char **format_name);

/* True for executables and shared libraries, as far as the first bytes tell; false for object
 * files, core files and the like, and for what covsplit makes of images. */
bool image_is_linked(struct bytes bytes);

/* True if the input is a stripped image. Much cheaper than a plan: reads headers and notes, but no
 * symbols. False if it is not one, and also if memory ran out, which error_is_of_memory tells. */
bool image_read_stripped_id(const struct input *input, struct split_image *split,
                            struct error *error);

/* Appends what a reader of the format sees in the image, as lines of text: where it starts, its
 * directories, its sections. Appends nothing for what no format recognizes. */
bool image_outline(const struct input *input, struct buffer *outline, struct error *error);

/* The lines of outlines, by format: the first one, and one for each directory, section and so on.
 */
#define ELF_OUTLINE                                                                                \
    "type %u, machine %u, entry 0x%" PRIx64 ", flags 0x%x, segments at 0x%" PRIx64                 \
    ", sections at 0x%" PRIx64 "\n"
#define ELF_SEGMENT_LINE                                                                           \
    "segment 0x%x at 0x%" PRIx64 " of 0x%" PRIx64 ", in the file at 0x%" PRIx64 " of 0x%" PRIx64   \
    ", alignment 0x%" PRIx64 ", flags 0x%x\n"
#define ELF_SECTION_LINE                                                                           \
    "section %s at 0x%" PRIx64 " of 0x%" PRIx64 ", in the file at 0x%" PRIx64                      \
    ", type 0x%x, flags 0x%x, link %u, info %u, alignment 0x%" PRIx64 ", entries of 0x%" PRIx64    \
    "\n"
#define ELF_DYNAMIC_LINE "dynamic entry 0x%x: 0x%" PRIx64 "\n"
#define ELF_SYMBOLS_LINE                                                                           \
    "%" PRIu64 " symbols, values 0x%" PRIx64 ", sizes 0x%" PRIx64 ", names 0x%" PRIx64 "\n"
#define COFF_OUTLINE        "entry 0x%x, base 0x%" PRIx64 ", size 0x%x\n"
#define COFF_DIRECTORY_LINE "directory %zu at 0x%x of 0x%x\n"
#define COFF_SECTION_LINE                                                                          \
    "section %s at 0x%" PRIx64 " of 0x%x, in the file at 0x%" PRIx64 " of 0x%" PRIx64 ", 0x%x\n"
#define MACHO_OUTLINE      "cpu 0x%x, type %u, %u load commands, flags 0x%x\n"
#define MACHO_COMMAND_LINE "load command 0x%x of %u at %" PRIu64 "\n"
#define MACHO_ENTRY_LINE   "entry 0x%x\n"
#define MACHO_SEGMENT_LINE                                                                         \
    "segment %s at 0x%" PRIx64 " of 0x%" PRIx64 ", in the file at 0x%" PRIx64 " of 0x%" PRIx64     \
    ", protection %u of %u, %u sections\n"
#define MACHO_SECTION_LINE                                                                         \
    "section %s at 0x%" PRIx64 " of 0x%" PRIx64 ", in the file at 0x%" PRIx64                      \
    ", alignment %u, type %u, attributes 0x%x, 0x%x\n"

/* Plans a split. NULL, with an error, if the file is not an image, is damaged, or must not be
 * split. An image without coverage sections gives a plan without edits. */
struct image_plan *image_plan_make(const struct input *input, const struct image_options *options,
                                   struct error *error);

/* The same, but plans nothing, which takes less time: for the facts and sections of an image that
 * need not be one that can be split, or of a packed object (object/packing.h). */
struct image_plan *image_describe(const struct input *input, struct error *error);

/* Adds the edits that put this coverage mapping in place of the image's own. The result runs as
 * before. Fails if the image has no room for it. */
bool image_replace_mapping(const struct input *input, const struct mapping_sections *mapping,
                           struct edit_script *edits, struct error *error);

/* ---- packed coverage mapping ---- */

/* Makes the ordinary coverage mapping of an image of which plan->is_packed is true: the mapping
 * that the image would have if none of its objects had been packed
 * (codec/packed_units/packed_unit.h). The image must be the one that was planned. Fails if the
 * packed units are damaged, or if this would take more than `limit` bytes of memory; if that is 0,
 * more than an image of this size may (memory_limit.h). */
bool image_plan_unpack(const struct image_plan *plan, const struct input *image, uint64_t limit,
                       struct buffer *covmap, struct buffer *covfun, struct error *error);

/* The packed units of an image, and the records in them. */
struct packed_counts {
    uint64_t units;
    uint64_t records;
};

/* Both fail like image_plan_unpack, whose limit is that of ordinary_plan. The latter adds the edits
 * that give the image its ordinary sections, and finishes the script. */
bool ordinary_count(const struct input *image, const struct image_plan *plan,
                    struct packed_counts *counts, struct error *error);

bool ordinary_plan(const struct input *image, const struct image_plan *plan, uint64_t limit,
                   struct edit_script *edits, struct error *error);

/* ---- containers (container.c) ---- */

/*
 * A universal file (<mach-o/fat.h>) holds several Mach-O images, one for each machine; each of them
 * is a slice. Any other file is a container with one slice, the whole file. So code that works on
 * images loops over the slices and need not ask which kind of file it has.
 *
 * The header of a universal file says where each slice is in the file. lipo and linkers all lay the
 * slices out in the same way: in the order of the header, each at the next multiple of its
 * alignment, with zeros in between. Only such files are accepted, because their layout can be made
 * again.
 */

#define SLICES_MAX     16
#define SLICE_NAME_MAX 32

struct slice {
    char name[SLICE_NAME_MAX]; /* of the architecture: "arm64"; "" in a file that is one slice */
    uint64_t offset;           /* in the file */
    uint64_t size;
    uint64_t alignment; /* in bytes */
    /* The slice as an input of its own; messages name it FILE.ARCH. Its bytes are a view of the
     * file's input, which must outlive it. */
    struct input input;
};

struct container {
    bool is_universal;
    bool is_64;          /* the table has 64-bit offsets and sizes */
    struct bytes header; /* header and table of slices, a view of the file; empty if thin */
    struct slice slices[SLICES_MAX];
    size_t count;
};

bool container_is_universal(struct bytes bytes);

/* Reads and checks the table of a universal file; treats any other file as one slice. Call
 * container_close afterwards, also after a failure. */
bool container_open(struct container *container, const struct input *file, struct error *error);
void container_close(struct container *container);

/* Assigns new offsets to the slices after their sizes have changed. `name` is for messages. */
bool container_lay_out(struct container *container, const char *name, struct error *error);

/* Writes the slice with that index: as many bytes as its `size` says. */
typedef bool (*slice_writer)(void *context, size_t index, struct error *error);

/* Writes the whole container in its current layout: header and padding go to `sink`, and `writer`
 * is called for each slice when its turn comes. */
bool container_write(const struct container *container, const char *name, bytes_sink sink,
                     void *sink_context, slice_writer writer, void *writer_context,
                     struct error *error);

#endif
