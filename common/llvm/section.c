/*
 * The rows of the kinds of section: see section.h.
 */
#include "common/llvm/section.h"

#include <stddef.h>
#include <string.h>

#define COVERAGE_SEGMENT "__LLVM_COV"
#define DATA_SEGMENT     "__DATA"

const struct section_kind_names section_kinds[SECTION_KIND_MAX + 1] = {
    [SECTION_COVMAP] = {"__llvm_covmap", "covmap", ".lcovmap", COVERAGE_SEGMENT},
    [SECTION_COVFUN] = {"__llvm_covfun", "covfun", ".lcovfun", COVERAGE_SEGMENT},
    [SECTION_NAMES] = {"__llvm_prf_names", "names", ".lprfn", DATA_SEGMENT},
    [SECTION_DATA] = {"__llvm_prf_data", "data", ".lprfd", DATA_SEGMENT},
    [SECTION_COVNAMES] = {"__llvm_covnames", "covnames", ".lcovn", COVERAGE_SEGMENT},
    [SECTION_COVDATA] = {"__llvm_covdata", "covdata", ".lcovd", COVERAGE_SEGMENT},
    [SECTION_COUNTERS] = {"__llvm_prf_cnts", "counters", ".lprfc", DATA_SEGMENT},
    [SECTION_BITMAP] = {"__llvm_prf_bits", "bitmap", ".lprfb", DATA_SEGMENT},
    [SECTION_XRAY_MAP] = {"xray_instr_map", "xray_instr_map", NULL, NULL},
    [SECTION_XRAY_INDEX] = {"xray_fn_idx", "xray_fn_idx", NULL, NULL},
    [SECTION_LINKED_COVMAP] = {".covsplit.covmap", "linked-covmap", NULL, NULL},
    [SECTION_LINKED_COVFUN] = {".covsplit.covfun", "linked-covfun", NULL, NULL},
};

const char *section_kind_name(enum section_kind kind)
{
    return (unsigned)kind <= SECTION_KIND_MAX ? section_kinds[kind].name : NULL;
}

const char *section_kind_word(enum section_kind kind)
{
    return (unsigned)kind <= SECTION_KIND_MAX ? section_kinds[kind].word : NULL;
}

bool section_kind_of_name(const char *name, enum section_kind *kind)
{
    for (unsigned i = 1; i <= SECTION_KIND_MAX; i++) {
        if (strcmp(section_kinds[i].name, name) == 0) {
            *kind = (enum section_kind)i;
            return true;
        }
    }
    return false;
}
