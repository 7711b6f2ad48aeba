/*
 * Writing and reading unions: see union.h.
 *
 * llvm-cov loads the records of objects by these rules, which are the same from LLVM 14 to 22
 * (BinaryCoverageReader, and CoverageMapping::loadFunctionRecord):
 *
 *   1. Of the records of one function in an object, the first counts, in the place of the first.
 *      But if that is a dummy (covfun_tell_dummy), the first that is none counts instead.
 *   2. A record is dropped if the profile has another hash for its function; if it is one region
 *      without a counter, and the function has counts; if its counters cannot be evaluated.
 *   3. A record that passes is dropped if one with the same name and filenames was loaded.
 *
 * So the records of each object are chosen by rule 1. Of these, a record is left out if an earlier
 * member has an equal one: with the same name, hash, filenames, expressions and regions. This does
 * not change any report: if llvm-cov dropped the earlier record by rule 2, it would drop the later
 * one too; otherwise it has loaded the earlier record, or one before it, and would drop the later
 * one by rule 3. The same name, hash and filenames would not be enough: a dummy may pass in one
 * report only, and equal hashes do not mean equal numbers of counters.
 *
 * From version 6 of the mapping on, LLVM joins relative filenames with the compilation directory:
 * they are equal only if that is, too.
 */
#include "common/sidecar/union.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/memory_limit.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"
#include "common/sidecar/exported.h"

/* ---- choosing the coverage of a member ---- */

/* So many filenames, and bytes of those with other names, are kept for the next member. */
#define FILES_KEPT  ((size_t)1 << 20)
#define MAPPED_KEPT ((uint64_t)32 << 20)

static const char whole_mapping[] = "its coverage mapping";

/* A unit of __llvm_covmap. */
struct unit {
    struct bytes header, filenames; /* in `covmap` */
    size_t number;                  /* of its filenames, in `known` */
    bool is_needed;
};

/* A record that counts in its object. */
struct entry {
    struct digest digest; /* of what makes records equal */
    uint64_t files;       /* a digest of their names */
    size_t offset, size;  /* in `records`, if it is held there */
    size_t name, unit;    /* their numbers */
    uint64_t hash;
    bool is_dummy, is_unused;
    bool is_kept; /* it is to be in the union */
};

/* Chooses what a union has to hold of a sidecar. Names and filenames are read first. Then the
 * records of functions pass by as a stream; those that may be needed are kept. */
struct chooser {
    const struct sidecar *sidecar;
    const struct digest_set *seen;
    const struct covmap_renamer *renamer;
    struct error *error;
    bool big;
    bool fits; /* otherwise the coverage is not as expected, and the member has all of it */

    enum section_kind names_kind;
    struct names names;
    size_t *entry_of_name; /* the number of its entry plus one, or 0 */

    struct buffer covmap;
    struct unit *units;
    size_t unit_count, unit_capacity;
    struct intern_table unit_of_reference;
    uint32_t version; /* that of the first unit: LLVM reads all units by it */
    struct union_units *known;
    size_t files_before;    /* filenames in `known`, of other members */
    struct mapping mapping; /* of one record */

    uint64_t left;         /* bytes of __llvm_covfun that have not come yet */
    struct buffer pending; /* the beginning of a record that has not come as a whole */
    struct buffer records; /* each with the padding after it */
    struct entry *entries;
    size_t entry_count, entry_capacity, kept_count;
    struct bytes *covfun; /* the records that are kept */
    struct buffer scratch;
};

static void end_choosing(struct chooser *chooser)
{
    names_free(&chooser->names);
    free(chooser->entry_of_name);
    buffer_free(&chooser->covmap);
    free(chooser->units);
    intern_table_free(&chooser->unit_of_reference);
    buffer_free(&chooser->pending);
    buffer_free(&chooser->records);
    mapping_free(&chooser->mapping);
    free(chooser->entries);
    free(chooser->covfun);
    buffer_free(&chooser->scratch);
}

static bool out_of_memory(const struct chooser *chooser, uint64_t size)
{
    return error_out_of_memory(chooser->error, chooser->sidecar->name, size);
}

/* Notes that the coverage is not as expected, which is no failure. */
static bool decline(struct chooser *chooser)
{
    chooser->fits = false;
    return true;
}

static void put_number(struct buffer *buffer, uint64_t number)
{
    uint8_t bytes[sizeof(number)];

    store_u64(bytes, number, false);
    buffer_append(buffer, bytes, sizeof(bytes));
}

static void put_text(struct buffer *buffer, struct bytes text)
{
    put_number(buffer, text.size);
    buffer_append(buffer, text.data, (size_t)text.size);
}

/* LLVM reads one section of names. */
static bool read_names(struct chooser *chooser)
{
    const struct section *names = sidecar_find(chooser->sidecar, SECTION_NAMES);
    const struct section *others = sidecar_find(chooser->sidecar, SECTION_COVNAMES);
    const struct section *section = names != NULL ? names : others;

    if ((names != NULL && others != NULL) || section == NULL)
        return decline(chooser);
    chooser->names_kind = section->kind;
    if (!sidecar_read_names(chooser->sidecar, section, &chooser->names, chooser->error))
        return false;
    chooser->entry_of_name = calloc(chooser->names.count + 1, sizeof(*chooser->entry_of_name));
    return (chooser->entry_of_name != NULL && names_index(&chooser->names, 1)) ||
           out_of_memory(chooser, chooser->names.text.size);
}

/* Adds the digest of each filename, with the directory in which it is looked for, if it is in one.
 * LLVM normalizes what it has joined, and may be told of another directory (llvm-cov's
 * -compilation-dir): a name that is joined is never the same as one that is not. */
static bool add_files(struct chooser *chooser, const struct covmap_names *names)
{
    bool has_directory = chooser->version >= COVMAP_VERSION_6;
    struct union_units *known = chooser->known;
    struct buffer *scratch = &chooser->scratch;

    if (!memory_limit_allows(chooser->sidecar->memory_limit,
                             (known->file_count - chooser->files_before + names->count) *
                                 sizeof(struct digest),
                             chooser->sidecar->name, "the list of its filenames", chooser->error))
        return false;
    for (size_t i = 0; i < names->count; i++) {
        struct bytes name = names->names[i];
        bool is_absolute = name.size != 0 && name.data[0] == '/';
        bool is_joined = has_directory && i != 0 && !is_absolute;

        scratch->size = 0;
        put_number(scratch, is_joined);
        put_text(scratch, is_joined ? names->names[0] : (struct bytes){NULL, 0});
        buffer_append(scratch, name.data, (size_t)name.size);
        if (scratch->failed ||
            !ARRAY_ROOM_FOR_ONE(known->files, known->file_capacity, known->file_count))
            return out_of_memory(chooser, name.size);
        known->files[known->file_count++] = digest_of(buffer_view(scratch));
    }
    return true;
}

static bool decode_filenames(struct chooser *chooser, struct bytes filenames,
                             struct covmap_names *names)
{
    switch (covmap_names_read(names, filenames, chooser->sidecar->memory_limit)) {
    case RESULT_OK:
        return true;
    case RESULT_NO_MEMORY:
        return out_of_memory(chooser, filenames.size);
    default:
        return decline(chooser);
    }
}

/* Reads filenames that are not known yet; item->mapped is to be freed even after a failure. */
static bool read_filenames(struct chooser *chooser, struct bytes filenames,
                           struct covmap_names *names, struct union_filenames *item)
{
    bool is_windows = chooser->sidecar->facts.format == IMAGE_COFF;

    if (!decode_filenames(chooser, filenames, names))
        return false;
    if (chooser->fits && chooser->renamer->rename != NULL) {
        if (!covmap_names_rename(names, chooser->version, is_windows, chooser->renamer,
                                 &item->mapped))
            return out_of_memory(chooser, filenames.size);
        if (item->mapped.size != 0) {
            item->reference = md5_name_reference(buffer_view(&item->mapped));
            if (!decode_filenames(chooser, buffer_view(&item->mapped), names))
                return false;
        }
    }
    item->first_file = chooser->known->file_count;
    item->count = names->count;
    return !chooser->fits || add_files(chooser, names);
}

/* Gives the number of these filenames in `known`. */
static bool know_filenames(struct chooser *chooser, struct bytes filenames,
                           struct covmap_names *names, size_t *number)
{
    struct union_units *known = chooser->known;
    struct union_filenames item = {.digest = digest_of(filenames)};
    uint64_t key, found;
    bool done;

    item.digest.bytes[0] ^= (uint8_t)((chooser->version >= COVMAP_VERSION_6) |
                                      (chooser->sidecar->facts.format == IMAGE_COFF) << 1);
    key = load_u64(item.digest.bytes, false);
    if (intern_table_find(&known->by_digest, key, &found) &&
        digest_equal(&known->items[found].digest, &item.digest)) {
        *number = (size_t)found;
        return true;
    }
    done = read_filenames(chooser, filenames, names, &item);
    if (!done || !chooser->fits) {
        buffer_free(&item.mapped);
        return done;
    }
    if (!ARRAY_ROOM_FOR_ONE(known->items, known->capacity, known->count) ||
        !intern_table_put(&known->by_digest, key, known->count)) {
        buffer_free(&item.mapped);
        return out_of_memory(chooser, known->count * sizeof(item));
    }
    *number = known->count;
    known->mapped_size += item.mapped.size;
    known->items[known->count++] = item;
    return true;
}

/* The unit with this FilenamesRef; NULL if there is none. */
static struct unit *find_unit(const struct chooser *chooser, uint64_t reference)
{
    uint64_t number;

    return intern_table_find(&chooser->unit_of_reference, reference, &number)
               ? &chooser->units[number]
               : NULL;
}

static bool add_unit(struct chooser *chooser, const struct covmap_unit *found,
                     struct covmap_names *names)
{
    const struct unit *same = find_unit(chooser, found->reference);
    struct unit unit = {.header = found->header, .filenames = found->filenames};

    if (same != NULL)
        return bytes_equal(same->filenames, found->filenames) || decline(chooser);
    if (!know_filenames(chooser, found->filenames, names, &unit.number))
        return false;
    if (!chooser->fits)
        return true;
    if (!ARRAY_ROOM_FOR_ONE(chooser->units, chooser->unit_capacity, chooser->unit_count) ||
        !intern_table_put(&chooser->unit_of_reference, found->reference, chooser->unit_count))
        return out_of_memory(chooser, chooser->unit_count * sizeof(unit));
    chooser->units[chooser->unit_count++] = unit;
    return true;
}

static const struct union_filenames *filenames_of(const struct chooser *chooser,
                                                  const struct unit *unit)
{
    return &chooser->known->items[unit->number];
}

static bool read_units(struct chooser *chooser)
{
    const struct section *section = sidecar_find(chooser->sidecar, SECTION_COVMAP);
    struct covmap_names names = {0};
    struct covmap_unit unit;
    struct bytes rest;
    bool done = sidecar_read_section(chooser->sidecar, section, &chooser->covmap, chooser->error);

    rest = buffer_view(&chooser->covmap);
    while (done && chooser->fits && rest.size != 0) {
        bool is_first = rest.data == chooser->covmap.data;

        if (!covmap_take(&rest, chooser->big, &unit)) {
            decline(chooser);
            break;
        }
        if (is_first)
            chooser->version = unit.version;
        done =
            unit.version <= COVMAP_VERSION_7 ? add_unit(chooser, &unit, &names) : decline(chooser);
    }
    covmap_names_free(&names);
    return done;
}

static uint8_t *add_number(uint8_t *at, uint64_t number)
{
    store_u64(at, number, false);
    return at + sizeof(number);
}

/* Puts together all that decides what llvm-cov does with a record. The name is last, because it is
 * the only part whose end is not known from the parts before. */
static bool compute_digest(struct chooser *chooser, const struct covfun_record *record,
                           const struct unit *unit, struct entry *entry)
{
    const struct union_filenames *filenames = filenames_of(chooser, unit);
    const struct digest *digests = &chooser->known->files[filenames->first_file];
    struct buffer *scratch = &chooser->scratch;
    struct bytes name = names_get(&chooser->names, entry->name);
    struct covfun_files files;
    struct digest named;
    uint8_t *at;

    if (!covfun_read_files(record, &files))
        return decline(chooser);
    scratch->size = 0;
    if (!buffer_reserve(scratch, (size_t)(3 * sizeof(uint64_t) + files.count * sizeof(*digests) +
                                          files.rest.size + name.size)))
        return out_of_memory(chooser, record->whole.size);
    at = scratch->data;
    at = add_number(at, record->function_hash);
    at = add_number(at, files.count);
    for (uint64_t i = 0, number; i < files.count; i++) {
        if (!bytes_take_uleb128(&files.numbers, &number) || number >= filenames->count)
            return decline(chooser);
        memcpy(at, &digests[number], sizeof(*digests));
        at += sizeof(*digests);
    }
    named = digest_of((struct bytes){scratch->data + sizeof(uint64_t),
                                     (size_t)(at - scratch->data) - sizeof(uint64_t)});
    memcpy(&entry->files, named.bytes, sizeof(entry->files));
    at = add_number(at, files.rest.size);
    memcpy(at, files.rest.data, (size_t)files.rest.size);
    at += files.rest.size;
    memcpy(at, name.data, (size_t)name.size);
    at += name.size;
    entry->digest = digest_of((struct bytes){scratch->data, (size_t)(at - scratch->data)});
    return true;
}

/* Keeps the bytes of the record, whose entry is at the end of the array or replaces a dummy. */
static bool hold(struct chooser *chooser, const struct covfun_record *record, struct entry *entry)
{
    struct buffer *records = &chooser->records;
    uint64_t size = align_up(record->whole.size, COVERAGE_ALIGNMENT);

    entry->offset = records->size;
    entry->size = (size_t)size;
    return memory_limit_allows(chooser->sidecar->memory_limit, records->size + size,
                               chooser->sidecar->name, whole_mapping, chooser->error) &&
           ((buffer_append(records, record->whole.data, (size_t)record->whole.size) &&
             buffer_append_zeros(records, (size_t)(size - record->whole.size))) ||
            out_of_memory(chooser, size));
}

/* Gives the record an entry, a new one or that of a dummy which it replaces, unless another record
 * of the function counts. The first record's bytes are held even if it is not kept: if none is
 * kept, it is written. */
static bool take_record(struct chooser *chooser, const struct covfun_record *record)
{
    const struct unit *unit = find_unit(chooser, record->filenames_reference);
    struct entry *entry;
    uint64_t name;
    bool is_dummy;

    if (unit == NULL ||
        !intern_table_find(&chooser->names.by_reference, record->name_reference, &name) ||
        !covfun_tell_dummy(record, &is_dummy))
        return decline(chooser);
    if (chooser->entry_of_name[name] != 0) {
        entry = &chooser->entries[chooser->entry_of_name[name] - 1];
        if (!entry->is_dummy || is_dummy)
            return true;
    } else {
        if (!ARRAY_ROOM_FOR_ONE(chooser->entries, chooser->entry_capacity, chooser->entry_count))
            return out_of_memory(chooser, chooser->entry_count * sizeof(*entry));
        entry = &chooser->entries[chooser->entry_count++];
        chooser->entry_of_name[name] = chooser->entry_count;
    }
    *entry = (struct entry){.name = (size_t)name,
                            .unit = (size_t)(unit - chooser->units),
                            .hash = record->function_hash,
                            .is_dummy = is_dummy};
    if (!compute_digest(chooser, record, unit, entry))
        return false;
    if (!is_dummy &&
        covfun_tell_unused(&chooser->mapping, record, &entry->is_unused) == RESULT_NO_MEMORY)
        return out_of_memory(chooser, record->mapping.size);
    entry->is_unused |= is_dummy;
    entry->is_kept = !digest_set_has(chooser->seen, &entry->digest);
    return (!entry->is_kept && entry != chooser->entries) || hold(chooser, record, entry);
}

/* True if the bytes begin with a whole record and its padding. */
static bool has_record(const struct chooser *chooser, struct bytes bytes)
{
    uint64_t size;

    if (chooser->left == 0)
        return bytes.size != 0;
    if (bytes.size < COVFUN_HEADER_SIZE)
        return false;
    size = COVFUN_HEADER_SIZE + (uint64_t)covfun_mapping_size(bytes.data, chooser->big);
    return align_up(size, COVERAGE_ALIGNMENT) <= bytes.size;
}

/* A bytes_sink for __llvm_covfun. */
static bool take_part(void *context, struct bytes part, struct error *error)
{
    struct chooser *chooser = context;
    struct buffer *pending = &chooser->pending;
    bool was_pending = pending->size != 0;
    struct bytes rest = part;
    struct covfun_record record;

    chooser->left -= part.size;
    if (!chooser->fits)
        return true;
    if (was_pending) {
        if (!memory_limit_allows(chooser->sidecar->memory_limit, pending->size + part.size,
                                 chooser->sidecar->name, whole_mapping, error))
            return false;
        if (!buffer_append(pending, part.data, (size_t)part.size))
            return out_of_memory(chooser, part.size);
        rest = buffer_view(pending);
    }
    while (chooser->fits && has_record(chooser, rest)) {
        if (!covfun_take(&rest, chooser->big, &record))
            return decline(chooser);
        if (!take_record(chooser, &record))
            return false;
    }
    if (was_pending) {
        memmove(pending->data, rest.data, (size_t)rest.size);
        pending->size = (size_t)rest.size;
        return true;
    }
    return buffer_append(pending, rest.data, (size_t)rest.size) ||
           out_of_memory(chooser, rest.size);
}

/* The units that are needed, all of the version by which LLVM reads them. */
static bool put_covmap(struct chooser *chooser, struct buffer *covmap)
{
    for (size_t i = 0; i < chooser->unit_count; i++) {
        const struct unit *unit = &chooser->units[i];
        const struct buffer *mapped = &filenames_of(chooser, unit)->mapped;
        struct bytes filenames = mapped->size != 0 ? buffer_view(mapped) : unit->filenames;
        uint8_t header[COVMAP_HEADER_SIZE];

        if (!unit->is_needed)
            continue;
        memcpy(header, unit->header.data, sizeof(header));
        store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)filenames.size, chooser->big);
        store_u32(header + COVMAP_VERSION, chooser->version, chooser->big);
        buffer_append(covmap, header, sizeof(header));
        buffer_append(covmap, filenames.data, (size_t)filenames.size);
        buffer_append_zeros(covmap,
                            (size_t)(align_up(covmap->size, COVERAGE_ALIGNMENT) - covmap->size));
    }
    return !covmap->failed || out_of_memory(chooser, covmap->size);
}

static bool put_names(struct chooser *chooser, struct buffer *encoded)
{
    struct names needed = {0};
    uint64_t number;
    bool done = true;

    for (size_t i = 0; done && i < chooser->names.count; i++) {
        size_t entry = chooser->entry_of_name[i];

        if (entry != 0 && chooser->entries[entry - 1].is_kept)
            done = names_add(&needed, names_get(&chooser->names, i), &number);
    }
    done = (done && names_encode(&needed, encoded)) || out_of_memory(chooser, needed.text.size);
    names_free(&needed);
    return done;
}

static bool put_coverage(struct chooser *chooser, struct export_coverage *coverage)
{
    for (size_t i = 0; i < chooser->entry_count; i++)
        chooser->kept_count += chooser->entries[i].is_kept;
    if (chooser->kept_count == 0)
        chooser->kept_count = chooser->entries[0].is_kept = true;
    chooser->covfun = malloc(chooser->kept_count * sizeof(*chooser->covfun));
    if (chooser->covfun == NULL)
        return out_of_memory(chooser, chooser->kept_count * sizeof(*chooser->covfun));
    for (size_t i = 0; i < chooser->entry_count; i++) {
        const struct entry *entry = &chooser->entries[i];
        const struct union_filenames *filenames =
            filenames_of(chooser, &chooser->units[entry->unit]);

        if (!entry->is_kept)
            continue;
        if (filenames->mapped.size != 0)
            store_u64(chooser->records.data + entry->offset + COVFUN_FILENAMES_REF,
                      filenames->reference, chooser->big);
        chooser->covfun[coverage->covfun_count++] =
            (struct bytes){chooser->records.data + entry->offset, entry->size};
        coverage->covfun_size += entry->size;
        chooser->units[entry->unit].is_needed = true;
    }
    coverage->covfun = chooser->covfun;
    coverage->names_kind = chooser->names_kind;
    return put_covmap(chooser, &coverage->covmap) && put_names(chooser, &coverage->names);
}

/* Reads the sidecar's coverage, and fills in what the union does not have yet, if all of it is as
 * expected (chooser->fits). */
static bool choose(struct chooser *chooser, struct export_coverage *coverage)
{
    const struct sidecar *sidecar = chooser->sidecar;
    const struct section *covfun = sidecar_find(sidecar, SECTION_COVFUN);

    if (!read_names(chooser) || (chooser->fits && !read_units(chooser)))
        return false;
    chooser->left = covfun->size;
    if (chooser->fits &&
        !sidecar_stream_section(sidecar, covfun, take_part, chooser, chooser->error))
        return false;
    if (chooser->pending.size != 0 || chooser->entry_count == 0)
        chooser->fits = false;
    if (!chooser->fits && chooser->renamer->rename != NULL)
        return error_set(chooser->error,
                         "%s: its coverage mapping is of an unusual form, in which source files "
                         "cannot be chosen or get other names; use 'covsplit run -- llvm-cov'",
                         sidecar->name);
    return !chooser->fits || put_coverage(chooser, coverage);
}

/* ---- the archive ---- */

#define MAGIC      "!<arch>\n"
#define MAGIC_SIZE 8

/* The header of a member: ar_name, ar_date, ar_uid, ar_gid, ar_mode, ar_size, ar_fmag. In place of
 * a name it has "#1/" and the size of the name after it, which is part of the member's size. */
#define HEADER_SIZE    60
#define NAME_FOLLOWS   "#1/"
#define HEADER_END     "`\n"
#define HEADER_PRINTED NAME_FOLLOWS "%-13zu0           0     0     100644  %-10" PRIu64 HEADER_END
#define SIZE_MOST      UINT64_C(9999999999)

/* A header begins at a multiple of 8, or behind the magic. */
#define ALIGNMENT      8

#define UUID_DIGITS    8
#define IMAGE_NAME_MAX 200
#define NAME_MOST      (IMAGE_NAME_MAX + 1 + UUID_DIGITS + ALIGNMENT)

/* Offsets and sizes of fields of a member's header. */
#define NAME_SIZE_AT     3
#define NAME_SIZE_DIGITS 13
#define SIZE_AT          48
#define SIZE_DIGITS      10

/* ---- writing ---- */

/* A member that is being written. */
struct member {
    struct union_writer *writer;
    const struct sidecar *sidecar;
};

static bool put(void *context, struct bytes bytes, struct error *error)
{
    const struct member *member = context;

    return member->writer->sink(member->writer->context, bytes, error);
}

/* Writes what is before the export. The name of an image may contain anything; that of a member
 * must be a valid file name. It is padded with zeros up to the beginning of the export. */
static bool put_header(void *context, uint64_t size, struct error *error)
{
    const struct sidecar *sidecar = ((const struct member *)context)->sidecar;
    bool is_first = ((const struct member *)context)->writer->member_count == 0;
    const char *image_name = sidecar->image_name;
    char header[MAGIC_SIZE + HEADER_SIZE + 1], name[NAME_MOST] = {0}, uuid[UUID_HEX_MAX];
    size_t name_size = 0;

    for (; image_name[name_size] != '\0' && name_size < IMAGE_NAME_MAX; name_size++) {
        unsigned char byte = (unsigned char)image_name[name_size];

        name[name_size] = byte <= ' ' || byte == '/' || byte == 0x7f ? '_' : (char)byte;
    }
    uuid_format(&sidecar->facts.uuid, uuid);
    name_size +=
        (size_t)snprintf(name + name_size, NAME_MOST - name_size, "-%.*s", UUID_DIGITS, uuid);
    name_size = (size_t)align_up(HEADER_SIZE + name_size, ALIGNMENT) - HEADER_SIZE;
    if (size > SIZE_MOST - name_size)
        return error_set(error,
                         "%s: its coverage takes %" PRIu64
                         " bytes, and a member of a union at most %" PRIu64
                         "; export it as an object of its own",
                         sidecar->name, size, SIZE_MOST - name_size);
    snprintf(header, sizeof(header), "%s" HEADER_PRINTED, is_first ? MAGIC : "", name_size,
             size + name_size);
    return put(context, (struct bytes){(const uint8_t *)header, strlen(header)}, error) &&
           put(context, (struct bytes){(const uint8_t *)name, name_size}, error);
}

/* Without mapping and names, llvm-cov would take the whole union for a file without coverage. */
static bool check_coverage(const struct sidecar *sidecar, struct error *error)
{
    enum sidecar_mapping mapping = sidecar_mapping(sidecar);

    return sidecar_is_real(sidecar, error) &&
           (mapping == MAPPING_IS_THERE ||
            (mapping == MAPPING_IS_ABSENT
                 ? sidecar_report_no_mapping(sidecar, error)
                 : error_set(error,
                             "%s: holds no coverage mapping with names, which a union is made of; "
                             "split the original without --sections",
                             sidecar->name)));
}

static void forget_units(struct union_units *units)
{
    for (size_t i = 0; i < units->count; i++)
        buffer_free(&units->items[i].mapped);
    free(units->items);
    free(units->files);
    intern_table_free(&units->by_digest);
    *units = (struct union_units){0};
}

static bool remember(struct union_writer *writer, const struct chooser *chooser)
{
    for (size_t i = 0; i < chooser->entry_count; i++) {
        const struct entry *entry = &chooser->entries[i];

        if (writer->visit != NULL)
            writer->visit(writer->visit_context,
                          &(struct union_function){names_get(&chooser->names, entry->name),
                                                   chooser->names.references[entry->name],
                                                   entry->hash, entry->files, entry->digest,
                                                   entry->is_dummy, entry->is_unused});
        if (entry->is_kept && !digest_set_add(&writer->seen, &entry->digest))
            return error_out_of_memory(chooser->error, writer->name,
                                       writer->seen.count * DIGEST_SIZE);
    }
    writer->records_read += chooser->entry_count;
    writer->records_kept += chooser->kept_count;
    return true;
}

bool union_add(struct union_writer *writer, const struct sidecar *sidecar, struct error *error)
{
    struct sidecar reading = *sidecar;
    struct chooser chooser = {.sidecar = &reading,
                              .seen = &writer->seen,
                              .renamer = &writer->renamer,
                              .known = &writer->units,
                              .error = error,
                              .big = sidecar->facts.elf_data == ELFDATA2MSB,
                              .fits = true};
    struct export_coverage coverage = {.covfun_count = 0};
    struct member member = {writer, sidecar};
    bool done;

    if (writer->units.file_count > FILES_KEPT || writer->units.mapped_size > MAPPED_KEPT)
        forget_units(&writer->units);
    chooser.files_before = writer->units.file_count;
    if (reading.memo == NULL)
        reading.memo = &writer->memo;
    done = check_coverage(sidecar, error) && choose(&chooser, &coverage) &&
           export_write_member(sidecar, chooser.fits ? &coverage : NULL, put_header, put, &member,
                               error);

    writer->member_count += done;
    done = done && (!chooser.fits || remember(writer, &chooser));
    buffer_free(&coverage.covmap);
    buffer_free(&coverage.names);
    end_choosing(&chooser);
    return done;
}

bool union_finish(struct union_writer *writer, struct error *error)
{
    return writer->member_count != 0 ||
           error_set(error,
                     "%s: no sidecar with coverage to make a union of; give sidecars of images "
                     "that were built with coverage",
                     writer->name);
}

void union_free(struct union_writer *writer)
{
    digest_set_free(&writer->seen);
    forget_units(&writer->units);
    zlib_memo_free(&writer->memo.streams);
}

/* ---- reading: the archive must be just as it is written here ---- */

/* A decimal number in a field, which is filled up with spaces. */
static bool read_number(const uint8_t *field, size_t size, uint64_t *number)
{
    size_t i;

    *number = 0;
    for (i = 0; i < size && field[i] >= '0' && field[i] <= '9'; i++)
        *number = *number * 10 + (uint64_t)(field[i] - '0');
    if (i == 0)
        return false;
    while (i < size && field[i] == ' ')
        i++;
    return i == size;
}

/* Takes a member off the front. */
static bool take_member(struct bytes *members, struct union_member_view *member)
{
    struct cursor rest = cursor_open(*members, false, false), whole;
    struct bytes header = cursor_bytes(&rest, HEADER_SIZE);
    uint64_t name_size, size;

    if (rest.bad || memcmp(header.data, NAME_FOLLOWS, NAME_SIZE_AT) != 0 ||
        memcmp(header.data + SIZE_AT + SIZE_DIGITS, HEADER_END, 2) != 0 ||
        !read_number(header.data + NAME_SIZE_AT, NAME_SIZE_DIGITS, &name_size) ||
        !read_number(header.data + SIZE_AT, SIZE_DIGITS, &size))
        return false;
    whole = cursor_open(cursor_bytes(&rest, size), false, false);
    member->name = cursor_bytes(&whole, name_size);
    member->object = cursor_rest(&whole);
    if (rest.bad || whole.bad || name_size > NAME_MOST ||
        (HEADER_SIZE + name_size) % ALIGNMENT != 0 || member->object.size % ALIGNMENT != 0)
        return false;
    while (member->name.size != 0 && member->name.data[member->name.size - 1] == '\0')
        member->name.size--;
    *members = cursor_rest(&rest);
    return true;
}

bool union_may_begin(struct bytes so_far)
{
    static const char start[] = MAGIC NAME_FOLLOWS;
    size_t size = so_far.size < sizeof(start) - 1 ? (size_t)so_far.size : sizeof(start) - 1;

    return size != 0 && memcmp(so_far.data, start, size) == 0;
}

bool union_open(struct bytes bytes, const char *file, struct bytes *members, struct error *error)
{
    if (bytes.size < MAGIC_SIZE || memcmp(bytes.data, MAGIC, MAGIC_SIZE) != 0)
        return error_set(error, "%s: is not a union; export it again", file);
    *members = (struct bytes){bytes.data + MAGIC_SIZE, bytes.size - MAGIC_SIZE};
    return true;
}

bool union_recognize(struct bytes bytes)
{
    struct union_member_view member;
    struct error error;

    return union_open(bytes, "", &bytes, &error) && take_member(&bytes, &member) &&
           export_recognize(member.object);
}

bool union_next(struct bytes *members, const char *file, struct union_member_view *member,
                bool *found, struct error *error)
{
    *found = members->size != 0;
    return !*found || (take_member(members, member) && export_recognize(member->object)) ||
           error_set(error, "%s: a damaged union; export it again", file);
}
