/*
 * The public interface of libcovsplit: see covsplit.h.
 *
 * A thin layer over common/sidecar, which does the work. It turns errors into objects that the
 * caller owns, and keeps internal types out of the public header.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/sidecar/object.h"
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

/* ---- sidecars ---- */

covsplit_sidecar *cover_sidecar(struct sidecar *sidecar, const char *name, struct error *why,
                                covsplit_error **error)
{
    covsplit_sidecar *opened = sidecar == NULL ? NULL : calloc(1, sizeof(*opened));

    if (opened != NULL) {
        opened->sidecar = sidecar;
        return opened;
    }
    if (sidecar != NULL)
        error_out_of_memory(why, name, sizeof(*opened));
    sidecar_close(sidecar);
    report_error(error, why);
    return NULL;
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

void covsplit_sidecar_close(covsplit_sidecar *sidecar)
{
    if (sidecar == NULL)
        return;
    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++)
        buffer_free(&sidecar->sections[kind].content);
    correlation_free(&sidecar->correlation);
    sidecar_close(sidecar->sidecar);
    free(sidecar);
}

bool covsplit_is_sidecar(const void *data, size_t size)
{
    return sidecar_recognize((struct bytes){data, size});
}

bool covsplit_is_object(const void *data, size_t size)
{
    return object_recognize((struct bytes){data, size});
}

void covsplit_sidecar_limit_memory(covsplit_sidecar *sidecar, uint64_t bytes)
{
    sidecar_limit_memory(sidecar->sidecar, bytes);
}

uint64_t covsplit_sidecar_memory_limit(const covsplit_sidecar *sidecar)
{
    return sidecar_memory_limit(sidecar->sidecar);
}

void covsplit_sidecar_set_threads(covsplit_sidecar *sidecar, unsigned threads)
{
    if (threads != 0)
        sidecar_help_restore(sidecar->sidecar, threads, NULL);
}

const uint8_t *covsplit_sidecar_uuid(const covsplit_sidecar *sidecar, size_t *size)
{
    const struct uuid *uuid = &sidecar_facts(sidecar->sidecar)->uuid;

    *size = uuid->size;
    return uuid->bytes;
}

const char *covsplit_sidecar_format(const covsplit_sidecar *sidecar)
{
    return image_format_name(sidecar_facts(sidecar->sidecar)->format);
}

const char *covsplit_sidecar_image_name(const covsplit_sidecar *sidecar)
{
    return sidecar_image_name(sidecar->sidecar);
}

uint16_t covsplit_sidecar_machine(const covsplit_sidecar *sidecar)
{
    return sidecar_facts(sidecar->sidecar)->machine;
}

uint64_t covsplit_sidecar_raw_version(const covsplit_sidecar *sidecar)
{
    return sidecar_facts(sidecar->sidecar)->raw_version;
}

uint64_t covsplit_sidecar_original_size(const covsplit_sidecar *sidecar)
{
    return sidecar_facts(sidecar->sidecar)->original_size;
}

uint64_t covsplit_sidecar_stripped_size(const covsplit_sidecar *sidecar)
{
    return sidecar_facts(sidecar->sidecar)->stripped_size;
}

bool covsplit_sidecar_is_placeholder(const covsplit_sidecar *sidecar)
{
    return sidecar_facts(sidecar->sidecar)->is_placeholder;
}

bool covsplit_sidecar_is_exact(const covsplit_sidecar *sidecar)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar->sidecar);

    return !facts->is_inexact && !facts->is_placeholder;
}

/* ---- sections ---- */

size_t covsplit_sidecar_section_count(const covsplit_sidecar *sidecar)
{
    return sidecar_section_count(sidecar->sidecar);
}

static void describe(const struct sidecar_section *found, covsplit_section *section)
{
    *section = (covsplit_section){.name = found->name,
                                  .address = found->address,
                                  .size = found->size,
                                  .stored_size = found->stored_size};
}

bool covsplit_sidecar_section(const covsplit_sidecar *sidecar, size_t index,
                              covsplit_section *section)
{
    if (index >= sidecar_section_count(sidecar->sidecar))
        return false;
    describe(sidecar_section(sidecar->sidecar, index), section);
    return true;
}

/* NULL if the sidecar has no section of that name. */
static const struct sidecar_section *find(const covsplit_sidecar *sidecar, const char *name)
{
    enum section_kind kind;

    return section_kind_of_name(name, &kind) ? sidecar_find(sidecar->sidecar, kind) : NULL;
}

bool covsplit_sidecar_find(const covsplit_sidecar *sidecar, const char *name,
                           covsplit_section *section)
{
    const struct sidecar_section *found = find(sidecar, name);

    if (found != NULL)
        describe(found, section);
    return found != NULL;
}

static const struct sidecar_section *find_or_explain(const covsplit_sidecar *sidecar,
                                                     const char *name, struct error *error)
{
    const struct sidecar_section *found = find(sidecar, name);

    if (found == NULL)
        error_set(error, "%s: has no section %s; ask for one that it lists",
                  sidecar_name(sidecar->sidecar), name);
    return found;
}

/* Allocates a block for an empty section too, since the result must not be NULL. */
static bool read_section(const covsplit_sidecar *sidecar, const struct sidecar_section *section,
                         struct buffer *content, struct error *error)
{
    if (!sidecar_read_section(sidecar->sidecar, section, content, error))
        return false;
    return content->data != NULL || buffer_reserve(content, 1) ||
           error_out_of_memory(error, sidecar_name(sidecar->sidecar), 1);
}

void *covsplit_sidecar_read(const covsplit_sidecar *sidecar, const char *name, size_t *size,
                            covsplit_error **error)
{
    struct buffer content = {0};
    struct error why = {0};
    const struct sidecar_section *section = find_or_explain(sidecar, name, &why);

    if (section != NULL && read_section(sidecar, section, &content, &why)) {
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
    const struct sidecar_section *section = find_or_explain(sidecar, name, &why);

    if (section != NULL &&
        (buffer_reserve(&content, 1) ||
         error_out_of_memory(&why, sidecar_name(sidecar->sidecar), 1)) &&
        sidecar_read_part(sidecar->sidecar, section, offset, size, &content, &why))
        return content.data;
    buffer_free(&content);
    report_error(error, &why);
    return NULL;
}

const void *covsplit_sidecar_content(covsplit_sidecar *sidecar, const char *name, size_t *size,
                                     covsplit_error **error)
{
    struct error why = {0};
    const struct sidecar_section *section = find_or_explain(sidecar, name, &why);
    struct loaded_section *loaded = section == NULL ? NULL : &sidecar->sections[section->kind];

    if (loaded != NULL &&
        (loaded->loaded || read_section(sidecar, section, &loaded->content, &why))) {
        loaded->loaded = true;
        *size = loaded->content.size;
        return loaded->content.data;
    }
    if (loaded != NULL)
        buffer_free(&loaded->content);
    report_error(error, &why);
    return NULL;
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
    struct caller_sink caller = {sink, context, sidecar_name(sidecar->sidecar)};
    struct error why = {0};
    const struct sidecar_section *section = find_or_explain(sidecar, name, &why);

    return check_result(section != NULL && sidecar_stream_section(sidecar->sidecar, section,
                                                                  pass_to_caller, &caller, &why),
                        error, &why);
}

/* ---- whole sidecars ---- */

bool covsplit_sidecar_verify(const covsplit_sidecar *sidecar, covsplit_error **error)
{
    struct error why = {0};

    return check_result(sidecar_verify(sidecar->sidecar, &why), error, &why);
}

bool covsplit_sidecar_restore(const covsplit_sidecar *sidecar, const void *stripped, size_t size,
                              const char *stripped_name, covsplit_sink sink, void *context,
                              covsplit_error **error)
{
    struct caller_sink caller = {sink, context, stripped_name};
    struct error why = {0};

    return check_result(sidecar_restore(sidecar->sidecar, (struct bytes){stripped, size},
                                        stripped_name, pass_to_caller, &caller, &why),
                        error, &why);
}

bool covsplit_sidecar_restore_file(const covsplit_sidecar *sidecar, const char *stripped_path,
                                   covsplit_sink sink, void *context, covsplit_error **error)
{
    struct caller_sink caller = {sink, context, stripped_path};
    struct error why = {0};
    struct input stripped;
    bool done = false;

    if (input_open(&stripped, stripped_path, &why)) {
        done = sidecar_restore_input(sidecar->sidecar, &stripped, pass_to_caller, &caller, &why) &&
               input_unchanged(&stripped, &why);
        input_close(&stripped);
    }
    return check_result(done, error, &why);
}

bool covsplit_sidecar_export(covsplit_sidecar *sidecar, covsplit_sink sink, void *context,
                             covsplit_error **error)
{
    struct caller_sink caller = {sink, context, sidecar_name(sidecar->sidecar)};
    struct error why = {0};

    return check_result(object_write(sidecar->sidecar, pass_to_caller, &caller, &why), error, &why);
}
