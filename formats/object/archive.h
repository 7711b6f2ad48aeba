/*
 * Archives (libNAME.a, NAME.rlib): read, and written again with other contents of some
 * members.
 *
 * An archive is a magic and members, each a header of 60 characters and the contents. Its symbol
 * index says in which member, by the offset of its header, a symbol is defined. There are two
 * forms of it, by who writes the archive: GNU ("/"; "/SYM64/" for archives of 4 GiB or more), or
 * BSD and Darwin ("__.SYMDEF" and "__.SYMDEF_64"). In a thin archive (GNU), members have no
 * contents, but name files.
 *
 * When an archive is written again, everything but sizes and the index stays: members, names,
 * dates, owners, modes, and their order. The index is made from the old one, without reading the
 * symbol tables of members: only the symbols of coverage records go, since packing removes no
 * others. The members of an archive that was well-formed stay aligned as they were in BSD archives,
 * to multiples of 8; in the others they can only be at even offsets.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_ARCHIVE_H
#define COVSPLIT_FORMATS_OBJECT_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

enum archive_role {
    ARCHIVE_FILE,        /* anything that `ar t` lists */
    ARCHIVE_NAMES,       /* "//": the names that do not fit the headers */
    ARCHIVE_INDEX_GNU,   /* "/" */
    ARCHIVE_INDEX_GNU64, /* "/SYM64/" */
    ARCHIVE_INDEX_BSD,
    ARCHIVE_INDEX_BSD64,
    ARCHIVE_UNKNOWN, /* another special member, such as those of Windows libraries */
};

struct archive_member {
    uint64_t offset; /* of the header; first, for array_count_up_to */
    enum archive_role role;
    bool has_contents;      /* false for a file that a thin archive only names */
    bool is_nested;         /* of a thin archive: the file is in another archive */
    uint64_t size;          /* of the contents; of a thin archive's file, as it was recorded */
    struct bytes name;      /* without padding and terminator */
    struct bytes name_area; /* where the name precedes the contents, with its padding; or empty */
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
