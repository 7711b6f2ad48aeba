/*
 * Copying a dump to a temporary file: see spool.h.
 *
 * What is needed of an ELF core is decided when its headers and notes have been read, which come
 * first: the memory of mapped files (by the note NT_FILE), since images are among these, and the
 * anonymous memory right behind them, where an image's zero-initialized data is. Everything is kept
 * if the notes come later, if there is no NT_FILE, or if the dump is no ELF core.
 *
 * Pages of zeros become holes. What is not zero is limited to a multiple of the size of a
 * compressed file, so that a small one cannot fill the disk.
 */
#include "split/snapshot/spool.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory_limit.h"
#include "common/base/numbers.h"
#include "common/codec/zstd.h"
#include "common/elf_file/elf_file.h"
#include "split/snapshot/address_ranges.h"
#include "split/snapshot/elf_header.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/nt_file.h"

#define CHUNK_SIZE ((size_t)256 << 10)
#define PAGE_SIZE  ((size_t)4096) /* of holes in files */
/* The headers and notes of a core of 65,535 mappings, the most that a kernel allows by default,
 * take some 20 MiB. */
#define HEADERS_MAX ((uint64_t)64 << 20)
#define FRONT_SIZE  16

struct spool {
    const char *path;
    const char *directory; /* of the temporary file */
    int from, to;
    struct codec_file *zstd; /* NULL: not compressed */
    uint64_t position;       /* in the dump */
    bool has_ended;
    struct address_ranges kept; /* by offset in the dump */
    bool keeps_all;
    uint64_t written;
    size_t front_size, front_used; /* the first bytes, which have been read already */
    uint8_t front[FRONT_SIZE];
    uint8_t chunk[CHUNK_SIZE];
};

/* ---- formats of compressed files ---- */

bool spool_check_format(struct bytes front, const char *path, struct error *error)
{
    static const struct {
        const char *program;
        const char *magic;
        size_t size;
    } formats[] = {
        {"gzip", "\x1f\x8b", 2},
        {"xz",
         "\xfd"
         "7zXZ",
         5},
        {"lz4", "\x04\x22\x4d\x18", 4},
        {"bzip2", "BZh", 3},
    };

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        if (front.size >= formats[i].size &&
            memcmp(front.data, formats[i].magic, formats[i].size) == 0)
            return error_set(error,
                             "%s: compressed by %s; decompress it on the way: %s -dc FILE | "
                             "covsplit snapshot --core - ...",
                             path, formats[i].program, formats[i].program);
    }
    return true;
}

/* ---- reading ---- */

static bool read_plain(struct spool *spool, uint8_t *to, size_t size, size_t *have,
                       struct error *error)
{
    *have = 0;
    while (spool->front_used < spool->front_size && *have < size)
        to[(*have)++] = spool->front[spool->front_used++];
    while (*have < size) {
        ssize_t part = read(spool->from, to + *have, size - *have);

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return error_set_errno(error, errno, "%s: cannot read", spool->path);
        if (part == 0)
            break;
        *have += (size_t)part;
    }
    return true;
}

/* ---- writing ---- */

static bool write_out(struct spool *spool, const uint8_t *data, size_t size, uint64_t offset,
                      struct error *error)
{
    uint64_t limit =
        spool->zstd == NULL ? UINT64_MAX : memory_limit_for(codec_file_consumed(spool->zstd));

    spool->written += size;
    if (spool->written > limit)
        return error_set(error,
                         "%s: decompresses to more than %llu bytes that are not zero, which is too "
                         "much for its size; if you trust the file: zstd -dc FILE | covsplit "
                         "snapshot --core - ...",
                         spool->path, (unsigned long long)limit);
    while (size != 0) {
        ssize_t part = pwrite(spool->to, data, size, (off_t)offset);

        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return error_set_errno(error, part < 0 ? errno : ENOSPC,
                                   "cannot write a temporary file in %s; set TMPDIR to a directory "
                                   "with more room",
                                   spool->directory);
        data += part;
        offset += (uint64_t)part;
        size -= (size_t)part;
    }
    return true;
}

/* The size of the first pages that are all zeros, or are not. */
static size_t same_pages(const uint8_t *data, size_t size, uint64_t offset, bool *is_zero)
{
    size_t end = 0;

    while (end < size) {
        size_t page = PAGE_SIZE - (size_t)((offset + end) % PAGE_SIZE);
        struct bytes view = {data + end, page < size - end ? page : size - end};
        bool zero = bytes_all_zero(view);

        if (end == 0)
            *is_zero = zero;
        else if (zero != *is_zero)
            break;
        end += (size_t)view.size;
    }
    return end;
}

static bool write_pages(struct spool *spool, const uint8_t *data, size_t size, uint64_t offset,
                        struct error *error)
{
    while (size != 0) {
        bool is_zero;
        size_t part = same_pages(data, size, offset, &is_zero);

        if (!is_zero && !write_out(spool, data, part, offset, error))
            return false;
        data += part;
        offset += part;
        size -= part;
    }
    return true;
}

/* Writes those parts of a chunk that are kept. */
static bool write_chunk(struct spool *spool, size_t size, struct error *error)
{
    size_t done = 0;

    while (done < size) {
        uint64_t offset = spool->position + done, at, run = size - done;
        bool is_kept = spool->keeps_all || address_ranges_find(&spool->kept, offset, &at, &run);

        if (run > size - done)
            run = size - done;
        if (is_kept && !write_pages(spool, spool->chunk + done, (size_t)run, offset, error))
            return false;
        done += (size_t)run;
    }
    return true;
}

/* Copies up to an offset in the dump, or to its end. */
static bool copy_until(struct spool *spool, uint64_t end, struct error *error)
{
    while (spool->position < end && !spool->has_ended) {
        uint64_t left = end - spool->position;
        size_t wanted = left < CHUNK_SIZE ? (size_t)left : CHUNK_SIZE, have;

        if (spool->zstd != NULL ? !codec_file_read(spool->zstd, spool->chunk, wanted, &have, error)
                                : !read_plain(spool, spool->chunk, wanted, &have, error))
            return false;
        if (!write_chunk(spool, have, error))
            return false;
        spool->position += have;
        spool->has_ended = have < wanted;
        if (spool->position > INT64_MAX - CHUNK_SIZE)
            return error_set(error, "%s: larger than any file can be; it is damaged", spool->path);
    }
    return true;
}

/* ---- what is kept of an ELF core ---- */

/* The headers and notes of the core, as the copy has them. */
struct outline {
    struct elf_header header;
    struct buffer table, notes;  /* the program headers, and the contents of PT_NOTE */
    struct address_ranges files; /* where files were mapped; the offsets are of no use */
};

/* The header of a segment; all zeros, PT_NULL, beyond the last. */
static struct elf_segment segment_at(const struct outline *outline, uint64_t index)
{
    struct elf_segment segment = {0};

    elf_segment_read(&outline->header, buffer_view(&outline->table), index, &segment);
    return segment;
}

/* Gives the copy the size of what was read so far, which may end with a hole. */
static bool extend(const struct spool *spool, struct error *error)
{
    return ftruncate(spool->to, (off_t)spool->position) == 0 ||
           error_set_errno(error, errno, "cannot write a temporary file in %s", spool->directory);
}

/* Copies the dump up to the end of a part, and reads that part. *is_there is false if the dump does
 * not have it, or it is not where or what headers and notes can be. */
static bool read_back(struct spool *spool, uint64_t offset, uint64_t size, struct buffer *to,
                      bool *is_there, struct error *error)
{
    uint64_t end;

    *is_there = false;
    if (size > HEADERS_MAX || !add_fits(offset, size, &end) || end > HEADERS_MAX)
        return true;
    if (!copy_until(spool, end, error))
        return false;
    if (spool->position < end)
        return true;
    if (!buffer_reserve(to, (size_t)size))
        return error_out_of_memory(error, spool->path, size);
    if (!extend(spool, error))
        return false;
    if (pread(spool->to, to->data, (size_t)size, (off_t)offset) != (ssize_t)size)
        return error_set_errno(error, EIO, "cannot read a temporary file in %s", spool->directory);
    to->size = (size_t)size;
    *is_there = true;
    return true;
}

/* Reads the header, and sets *is_core if program headers in a known number follow. (More than
 * 65,534 are counted at the end of the file.) */
static bool read_header(struct spool *spool, struct outline *outline, bool *is_core,
                        struct error *error)
{
    struct buffer bytes = {0};
    bool done = read_back(spool, 0, ELF_HEADER_SIZE_MAX, &bytes, is_core, error);

    *is_core = done && *is_core && elf_header_read(buffer_view(&bytes), &outline->header) &&
               outline->header.segment_count != PN_XNUM;
    buffer_free(&bytes);
    return done;
}

static bool add_files(struct outline *outline, struct bytes note)
{
    struct nt_file list;
    struct nt_file_mapping mapping;

    nt_file_open(&list, note, &outline->header);
    while (nt_file_next(&list, &mapping)) {
        struct address_range range = {.address = mapping.start, .size = mapping.size};

        if (!address_ranges_add(&outline->files, &range))
            return false;
    }
    return true;
}

static bool read_notes(struct spool *spool, struct outline *outline,
                       const struct elf_segment *segment, struct error *error)
{
    struct elf_note_list list = {.big_endian = outline->header.big_endian};
    struct elf_note note;
    size_t next = 0;
    bool is_there;

    if (!read_back(spool, segment->offset, segment->file_size, &outline->notes, &is_there, error))
        return false;
    list.bytes = buffer_view(&outline->notes);
    while (is_there && elf_note_next(&list, &next, &note)) {
        if (note.type == NT_FILE && !add_files(outline, note.description))
            return error_out_of_memory(error, spool->path, note.description.size);
    }
    address_ranges_sort(&outline->files);
    return true;
}

/* Reads the notes if they come before the memory. */
static bool find_notes(struct spool *spool, struct outline *outline, struct error *error)
{
    struct elf_segment notes = {0};
    uint64_t first = UINT64_MAX;

    for (uint64_t i = 0; i < outline->header.segment_count; i++) {
        struct elf_segment segment = segment_at(outline, i);

        if (segment.type == PT_LOAD && segment.file_size != 0 && segment.offset < first)
            first = segment.offset;
        if (segment.type == PT_NOTE && notes.type == PT_NULL)
            notes = segment;
    }
    return notes.type == PT_NULL || first < spool->position ||
           !range_within(notes.offset, notes.file_size, spool->position, first - spool->position) ||
           read_notes(spool, outline, &notes, error);
}

/* Whether memory is that of a mapped file, or begins where one ends. */
static bool is_of_file(const struct outline *outline, uint64_t address, uint64_t size)
{
    uint64_t offset, run;

    if (address_ranges_find(&outline->files, address, &offset, &run) || run < size)
        return true;
    return address != 0 && address_ranges_find(&outline->files, address - 1, &offset, &run);
}

/* Decides what is kept, and takes the rest out of the program headers of the copy. *end is where
 * the last kept part ends. */
static bool choose(struct spool *spool, struct outline *outline, uint64_t *end, struct error *error)
{
    *end = spool->position;
    for (uint64_t i = 0; i < outline->header.segment_count; i++) {
        struct elf_segment segment = segment_at(outline, i);
        struct address_range part = {.address = segment.offset, .size = segment.file_size};

        if (segment.type != PT_LOAD)
            continue;
        if (!is_of_file(outline, segment.address, segment.memory_size)) {
            elf_segment_drop(&outline->header, outline->table.data, i);
            continue;
        }
        if (!address_ranges_add(&spool->kept, &part))
            return error_out_of_memory(error, spool->path, spool->kept.count * sizeof(part));
        if (part.size <= UINT64_MAX - part.address && part.address + part.size > *end)
            *end = part.address + part.size;
    }
    address_ranges_sort(&spool->kept);
    spool->keeps_all = false;
    return write_out(spool, outline->table.data, outline->table.size,
                     outline->header.segments_offset, error);
}

/* Where the last part of the core ends that a program header describes. */
static uint64_t end_of_core(const struct outline *outline)
{
    uint64_t last = 0;

    for (uint64_t i = 0; i < outline->header.segment_count; i++) {
        struct elf_segment segment = segment_at(outline, i);
        uint64_t end;

        if (!add_fits(segment.offset, segment.file_size, &end))
            return UINT64_MAX;
        last = end > last ? end : last;
    }
    return last;
}

/* Copies the headers and notes of an ELF core, and decides what is kept of the rest. */
static bool plan_core(struct spool *spool, struct outline *outline, uint64_t *end,
                      struct error *error)
{
    const struct elf_header *header = &outline->header;
    bool is_core;

    *end = UINT64_MAX;
    if (!read_header(spool, outline, &is_core, error))
        return false;
    if (is_core && !read_back(spool, header->segments_offset,
                              header->segment_count * header->segment_entry_size, &outline->table,
                              &is_core, error))
        return false;
    if (!is_core)
        return true;
    *end = end_of_core(outline);
    return find_notes(spool, outline, error) &&
           (outline->files.count == 0 || choose(spool, outline, end, error));
}

/* *end is how far the dump is copied: of what is no dump, only the beginning. */
static bool plan(struct spool *spool, struct outline *outline, uint64_t *end, struct error *error)
{
    struct buffer front = {0};
    bool is_there, is_core;

    if (!read_back(spool, 0, SELFMAG, &front, &is_there, error)) {
        buffer_free(&front);
        return false;
    }
    is_core = is_there && memcmp(front.data, ELFMAG, SELFMAG) == 0;
    buffer_free(&front);
    if (is_core)
        return plan_core(spool, outline, end, error);
    *end = 0;
    return true;
}

/* ---- the copy ---- */

static bool copy(struct spool *spool, struct error *error)
{
    struct outline outline = {0};
    uint64_t end;
    bool done = plan(spool, &outline, &end, error) && copy_until(spool, end, error);

    buffer_free(&outline.table);
    buffer_free(&outline.notes);
    address_ranges_free(&outline.files);
    return done && extend(spool, error);
}

static int create_file(const char *directory, struct error *error)
{
    char name[PATH_MAX];
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR) &&
        snprintf(name, sizeof(name), "%s/covsplit-XXXXXX", directory) < (int)sizeof(name)) {
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
            unlink(name);
    }
    if (fd < 0)
        error_set_errno(error, errno,
                        "cannot create a temporary file in %s; set TMPDIR to another directory",
                        directory);
    return fd;
}

static bool copy_from(struct spool *spool, struct error *error)
{
    struct bytes front = {spool->front, 0};
    size_t have;
    bool done;

    if (!read_plain(spool, spool->front, sizeof(spool->front), &have, error))
        return false;
    front.size = have;
    if (!spool_check_format(front, spool->path, error))
        return false;
    if (codec_file_recognize(front)) {
        spool->zstd = codec_file_open(spool->from, front, spool->path, error);
        if (spool->zstd == NULL)
            return false;
    } else {
        spool->front_size = have;
    }
    done = copy(spool, error);
    codec_file_close(spool->zstd);
    return done;
}

int spool_copy(int fd, const char *path, struct error *error)
{
    struct spool *spool = calloc(1, sizeof(*spool));
    const char *directory = getenv("TMPDIR");
    int to = -1;

    if (spool == NULL) {
        error_out_of_memory(error, path, sizeof(*spool));
        return -1;
    }
    spool->path = path;
    spool->directory = directory != NULL && directory[0] != '\0' ? directory : "/tmp";
    spool->from = fd;
    spool->keeps_all = true;
    spool->to = create_file(spool->directory, error);
    if (spool->to >= 0 && copy_from(spool, error))
        to = spool->to;
    else if (spool->to >= 0)
        close(spool->to);
    address_ranges_free(&spool->kept);
    free(spool);
    return to;
}
