/*
 * Encodes the structures of ELF (gABI, "ELF Header" and following) in a file's class and byte
 * order.
 *
 * Everywhere else they are held as ELFCLASS64 structures, which suffice for both classes.
 */
#ifndef COVSPLIT_COMMON_ELF_FILE_ENCODE_H
#define COVSPLIT_COMMON_ELF_FILE_ENCODE_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

/* Size of one structure in a file of the class. */
size_t elf_encoded_size(uint8_t elf_class, Elf_Type type);

/* Appends `count` structures: ELF_T_EHDR, ELF_T_PHDR, ELF_T_SHDR, ELF_T_DYN or ELF_T_CHDR, each as
 * Elf64_Ehdr and so on. Values must fit the class. False if out of memory. */
bool elf_encode(uint8_t elf_class, uint8_t elf_data, Elf_Type type, const void *structures,
                size_t count, struct buffer *encoded);

#endif
