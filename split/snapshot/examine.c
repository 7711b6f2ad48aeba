/*
 * Examining modules: see examine.h.
 *
 * The module's own file is asked first, since most modules have no coverage, and a file tells that
 * at once. Only if there is no file, or its symbols are gone, the sidecar is searched for. If there
 * is neither, memory is searched for traces, so that a module with coverage is never passed over.
 */
#include "split/snapshot/examine.h"

#include <stdio.h>

#include "split/snapshot/coverage.h"
#include "split/snapshot/traces.h"

struct examination {
    struct memory *memory;
    struct module *module;
    const struct sidecar_places *places;
    struct input file;
    bool has_file;        /* `file` is that of the module */
    struct error no_file; /* why not */
    struct error no_sidecar;
    struct coverage coverage;
    struct taken *taken;
};

/* ---- file and sidecar ---- */

/* Opens the module's file, and keeps it if it is the build that is in memory. */
static void open_file(struct examination *examination)
{
    const struct module *module = examination->module;
    struct input *file = &examination->file;
    bool is_same;
    struct uuid uuid;

    if (!examination->memory->operations->open_file(examination->memory, module->listed, file,
                                                    &is_same, &examination->no_file))
        return;
    uuid = elf_file_uuid(file->bytes);
    examination->has_file = module->uuid.size != 0 ? uuid_equal(&uuid, &module->uuid) : is_same;
    if (examination->has_file)
        return;
    input_close(file);
    if (module->uuid.size != 0)
        error_set(&examination->no_file, "%s: is another build than the one that was loaded",
                  module->name);
    else
        error_set(&examination->no_file,
                  "%s: has no build ID, so that it is not known whether it is the one that was "
                  "loaded; link it with --build-id",
                  module->name);
}

/* Finds the sidecar of the UUID. NULL with the reason in no_sidecar. */
static struct sidecar *find_sidecar(struct examination *examination, const struct uuid *uuid)
{
    const char *const names[] = {examination->module->listed->path, NULL};
    const struct sidecar_wanted wanted = {.names = names[0][0] == '\0' ? NULL : names,
                                          .uuid = uuid};
    struct sidecar_search search;
    struct sidecar *sidecar = NULL;

    if (uuid->size == 0) {
        error_set(&examination->no_sidecar, "%s: has no UUID to search for",
                  examination->module->name);
        return NULL;
    }
    if (sidecar_search_start(&search, examination->places, &wanted, &examination->no_sidecar))
        sidecar = sidecar_search_read(&search, &examination->no_sidecar);
    sidecar_search_end(&search);
    return sidecar;
}

/* ---- by the file ---- */

static enum finding take(struct examination *examination, struct error *error)
{
    return take_profile(examination->memory, examination->module, &examination->coverage,
                        examination->has_file ? &examination->file : NULL, examination->taken,
                        error)
               ? FINDING_PROFILE
               : FINDING_FAILED;
}

/* Without a symbol table, only the sidecar knows the version of the profiles. */
static bool find_version(struct examination *examination, struct error *error)
{
    struct sidecar *sidecar;

    if (examination->coverage.raw_version != 0)
        return true;
    sidecar = find_sidecar(examination, &examination->module->uuid);
    if (sidecar != NULL)
        examination->coverage.raw_version = sidecar_facts(sidecar)->raw_version;
    sidecar_close(sidecar);
    return examination->coverage.raw_version != 0 ||
           error_set(
               error,
               "%s: has coverage, but no symbols that tell the version of its profiles; put a "
               "copy with symbols in its place, or give its sidecar",
               examination->module->name);
}

static enum finding examine_by_file(struct examination *examination, struct error *error)
{
    if (!coverage_of_file(&examination->file, &examination->coverage, error))
        return error_is_of_memory(error) ? FINDING_FAILED : FINDING_UNKNOWN;
    if (examination->coverage.sections[SECTION_COUNTERS].size == 0)
        return FINDING_NO_COVERAGE;
    return find_version(examination, error) ? take(examination, error) : FINDING_FAILED;
}

/* ---- without the file ---- */

static enum finding examine_by_sidecar(struct examination *examination,
                                       const struct sidecar *sidecar, struct error *error)
{
    if (!coverage_of_sidecar(sidecar, &examination->coverage, error))
        return FINDING_FAILED;
    if (examination->coverage.is_complete)
        return take(examination, error);
    error_set(error,
              "%s: the split left data or names in it, and its sidecar does not say where; the "
              "file itself is needed: %s",
              examination->module->name, examination->no_file.message);
    return FINDING_FAILED;
}

static enum finding examine_by_traces(struct examination *examination, struct error *error)
{
    const struct module *module = examination->module;
    char uuid[UUID_HEX_MAX];
    struct traces traces;
    struct sidecar *sidecar;
    enum finding finding;

    if (!traces_find(examination->memory, module, &traces, error))
        return FINDING_FAILED;
    if (traces.is_split && module->uuid.size == 0) {
        sidecar = find_sidecar(examination, &traces.uuid);
        finding =
            sidecar == NULL ? FINDING_UNKNOWN : examine_by_sidecar(examination, sidecar, error);
        sidecar_close(sidecar);
        if (sidecar != NULL)
            return finding;
    }
    if (traces.is_split || traces.has_runtime) {
        error_set(error,
                  "%s: has coverage (UUID %s), but neither its sidecar was found nor its "
                  "file: %s; give --store or --sidecar",
                  module->name, module->uuid.size == 0 ? "none" : uuid_format(&module->uuid, uuid),
                  examination->no_file.message);
        return FINDING_FAILED;
    }
    if (traces.is_whole)
        return FINDING_NO_COVERAGE;
    *error = examination->no_file;
    return FINDING_UNKNOWN;
}

static enum finding examine_without_file(struct examination *examination, struct error *error)
{
    struct sidecar *sidecar = find_sidecar(examination, &examination->module->uuid);
    enum finding finding;

    if (sidecar == NULL && error_is_of_memory(&examination->no_sidecar)) {
        *error = examination->no_sidecar;
        return FINDING_FAILED;
    }
    finding = sidecar == NULL ? examine_by_traces(examination, error)
                              : examine_by_sidecar(examination, sidecar, error);
    sidecar_close(sidecar);
    return finding;
}

/* ---- without its headers ---- */

/* The file at its path may be another build, so it only tells whether something is amiss. */
static enum finding examine_hidden(struct examination *examination, struct error *error)
{
    struct input file;
    struct coverage coverage;
    enum finding finding = FINDING_UNKNOWN;
    bool is_same;

    if (!examination->memory->operations->open_file(
            examination->memory, examination->module->listed, &file, &is_same, error))
        return FINDING_UNKNOWN;
    if (file.bytes.size < SELFMAG || memcmp(file.bytes.data, ELFMAG, SELFMAG) != 0) {
        finding = FINDING_NO_MODULE;
    } else if (coverage_of_file(&file, &coverage, error)) {
        finding = coverage.sections[SECTION_COUNTERS].size == 0 ? FINDING_UNKNOWN : FINDING_FAILED;
        error_set(error,
                  "%s: its first page is not in %s, so that it is not known which build was "
                  "loaded: %s",
                  examination->module->name, examination->memory->name,
                  examination->memory->operations->absent_because);
    }
    input_close(&file);
    return finding;
}

/* ---- a module ---- */

enum finding examine_module(struct memory *memory, const struct memory_module *listed,
                            const struct sidecar_places *places, struct module *module,
                            struct taken *taken, struct error *error)
{
    struct examination examination = {
        .memory = memory, .module = module, .places = places, .taken = taken};
    enum finding finding = FINDING_FAILED;

    switch (module_read(memory, listed, module, error)) {
    case MODULE_FAILED:
        return FINDING_FAILED;
    case MODULE_IS_NONE:
        return FINDING_NO_MODULE;
    case MODULE_HIDDEN:
        return examine_hidden(&examination, error);
    case MODULE_READ:
        break;
    }
    open_file(&examination);
    if (error_is_of_memory(&examination.no_file)) {
        *error = examination.no_file;
        return FINDING_FAILED;
    }
    finding = examination.has_file ? examine_by_file(&examination, error)
                                   : examine_without_file(&examination, error);
    if (examination.has_file)
        input_close(&examination.file);
    return finding;
}
