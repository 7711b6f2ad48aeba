/*
 * The one interface behind which the image formats live.
 *
 * A format recognizes an image, describes it, and *plans* the edits that strip it. It writes no
 * file and prints nothing. A new format is one file and one line in the table of image.c.
 */
#ifndef COVSPLIT_FORMATS_IMAGE_H
#define COVSPLIT_FORMATS_IMAGE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/edit/inverse.h"
#include "common/edit/script.h"
#include "common/llvm/section.h"
#include "common/sidecar/sidecar.h"

#define IMAGE_REASON_MAX 256

/* What becomes of a section. */
enum section_fate {
    SECTION_REMOVED, /* its bytes go to the sidecar and out of the file (as far as pages allow) */
    SECTION_ZEROED,  /* its bytes go to the sidecar, but the file keeps zeros in their place */
    SECTION_STAYS,   /* nothing is done */
};

struct image_section {
    enum section_kind kind;
    const char *name; /* in the image; lives as long as the plan */
    uint64_t address; /* 0 for sections that are not loaded */
    uint64_t offset;  /* in the file */
    uint64_t size;    /* in bytes; for a section that was split before: what is left of it */
    uint64_t alignment;
    bool loaded;
    bool encoded; /* its bytes in the file are not its contents: compressed, or of another type */
    enum section_fate fate;
    /* It stays, and its bytes go to the sidecar all the same. Set by image_plan_make. */
    bool copied;
    char reason[IMAGE_REASON_MAX]; /* why it is not cut as far as pages allow; "" if it is */
};

struct image_options {
    unsigned sections;       /* mask of SECTION_BIT: what to remove */
    struct uuid uuid;        /* --uuid; size 0: none given */
    const struct input *map; /* COFF: a linker's map file, which names functions; NULL: none */
    bool drop_signature;     /* one that cannot be made anew is taken off */
};

/* What an image is, and what a split would do to it. Owns everything in it; views the input. */
struct image_plan {
    struct sidecar_facts facts; /* all but the sizes and digests, which only the split knows; the
                                   UUID has size 0 where only a digest of the image can give one */
    bool already_split;         /* the image is a stripped one: nothing is planned */
    struct image_section sections[SECTION_KIND_MAX]; /* those present, by file offset */
    size_t section_count;
    struct edit_script edits;                      /* finished */
    struct section_range ranges[SECTION_KIND_MAX]; /* those that go to the sidecar */
    size_t range_count;
    /* Where the stub record wants the UUID (16 bytes, zero-padded): offset of the 16 bytes in the
     * literals of `edits`; SIZE_MAX: no stub. See image_plan_set_uuid. */
    size_t stub_uuid_literal;
    /* The tripwire at the start of the names (common/tripwire.h), which wants the UUID too: offset
     * in the literals, SIZE_MAX where there is none, and its size. */
    size_t tripwire_literal;
    size_t tripwire_size;
    /* COFF: where in the literals the checksum is (SIZE_MAX: nowhere), which depends on the UUID
     * too, and the sum without that. */
    size_t check_sum_literal;
    uint64_t check_sum_words;
    bool tripwire_is_odd; /* the tripwire starts at an odd offset in the stripped image */
};

/* True where some format recognizes the bytes; *format_name is then its name. */
bool image_recognize(struct bytes bytes, const char **format_name);

/* True for what a linker makes to be run or loaded, as far as the first bytes tell: not for object
 * files, core files and the like. */
bool image_is_linked(struct bytes bytes);

/* What identifies an image that was split, and its sidecar. */
struct split_image {
    struct uuid uuid;  /* size 0: nothing in the image tells */
    bool uuid_is_stub; /* only what the stub record has of it (uuid.h) */
    /* Sections that stay: what is in the sidecar describes just so many bytes. 0: none. */
    uint64_t counters_size;
    uint64_t bitmap_size;
};

/* True where the input is a stripped image. Unlike a plan this costs little: headers are read, and
 * notes, but no symbols. False where it is none, and where error_is_of_memory says that this
 * could not be found out. */
bool image_find_split(const struct input *input, struct split_image *split, struct error *error);

/* What a reader of images sees in one, as lines of text: where it starts, its directories, its
 * sections. Appends nothing for a format whose outline nobody compares. */
bool image_outline(const struct input *input, struct buffer *outline, struct error *error);

/* Plans a split. NULL with a message where the file is no image, a damaged one, or one that must
 * not be split. An image without coverage sections gives a plan without edits. */
struct image_plan *image_plan_make(const struct input *input, const struct image_options *options,
                                   struct error *error);
void image_plan_free(struct image_plan *plan);

/* For the formats: the description of a section in the plan; NULL where the image has none. */
struct image_section *image_plan_section(struct image_plan *plan, enum section_kind kind);
/* The section stays, for this reason (printf's format). */
void image_plan_keep(struct image_plan *plan, enum section_kind kind, const char *format,
                     va_list arguments);
/* Puts the sections in the order of the file. */
void image_plan_sort(struct image_plan *plan);
/* Settles the UUID, where facts.uuid is what the image itself has (size 0: nothing), and --uuid. */
bool image_plan_choose_uuid(struct image_plan *plan, const struct image_options *options,
                            const char *path, struct error *error);
/* Bytes of the tripwire that takes the place of names of this size; 0: they must stay. */
size_t image_plan_tripwire_size(const struct image_plan *plan, uint64_t names_size);
/* Where names go and records stay: the first of these, at `offset` of the file, gets the NameRef by
 * which the runtime tells the image from others as before (tripwire_signature). False where there
 * is no memory. */
bool image_plan_keep_signature(struct image_plan *plan, struct bytes file, uint64_t offset,
                               uint64_t names_size, bool big_endian);
/* Of a stripped image: its UUID where facts.uuid has none, from the tripwire in `names` or from the
 * stub at the start of `data`; either may be empty. True where it is only what a stub has of it. */
bool image_plan_take_split_uuid(struct image_plan *plan, struct bytes names, struct bytes data);
/* The mapping of functions goes only where the file names of the mapping go too, which leave the
 * tripwire: else it stays, with the reason. */
void image_plan_pair_mapping(struct image_plan *plan);
/* Says of a stripped image what the plan has found: its UUID and what stays. */
void image_plan_describe_split(struct image_plan *plan, struct split_image *split);
/* Lists the ranges of the sections that go. */
void image_plan_list_ranges(struct image_plan *plan);

/* Completes a plan for an image that carries no UUID of its own. */
void image_plan_set_uuid(struct image_plan *plan, const struct uuid *uuid, enum uuid_source source);

#endif
