/*
 * The table of machines: see machine.h.
 */
#include "formats/machine/machine.h"

static const struct machine *const machines[] = {
    &machine_x86_64,
    &machine_i386,
    &machine_aarch64,
};

const struct machine *machine_find(uint16_t elf_machine)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        if (machines[i]->elf_machine == elf_machine)
            return machines[i];
    }
    return NULL;
}
