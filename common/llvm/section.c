/*
 * The kinds of section: see section.h.
 */
#include "common/llvm/section.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    const char *word;
} kinds[SECTION_KIND_MAX + 1] = {
    [SECTION_COVMAP] = {"__llvm_covmap", "covmap"},
    [SECTION_COVFUN] = {"__llvm_covfun", "covfun"},
    [SECTION_NAMES] = {"__llvm_prf_names", "names"},
    [SECTION_DATA] = {"__llvm_prf_data", "data"},
    [SECTION_COVNAMES] = {"__llvm_covnames", "covnames"},
    [SECTION_COVDATA] = {"__llvm_covdata", "covdata"},
    [SECTION_COUNTERS] = {"__llvm_prf_cnts", "counters"},
    [SECTION_BITMAP] = {"__llvm_prf_bits", "bitmap"},
    [SECTION_XRAY_MAP] = {"xray_instr_map", "xray_instr_map"},
    [SECTION_XRAY_INDEX] = {"xray_fn_idx", "xray_fn_idx"},
    [SECTION_LINKED_COVMAP] = {".covsplit.covmap", "linked-covmap"},
    [SECTION_LINKED_COVFUN] = {".covsplit.covfun", "linked-covfun"},
};

const char *section_kind_name(enum section_kind kind)
{
    return (unsigned)kind <= SECTION_KIND_MAX ? kinds[kind].name : NULL;
}

const char *section_kind_word(enum section_kind kind)
{
    return (unsigned)kind <= SECTION_KIND_MAX ? kinds[kind].word : NULL;
}

bool section_kind_of_name(const char *name, enum section_kind *kind)
{
    for (unsigned i = 1; i <= SECTION_KIND_MAX; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = (enum section_kind)i;
            return true;
        }
    }
    return false;
}
