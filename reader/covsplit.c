/*
 * The public interface of libcovsplit: see covsplit.h.
 *
 * A thin cover over common/sidecar.h, which does the work: it turns errors into objects of the
 * caller and keeps the types of the inside out of the public header.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/file.h"
#include "common/sidecar.h"

/* The project hides all symbols; those of the public header are what the library is there for. */
#pragma GCC visibility push(default)
#include "reader/covsplit.h"
#pragma GCC visibility pop

/* ---- errors ---- */

struct covsplit_error {
    struct error error;
};

/* For when there is no memory for an error: shared by all, never written, never freed. */
static const covsplit_error no_memory = {
    {"libcovsplit: out of memory; free some and try again"},
};

const char *covsplit_error_message(const covsplit_error *error)
{
    return error->error.message;
}

void covsplit_error_free(covsplit_error *error)
{
    if (error != &no_memory)
        free(error);
}

static void report(covsplit_error **out, const struct error *error)
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

/* For returning from functions that return bool. */
static bool check(bool result, covsplit_error **out, const struct error *error)
{
    if (!result)
        report(out, error);
    return result;
}

/* ---- sidecars ---- */

struct covsplit_sidecar {
    struct input input; /* zeroed where the sidecar is in the caller's memory */
    struct sidecar *sidecar;
};

covsplit_sidecar *covsplit_sidecar_open(const char *path, covsplit_error **error)
{
    covsplit_sidecar *opened = calloc(1, sizeof(*opened));
    struct error why = {0};

    if (opened == NULL) {
        error_out_of_memory(&why, path, sizeof(*opened));
    } else if (input_open(&opened->input, path, &why)) {
        opened->sidecar = sidecar_open(opened->input.bytes, path, &why);
        if (opened->sidecar != NULL)
            return opened;
        input_close(&opened->input);
    }
    free(opened);
    report(error, &why);
    return NULL;
}

covsplit_sidecar *covsplit_sidecar_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error)
{
    covsplit_sidecar *opened = calloc(1, sizeof(*opened));
    struct error why = {0};

    if (opened == NULL) {
        error_out_of_memory(&why, name, sizeof(*opened));
    } else {
        opened->sidecar = sidecar_open((struct bytes){data, size}, name, &why);
        if (opened->sidecar != NULL)
            return opened;
    }
    free(opened);
    report(error, &why);
    return NULL;
}

void covsplit_sidecar_close(covsplit_sidecar *sidecar)
{
    if (sidecar == NULL)
        return;
    sidecar_close(sidecar->sidecar);
    input_close(&sidecar->input);
    free(sidecar);
}

bool covsplit_is_sidecar(const void *data, size_t size)
{
    return sidecar_recognize((struct bytes){data, size});
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

/* ---- sections ---- */

size_t covsplit_sidecar_section_count(const covsplit_sidecar *sidecar)
{
    return sidecar_section_count(sidecar->sidecar);
}

bool covsplit_sidecar_section(const covsplit_sidecar *sidecar, size_t index,
                              covsplit_section *section)
{
    const struct sidecar_section *found;

    if (index >= sidecar_section_count(sidecar->sidecar))
        return false;
    found = sidecar_section(sidecar->sidecar, index);
    *section = (covsplit_section){.name = found->name,
                                  .address = found->address,
                                  .size = found->size,
                                  .stored_size = found->stored_size};
    return true;
}

void *covsplit_sidecar_read(const covsplit_sidecar *sidecar, const char *name, size_t *size,
                            covsplit_error **error)
{
    const struct sidecar_section *section = NULL;
    struct buffer content = {0};
    struct error why = {0};
    enum section_kind kind;

    if (section_kind_of_name(name, &kind))
        section = sidecar_find(sidecar->sidecar, kind);
    if (section == NULL) {
        error_set(&why, "%s: holds no section %s; ask for one that it lists",
                  sidecar_name(sidecar->sidecar), name);
    } else if (sidecar_read_section(sidecar->sidecar, section, &content, &why)) {
        /* An empty section has a block all the same. */
        if (content.data != NULL || buffer_reserve(&content, 1)) {
            *size = content.size;
            return content.data;
        }
        error_out_of_memory(&why, sidecar_name(sidecar->sidecar), 1);
    }
    buffer_free(&content);
    report(error, &why);
    return NULL;
}

/* ---- whole sidecars ---- */

bool covsplit_sidecar_verify(const covsplit_sidecar *sidecar, covsplit_error **error)
{
    struct error why = {0};

    return check(sidecar_verify(sidecar->sidecar, &why), error, &why);
}

struct caller_sink {
    covsplit_sink sink;
    void *context;
    const char *name;
};

static bool pass_on(void *context, struct bytes part, struct error *error)
{
    const struct caller_sink *caller = context;

    return caller->sink(caller->context, part.data, (size_t)part.size) ||
           error_set(error, "%s: restoring was stopped by the program; run it again", caller->name);
}

bool covsplit_sidecar_restore(const covsplit_sidecar *sidecar, const void *stripped, size_t size,
                              const char *stripped_name, covsplit_sink sink, void *context,
                              covsplit_error **error)
{
    struct caller_sink caller = {sink, context, stripped_name};
    struct error why = {0};

    return check(sidecar_restore(sidecar->sidecar, (struct bytes){stripped, size}, stripped_name,
                                 pass_on, &caller, &why),
                 error, &why);
}
