/*
 * Chooses what of a sidecar's coverage a union has to hold: see union_member.h.
 *
 * Names and filenames are read first. Then the records of functions pass by as a stream; those that
 * may be needed are kept.
 */
#include "common/sidecar/union_member.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/intern_table.h"
#include "common/base/memory_limit.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"

static const char whole_mapping[] = "its coverage mapping";

/* A unit of __llvm_covmap. */
struct unit {
    struct bytes header, filenames; /* in `covmap` */
    size_t first_file, file_count;  /* in `files` */
    bool is_needed;
};

struct chooser {
    struct union_member *member;
    const struct sidecar *sidecar;
    const struct digest_set *seen;
    struct error *error;
    bool big;
    bool fits;
    uint64_t limit; /* of memory */

    struct names names;
    size_t *entry_of_name; /* the number of its entry plus one, or 0 */

    struct buffer covmap;
    struct unit *units;
    size_t unit_count, unit_capacity;
    struct intern_table unit_of_reference;
    uint32_t version;     /* that of the first unit: LLVM reads all units by it */
    struct digest *files; /* a digest for each filename of each unit */
    size_t file_count, file_capacity;

    uint64_t left;         /* bytes of __llvm_covfun that have not come yet */
    struct buffer pending; /* the beginning of a record that has not come as a whole */
    struct buffer scratch;
};

static bool out_of_memory(const struct chooser *chooser, uint64_t size)
{
    return error_out_of_memory(chooser->error, sidecar_name(chooser->sidecar), size);
}

/* Notes that the coverage is not as expected, which is no failure. */
static bool misfit(struct chooser *chooser)
{
    chooser->fits = false;
    return true;
}

static bool put_number(struct buffer *buffer, uint64_t number)
{
    uint8_t bytes[sizeof(number)];

    store_u64(bytes, number, false);
    return buffer_append(buffer, bytes, sizeof(bytes));
}

static bool put_text(struct buffer *buffer, struct bytes text)
{
    return put_number(buffer, text.size) && buffer_append(buffer, text.data, (size_t)text.size);
}

/* ---- names ---- */

/* LLVM reads one section of names. */
static bool read_names(struct chooser *chooser)
{
    const struct sidecar_section *names = sidecar_find(chooser->sidecar, SECTION_NAMES);
    const struct sidecar_section *others = sidecar_find(chooser->sidecar, SECTION_COVNAMES);
    const struct sidecar_section *section = names != NULL ? names : others;

    if ((names != NULL && others != NULL) || section == NULL || !section->has_content)
        return misfit(chooser);
    chooser->member->coverage.names_kind = section->kind;
    if (!sidecar_read_names(chooser->sidecar, section, true, &chooser->names, chooser->error))
        return false;
    chooser->entry_of_name = calloc(chooser->names.count + 1, sizeof(*chooser->entry_of_name));
    return (chooser->entry_of_name != NULL && names_index(&chooser->names, 1)) ||
           out_of_memory(chooser, chooser->names.text.size);
}

/* ---- filenames ---- */

/* The digest of a filename, with the directory in which it is looked for; NULL: in none, so that it
 * is taken as it is. */
static bool add_file(struct chooser *chooser, const struct bytes *directory, struct bytes name)
{
    bool is_absolute = name.size != 0 && name.data[0] == '/';
    bool is_joined = directory != NULL && !is_absolute;

    chooser->scratch.size = 0;
    if (!put_number(&chooser->scratch, is_joined) ||
        !put_text(&chooser->scratch, is_joined ? *directory : (struct bytes){NULL, 0}) ||
        !buffer_append(&chooser->scratch, name.data, (size_t)name.size) ||
        !ARRAY_ROOM_FOR_ONE(chooser->files, chooser->file_capacity, chooser->file_count))
        return out_of_memory(chooser, name.size);
    chooser->files[chooser->file_count++] = digest_of(buffer_view(&chooser->scratch));
    return true;
}

/* LLVM normalizes what it has joined, and may be told of another directory (llvm-cov's
 * -compilation-dir): a name that is joined is never the same as one that is not. */
static bool add_files(struct chooser *chooser, const struct covmap_names *names)
{
    bool has_directory = chooser->version >= COVMAP_VERSION_6;

    if (!memory_limit_allows(
            chooser->limit, (chooser->file_count + names->count) * sizeof(struct digest),
            sidecar_name(chooser->sidecar), "the list of its filenames", chooser->error))
        return false;
    for (size_t i = 0; i < names->count; i++) {
        if (!add_file(chooser, has_directory && i != 0 ? &names->names[0] : NULL, names->names[i]))
            return false;
    }
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
    struct unit unit = {
        .header = found->header, .filenames = found->filenames, .first_file = chooser->file_count};

    if (same != NULL)
        return bytes_equal(same->filenames, found->filenames) || misfit(chooser);
    switch (covmap_names_read(names, found->filenames, chooser->limit)) {
    case RESULT_OK:
        break;
    case RESULT_NO_MEMORY:
        return out_of_memory(chooser, found->filenames.size);
    default:
        return misfit(chooser);
    }
    if (!add_files(chooser, names))
        return false;
    unit.file_count = names->count;
    if (!ARRAY_ROOM_FOR_ONE(chooser->units, chooser->unit_capacity, chooser->unit_count) ||
        !intern_table_put(&chooser->unit_of_reference, found->reference, chooser->unit_count))
        return out_of_memory(chooser, chooser->unit_count * sizeof(unit));
    chooser->units[chooser->unit_count++] = unit;
    return true;
}

static bool read_units(struct chooser *chooser)
{
    const struct sidecar_section *section = sidecar_find(chooser->sidecar, SECTION_COVMAP);
    struct covmap_names names = {0};
    struct covmap_unit unit;
    struct bytes rest;
    bool done = true;

    if (!sidecar_read_section(chooser->sidecar, section, &chooser->covmap, chooser->error))
        return false;
    rest = buffer_view(&chooser->covmap);
    while (done && chooser->fits && rest.size != 0) {
        bool is_first = rest.data == chooser->covmap.data;

        if (!covmap_take(&rest, chooser->big, &unit)) {
            done = misfit(chooser);
            break;
        }
        if (is_first)
            chooser->version = unit.version;
        done =
            unit.version <= COVMAP_VERSION_7 ? add_unit(chooser, &unit, &names) : misfit(chooser);
    }
    covmap_names_free(&names);
    return done;
}

/* ---- records ---- */

/* Puts together all that decides what llvm-cov does with a record. Names are last, because their
 * end is the only one that nothing tells. */
static bool compute_digest(struct chooser *chooser, const struct covfun_record *record,
                           const struct unit *unit, struct union_entry *entry)
{
    struct buffer *scratch = &chooser->scratch;
    struct bytes name = names_get(&chooser->names, entry->name);
    struct covfun_files files;
    bool done;

    if (!covfun_read_files(record, &files))
        return misfit(chooser);
    scratch->size = 0;
    done = put_number(scratch, record->function_hash) && put_number(scratch, files.count);
    for (uint64_t i = 0, number; done && i < files.count; i++) {
        if (!bytes_take_uleb128(&files.numbers, &number) || number >= unit->file_count)
            return misfit(chooser);
        done = buffer_append(scratch, &chooser->files[unit->first_file + number],
                             sizeof(struct digest));
    }
    done = done && put_text(scratch, files.rest) &&
           buffer_append(scratch, name.data, (size_t)name.size);
    if (!done)
        return out_of_memory(chooser, record->whole.size);
    entry->digest = digest_of(buffer_view(scratch));
    return true;
}

/* Keeps the bytes of the record, whose entry is at the end of the array or replaces a dummy. */
static bool hold(struct chooser *chooser, const struct covfun_record *record,
                 struct union_entry *entry)
{
    struct buffer *records = &chooser->member->records;
    uint64_t size = align_up(record->whole.size, COVERAGE_ALIGNMENT);

    entry->offset = records->size;
    entry->size = (size_t)size;
    return memory_limit_allows(chooser->limit, records->size + size, sidecar_name(chooser->sidecar),
                               whole_mapping, chooser->error) &&
           ((buffer_append(records, record->whole.data, (size_t)record->whole.size) &&
             buffer_append_zeros(records, (size_t)(size - record->whole.size))) ||
            out_of_memory(chooser, size));
}

/* Sets *entry to where the record belongs: to a new entry, or to that of a dummy which it replaces.
 * NULL: another record counts. */
static bool find_entry(struct chooser *chooser, uint64_t name, bool is_dummy,
                       struct union_entry **entry)
{
    struct union_member *member = chooser->member;
    size_t number = chooser->entry_of_name[name];

    *entry = NULL;
    if (number != 0) {
        if (member->entries[number - 1].is_dummy && !is_dummy)
            *entry = &member->entries[number - 1];
        return true;
    }
    if (!ARRAY_ROOM_FOR_ONE(member->entries, member->capacity, member->count))
        return out_of_memory(chooser, member->count * sizeof(**entry));
    *entry = &member->entries[member->count++];
    chooser->entry_of_name[name] = member->count;
    return true;
}

/* The first record's bytes are held even if it is not kept, in case that none is. */
static bool take_record(struct chooser *chooser, const struct covfun_record *record)
{
    struct unit *unit = find_unit(chooser, record->filenames_reference);
    struct union_entry *entry;
    uint64_t name;
    bool is_dummy;

    if (unit == NULL ||
        !intern_table_find(&chooser->names.by_reference, record->name_reference, &name) ||
        !covfun_tell_dummy(record, &is_dummy))
        return misfit(chooser);
    if (!find_entry(chooser, name, is_dummy, &entry))
        return false;
    if (entry == NULL)
        return true;
    *entry = (struct union_entry){
        .name = (size_t)name, .unit = (size_t)(unit - chooser->units), .is_dummy = is_dummy};
    if (!compute_digest(chooser, record, unit, entry))
        return false;
    entry->is_kept = !digest_set_has(chooser->seen, &entry->digest);
    return (!entry->is_kept && entry != chooser->member->entries) || hold(chooser, record, entry);
}

/* Whether the bytes begin with a whole record and its padding. */
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

static bool take_records(struct chooser *chooser, struct bytes *bytes)
{
    struct covfun_record record;

    while (chooser->fits && has_record(chooser, *bytes)) {
        if (!covfun_take(bytes, chooser->big, &record))
            return misfit(chooser);
        if (!take_record(chooser, &record))
            return false;
    }
    return true;
}

/* A bytes_sink for __llvm_covfun. */
static bool take_part(void *context, struct bytes part, struct error *error)
{
    struct chooser *chooser = context;
    struct buffer *pending = &chooser->pending;
    bool was_pending = pending->size != 0;
    struct bytes rest = part;

    chooser->left -= part.size;
    if (!chooser->fits)
        return true;
    if (was_pending) {
        if (!memory_limit_allows(chooser->limit, pending->size + part.size,
                                 sidecar_name(chooser->sidecar), whole_mapping, error))
            return false;
        if (!buffer_append(pending, part.data, (size_t)part.size))
            return out_of_memory(chooser, part.size);
        rest = buffer_view(pending);
    }
    if (!take_records(chooser, &rest))
        return false;
    if (was_pending) {
        memmove(pending->data, rest.data, (size_t)rest.size);
        pending->size = (size_t)rest.size;
        return true;
    }
    return buffer_append(pending, rest.data, (size_t)rest.size) ||
           out_of_memory(chooser, rest.size);
}

static bool read_records(struct chooser *chooser)
{
    const struct sidecar_section *section = sidecar_find(chooser->sidecar, SECTION_COVFUN);

    chooser->left = section->size;
    return sidecar_stream_section(chooser->sidecar, section, take_part, chooser, chooser->error);
}

/* ---- what is kept ---- */

static bool put_covmap(struct chooser *chooser)
{
    struct buffer *covmap = &chooser->member->coverage.covmap;

    for (size_t i = 0; i < chooser->unit_count; i++) {
        const struct unit *unit = &chooser->units[i];
        size_t start = covmap->size;

        if (!unit->is_needed)
            continue;
        if (!buffer_append(covmap, unit->header.data, COVMAP_HEADER_SIZE) ||
            !buffer_append(covmap, unit->filenames.data, (size_t)unit->filenames.size) ||
            !buffer_append_zeros(covmap, align_up(covmap->size, COVERAGE_ALIGNMENT) - covmap->size))
            return out_of_memory(chooser, covmap->size);
        store_u32(covmap->data + start + COVMAP_VERSION, chooser->version, chooser->big);
    }
    return true;
}

static bool put_names(struct chooser *chooser)
{
    struct names needed = {0};
    const struct names *names = &chooser->names;
    uint64_t number;
    bool done = true;

    for (size_t i = 0; done && i < names->count; i++) {
        size_t entry = chooser->entry_of_name[i];

        if (entry != 0 && chooser->member->entries[entry - 1].is_kept)
            done = names_add(&needed, names_get(names, i), &number);
    }
    done = (done && names_encode(&needed, &chooser->member->coverage.names)) ||
           out_of_memory(chooser, needed.text.size);
    names_free(&needed);
    return done;
}

static bool write_records(const void *records, bytes_sink sink, void *context, struct error *error)
{
    const struct union_member *member = records;
    bool done = true;

    for (size_t i = 0; done && i < member->count; i++) {
        const struct union_entry *entry = &member->entries[i];

        if (entry->is_kept)
            done = sink(context, (struct bytes){member->records.data + entry->offset, entry->size},
                        error);
    }
    return done;
}

static bool put_coverage(struct chooser *chooser)
{
    struct union_member *member = chooser->member;
    struct object_coverage *coverage = &member->coverage;

    for (size_t i = 0; i < member->count; i++)
        member->kept_count += member->entries[i].is_kept;
    if (member->kept_count == 0)
        member->kept_count = member->entries[0].is_kept = true;
    for (size_t i = 0; i < member->count; i++) {
        const struct union_entry *entry = &member->entries[i];

        if (!entry->is_kept)
            continue;
        coverage->covfun_size += entry->size;
        chooser->units[entry->unit].is_needed = true;
    }
    coverage->write_covfun = write_records;
    coverage->records = member;
    return put_covmap(chooser) && put_names(chooser);
}

static void free_chooser(struct chooser *chooser)
{
    names_free(&chooser->names);
    free(chooser->entry_of_name);
    buffer_free(&chooser->covmap);
    free(chooser->units);
    intern_table_free(&chooser->unit_of_reference);
    free(chooser->files);
    buffer_free(&chooser->pending);
    buffer_free(&chooser->scratch);
}

bool union_member_choose(struct union_member *member, const struct sidecar *sidecar,
                         const struct digest_set *seen, bool *fits, struct error *error)
{
    struct chooser chooser = {.member = member,
                              .sidecar = sidecar,
                              .seen = seen,
                              .error = error,
                              .big = sidecar_facts(sidecar)->elf_data == ELFDATA2MSB,
                              .fits = true,
                              .limit = sidecar_memory_limit(sidecar)};
    bool done = read_names(&chooser);

    done = done && (!chooser.fits || read_units(&chooser));
    done = done && (!chooser.fits || read_records(&chooser));
    if (chooser.pending.size != 0 || member->count == 0)
        chooser.fits = false;
    done = done && (!chooser.fits || put_coverage(&chooser));
    *fits = chooser.fits;
    free_chooser(&chooser);
    return done;
}

void union_member_free(struct union_member *member)
{
    free(member->entries);
    buffer_free(&member->records);
    buffer_free(&member->coverage.covmap);
    buffer_free(&member->coverage.names);
    *member = (struct union_member){0};
}
