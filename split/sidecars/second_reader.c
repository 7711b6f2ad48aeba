/*
 * Reading an image in a child process by LIEF: see second_reader.h.
 *
 * The child writes the outline into a file in memory, in the form that our own has
 * (formats/image.h), so that the two can be compared as bytes, and the first different line shows
 * what is wrong.
 */
#ifdef COVSPLIT_WITH_LIEF
/* Included first: it defines bool if that is not defined yet. */
#include <LIEF/ELF.h>

#include <LIEF/MachO.h>
#include <LIEF/PE.h>
#endif

#include "split/sidecars/second_reader.h"

#ifdef COVSPLIT_WITH_LIEF

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/image.h"
#include "split/cli/message.h"

#define LIEF_LIBRARY "libLIEF.so.0"

/* Exit codes of the child. */
#define CHILD_DONE       0
#define CHILD_NO_LIBRARY 1
#define CHILD_UNREADABLE 2

/* Limits for the child. No outline has more text. */
#define CHILD_SECONDS 300
#define OUTLINE_MAX   (16u << 20)

/* LC_MAIN, and the offset of entryoff in it. LIEF 0.9 has no name for LC_MAIN in C. */
#define MACHO_MAIN_COMMAND 0x80000028u
#define MACHO_MAIN_ENTRY   8

#define LINE_MAX_SHOWN     256

/* As many entries of .dynamic as elf/read.c takes. */
#define ELF_DYNAMIC_MAX 1000

/* ---- the child ---- */

/* LIEF's list starts with the symbol that stands for none. */
static void print_elf_symbols(FILE *stream, Elf_Symbol_t *const *symbols)
{
    uint64_t count = 0, values = 0, sizes = 0, names = 0;

    if (symbols[0] == NULL)
        return;
    for (; symbols[count + 1] != NULL; count++) {
        const Elf_Symbol_t *symbol = symbols[count + 1];

        values += symbol->value ^ symbol->information;
        sizes += symbol->size;
        for (const char *name = symbol->name; *name != '\0'; name++)
            names = names * 31 + (uint8_t)*name;
    }
    fprintf(stream, ELF_SYMBOLS_LINE, count, values, sizes, names);
}

static void print_elf(FILE *stream, const Elf_Binary_t *binary)
{
    const Elf_Header_t *header = &binary->header;
    bool is_end = false;

    fprintf(stream, ELF_OUTLINE, (unsigned)header->file_type, (unsigned)header->machine_type,
            header->entrypoint, header->processor_flags, header->program_headers_offset,
            header->section_headers_offset);
    for (size_t i = 0; binary->segments[i] != NULL; i++) {
        const Elf_Segment_t *segment = binary->segments[i];

        fprintf(stream, ELF_SEGMENT_LINE, (unsigned)segment->type, segment->virtual_address,
                segment->virtual_size, segment->offset, segment->size, segment->alignment,
                segment->flags);
    }
    for (size_t i = 0; binary->sections[i] != NULL; i++) {
        const Elf_Section_t *section = binary->sections[i];

        fprintf(stream, ELF_SECTION_LINE, section->name, section->virtual_address,
                section->original_size, section->offset, (unsigned)section->type, section->flags,
                section->link, section->info, section->alignment, section->entry_size);
    }
    for (size_t i = 0; i < ELF_DYNAMIC_MAX && !is_end && binary->dynamic_entries[i] != NULL; i++) {
        const Elf_DynamicEntry_t *entry = binary->dynamic_entries[i];

        fprintf(stream, ELF_DYNAMIC_LINE, (unsigned)entry->tag, entry->value);
        is_end = entry->tag == 0;
    }
    print_elf_symbols(stream, binary->static_symbols);
}

static void print_pe(FILE *stream, const Pe_Binary_t *binary)
{
    fprintf(stream, COFF_OUTLINE, binary->optional_header.addressof_entrypoint,
            binary->optional_header.imagebase, binary->optional_header.sizeof_image);
    /* LIEF takes what follows the last directory for more of them. */
    for (size_t i = 0;
         i < binary->optional_header.numberof_rva_and_size && binary->data_directories[i] != NULL;
         i++)
        fprintf(stream, COFF_DIRECTORY_LINE, i, binary->data_directories[i]->rva,
                binary->data_directories[i]->size);
    for (size_t i = 0; binary->sections[i] != NULL; i++) {
        const Pe_Section_t *section = binary->sections[i];

        fprintf(stream, COFF_SECTION_LINE, section->name, section->virtual_address,
                section->virtual_size, section->offset, section->size, section->characteristics);
    }
}

static void print_command(FILE *stream, const Macho_Command_t *command)
{
    uint32_t entry_offset = 0;

    fprintf(stream, MACHO_COMMAND_LINE, (unsigned)command->command, command->size,
            (uint64_t)command->offset);
    if ((uint32_t)command->command != MACHO_MAIN_COMMAND)
        return;
    if (command->size >= MACHO_MAIN_ENTRY + sizeof(entry_offset))
        memcpy(&entry_offset, command->data + MACHO_MAIN_ENTRY, sizeof(entry_offset));
    fprintf(stream, MACHO_ENTRY_LINE, entry_offset);
}

static void print_macho(FILE *stream, const Macho_Binary_t *binary)
{
    fprintf(stream, MACHO_OUTLINE, (unsigned)binary->header.cpu_type,
            (unsigned)binary->header.file_type, binary->header.nb_cmds, binary->header.flags);
    for (size_t i = 0; binary->commands[i] != NULL; i++)
        print_command(stream, binary->commands[i]);
    for (size_t i = 0; binary->segments[i] != NULL; i++) {
        const Macho_Segment_t *segment = binary->segments[i];

        fprintf(stream, MACHO_SEGMENT_LINE, segment->name, segment->virtual_address,
                segment->virtual_size, segment->file_offset, segment->file_size,
                segment->init_protection, segment->max_protection, segment->numberof_sections);
    }
    for (size_t i = 0; binary->sections[i] != NULL; i++) {
        const Macho_Section_t *section = binary->sections[i];

        fprintf(stream, MACHO_SECTION_LINE, section->name, section->virtual_address, section->size,
                section->offset, section->alignment, (unsigned)section->type, section->flags,
                section->reserved3);
    }
}

/* Reads the image by a function of LIEF, and prints its outline. */
static bool print_image(void *library, const struct input *image, FILE *stream)
{
    const uint8_t *magic = image->bytes.data; /* some format has recognized it */
    bool is_elf = memcmp(magic, ELFMAG, SELFMAG) == 0, is_pe = memcmp(magic, "MZ", 2) == 0;
    void *(*parse)(const char *) = NULL;
    void *parsed;

    *(void **)&parse = dlsym(library, is_elf ? "elf_parse" : is_pe ? "pe_parse" : "macho_parse");
    parsed = parse == NULL ? NULL : parse(image->path);
    if (parsed == NULL)
        return false;
    if (is_elf)
        print_elf(stream, parsed);
    else if (is_pe)
        print_pe(stream, parsed);
    else /* a universal image has a binary for each slice */
        for (Macho_Binary_t **binary = parsed; *binary != NULL; binary++)
            print_macho(stream, *binary);
    return true;
}

/* LIEF prints a lot. */
static int run_child(const struct input *image, int to)
{
    struct rlimit limit = {OUTLINE_MAX, OUTLINE_MAX};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    FILE *stream = fdopen(to, "w");
    void *library;

    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_SECONDS);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (null >= 0) {
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    library = dlopen(LIEF_LIBRARY, RTLD_NOW);
    if (library == NULL || stream == NULL)
        return CHILD_NO_LIBRARY;
    return print_image(library, image, stream) && fflush(stream) == 0 ? CHILD_DONE
                                                                      : CHILD_UNREADABLE;
}

/* ---- the parent ---- */

/* Has the child write the outline to the file. False, after a warning, if it did not. */
static bool ask_child(const struct input *image, int to)
{
    pid_t child = fork();
    int result = 0;

    if (child == 0)
        _exit(run_child(image, to));
    if (child > 0 && waitpid(child, &result, 0) == child && WIFEXITED(result) &&
        WEXITSTATUS(result) == CHILD_DONE)
        return true;
    message_warning("%s: not checked by a second reader: LIEF %s", image->path,
                    WIFEXITED(result) && WEXITSTATUS(result) == CHILD_NO_LIBRARY
                        ? "is not installed (" LIEF_LIBRARY ")"
                        : "cannot read it");
    return false;
}

/* The length of the line at an offset, as far as it is shown. */
static int line_length(struct bytes text, uint64_t start)
{
    int length = 0;

    while (length < LINE_MAX_SHOWN && start + (uint64_t)length < text.size &&
           text.data[start + (uint64_t)length] != '\n')
        length++;
    return length;
}

static bool compare(const char *path, struct bytes ours, struct bytes theirs, struct error *error)
{
    uint64_t line = 0; /* where the first different one starts */

    if (bytes_equal(ours, theirs))
        return true;
    for (uint64_t i = 0; i < ours.size && i < theirs.size && ours.data[i] == theirs.data[i]; i++)
        line = ours.data[i] == '\n' ? i + 1 : line;
    return error_set(error,
                     "%s: covsplit reads '%.*s', but LIEF reads '%.*s'; do not use this image, and "
                     "please report it",
                     path, line_length(ours, line), (const char *)ours.data + line,
                     line_length(theirs, line), (const char *)theirs.data + line);
}

static bool ask(const struct input *image, struct bytes outline, struct error *error)
{
    struct input theirs = {.fd = -1};
    int file = memfd_create(LIEF_LIBRARY, MFD_CLOEXEC);
    bool agrees = true;

    if (file < 0)
        return error_set_errno(error, errno, "%s: no temporary file for the second reader",
                               image->path);
    if (ask_child(image, file))
        agrees = input_open_descriptor(&theirs, file, image->path, error) &&
                 compare(image->path, outline, theirs.bytes, error);
    input_close(&theirs);
    close(file);
    return agrees;
}

/* The outlines of the slices of a universal image follow each other. */
bool second_reader_agrees(const struct input *image, const struct container *container,
                          struct error *error)
{
    struct buffer outline = {0};
    bool agrees = true;

    for (size_t i = 0; agrees && i < container->count; i++)
        agrees = image_outline(&container->slices[i].input, &outline, error);
    if (agrees && outline.size != 0)
        agrees = ask(image, buffer_view(&outline), error);
    buffer_free(&outline);
    return agrees;
}

#else

bool second_reader_agrees(const struct input *image, const struct container *container,
                          struct error *error)
{
    (void)image;
    (void)container;
    (void)error;
    return true;
}

#endif
