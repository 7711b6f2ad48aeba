/*
 * The symbols of coverage records, which go from .symtab and .strtab with the records.
 *
 * Each record of __llvm_covfun has a symbol, __covrec_ and its NameRef in hexadecimal, which nobody
 * needs once it is linked: some fifty bytes for each function. A symbol of a section that went
 * would mislead other tools, too. All that it says is in the records, so a *recipe* of a byte or
 * two for each symbol is enough to put them back: which records have one, in which order, and where
 * symbols and names were. It is part of the inverse script (edit.h); docs/format.md has its layout
 * ("Symbol tables").
 */
#ifndef COVSPLIT_COMMON_EDIT_SYMBOLS_H
#define COVSPLIT_COMMON_EDIT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/coverage.h"

/* A symbol table, and the string table that it has for itself. */
struct symbol_tables {
    struct bytes symbols;
    struct bytes names;
};

/* ---- records ---- */

struct listed_record {
    uint64_t offset;
    uint64_t size;
    uint64_t reference; /* NameRef */
};

/* All that symbols tell of the records of a section: those up to the first that is not sound. They
 * are listed as its bytes pass, so nobody needs all of these at once. */
struct record_list {
    struct listed_record *records;
    size_t count, capacity;
    bool big_endian;
    uint64_t size;                      /* of the section */
    uint64_t added;                     /* how many of its bytes have passed */
    uint64_t next;                      /* where the next record starts */
    uint8_t header[COVFUN_HEADER_SIZE]; /* as far as it has passed */
};

/* Starts a list, which holds nothing yet, of a section of this size. Free with record_list_free,
 * after which it is as it was before its start. */
void record_list_start(struct record_list *list, uint64_t size, bool big_endian);
void record_list_free(struct record_list *list);

/* Adds the next bytes of the section. False if out of memory. */
bool record_list_add(struct record_list *list, struct bytes piece);

/* ---- taking out ---- */

struct symbol_cut {
    struct elf_form form;
    struct record_list records;
    size_t section; /* the index of that of the records */
    uint64_t address;
    struct symbol_tables old;
    struct taken_symbol *taken; /* those that go, in the order of the table */
    size_t count, capacity;
    uint8_t info, other; /* their st_info and st_other */
    /* What is left of the tables. The caller may change a symbol, but not its name, before the
     * recipe is made. */
    struct buffer symbols, names;
};

/* Finds the symbols that go, and makes tables without them. None goes (count is 0) if the tables
 * are not as linkers make them. The caller has set `records`, `section` and `address`, and all
 * else to 0. The bytes must outlive the cut. False if out of memory. Free with symbol_cut_free,
 * even after a failure. */
bool symbol_cut_make(struct symbol_cut *cut, struct elf_form form,
                     const struct symbol_tables *tables);
void symbol_cut_free(struct symbol_cut *cut);

/* True if the symbol stays. *new_index is what it is then, or that of the next one that stays. */
bool symbol_cut_stays(const struct symbol_cut *cut, size_t index, size_t *new_index);

/* Appends the recipe for a file that has the new tables at these offsets. False if out of memory.
 */
bool symbol_cut_encode(const struct symbol_cut *cut, uint64_t symbols_offset, uint64_t names_offset,
                       struct buffer *recipe);

/* ---- putting back ---- */

/* The size in bytes of both tables, as the recipe says; 0 if it does not. */
uint64_t symbol_recipe_size(struct bytes recipe);

/* Appends the original tables to *tables, in the order in which the stripped image has them.
 * All bytes of the section have been added to `records`; `name` is that of the file, for messages.
 * Fails if the symbols that are put back take more than `limit` bytes. */
bool symbol_recipe_apply(struct bytes recipe, struct elf_form form, struct bytes stripped,
                         const struct record_list *records, uint64_t limit, const char *name,
                         struct buffer *tables, struct error *error);

#endif
