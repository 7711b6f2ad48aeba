/*
 * Images in commands: finding them, describing them, and making sidecars of them.
 */
#ifndef COVSPLIT_SPLIT_CLI_IMAGES_H
#define COVSPLIT_SPLIT_CLI_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/coverage.h"
#include "common/llvm/section.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/json.h"

/* ---- files that the user did not name as images ----
 *
 * They were found in a directory, or written by a link command, which may have made any kind of
 * file. */

/* True for a file that linkers make to be run or loaded, and for one that cannot be read. False for
 * object files, archives, and covsplit's sidecars and objects. */
bool found_image_is_linked(const char *path);

/* True if the names of coverage sections occur nowhere in the file, so that there is nothing to
 * take out even if covsplit does not understand the file. Reads the whole file. */
bool found_image_has_no_coverage(struct bytes bytes);

/* ---- descriptions ---- */

#define MACHINE_TEXT_MAX 24

/* Writes "x86-64", "aarch64" and the like into text[MACHINE_TEXT_MAX] and returns it. The name
 * depends on the ELF machine number (e_machine), class and data encoding; if there is none, it is
 * the number. */
const char *machine_text(const struct sidecar_facts *facts, char *text);

/* A section of an image, a sidecar or a profile, as tables and JSON describe it. The keys of the
 * JSON are those of `covsplit show --json`: name, kind, address, size, stored_size, ratio, status
 * and reason. */

/* A number that is not known, or does not apply: null in JSON, empty in text. */
#define NUMBER_UNKNOWN UINT64_MAX

struct section_row {
    const char *name;
    const char *kind; /* a word of section.h */
    uint64_t address, size, stored_size;
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

/* ---- the sidecar of an image that was not split ---- */

/* For commands that make of sidecars what LLVM's tools read. It has the image's coverage mapping,
 * as ordinary sections if objects of the image were packed, and what else reports and binary
 * correlation need. It has no edit script, so it cannot join anything, and it is only in memory.
 * NULL with an error; also for an image that was split. The limit is that of --memory-limit; 0: not
 * given. Close it with sidecar_close. */
struct sidecar *image_sidecar_make(const struct input *image, uint64_t limit, struct error *error);

/* The sidecar of an image: the one that is found if it was split, or else one that is made. *own is
 * the UUID that a split image has now. NULL with an error. */
struct sidecar *image_sidecar_open(const struct sidecar_places *places, const struct input *image,
                                   uint64_t limit, struct uuid *own, struct error *error);

/* ---- images that were not split ---- */

/* Adds to the error (ENODATA) that there is no sidecar of this UUID, which is that of a profile
 * that is not lightweight: its image was not split. Names the image if it lies beside the profile
 * or in the current directory. */
void unsplit_image_tell(const struct uuid *uuid, const char *profile, struct error *error);

/* ---- images without coverage mapping, which reports leave out ---- */

/* Initialize to {0}; free with unmapped_images_free. */
struct unmapped_images {
    struct digest_set uuids;
    char *first; /* the name of the one that was noted first */
};

/* True if the image of the sidecar has no coverage mapping: then it is noted, and is to be left
 * out. A sidecar whose mapping stayed in the image is none of these. */
bool unmapped_images_note(struct unmapped_images *images, const struct sidecar *sidecar);

/* Makes the text of a warning; false if no image was noted. */
bool unmapped_images_tell(const struct unmapped_images *images, struct error *text);
void unmapped_images_free(struct unmapped_images *images);

#endif
