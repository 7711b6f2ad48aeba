/*
 * Names of machines: see cli/machine_names.h.
 */
#include "split/cli/machine_names.h"

#include <stdio.h>

#include "formats/machine/machine.h"

const char *machine_text(const struct sidecar_facts *facts, char *text)
{
    const struct machine *machine = machine_find(facts->machine, facts->elf_class, facts->elf_data);

    if (machine != NULL)
        snprintf(text, MACHINE_TEXT_MAX, "%s", machine->name);
    else
        snprintf(text, MACHINE_TEXT_MAX, "%u", facts->machine);
    return text;
}
