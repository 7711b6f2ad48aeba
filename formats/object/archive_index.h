/*
 * The symbol index of an archive, in all its forms: see archive.h. For the files that implement it.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_ARCHIVE_INDEX_H
#define COVSPLIT_FORMATS_OBJECT_ARCHIVE_INDEX_H

#include "formats/object/archive.h"

static inline bool archive_role_is_index(enum archive_role role)
{
    return role >= ARCHIVE_INDEX_GNU && role <= ARCHIVE_INDEX_BSD64;
}

/* Fails if the index is damaged, or names a member that does not exist. *goes is whether one of its
 * symbols is of a member that has_no_records. */
bool archive_index_check(const struct archive *archive, const struct archive_member *index,
                         bool *goes, struct error *error);

/* Makes the contents of the index anew, with the new offsets of the members. Their size does not
 * depend on the offsets. */
bool archive_index_make(const struct archive *archive, const struct archive_member *index,
                        struct buffer *contents, struct error *error);

#endif
