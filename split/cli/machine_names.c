/*
 * Names of machines: see cli/machine_names.h.
 */
#include "split/cli/machine_names.h"

#include <elf.h>
#include <stdio.h>

static const char *machine_name(unsigned machine, unsigned elf_class)
{
    static const struct {
        unsigned machine;
        const char *name_32, *name_64;
    } names[] = {
        {EM_386, "i386", NULL},
        {EM_X86_64, "x32", "x86-64"},
        {EM_ARM, "arm", NULL},
        {EM_AARCH64, "aarch64-ilp32", "aarch64"},
        {EM_RISCV, "riscv32", "riscv64"},
        {EM_PPC, "ppc", NULL},
        {EM_PPC64, NULL, "ppc64"},
        {EM_S390, "s390", "s390x"},
        {EM_MIPS, "mips", "mips64"},
        {EM_SPARC, "sparc", NULL},
        {EM_SPARCV9, NULL, "sparc64"},
        {258, "loongarch32", "loongarch64"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].machine == machine)
            return elf_class == ELFCLASS32 ? names[i].name_32 : names[i].name_64;
    }
    return NULL;
}

const char *machine_text(unsigned machine, unsigned elf_class, char *text)
{
    const char *name = machine_name(machine, elf_class);

    if (name != NULL)
        snprintf(text, MACHINE_TEXT_MAX, "%s", name);
    else
        snprintf(text, MACHINE_TEXT_MAX, "%u", machine);
    return text;
}
