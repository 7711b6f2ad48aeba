/*
 * Checks that a profile and a sidecar belong together: see correlation_check in correlate.h.
 *
 * The UUID says so where both have it, and the stub record, because two builds can have one UUID.
 * Sizes and version are compared as well: not every profile has a UUID or a stub, and bytes may
 * have been changed or lost since it was written.
 */
#include <elf.h>
#include <inttypes.h>

#include "common/llvm/tripwire.h"
#include "common/sidecar/correlate.h"

struct check {
    const struct sidecar *sidecar;
    const struct sidecar_facts *facts;
    const struct profile *profile;
    bool is_full;                 /* the profile lacks nothing */
    const struct digest *records; /* of a profile whose records are gone; NULL: they are there */
    const char *name;             /* of the profile */
    struct error *error;
};

/* ---- builds ---- */

static bool has_other_functions(const struct check *check)
{
    return error_set(check->error,
                     "%s: written by another build than that of %s, which has the same UUID but "
                     "other functions, or the same in other lines; give the sidecar of the image "
                     "that wrote it, and link each build %s",
                     check->name, check->sidecar->name, uuid_link_advice(check->facts->format));
}

static bool is_of_other_build(const struct check *check, const struct uuid *uuid)
{
    char found[UUID_HEX_MAX], wanted[UUID_HEX_MAX];

    return error_set(check->error,
                     "%s: written by another build than that of %s: its UUID is %s, not %s; "
                     "give the sidecar of the image that wrote it",
                     check->name, check->sidecar->name, uuid_format(uuid, found),
                     uuid_format(&check->facts->uuid, wanted));
}

/* Compares what the profile says of its image: the UUID in the tripwire, the stub record, and
 * binary IDs. Without these, or if the UUID does not come from the image itself, there is nothing
 * to compare; then only the sizes are checked. */
static bool check_build(const struct check *check)
{
    const struct sidecar_facts *facts = check->facts;
    const struct profile *profile = check->profile;
    struct bytes rest = profile->binary_ids, binary_id, own = {facts->uuid.bytes, facts->uuid.size};
    bool has_stub = facts->has_stub && profile->lightweight, tripwire_agrees = true, agrees;
    bool has_whole_uuid = false;
    enum profile_uuid_source source;
    struct uuid uuid;
    bool is_prefix;

    if (tripwire_read_uuid(profile->names, &uuid, &is_prefix)) {
        has_whole_uuid = !is_prefix;
        tripwire_agrees = is_prefix
                              ? uuid.size < own.size && memcmp(uuid.bytes, own.data, uuid.size) == 0
                              : uuid_equal(&uuid, &facts->uuid);
    }
    /* The tripwire has the UUID of the split; the build ID may have been changed since. */
    agrees = has_stub
                 ? memcmp(facts->stub_id, profile->stub_id, sizeof(facts->stub_id)) == 0
                 : has_whole_uuid || rest.size == 0 || facts->uuid_source != UUID_FROM_BUILD_ID;
    while (!agrees && !has_stub && profile_take_binary_id(profile, &rest, &binary_id))
        agrees = bytes_equal(binary_id, own);
    if (agrees && tripwire_agrees)
        return true;
    if (has_stub && tripwire_agrees && uuid_has_stub(&facts->uuid, profile->stub_id))
        return has_other_functions(check);
    uuid = profile_uuid(profile, &source);
    return is_of_other_build(check, &uuid);
}

/* ---- sizes ---- */

static uint64_t items_in(const struct check *check, enum section_kind kind, uint64_t item_size)
{
    const struct section *section = sidecar_find(check->sidecar, kind);

    return section == NULL ? 0 : profile_count_items(section->size, item_size);
}

static bool check_sizes(const struct check *check)
{
    const struct profile_header *header = &check->profile->header;
    uint64_t counters = items_in(check, SECTION_COUNTERS, profile_counter_size(header->version));
    /* Not every version has bitmaps, whatever is in the image. */
    uint64_t bitmap =
        check->profile->layout.num_bitmap_bytes == 0 ? 0 : items_in(check, SECTION_BITMAP, 1);

    if (check->facts->raw_version != header->version ||
        check->facts->pointer_size != (check->profile->is_64_bit ? 8 : 4) ||
        (check->facts->elf_data == ELFDATA2MSB) != check->profile->big_endian)
        return error_set(check->error,
                         "%s: has raw version 0x%" PRIx64 ", but the image of %s writes 0x%" PRIx64
                         " (or another pointer size); give the sidecar of the image that wrote it",
                         check->name, header->version, check->sidecar->name,
                         check->facts->raw_version);
    return (counters == header->num_counters && bitmap == header->num_bitmap_bytes) ||
           error_set(check->error,
                     "%s: has %" PRIu64 " counters and %" PRIu64
                     " bitmap bytes, but the image of %s has %" PRIu64 " and %" PRIu64
                     "; give the sidecar of the image that wrote it",
                     check->name, header->num_counters, header->num_bitmap_bytes,
                     check->sidecar->name, counters, bitmap);
}

/* ---- records and names ---- */

/* A profile without records comes from -profile-correlate. If the sidecar has none either, they may
 * be in the image, or in its debug information (not on Windows). */
static bool check_has_records(const struct check *check)
{
    if (check->profile->header.num_data != 0 ||
        sidecar_find(check->sidecar, SECTION_COVDATA) != NULL)
        return true;
    if (check->facts->format != IMAGE_COFF)
        return profile_needs_debug_info(check->name, check->error);
    return error_set(
        check->error,
        "%s: has no records, as with an image built with -profile-correlate, and %s has "
        "none either; run 'llvm-profdata merge --binary-file=IMAGE' on it",
        check->name, check->sidecar->name);
}

/* An image can be split in several ways, each of which has a sidecar of its own. */
static bool needs_other_split(const struct check *check, const char *what)
{
    return error_set(check->error,
                     "%s: its image lacks its %s, which that of %s still has; give the sidecar of "
                     "the split that took them out",
                     check->name, what, check->sidecar->name);
}

/* A program can change its records at run time. The sidecar's records do not reflect that, so what
 * the runtime wrote afterwards need not fit them. Where the split left no stub, only damage puts a
 * UUID in a record; nothing would replace it, and no tool could read what is written then. */
static bool check_stub(const struct check *check)
{
    const struct profile *profile = check->profile;

    if (profile->has_changed_stub && !check->facts->has_stub)
        return error_set(check->error,
                         "%s: damaged: its record has the UUID of the image in place of a "
                         "function's hash; copy it again, or run the program again",
                         check->name);
    if (profile->lightweight || check->is_full || profile->header.num_data == 0 ||
        !check->facts->has_stub)
        return true;
    if (profile->header.num_data != 1)
        return error_set(check->error,
                         "%s: its image has its records, which %s was made without; give the "
                         "sidecar of the split that left them in the image",
                         check->name, check->sidecar->name);
    return error_set(check->error,
                     "%s: the stub record that the split left in the image of %s was changed, so "
                     "its counters cannot be trusted; if the program changes its "
                     "records, split it with --sections covmap,covfun",
                     check->name, check->sidecar->name);
}

/* Records that the profile has must be those of the image. If names went and records stayed, they
 * prove the names and the mapping, too (facts_make_record_change); a profile of a single function
 * looks like that of a stub then. Where the records are not known, what has a stub
 * cannot be of such an image. */
static bool check_records(const struct check *check)
{
    const struct profile *profile = check->profile;
    bool is_stub = profile->lightweight && check->facts->has_stub, is_right;
    struct digest found;
    uint64_t change;

    if (is_stub || profile->header.num_data == 0)
        return true;
    if (bytes_all_zero((struct bytes){check->facts->records.bytes, DIGEST_SIZE}))
        return !profile->lightweight || needs_other_split(check, "records");
    change = profile->has_tripwire ? check->sidecar->facts.record_change : 0;
    found = check->records != NULL ? *check->records
                                   : profile_records_digest(&profile->layout, profile->data, change,
                                                            profile->big_endian);
    is_right = digest_equal(&found, &check->facts->records);
    if (!is_right && profile->lightweight)
        return needs_other_split(check, "records");
    return is_right || has_other_functions(check);
}

/* A profile without names gets those that the split took out of its image. The tripwire is the last
 * part that the image writes: if something else is there, bytes before it were lost or added on the
 * way, and the counters are not in their places. */
static bool check_names(const struct check *check)
{
    const struct section *names = sidecar_find(check->sidecar, SECTION_NAMES);
    bool is_binary_correlated = sidecar_find(check->sidecar, SECTION_COVNAMES) != NULL;

    if (check->is_full)
        return true;
    if (profile_lacks_names(check->profile))
        return is_binary_correlated || (names != NULL && names->fate == FATE_REMOVED) ||
               needs_other_split(check, "names");
    return names == NULL || names->fate == FATE_COPIED ||
           error_set(check->error,
                     "%s: damaged: bytes before its names are missing, or too many; copy it again, "
                     "or run the program again",
                     check->name);
}

/* True if the sidecar has something of an image. */
static bool check_holds(const struct check *check)
{
    return sidecar_is_real(check->sidecar, check->error) &&
           (check->sidecar->section_count != 0 ||
            error_set(check->error,
                      "%s: holds nothing: its image has no coverage data; give the sidecar of "
                      "the image that wrote %s",
                      check->sidecar->name, check->name));
}

bool correlation_check(const struct sidecar *sidecar, const struct profile *profile,
                       const char *name, struct error *error)
{
    const struct check check = {.sidecar = sidecar,
                                .facts = &sidecar->facts,
                                .profile = profile,
                                .is_full = !profile_needs_sidecar(profile),
                                .name = name,
                                .error = error};

    return check_holds(&check) && check_build(&check) && check_has_records(&check) &&
           check_sizes(&check) && check_stub(&check) && check_names(&check) &&
           check_records(&check);
}

bool correlation_check_full(const struct sidecar *sidecar, const struct profile *head,
                            const struct uuid *uuid, const struct digest *records, const char *name,
                            struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct check check = {.sidecar = sidecar,
                                .facts = facts,
                                .profile = head,
                                .is_full = true,
                                .records = records,
                                .name = name,
                                .error = error};

    return check_holds(&check) &&
           (uuid->size == 0 || facts->uuid_source != UUID_FROM_BUILD_ID ||
            uuid_equal(uuid, &facts->uuid) || is_of_other_build(&check, uuid)) &&
           check_sizes(&check) && check_records(&check);
}
