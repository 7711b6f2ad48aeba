/*
 * Cores that can only be read from front to back: from a pipe, or compressed by zstd as
 * systemd-coredump does.
 *
 * Such a core is copied to a temporary file without a name, of which only those parts are written
 * that a snapshot can need: a core of gigabytes, most of which is heap, takes as little room as the
 * images that were mapped in it. What is left out appears in the copy's program headers as memory
 * that is not in the core.
 *
 * The needed parts are known when headers and notes have been read, which come first: the memory of
 * mapped files (by the note NT_FILE), since images are among these, and the anonymous memory right
 * behind them, where an image's zero-initialized data is. Everything is kept if the notes come
 * later, or if there is no NT_FILE.
 *
 * Pages of zeros become holes. What is not zero is limited to a multiple of the size of a
 * compressed file, so that a small one cannot fill the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory_limit.h"
#include "common/codec/zstd.h"
#include "common/elf_file/elf_file.h"
#include "split/cli/memory.h"
#include "split/snapshot/snapshot.h"

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
    uint64_t position;       /* in the core */
    bool has_ended;
    uint64_t written;
    struct error *error;
    bool failed; /* with the error: nothing is read or written any more */

    bool keeps_all;
    struct address_ranges kept;  /* by offset in the core */
    struct elf_file elf;         /* header and program headers */
    struct buffer table, notes;  /* the program headers, and the contents of PT_NOTE */
    struct address_ranges files; /* where files were mapped; the offsets are of no use */

    size_t front_size, front_used; /* the first bytes, which have been read already */
    uint8_t front[FRONT_SIZE];
    uint8_t chunk[CHUNK_SIZE];
};

/* If the first bytes of a file are those of a compressed one that only another program can
 * decompress, the error says how to do that. */
static bool check_format(struct bytes front, const char *path, struct error *error)
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

/* ---- copying ---- */

static size_t read_plain(struct spool *spool, uint8_t *to, size_t size)
{
    size_t have = 0;

    while (spool->front_used < spool->front_size && have < size)
        to[have++] = spool->front[spool->front_used++];
    while (have < size) {
        ssize_t part = read(spool->from, to + have, size - have);

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            spool->failed = !error_set_errno(spool->error, errno, "%s: cannot read", spool->path);
        if (part <= 0)
            break;
        have += (size_t)part;
    }
    return have;
}

static void write_out(struct spool *spool, const uint8_t *data, size_t size, uint64_t offset)
{
    uint64_t limit =
        spool->zstd == NULL ? UINT64_MAX : memory_limit_for(codec_file_consumed(spool->zstd));

    spool->written += size;
    if (spool->written > limit)
        spool->failed =
            !error_set(spool->error,
                       "%s: decompresses to more than %llu bytes that are not zero, which is too "
                       "much for its size; if you trust the file: zstd -dc FILE | covsplit "
                       "snapshot --core - ...",
                       spool->path, (unsigned long long)limit);
    while (size != 0 && !spool->failed) {
        ssize_t part = pwrite(spool->to, data, size, (off_t)offset);

        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0) {
            spool->failed = !error_set_errno(
                spool->error, part < 0 ? errno : ENOSPC,
                "cannot write a temporary file in %s; set TMPDIR to a directory with more room",
                spool->directory);
            return;
        }
        data += part;
        offset += (uint64_t)part;
        size -= (size_t)part;
    }
}

/* Writes the pages that are not all zeros, as many at a time as follow each other. */
static void write_pages(struct spool *spool, const uint8_t *data, size_t size, uint64_t offset)
{
    size_t begin = 0, end = 0;

    while (end < size) {
        size_t page = PAGE_SIZE - (size_t)((offset + end) % PAGE_SIZE);
        struct bytes view = {data + end, page < size - end ? page : size - end};

        if (bytes_all_zero(view)) {
            if (begin != end)
                write_out(spool, data + begin, end - begin, offset + begin);
            begin = end + (size_t)view.size;
        }
        end += (size_t)view.size;
    }
    if (begin != end)
        write_out(spool, data + begin, end - begin, offset + begin);
}

/* Copies up to an offset in the core, or to its end: those parts that are kept. */
static void copy_until(struct spool *spool, uint64_t end)
{
    while (spool->position < end && !spool->has_ended && !spool->failed) {
        uint64_t left = end - spool->position, at, run;
        size_t wanted = left < CHUNK_SIZE ? (size_t)left : CHUNK_SIZE, have = 0;

        if (spool->zstd == NULL)
            have = read_plain(spool, spool->chunk, wanted);
        else if (!codec_file_read(spool->zstd, spool->chunk, wanted, &have, spool->error))
            spool->failed = true;
        for (size_t done = 0; done < have && !spool->failed; done += (size_t)run) {
            uint64_t offset = spool->position + done;
            bool is_kept = address_ranges_find(&spool->kept, offset, &at, &run);

            if (run > have - done || spool->keeps_all)
                run = have - done;
            if (is_kept || spool->keeps_all)
                write_pages(spool, spool->chunk + done, (size_t)run, offset);
        }
        spool->position += have;
        spool->has_ended = have < wanted;
        if (spool->position > INT64_MAX - CHUNK_SIZE)
            spool->failed = !error_set(
                spool->error, "%s: larger than any file can be; it is damaged", spool->path);
    }
}

/* Gives the copy the size of what was read so far, which may end with a hole. */
static void extend(struct spool *spool)
{
    if (!spool->failed && ftruncate(spool->to, (off_t)spool->position) != 0)
        spool->failed = !error_set_errno(spool->error, errno, "cannot write a temporary file in %s",
                                         spool->directory);
}

/* ---- what is kept ---- */

/* Copies the core up to the end of a part, and reads that part into the buffer. It is empty if the
 * core does not have it, or it is not where or what headers and notes can be. */
static struct bytes read_back(struct spool *spool, uint64_t offset, uint64_t size,
                              struct buffer *to)
{
    uint64_t end;

    to->size = 0;
    if (size > HEADERS_MAX || !add_fits(offset, size, &end) || end > HEADERS_MAX)
        return (struct bytes){0};
    copy_until(spool, end);
    extend(spool);
    if (spool->position < end || spool->failed)
        return (struct bytes){0};
    exit_unless_allocated(buffer_reserve(to, (size_t)size), size);
    if (pread(spool->to, to->data, (size_t)size, (off_t)offset) == (ssize_t)size)
        to->size = (size_t)size;
    else
        spool->failed = !error_set_errno(spool->error, EIO, "cannot read a temporary file in %s",
                                         spool->directory);
    return buffer_view(to);
}

/* Lists the mapped files, if the notes come before the memory. */
static void read_notes(struct spool *spool)
{
    Elf64_Phdr notes = {0};
    struct elf_note_list list = {.big_endian = spool->elf.big_endian};
    struct elf_note note;
    uint64_t first = UINT64_MAX;
    size_t next = 0;

    for (uint64_t i = 0; i < spool->elf.segment_count; i++) {
        const Elf64_Phdr phdr = elf_file_segment(&spool->elf, i);

        if (phdr.p_type == PT_LOAD && phdr.p_filesz != 0 && phdr.p_offset < first)
            first = phdr.p_offset;
        if (phdr.p_type == PT_NOTE && notes.p_type == PT_NULL)
            notes = phdr;
    }
    if (notes.p_type == PT_NULL || first < spool->position ||
        !range_within(notes.p_offset, notes.p_filesz, spool->position, first - spool->position))
        return;
    list.bytes = read_back(spool, notes.p_offset, notes.p_filesz, &spool->notes);
    while (elf_note_next(&list, &next, &note)) {
        struct nt_file files;
        struct nt_file_mapping mapping;

        if (note.type != NT_FILE)
            continue;
        nt_file_open(&files, note.description, spool->elf.wide, spool->elf.big_endian);
        while (nt_file_next(&files, &mapping))
            address_ranges_add(&spool->files, mapping.start, mapping.size, 0);
    }
    address_ranges_sort(&spool->files);
}

/* True if memory is that of a mapped file, or begins where one ends. */
static bool is_of_file(const struct spool *spool, uint64_t address, uint64_t size)
{
    uint64_t offset, run;

    if (address_ranges_find(&spool->files, address, &offset, &run) || run < size)
        return true;
    return address != 0 && address_ranges_find(&spool->files, address - 1, &offset, &run);
}

/* Decides what is kept, by the mapped files, and takes the other segments out of the program
 * headers of the copy. Returns the end of the last part that is needed. */
static uint64_t choose(struct spool *spool)
{
    bool knows_files = spool->files.count != 0, wide = spool->elf.wide;
    uint64_t end = knows_files ? spool->position : 0;

    for (uint64_t i = 0; i < spool->elf.segment_count; i++) {
        const Elf64_Phdr phdr = elf_file_segment(&spool->elf, i);
        uint64_t part_end;

        if (knows_files && phdr.p_type != PT_LOAD)
            continue;
        if (knows_files && !is_of_file(spool, phdr.p_vaddr, phdr.p_memsz)) {
            uint8_t *entry = spool->table.data + i * ELF_SIZE(wide, Phdr);

            if (wide)
                memset(entry + offsetof(Elf64_Phdr, p_filesz), 0, sizeof(uint64_t));
            else
                memset(entry + offsetof(Elf32_Phdr, p_filesz), 0, sizeof(uint32_t));
            continue;
        }
        if (knows_files)
            address_ranges_add(&spool->kept, phdr.p_offset, phdr.p_filesz, phdr.p_offset);
        if (!add_fits(phdr.p_offset, phdr.p_filesz, &part_end))
            part_end = knows_files ? 0 : UINT64_MAX;
        end = part_end > end ? part_end : end;
    }
    address_ranges_sort(&spool->kept);
    spool->keeps_all = !knows_files;
    if (knows_files)
        write_out(spool, spool->table.data, spool->table.size, spool->elf.header.e_phoff);
    return end;
}

/* Copies what is needed. Of what is no core, that is only the beginning; of a core whose program
 * headers are not there or in no known number (more than 65,534 are counted at the end of the
 * file), everything. */
static void copy(struct spool *spool)
{
    struct elf_file *elf = &spool->elf;
    uint64_t end = 0;

    if (elf_file_open(elf, read_back(spool, 0, sizeof(Elf64_Ehdr), &spool->table)) &&
        elf->header.e_phnum != 0) {
        if (elf->header.e_phnum != PN_XNUM && elf->header.e_phentsize == ELF_SIZE(elf->wide, Phdr))
            elf->segments =
                read_back(spool, elf->header.e_phoff,
                          elf->header.e_phnum * ELF_SIZE(elf->wide, Phdr), &spool->table);
        elf->segment_count = elf->segments.size / ELF_SIZE(elf->wide, Phdr);
        read_notes(spool);
        end = elf->segment_count == 0 ? UINT64_MAX : choose(spool);
    }
    copy_until(spool, end);
    extend(spool);
}

/* ---- the copy ---- */

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

int spool_open(int fd, const char *path, struct error *error)
{
    struct spool *spool = command_array(1, sizeof(*spool));
    const char *directory = getenv("TMPDIR");
    struct bytes front = {spool->front, 0};
    struct stat status;
    int to = -1;

    spool->path = path;
    spool->directory = directory != NULL && directory[0] != '\0' ? directory : "/tmp";
    spool->from = fd;
    spool->keeps_all = true;
    spool->error = error;
    if (fstat(fd, &status) != 0)
        spool->failed = !error_set_errno(error, errno, "%s: cannot be read", path);
    else if (S_ISDIR(status.st_mode))
        spool->failed = !error_set(error, "%s: is a directory; give a core", path);
    else
        front.size = read_plain(spool, spool->front, sizeof(spool->front));
    spool->failed = spool->failed || !check_format(front, path, error);
    if (!spool->failed && S_ISREG(status.st_mode) && !codec_file_recognize(front)) {
        to = fd;
    } else if (!spool->failed && (to = create_file(spool->directory, error)) >= 0) {
        spool->to = to;
        if (codec_file_recognize(front)) {
            spool->zstd = codec_file_open(fd, front, path, error);
            spool->failed = spool->zstd == NULL;
        }
        spool->front_size = spool->zstd == NULL ? (size_t)front.size : 0;
        copy(spool);
        if (spool->failed) {
            close(to);
            to = -1;
        }
    }
    codec_file_close(spool->zstd);
    buffer_free(&spool->table);
    buffer_free(&spool->notes);
    free(spool->kept.items);
    free(spool->files.items);
    free(spool);
    return to;
}
