/*
 * Reading an image in a child process by LIEF: see second_reader.h.
 *
 * The child writes the outline into a pipe, in just the words of formats/coff_outline.c, so to
 * compare is to compare bytes, and the first line that differs says what is wrong.
 */
#ifdef COVSPLIT_WITH_LIEF
/* First of all: where there is no bool yet, it defines one. */
#include <LIEF/PE.h>
#endif

#include "split/second_reader.h"

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

#include "common/file.h"
#include "formats/image.h"
#include "split/message.h"

#define LIEF_LIBRARY "libLIEF.so.0"

/* Exit codes of the child. */
#define CHILD_DONE       0
#define CHILD_NO_LIBRARY 1
#define CHILD_UNREADABLE 2

#define CHILD_SECONDS    300
/* More is no outline. */
#define OUTLINE_MAX (16u << 20)

/* ---- the child ---- */

static void print_outline(FILE *stream, const Pe_Binary_t *binary)
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

/* LIEF talks a lot. */
static void be_silent(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
}

static int read_by_lief(const char *path, int to)
{
    Pe_Binary_t *(*parse)(const char *) = NULL;
    FILE *stream = fdopen(to, "w");
    void *library = dlopen(LIEF_LIBRARY, RTLD_NOW);
    const Pe_Binary_t *binary;

    if (library != NULL)
        *(void **)&parse = dlsym(library, "pe_parse");
    if (parse == NULL || stream == NULL)
        return CHILD_NO_LIBRARY;
    binary = parse(path);
    if (binary == NULL)
        return CHILD_UNREADABLE;
    print_outline(stream, binary);
    return fflush(stream) == 0 ? CHILD_DONE : CHILD_UNREADABLE;
}

static void run_child(const char *path, int to)
{
    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_SECONDS);
    be_silent();
    _exit(read_by_lief(path, to));
}

/* ---- the parent ---- */

static bool read_all(int from, struct buffer *text)
{
    char part[4096];
    ssize_t size;

    while ((size = read(from, part, sizeof(part))) > 0) {
        if (text->size > OUTLINE_MAX || !buffer_append(text, part, (size_t)size))
            return false;
    }
    return size == 0;
}

/* *result is what waitpid tells of the child. */
static bool ask_child(const char *path, struct buffer *text, int *result)
{
    int ends[2];
    pid_t child;
    bool done;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    child = fork();
    if (child == 0)
        run_child(path, ends[1]);
    close(ends[1]);
    done = child > 0 && read_all(ends[0], text);
    close(ends[0]);
    if (child > 0 && waitpid(child, result, 0) != child)
        done = false;
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

static bool ask(const char *path, const struct buffer *ours, struct error *error)
{
    struct buffer theirs = {0};
    int result = 0;
    bool agrees = true;

    if (!ask_child(path, &theirs, &result) || !WIFEXITED(result) ||
        WEXITSTATUS(result) != CHILD_DONE)
        message_warning("%s: not read by a second reader: LIEF %s", path,
                        WIFEXITED(result) && WEXITSTATUS(result) == CHILD_NO_LIBRARY
                            ? "is not installed (" LIEF_LIBRARY ")"
                            : "cannot read it");
    else
        agrees = compare(path, ours, &theirs, error);
    buffer_free(&theirs);
    return agrees;
}

bool second_reader_agrees(const char *path, struct error *error)
{
    struct input input;
    struct buffer outline = {0};
    bool agrees;

    if (!input_open(&input, path, error))
        return false;
    agrees = image_outline(&input, &outline, error);
    input_close(&input);
    if (agrees && outline.size != 0)
        agrees = ask(path, &outline, error);
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
