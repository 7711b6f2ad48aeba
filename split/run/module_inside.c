/*
 * The preload module in the command: see run/module.h.
 *
 * The file COVSPLIT_PRELOAD_FILE is linked into the command as bytes, and written to a file in
 * memory, which the dynamic linkers of other programs load.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "split/run/memory_file.h"
#include "split/run/module.h"

#define NAME "libcovsplit-preload.so"

__asm__(".section .rodata.preload_module, \"a\"\n"
        ".globl preload_module, preload_module_end\n"
        ".hidden preload_module, preload_module_end\n"
        "preload_module:\n"
        ".incbin \"" COVSPLIT_PRELOAD_FILE "\"\n"
        "preload_module_end:\n"
        ".previous\n");

extern const uint8_t preload_module[], preload_module_end[];

int module_open(char **path, struct error *error)
{
    struct bytes module = {preload_module, (size_t)(preload_module_end - preload_module)};
    struct stat status = {.st_mode = 0555};
    atomic_bool stop = false;
    struct memory_file file;

    *path = NULL;
    if (!memory_file_create(&file, NAME, "/" NAME, &stop, error))
        return -1;
    memory_file_allow(&file, module.size);
    if (memory_file_write(&file, module, error) && memory_file_seal(&file, &status, error))
        return file.fd;
    close(file.fd);
    return -1;
}
