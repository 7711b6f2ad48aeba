/*
 * A section of an image, a sidecar or a profile, as tables and JSON describe it.
 *
 * The keys of the JSON are those of `covsplit show --json`: name, kind, address, size, stored_size,
 * ratio, status and reason.
 */
#ifndef COVSPLIT_SPLIT_CLI_SECTION_ROW_H
#define COVSPLIT_SPLIT_CLI_SECTION_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/llvm/section.h"
#include "formats/plan.h"
#include "split/cli/json.h"

/* A number that may be unknown or not applicable: null in JSON, empty in text. */
struct section_number {
    bool known;
    uint64_t value;
};

#define SECTION_NUMBER_UNKNOWN ((struct section_number){false, 0})

static inline struct section_number section_number_known(uint64_t value)
{
    return (struct section_number){true, value};
}

struct section_row {
    const char *name;
    const char *kind; /* a word of section.h */
    struct section_number address;
    struct section_number size;
    struct section_number stored_size;
    const char *status; /* one of the words in show's --help */
    const char *reason; /* "" for none */
};

/* A row of which only these are known. */
struct section_row section_row_make(enum section_kind kind, uint64_t size, const char *status);

/* Describes what a split would do to a section of the plan, or has left of it. Points into the
 * section. */
struct section_row section_row_of_image(const struct image_plan *plan,
                                        const struct section *section);

/* The ratio of the stored size to the section's size, in ten-thousandths; false if one of them is
 * unknown. */
bool section_row_ratio(const struct section_row *row, uint64_t *ten_thousandths);

/* Writes the row as a JSON object. */
void section_row_write(const struct section_row *row, struct json_writer *json);

#endif
