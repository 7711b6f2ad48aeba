/*
 * Object files (ELF relocatables), packed: all sections with coverage mapping,
 * their groups and symbols are taken out, and one section with packed units comes in
 * (codec/packed_units/packed_unit.h). Nothing else in the object changes: code, data, relocations,
 * debug information, other groups and symbols, and the order of all these.
 *
 * What is not proven safe stays as it is, with a reason: objects remain right when they are not
 * packed, since packed and ordinary ones can be linked together.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_PACKING_H
#define COVSPLIT_FORMATS_OBJECT_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "formats/image.h"

enum object_outcome {
    OBJECT_PACKED,      /* `contents` is the packed object */
    OBJECT_NOT_ONE,     /* no ELF relocatable: bitcode, an image, text; nothing to say */
    OBJECT_NO_COVERAGE, /* nothing to pack, or packed already; nothing to say */
    OBJECT_KEPT,        /* has coverage mapping, but must stay as it is: `reason` */
};

#define OBJECT_REASON_MAX 256

struct object_packing {
    enum object_outcome outcome;
    char reason[OBJECT_REASON_MAX]; /* "" unless it was kept: what is wrong, and what to do */
    struct buffer contents;
    uint64_t record_count;
    uint64_t mapping_size; /* bytes of the sections that were taken out */
};

/* Packs an object. False only if memory ran out. A damaged object is kept. `name` is for messages.
 * Initialize *packing to {0}; free it with object_packing_free, even after a failure. */
bool object_pack(struct bytes object, const char *name, struct object_packing *packing,
                 struct error *error);
void object_packing_free(struct object_packing *packing);

/* True for an ELF relocatable in which coverage mapping is packed. */
bool object_is_packed(struct bytes file);

/* Describes such an object as a plan without edits: its mapping and its names. Data is left out: it
 * is in a section for each function. NULL, with an error, if the object is damaged, or memory runs
 * out. Free with image_plan_free. */
struct image_plan *object_describe(const struct input *input, struct error *error);

/* ---- archives (archive.c) ---- */

/*
 * Archives (libNAME.a, NAME.rlib): read, and written again with other contents of some
 * members.
 *
 * An archive is a magic and members, each a header of 60 characters and the contents. Its symbol
 * index ("/"; "/SYM64/" for archives of 4 GiB or more) says in which member, by the offset of its
 * header, a symbol is defined. In a thin archive, members have no contents, but name files.
 * Archives of BSD and Darwin form have other indexes and names: these are members of an unknown
 * kind.
 *
 * When an archive is written again, everything but sizes and the index stays: members, names,
 * dates, owners, modes, and their order. The index is made from the old one, without reading the
 * symbol tables of members: only the symbols of coverage records go, since packing removes no
 * others.
 */

enum archive_role {
    ARCHIVE_FILE,     /* anything that `ar t` lists */
    ARCHIVE_NAMES,    /* "//": the names that do not fit the headers */
    ARCHIVE_INDEX,    /* "/" */
    ARCHIVE_INDEX_64, /* "/SYM64/" */
    ARCHIVE_UNKNOWN,  /* another special member, such as those of Windows libraries, or one of BSD
                         form */
};

struct archive_member {
    uint64_t offset; /* of the header; first, for array_count_up_to */
    enum archive_role role;
    bool has_contents; /* false for a file that a thin archive only names */
    bool is_nested;    /* of a thin archive: the file is in another archive */
    uint64_t size;     /* of the contents; of a thin archive's file, as it was recorded */
    struct bytes name; /* without padding and terminator */
    struct bytes contents;

    /* To be set before archive_write, for those with the role ARCHIVE_FILE. */
    bool has_changed;          /* to new_contents, or for a file of a thin archive to new_size */
    bool has_no_records;       /* the index loses its symbols of coverage records */
    struct bytes new_contents; /* for the index: set by archive_write */
    uint64_t new_size;

    uint64_t new_offset; /* set by archive_write */
};

/* Initialize to {0}; free with archive_free. Points into the bytes that were read. */
struct archive {
    struct bytes bytes;
    const char *path; /* for messages */
    bool is_thin;
    struct bytes names; /* the contents of the member "//", if there is one */
    struct archive_member *members;
    size_t count, capacity;
};

/* True if the bytes begin with the magic of an archive. */
bool archive_recognize(struct bytes bytes);

/* Finds the members, and checks that the index can be made again. Fails if the archive is damaged.
 */
bool archive_read(struct archive *archive, struct bytes bytes, const char *path,
                  struct error *error);
void archive_free(struct archive *archive);

/* True if some symbol of the index would go because of has_no_records. */
bool archive_index_changes(const struct archive *archive);

/* Writes the archive with what has changed; `write` gets views of headers, of members and of the
 * new contents, in order. */
bool archive_write(struct archive *archive, bytes_sink write, void *context, struct error *error);

#endif
