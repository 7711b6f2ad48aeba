/*
 * The table of machines: see machine.h.
 */
#include "formats/machine/machine.h"

#include <elf.h>

static const struct machine *const machines[] = {
    &machine_x86_64,  &machine_i386,        &machine_aarch64,  &machine_arm,     &machine_riscv64,
    &machine_riscv32, &machine_loongarch64, &machine_mips64el, &machine_ppc64le, &machine_s390x,
};

const struct machine *machine_find(uint16_t elf_machine, uint8_t elf_class, uint8_t elf_data)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        if (machines[i]->elf_machine == elf_machine &&
            elf_class == (machines[i]->address_size == 4 ? ELFCLASS32 : ELFCLASS64) &&
            elf_data == (machines[i]->big_endian ? ELFDATA2MSB : ELFDATA2LSB))
            return machines[i];
    }
    return NULL;
}
