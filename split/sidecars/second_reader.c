/*
 * Reading an image in a child process by LIEF: see second_reader.h.
 *
 * The child writes the outline into a pipe, in just the words of formats/coff_outline.c and
 * macho/outline.c, so to compare is to compare bytes, and the first line that differs says what is
 * wrong.
 */
#ifdef COVSPLIT_WITH_LIEF
/* First of all: where there is no bool yet, it defines one. */
#include <LIEF/PE.h>

#include <LIEF/MachO.h>
#endif

#include "split/sidecars/second_reader.h"

#ifdef COVSPLIT_WITH_LIEF

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "formats/image.h"
#include "split/cli/message.h"
#include "split/split/universal.h"

#define LIEF_LIBRARY "libLIEF.so.0"

/* Exit codes of the child. */
#define CHILD_DONE       0
#define CHILD_NO_LIBRARY 1
#define CHILD_UNREADABLE 2

#define CHILD_SECONDS    300

/* LC_MAIN, and where entryoff is in it. LIEF 0.9 has no name for the first in C. */
#define MACHO_MAIN_COMMAND 0x80000028u
#define MACHO_MAIN_ENTRY   8
/* More is no outline. */
#define OUTLINE_MAX (16u << 20)

/* ---- the child ---- */

static void print_pe(FILE *stream, const Pe_Binary_t *binary)
{
    fprintf(stream, "entry 0x%" PRIx32 ", base 0x%" PRIx64 ", size 0x%" PRIx32 "\n",
            binary->optional_header.addressof_entrypoint, binary->optional_header.imagebase,
            binary->optional_header.sizeof_image);
    for (size_t i = 0; binary->data_directories[i] != NULL; i++)
        fprintf(stream, "directory %zu at 0x%" PRIx32 " of 0x%" PRIx32 "\n", i,
                binary->data_directories[i]->rva, binary->data_directories[i]->size);
    for (size_t i = 0; binary->sections[i] != NULL; i++) {
        const Pe_Section_t *section = binary->sections[i];

        fprintf(stream,
                "section %s at 0x%" PRIx64 " of 0x%" PRIx32 ", in the file at 0x%" PRIx64
                " of 0x%" PRIx64 ", 0x%" PRIx32 "\n",
                section->name, section->virtual_address, section->virtual_size, section->offset,
                section->size, section->characteristics);
    }
}

static void print_command(FILE *stream, const Macho_Command_t *command)
{
    uint32_t entry_offset = 0;

    fprintf(stream, "load command 0x%x of %" PRIu32 " at %" PRIu32 "\n", (unsigned)command->command,
            command->size, command->offset);
    if ((uint32_t)command->command != MACHO_MAIN_COMMAND)
        return;
    if (command->size >= MACHO_MAIN_ENTRY + sizeof(entry_offset))
        memcpy(&entry_offset, command->data + MACHO_MAIN_ENTRY, sizeof(entry_offset));
    fprintf(stream, "entry 0x%" PRIx32 "\n", entry_offset);
}

static void print_macho(FILE *stream, const Macho_Binary_t *binary)
{
    fprintf(stream, "cpu 0x%x, type %u, %" PRIu32 " load commands, flags 0x%" PRIx32 "\n",
            (unsigned)binary->header.cpu_type, (unsigned)binary->header.file_type,
            binary->header.nb_cmds, binary->header.flags);
    for (size_t i = 0; binary->commands[i] != NULL; i++)
        print_command(stream, binary->commands[i]);
    for (size_t i = 0; binary->segments[i] != NULL; i++) {
        const Macho_Segment_t *segment = binary->segments[i];

        fprintf(stream,
                "segment %s at 0x%" PRIx64 " of 0x%" PRIx64 ", in the file at 0x%" PRIx64
                " of 0x%" PRIx64 ", protection %" PRIu32 " of %" PRIu32 ", %" PRIu32 " sections\n",
                segment->name, segment->virtual_address, segment->virtual_size,
                segment->file_offset, segment->file_size, segment->init_protection,
                segment->max_protection, segment->numberof_sections);
    }
    for (size_t i = 0; binary->sections[i] != NULL; i++) {
        const Macho_Section_t *section = binary->sections[i];

        fprintf(stream,
                "section %s at 0x%" PRIx64 " of 0x%" PRIx64 ", in the file at 0x%" PRIx64
                ", alignment %" PRIu32 ", type %u, attributes 0x%" PRIx32 ", 0x%" PRIx32 "\n",
                section->name, section->virtual_address, section->size, section->offset,
                section->alignment, (unsigned)section->type, section->flags, section->reserved3);
    }
}

/* LIEF talks a lot. */
static void be_silent(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
}

static bool read_pe(void *library, const char *path, FILE *stream)
{
    Pe_Binary_t *(*parse)(const char *) = NULL;
    const Pe_Binary_t *binary;

    *(void **)&parse = dlsym(library, "pe_parse");
    binary = parse == NULL ? NULL : parse(path);
    if (binary != NULL)
        print_pe(stream, binary);
    return binary != NULL;
}

/* A universal image has a binary for each slice. */
static bool read_macho(void *library, const char *path, FILE *stream)
{
    Macho_Binary_t **(*parse)(const char *) = NULL;
    Macho_Binary_t **binaries;

    *(void **)&parse = dlsym(library, "macho_parse");
    binaries = parse == NULL ? NULL : parse(path);
    for (size_t i = 0; binaries != NULL && binaries[i] != NULL; i++)
        print_macho(stream, binaries[i]);
    return binaries != NULL && binaries[0] != NULL;
}

static int read_by_lief(const char *path, bool is_pe, int to)
{
    FILE *stream = fdopen(to, "w");
    void *library = dlopen(LIEF_LIBRARY, RTLD_NOW);

    if (library == NULL || stream == NULL)
        return CHILD_NO_LIBRARY;
    return (is_pe ? read_pe : read_macho)(library, path, stream) && fflush(stream) == 0
               ? CHILD_DONE
               : CHILD_UNREADABLE;
}

static void run_child(const char *path, bool is_pe, int to)
{
    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_SECONDS);
    be_silent();
    _exit(read_by_lief(path, is_pe, to));
}

/* ---- the parent ---- */

/* *is_whole is false where the child says too much, or is not heard to the end. */
static bool read_all(int from, struct buffer *text, bool *is_whole, const char *path,
                     struct error *error)
{
    char part[4096];
    ssize_t size;

    while ((size = read(from, part, sizeof(part))) > 0 && text->size <= OUTLINE_MAX) {
        if (!buffer_append(text, part, (size_t)size))
            return error_out_of_memory(error, path, text->size);
    }
    *is_whole = size == 0;
    return true;
}

/* *result is what waitpid tells of the child; *is_whole as in read_all, also where there is none.
 */
static bool ask_child(const char *path, bool is_pe, struct buffer *text, int *result,
                      bool *is_whole, struct error *error)
{
    int ends[2];
    pid_t child;
    bool done;

    *is_whole = false;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return true;
    child = fork();
    if (child == 0)
        run_child(path, is_pe, ends[1]);
    close(ends[1]);
    done = child <= 0 || read_all(ends[0], text, is_whole, path, error);
    close(ends[0]);
    if (child > 0 && waitpid(child, result, 0) != child)
        *is_whole = false;
    return done;
}

/* The line that the first difference is in. */
static void find_line(const struct buffer *text, size_t position, char *line, size_t size)
{
    size_t start = position < text->size ? position : text->size, end = start;

    while (start > 0 && text->data[start - 1] != '\n')
        start--;
    while (end < text->size && text->data[end] != '\n')
        end++;
    snprintf(line, size, "%.*s", (int)(end - start), (const char *)text->data + start);
}

static bool compare(const char *path, const struct buffer *ours, const struct buffer *theirs,
                    struct error *error)
{
    size_t least = ours->size < theirs->size ? ours->size : theirs->size, same = 0;
    char our_line[256], their_line[256];

    while (same < least && ours->data[same] == theirs->data[same])
        same++;
    if (same == ours->size && same == theirs->size)
        return true;
    find_line(ours, same, our_line, sizeof(our_line));
    find_line(theirs, same, their_line, sizeof(their_line));
    return error_set(error,
                     "%s: covsplit reads '%s' where LIEF reads '%s'; do not use this image, and "
                     "please report it",
                     path, our_line, their_line);
}

static bool ask(const char *path, bool is_pe, const struct buffer *ours, struct error *error)
{
    struct buffer theirs = {0};
    int result = 0;
    bool is_whole, agrees = ask_child(path, is_pe, &theirs, &result, &is_whole, error);

    if (agrees && (!is_whole || !WIFEXITED(result) || WEXITSTATUS(result) != CHILD_DONE))
        message_warning("%s: not read by a second reader: LIEF %s", path,
                        WIFEXITED(result) && WEXITSTATUS(result) == CHILD_NO_LIBRARY
                            ? "is not installed (" LIEF_LIBRARY ")"
                            : "cannot read it");
    else if (agrees)
        agrees = compare(path, ours, &theirs, error);
    buffer_free(&theirs);
    return agrees;
}

/* The slices of a universal image, one after the other. */
static bool outline_universal(const struct input *input, struct buffer *outline,
                              struct error *error)
{
    struct universal universal;
    bool done = universal_read(input->bytes, input->path, &universal, error);

    for (size_t i = 0; done && i < universal.count; i++) {
        struct input part;

        done = universal_part(input, &universal.slices[i], &part, error) &&
               image_outline(&part, outline, error);
        universal_part_free(&part);
    }
    return done;
}

bool second_reader_agrees(const char *path, struct error *error)
{
    struct input input;
    struct buffer outline = {0};
    bool agrees, is_pe;

    if (!input_open(&input, path, error))
        return false;
    is_pe = input.bytes.size >= 2 && memcmp(input.bytes.data, "MZ", 2) == 0;
    agrees = universal_recognize(input.bytes) ? outline_universal(&input, &outline, error)
                                              : image_outline(&input, &outline, error);
    input_close(&input);
    if (agrees && outline.size != 0)
        agrees = ask(path, is_pe, &outline, error);
    buffer_free(&outline);
    return agrees;
}

#else

bool second_reader_agrees(const char *path, struct error *error)
{
    (void)path;
    (void)error;
    return true;
}

#endif
