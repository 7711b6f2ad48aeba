/*
 * The table of machines, and searching their code: see machine.h.
 *
 * Instructions that form addresses are recognized by their encoding wherever one may start, so a
 * disassembly cannot get out of step. The search may find a reference where there is none, and then
 * something stays that could have gone (on x86-64 runtime/hits.h takes a second look); it never
 * misses one of the forms that the machine's file describes. So pieces overlap on both sides by
 * more than the largest distance between the parts that form one address.
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

#define PIECE_SIZE (UINT64_C(1) << 20)

bool code_search(const struct code_search *search, const struct code *code,
                 code_search_visitor visit, void *context)
{
    const struct machine *machine = search->machine;
    uint64_t offset = (uint64_t)(code->bytes.data - search->input->bytes.data);
    uint64_t around = machine->look_ahead;

    for (uint64_t start = 0; start < code->bytes.size; start += PIECE_SIZE) {
        uint64_t before = start < around ? start : around, position = before;
        uint64_t left = code->bytes.size - start;
        uint64_t size = before + (left < PIECE_SIZE + around ? left : PIECE_SIZE + around);
        struct code piece = *code;

        piece.machine = machine;
        piece.bytes = (struct bytes){code->bytes.data + start - before, size};
        piece.address += start - before;

        /* A hit further on is found again in the next piece, together with all the bytes that it
         * depends on. */
        while (machine->find_reference(&piece, &search->target, &position) &&
               position < before + PIECE_SIZE) {
            if (!visit(context, piece.address + position))
                return false;
            position++;
        }
        input_release_pages(search->input, offset + start - before, size);
    }
    return true;
}

/* A body may start this many bytes before those that form the address. */
#define BODY_BEFORE 16

bool code_decode_around(const struct machine *machine, const struct code *code, uint64_t position,
                        uint64_t *start, struct accessor *accessor)
{
    uint64_t before = position < BODY_BEFORE ? position : BODY_BEFORE;

    /* The longest body is tried first: it may include the bytes before those. */
    for (*start = position - before; *start <= position; ++*start) {
        struct code body = *code;

        body.machine = machine;
        body.address += *start;
        if (bytes_slice(code->bytes, *start, code->bytes.size - *start, &body.bytes) &&
            machine->decode_accessor(&body, accessor) &&
            range_within(position - *start, 1, accessor->patch_offset, accessor->patch_size))
            return true;
    }
    return false;
}
