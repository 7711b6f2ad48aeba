/*
 * Whether a profile and a sidecar belong together: see correlation_check in correlate.h.
 *
 * The UUID says so where both have it, and the stub record, because two builds can have one UUID.
 * Sizes and version are compared as well: not every profile has a UUID or a stub, and bytes may
 * have been changed or lost since it was written.
 */
#include <inttypes.h>
#include <string.h>

#include "common/llvm/tripwire.h"
#include "common/sidecar/correlate.h"

static bool has_binary_id(const struct profile *profile, const struct uuid *uuid)
{
    struct bytes rest = profile->binary_ids, binary_id;
    struct bytes wanted = {uuid->bytes, uuid->size};

    while (profile_take_binary_id(profile, &rest, &binary_id)) {
        if (bytes_equal(binary_id, wanted))
            return true;
    }
    return false;
}

/* Whether the UUID in the tripwire, if there is one, is the sidecar's. */
static bool tripwire_agrees(const struct uuid *uuid, const struct profile *profile)
{
    struct uuid said;
    bool is_prefix;

    if (!tripwire_read_uuid(profile->names, &said, &is_prefix))
        return true;
    return is_prefix ? said.size < uuid->size && memcmp(said.bytes, uuid->bytes, said.size) == 0
                     : uuid_equal(&said, uuid);
}

static bool uuid_agrees(const struct sidecar_facts *facts, const struct profile *profile)
{
    if (!tripwire_agrees(&facts->uuid, profile))
        return false;
    if (facts->has_stub && profile->lightweight)
        return memcmp(facts->stub_id, profile->stub_id, sizeof(facts->stub_id)) == 0;
    /* Without a stub or a binary ID, or if the UUID does not come from the image itself, there is
     * nothing to compare. Then only the sizes are checked. */
    return profile->binary_ids.size == 0 || facts->uuid_source != UUID_FROM_BUILD_ID ||
           has_binary_id(profile, &facts->uuid);
}

static bool has_other_functions(const struct sidecar *sidecar, const char *name,
                                struct error *error)
{
    return error_set(error,
                     "%s: written by another build than that of %s, which has the same UUID "
                     "but other functions; give the sidecar of the image that wrote it, and let "
                     "the linker make build IDs (--build-id=sha1)",
                     name, sidecar->name);
}

/* Earlier versions put nothing but the UUID into the stub. */
static bool is_earlier_stub(const struct uuid *uuid, const uint8_t id[PROFILE_STUB_ID_SIZE])
{
    uint8_t earlier[PROFILE_STUB_ID_SIZE] = {0};

    memcpy(earlier, uuid->bytes, uuid->size < sizeof(earlier) ? uuid->size : sizeof(earlier));
    return memcmp(id, earlier, sizeof(earlier)) == 0;
}

static bool of_another_build(const struct sidecar *sidecar, const struct profile *profile,
                             const char *name, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    char found[UUID_HEX_MAX], wanted[UUID_HEX_MAX];
    enum profile_uuid_source source;
    struct uuid uuid = profile_uuid(profile, &source);

    if (facts->has_stub && profile->lightweight && uuid_has_stub(&facts->uuid, profile->stub_id) &&
        tripwire_agrees(&facts->uuid, profile)) {
        bool is_earlier = is_earlier_stub(&facts->uuid, profile->stub_id);

        return is_earlier == is_earlier_stub(&facts->uuid, facts->stub_id)
                   ? has_other_functions(sidecar, name, error)
                   : error_set(error,
                               "%s: %s covsplit split its image than the one that made %s; give "
                               "the sidecar that it wrote",
                               name, is_earlier ? "an earlier" : "a later", sidecar->name);
    }
    return error_set(error,
                     "%s: written by another build than that of %s: its UUID is %s, not %s; "
                     "give the sidecar of the image that wrote it",
                     name, sidecar->name, uuid_format(&uuid, found),
                     uuid_format(&facts->uuid, wanted));
}

/* Where records stayed, they must be those of the image, if the sidecar tells these; the NameRef of
 * the first one was changed as tripwire_signature says. */
static bool check_kept_records(const struct sidecar *sidecar, const struct profile *profile,
                               const char *name, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct section *names = sidecar_find(sidecar, SECTION_NAMES);
    struct digest found;

    if (bytes_all_zero((struct bytes){facts->records.bytes, DIGEST_SIZE}) || names == NULL ||
        !profile->has_tripwire)
        return true;
    if (!profile_records_digest(&profile->layout, profile->data,
                                tripwire_signature(names->size, profile->names.size),
                                profile->big_endian, &found))
        return error_out_of_memory(error, name, profile->data.size);
    return digest_equal(&found, &facts->records) || has_other_functions(sidecar, name, error);
}

static uint64_t items_in(const struct sidecar *sidecar, enum section_kind kind, uint64_t item_size)
{
    const struct section *section = sidecar_find(sidecar, kind);

    return section == NULL ? 0 : profile_count_items(section->size, item_size);
}

static bool check_not_empty(const struct sidecar *sidecar, const char *name, struct error *error)
{
    if (!sidecar_is_real(sidecar, error))
        return false;
    return sidecar->section_count != 0 ||
           error_set(error,
                     "%s: holds nothing: its image has no coverage data; give the sidecar of the "
                     "image that wrote %s",
                     sidecar->name, name);
}

/* A profile without records comes from -profile-correlate. If the sidecar has none either, they may
 * be in the image, or in its debug information (not on Windows). */
static bool check_records(const struct sidecar *sidecar, const struct profile *profile,
                          const char *name, struct error *error)
{
    if (profile->header.num_data != 0 || sidecar_find(sidecar, SECTION_COVDATA) != NULL)
        return true;
    if (sidecar->facts.format != IMAGE_COFF)
        return profile_needs_debug_info(name, error);
    return error_set(
        error,
        "%s: has no records, as with an image built with -profile-correlate, and %s has "
        "none either; run 'llvm-profdata merge --binary-file=IMAGE' on it",
        name, sidecar->name);
}

/* A program can change its records at run time. The sidecar's records do not reflect that, so what
 * the runtime wrote afterwards need not fit them. Where the split left no stub, only damage puts a
 * UUID in a record; nothing would replace it, and no tool could read what is written then. */
static bool check_stub(const struct sidecar *sidecar, const struct profile *profile,
                       const char *name, struct error *error)
{
    if (profile->has_changed_stub && !sidecar->facts.has_stub)
        return error_set(error,
                         "%s: damaged: its record has the UUID of the image in place of a "
                         "function's hash; copy it again, or run the program again",
                         name);
    if (profile->lightweight || !profile_needs_sidecar(profile) || profile->header.num_data != 1 ||
        !sidecar->facts.has_stub)
        return true;
    return error_set(error,
                     "%s: the stub record that the split left in the image of %s was changed, so "
                     "its counters cannot be trusted; if the program changes its "
                     "records, split it with --sections covmap,covfun",
                     name, sidecar->name);
}

/* The tripwire is the last part that the image writes. If something else is there, bytes before it
 * were lost or added on the way, and the counters are not in their places. */
static bool check_tripwire(const struct sidecar *sidecar, const struct profile *profile,
                           const char *name, struct error *error)
{
    const struct section *names = sidecar_find(sidecar, SECTION_NAMES);

    return !profile->lightweight || names == NULL || names->fate == FATE_COPIED ||
           profile_lacks_names(profile) ||
           error_set(error,
                     "%s: damaged: bytes before its names are missing, or too many; copy it again, "
                     "or run the program again",
                     name);
}

bool correlation_check(const struct sidecar *sidecar, const struct profile *profile,
                       const char *name, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    uint64_t counters =
        items_in(sidecar, SECTION_COUNTERS, profile_counter_size(profile->header.version));
    /* Not every version has bitmaps, whatever is in the image. */
    uint64_t bitmap =
        profile->layout.num_bitmap_bytes == 0 ? 0 : items_in(sidecar, SECTION_BITMAP, 1);

    if (!check_not_empty(sidecar, name, error))
        return false;
    if (!uuid_agrees(facts, profile))
        return of_another_build(sidecar, profile, name, error);
    if (!check_records(sidecar, profile, name, error))
        return false;
    if (facts->raw_version != profile->header.version ||
        facts->pointer_size != (profile->is_64_bit ? 8 : 4) ||
        (facts->elf_data == 2) != profile->big_endian)
        return error_set(error,
                         "%s: has raw version 0x%" PRIx64 ", but the image of %s writes 0x%" PRIx64
                         " (or another pointer size); give the sidecar of the image that wrote it",
                         name, profile->header.version, sidecar->name, facts->raw_version);
    if (counters != profile->header.num_counters || bitmap != profile->header.num_bitmap_bytes)
        return error_set(error,
                         "%s: has %" PRIu64 " counters and %" PRIu64
                         " bitmap bytes, but the image of %s has %" PRIu64 " and %" PRIu64
                         "; give the sidecar of the image that wrote it",
                         name, profile->header.num_counters, profile->header.num_bitmap_bytes,
                         sidecar->name, counters, bitmap);
    return check_stub(sidecar, profile, name, error) &&
           check_kept_records(sidecar, profile, name, error) &&
           check_tripwire(sidecar, profile, name, error);
}
