/*
 * Errors, sidecars, functions and unions: see covsplit.h.
 *
 * A thin layer over common/sidecar, which does the work. It turns errors into objects that the
 * caller owns, and keeps internal types out of the public header.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/llvm/names.h"
#include "common/sidecar/delta.h"
#include "common/sidecar/exported.h"
#include "common/sidecar/union.h"
#include "reader/internal.h"

/* ---- errors ---- */

struct covsplit_error {
    struct error error;
};

/* Reported when there is no memory for a covsplit_error. Shared, never written, never freed. */
static const covsplit_error no_memory = {
    {.message = "libcovsplit: out of memory; free some and try again", .number = ENOMEM},
};

const char *covsplit_error_message(const covsplit_error *error)
{
    return error->error.message;
}

bool covsplit_error_is_of_memory(const covsplit_error *error)
{
    return error_is_of_memory(&error->error);
}

void covsplit_error_free(covsplit_error *error)
{
    if (error != &no_memory)
        free(error);
}

void report_error(covsplit_error **out, const struct error *error)
{
    covsplit_error *copy;

    if (out == NULL)
        return;
    copy = malloc(sizeof(*copy));
    if (copy == NULL)
        copy = (covsplit_error *)(uintptr_t)&no_memory;
    else
        copy->error = *error;
    *out = copy;
}

bool check_result(bool result, covsplit_error **out, const struct error *error)
{
    if (!result)
        report_error(out, error);
    return result;
}

void *new_object(size_t size, const char *name, covsplit_error **error)
{
    void *object = calloc(1, size);
    struct error why = {0};

    if (object == NULL) {
        error_out_of_memory(&why, name, size);
        report_error(error, &why);
    }
    return object;
}

/* ---- opening sidecars ---- */

covsplit_sidecar *cover_sidecar(struct sidecar *sidecar, const char *name, struct error *why,
                                covsplit_error **error)
{
    covsplit_sidecar *covered = NULL;

    if (sidecar == NULL)
        report_error(error, why);
    else
        covered = new_object(sizeof(*covered), name, error);
    if (covered != NULL)
        covered->opened.sidecar = sidecar;
    else
        sidecar_close(sidecar);
    return covered;
}

covsplit_sidecar *covsplit_sidecar_open(const char *path, covsplit_error **error)
{
    struct error why = {0};

    return cover_sidecar(sidecar_read(path, &why), path, &why, error);
}

covsplit_sidecar *covsplit_sidecar_open_fd(int fd, const char *name, covsplit_error **error)
{
    struct error why = {0};

    return cover_sidecar(sidecar_read_descriptor(fd, name, &why), name, &why, error);
}

covsplit_sidecar *covsplit_sidecar_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error)
{
    struct error why = {0};

    return cover_sidecar(sidecar_open((struct bytes){data, size}, name, &why), name, &why, error);
}

bool covsplit_sidecar_is_delta(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->base.is_needed;
}

/* A base_finder. */
static bool ask_caller(void *context, const struct digest *digest, struct bytes *bytes)
{
    const covsplit_sidecar *sidecar = context;
    const void *data = NULL;
    size_t size = 0;
    bool found = sidecar->base_finder(sidecar->base_context, digest->bytes, &data, &size);

    *bytes = (struct bytes){data, size};
    return found;
}

void covsplit_sidecar_set_base_finder(covsplit_sidecar *sidecar, covsplit_base_finder finder,
                                      void *context)
{
    struct sidecar_bases *bases = sidecar->opened.sidecar->bases;

    sidecar->base_finder = finder;
    sidecar->base_context = context;
    bases->find = finder == NULL ? NULL : ask_caller;
    bases->context = sidecar;
}

void covsplit_sidecar_close(covsplit_sidecar *sidecar)
{
    if (sidecar == NULL)
        return;
    profile_sidecar_close(&sidecar->opened);
    free(sidecar);
}

bool covsplit_is_sidecar(const void *data, size_t size)
{
    return sidecar_recognize((struct bytes){data, size});
}

bool covsplit_is_object(const void *data, size_t size)
{
    return export_recognize((struct bytes){data, size});
}

bool covsplit_is_union(const void *data, size_t size)
{
    return union_recognize((struct bytes){data, size});
}

void covsplit_sidecar_limit_memory(covsplit_sidecar *sidecar, uint64_t bytes)
{
    sidecar_limit_memory(sidecar->opened.sidecar, bytes);
}

uint64_t covsplit_sidecar_memory_limit(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->memory_limit;
}

void covsplit_sidecar_set_threads(covsplit_sidecar *sidecar, unsigned threads)
{
    if (threads != 0)
        sidecar_help_restore(sidecar->opened.sidecar, threads, NULL);
}

/* ---- what a sidecar records ---- */

const uint8_t *covsplit_sidecar_uuid(const covsplit_sidecar *sidecar, size_t *size)
{
    const struct uuid *uuid = &sidecar->opened.sidecar->facts.uuid;

    *size = uuid->size;
    return uuid->bytes;
}

const char *covsplit_sidecar_format(const covsplit_sidecar *sidecar)
{
    return image_format_name(sidecar->opened.sidecar->facts.format);
}

const char *covsplit_sidecar_image_name(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->image_name;
}

uint16_t covsplit_sidecar_machine(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->facts.machine;
}

uint64_t covsplit_sidecar_raw_version(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->facts.raw_version;
}

uint64_t covsplit_sidecar_original_size(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->facts.original_size;
}

uint64_t covsplit_sidecar_stripped_size(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->facts.stripped_size;
}

bool covsplit_sidecar_is_placeholder(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->facts.is_placeholder;
}

/* ---- sections ---- */

size_t covsplit_sidecar_section_count(const covsplit_sidecar *sidecar)
{
    return sidecar->opened.sidecar->section_count;
}

static void describe_section(const struct section *found, covsplit_section *section)
{
    *section = (covsplit_section){.name = found->name,
                                  .address = found->address,
                                  .size = found->size,
                                  .stored_size = found->stored_size};
}

bool covsplit_sidecar_section(const covsplit_sidecar *sidecar, size_t index,
                              covsplit_section *section)
{
    if (index >= sidecar->opened.sidecar->section_count)
        return false;
    describe_section(&sidecar->opened.sidecar->sections[index], section);
    return true;
}

/* NULL, with an error, if the sidecar has no section of that name. */
static const struct section *find_section(const covsplit_sidecar *sidecar, const char *name,
                                          struct error *error)
{
    const struct section *found = NULL;
    enum section_kind kind;

    if (section_kind_of_name(name, &kind))
        found = sidecar_find(sidecar->opened.sidecar, kind);
    if (found == NULL)
        error_set(error, "%s: has no section %s; ask for one that it lists",
                  sidecar->opened.sidecar->name, name);
    return found;
}

bool covsplit_sidecar_find(const covsplit_sidecar *sidecar, const char *name,
                           covsplit_section *section)
{
    struct error ignored;
    const struct section *found = find_section(sidecar, name, &ignored);

    if (found != NULL)
        describe_section(found, section);
    return found != NULL;
}

/* An empty content gets a block, too, since a result must not be NULL. */
static bool make_block(const covsplit_sidecar *sidecar, struct buffer *content, struct error *error)
{
    return content->data != NULL || buffer_reserve(content, 1) ||
           error_out_of_memory(error, sidecar->opened.sidecar->name, 1);
}

void *covsplit_sidecar_read(const covsplit_sidecar *sidecar, const char *name, size_t *size,
                            covsplit_error **error)
{
    struct buffer content = {0};
    struct error why = {0};
    const struct section *section = find_section(sidecar, name, &why);

    if (section != NULL && sidecar_read_section(sidecar->opened.sidecar, section, &content, &why) &&
        make_block(sidecar, &content, &why)) {
        *size = content.size;
        return content.data;
    }
    buffer_free(&content);
    report_error(error, &why);
    return NULL;
}

void *covsplit_sidecar_read_part(const covsplit_sidecar *sidecar, const char *name, uint64_t offset,
                                 size_t size, covsplit_error **error)
{
    struct buffer content = {0};
    struct error why = {0};
    const struct section *section = find_section(sidecar, name, &why);

    if (section != NULL && make_block(sidecar, &content, &why) &&
        sidecar_read_part(sidecar->opened.sidecar, section, offset, size, &content, &why))
        return content.data;
    buffer_free(&content);
    report_error(error, &why);
    return NULL;
}

const void *covsplit_sidecar_content(covsplit_sidecar *sidecar, const char *name, size_t *size,
                                     covsplit_error **error)
{
    struct error why = {0};
    const struct section *section = find_section(sidecar, name, &why);
    struct bytes content;

    if (section == NULL ||
        !sidecar_hold_section(sidecar->opened.sidecar, section, &content, &why)) {
        report_error(error, &why);
        return NULL;
    }
    *size = (size_t)content.size;
    return content.size == 0 ? (const void *)"" : content.data;
}

bool pass_to_caller(void *context, struct bytes part, struct error *error)
{
    const struct caller_sink *caller = context;

    return caller->sink(caller->context, part.data, (size_t)part.size) ||
           error_set(error, "%s: reading was stopped by the program; run it again", caller->name);
}

bool covsplit_sidecar_stream(const covsplit_sidecar *sidecar, const char *name, covsplit_sink sink,
                             void *context, covsplit_error **error)
{
    const struct sidecar *opened = sidecar->opened.sidecar;
    struct caller_sink caller = {sink, context, opened->name};
    struct error why = {0};
    const struct section *section = find_section(sidecar, name, &why);

    return check_result(section != NULL &&
                            sidecar_stream_section(opened, section, pass_to_caller, &caller, &why),
                        error, &why);
}

/* ---- whole sidecars ---- */

bool covsplit_sidecar_verify(const covsplit_sidecar *sidecar, covsplit_error **error)
{
    struct error why = {0};

    return check_result(sidecar_verify(sidecar->opened.sidecar, &why), error, &why);
}

bool covsplit_sidecar_restore(const covsplit_sidecar *sidecar, const void *stripped, size_t size,
                              const char *stripped_name, covsplit_sink sink, void *context,
                              covsplit_error **error)
{
    struct input input = input_of_bytes((struct bytes){stripped, size}, stripped_name);
    struct caller_sink caller = {sink, context, stripped_name};
    struct error why = {0};

    return check_result(
        sidecar_restore(sidecar->opened.sidecar, &input, pass_to_caller, &caller, &why), error,
        &why);
}

bool covsplit_sidecar_restore_file(const covsplit_sidecar *sidecar, const char *stripped_path,
                                   covsplit_sink sink, void *context, covsplit_error **error)
{
    struct caller_sink caller = {sink, context, stripped_path};
    struct error why = {0};
    struct input stripped;
    bool done = false;

    if (input_open(&stripped, stripped_path, &why)) {
        done = sidecar_restore(sidecar->opened.sidecar, &stripped, pass_to_caller, &caller, &why) &&
               input_unchanged(&stripped, &why);
        input_close(&stripped);
    }
    return check_result(done, error, &why);
}

bool covsplit_sidecar_export(covsplit_sidecar *sidecar, covsplit_sink sink, void *context,
                             covsplit_error **error)
{
    struct caller_sink caller = {sink, context, sidecar->opened.sidecar->name};
    struct error why = {0};

    return check_result(export_write(sidecar->opened.sidecar, pass_to_caller, &caller, &why), error,
                        &why);
}

/* ---- functions ---- */

/* A data record identifies its function by the hash of the name; the names themselves are in
 * another section. So all names are hashed once, and the name of a record is found by binary
 * search. */
struct covsplit_functions {
    const struct profile_sidecar *opened; /* the sidecar's */
    struct names names;
    size_t count;
};

/* Checks all records at once, so that later calls can rely on them. */
static bool open_functions(covsplit_functions *functions, struct profile_sidecar *opened,
                           struct error *error)
{
    const char *name = opened->sidecar->name;

    if (!profile_sidecar_load(opened, error))
        return false;
    if (!opened->has_data)
        return error_set(error,
                         "%s: its profile data stayed in the image; look at what it was kept for "
                         "with 'covsplit show'",
                         name);
    functions->opened = opened;
    functions->count = opened->data.size / opened->layout.record_size;
    for (size_t i = 0; i < functions->count; i++) {
        struct profile_range range;

        if (!profile_sidecar_range(opened, i, &range))
            return error_set(error,
                             "%s: the sidecar is damaged (the counters of record %zu are not in "
                             "the image); get an intact copy",
                             name, i);
    }
    return names_read(&functions->names, buffer_view(&opened->names), name, error);
}

covsplit_functions *covsplit_functions_open(covsplit_sidecar *sidecar, covsplit_error **error)
{
    struct error why = {0};
    covsplit_functions *functions =
        new_object(sizeof(*functions), sidecar->opened.sidecar->name, error);

    if (functions == NULL || open_functions(functions, &sidecar->opened, &why))
        return functions;
    covsplit_functions_close(functions);
    report_error(error, &why);
    return NULL;
}

void covsplit_functions_close(covsplit_functions *functions)
{
    if (functions == NULL)
        return;
    names_free(&functions->names);
    free(functions);
}

size_t covsplit_functions_count(const covsplit_functions *functions)
{
    return functions->count;
}

bool covsplit_functions_get(const covsplit_functions *functions, size_t index,
                            covsplit_function *function)
{
    const struct profile_sidecar *opened = functions->opened;
    struct profile_range range;
    const uint8_t *record;

    if (index >= functions->count || !profile_sidecar_range(opened, index, &range))
        return false;
    /* NameRef and FuncHash are the first two fields in every version. */
    record = opened->data.data + index * opened->layout.record_size;
    *function = (covsplit_function){
        .name_hash = load_u64(record, opened->big_endian),
        .hash = load_u64(record + sizeof(uint64_t), opened->big_endian),
        .first_counter = range.first_counter,
        .counter_count = range.counter_count,
        .first_bitmap_byte = range.first_bitmap_byte,
        .bitmap_byte_count = range.bitmap_byte_count,
    };
    function->name = names_find(&functions->names, function->name_hash);
    return true;
}

/* ---- unions ---- */

#define UNION_NAME "the union" /* in messages */

struct covsplit_union {
    struct union_writer writer;
    struct caller_sink caller;
    bool has_ended; /* it failed, or is finished */
};

covsplit_union *covsplit_union_new(covsplit_sink sink, void *context, covsplit_error **error)
{
    covsplit_union *all = new_object(sizeof(*all), UNION_NAME, error);

    if (all != NULL) {
        all->caller = (struct caller_sink){sink, context, UNION_NAME};
        all->writer = (struct union_writer){
            .name = UNION_NAME, .sink = pass_to_caller, .context = &all->caller};
    }
    return all;
}

void covsplit_union_free(covsplit_union *all)
{
    if (all == NULL)
        return;
    union_free(&all->writer);
    free(all);
}

static bool check_usable(const covsplit_union *all, struct error *error)
{
    return !all->has_ended ||
           error_set(error, UNION_NAME ": it failed before, or is finished; make another one");
}

bool covsplit_union_add(covsplit_union *all, const covsplit_sidecar *sidecar,
                        covsplit_error **error)
{
    struct error why = {0};
    bool added = check_usable(all, &why) && union_add(&all->writer, sidecar->opened.sidecar, &why);

    all->has_ended = !added;
    return check_result(added, error, &why);
}

bool covsplit_union_finish(covsplit_union *all, covsplit_error **error)
{
    struct error why = {0};
    bool done = check_usable(all, &why) && union_finish(&all->writer, &why);

    all->has_ended = true;
    return check_result(done, error, &why);
}
