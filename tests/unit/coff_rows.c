/*
 * The tables of coff_rows.h.
 */
#include "tests/unit/coff_rows.h"

#include <check.h>
#include <string.h>

const struct image_options coff_all = {.sections = SECTION_REMOVABLE};

uint8_t *coff_code_of_symbol(struct coff_program *program, enum runtime_symbol symbol)
{
    return coff_program_at(program,
                           coff_program_find(program, runtime_symbol_name(symbol))->address);
}

static void apply(struct coff_program *program, const struct change *change)
{
    uint8_t *to = program->file + change->offset;

    if (change->where == IN_COFF)
        to += PROGRAM_COFF_HEADER;
    else if (change->where == IN_OPTIONAL)
        to += PROGRAM_OPTIONAL;
    else if (change->where == IN_DIRECTORIES)
        to += PROGRAM_DIRECTORIES;
    else if (change->where == IN_SECTION)
        to = coff_program_section(program, change->section) + change->offset;
    else if (change->where == AT_ADDRESS)
        to = coff_program_at(program, change->offset);
    if (change->width == 1)
        *to = (uint8_t)change->value;
    else if (change->width == 2)
        store_u16(to, (uint16_t)change->value, false);
    else if (change->width == 4)
        store_u32(to, (uint32_t)change->value, false);
    else if (change->width == 8)
        store_u64(to, change->value, false);
}

void coff_change(struct coff_program *program, const struct change *changes)
{
    for (size_t i = 0; i < COFF_CHANGES; i++)
        apply(program, &changes[i]);
}

struct image_plan *coff_plan(struct coff_program *program, const struct change *changes,
                             const struct image_options *options, struct error *error)
{
    coff_program_add_symbols(program);
    coff_change(program, changes);
    coff_program_finish(program);
    return image_plan_make(&program->input, options, error);
}

void coff_assert_reason(struct image_plan *plan, enum section_kind kind, const char *reason,
                        const char *what)
{
    const struct section *section = image_plan_section(plan, kind);

    ck_assert_ptr_nonnull(section);
    ck_assert_msg(section_goes(section) == (reason == NULL), "%s: %s: %s", what, section->name,
                  section->reason);
    ck_assert_msg(strstr(section->reason, reason == NULL ? "" : reason) != NULL, "%s: %s: %s", what,
                  section->name, section->reason);
}

void coff_assert_row(struct image_plan *plan, const struct coff_row *row)
{
    coff_assert_reason(plan, SECTION_NAMES, row->names, row->what);
    coff_assert_reason(plan, SECTION_DATA, row->data, row->what);
    coff_assert_reason(plan, SECTION_COVMAP, row->covmap, row->what);
    coff_assert_reason(plan, SECTION_COVFUN, row->covfun, row->what);
}

void coff_check_row(const struct coff_row *row)
{
    struct image_options options = {.sections = SECTION_REMOVABLE, .drop_signature = true};
    FREED_BY(drop_program) struct coff_program *program = coff_program_new();
    FREED_BY(drop_plan) struct image_plan *plan;
    struct error error = {0};

    if (row->prepare != NULL)
        row->prepare(program);
    plan = coff_plan(program, row->changes, &options, &error);
    ck_assert_msg(plan != NULL, "%s: %s", row->what, error.message);
    coff_assert_row(plan, row);
}
