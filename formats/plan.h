/*
 * What a split would do to an image: its sections, what becomes of each and why, and the edits.
 *
 * A plan depends on no format. The planner makes it (planner.h), and the command carries it out.
 */
#ifndef COVSPLIT_FORMATS_PLAN_H
#define COVSPLIT_FORMATS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/edit/inverse.h"
#include "common/edit/script.h"
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
};

/* What an image is, and what a split would do to it. Owns everything in it, except the input. */
struct image_plan {
    struct sidecar_facts facts; /* except sizes and digests, which only the split knows */
    bool already_split;         /* the image is a stripped one: nothing is planned */
    uint64_t zeros_size;        /* bytes of zeros of sections that stay, which leave the file */
    bool is_packed;             /* its coverage mapping, or some of it, is in packed units */
    struct section sections[SECTION_KIND_MAX]; /* those present, by file offset */
    size_t section_count;
    struct edit_script edits;                      /* finished */
    struct section_range ranges[SECTION_KIND_MAX]; /* those that go to the sidecar */
    size_t range_count;
    struct arena reasons; /* the texts of `sections` */
};

/* What identifies a stripped image and its sidecar. */
struct split_image {
    struct uuid uuid;  /* size 0: not in the image */
    bool uuid_is_stub; /* only the part of it in the stub record (uuid.h) */
    bool has_stub;     /* the image has a stub record, which begins with stub_id */
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

/* Makes the ordinary coverage mapping of an image with packed units (codec/packed_units/packed_unit.h),
 * which must be the one that was planned. Fails if they are damaged, or if this would take more
 * than `limit` bytes of memory; if that is 0, more than an image of this size may (memory_limit.h).
 */
bool image_plan_unpack(const struct image_plan *plan, const struct input *image, uint64_t limit,
                       struct buffer *covmap, struct buffer *covfun, struct error *error);

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

#endif
