/*
 * Profiles: see covsplit.h. A thin layer over common/llvm/profile.h and common/sidecar/correlate.h.
 */
#include <stdlib.h>
#include <string.h>

#include "reader/internal.h"

/* ---- opening ---- */

/* Makes the next profile the current one. If there is none, or it is bad, that stays. */
static bool look_at_next(covsplit_profile *opened, bool *found, struct error *error)
{
    struct profile_reader next = opened->reader;
    struct profile profile;
    bool done;

    next.expanded = (struct buffer){0};
    done = profile_reader_next(&next, &profile, found, error);
    if (!done || !*found) {
        profile_reader_free(&next);
        return done;
    }
    profile_reader_free(&opened->reader);
    opened->reader = next;
    opened->profile = profile;
    return true;
}

/* Takes ownership of the input, even on failure. */
static covsplit_profile *open_input(struct input *input, struct bytes bytes, const char *name,
                                    covsplit_error **error)
{
    covsplit_profile *opened = calloc(1, sizeof(*opened));
    struct error why = {0};

    if (opened != NULL)
        opened->name = strdup(name);
    if (opened == NULL || opened->name == NULL) {
        error_out_of_memory(&why, name, sizeof(*opened));
        input_close(input);
    } else {
        opened->input = *input;
        input_close_descriptor(&opened->input);
        opened->reader = (struct profile_reader){.file = bytes, .name = opened->name};
        if (profile_reader_first(&opened->reader, &opened->profile, &why))
            return opened;
    }
    covsplit_profile_close(opened);
    report_error(error, &why);
    return NULL;
}

covsplit_profile *covsplit_profile_open(const char *path, covsplit_error **error)
{
    struct input input;
    struct error why = {0};

    if (input_read(&input, path, &why))
        return open_input(&input, input.bytes, path, error);
    report_error(error, &why);
    return NULL;
}

covsplit_profile *covsplit_profile_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error)
{
    struct input none = {0};

    return open_input(&none, (struct bytes){data, size}, name, error);
}

void covsplit_profile_close(covsplit_profile *profile)
{
    if (profile == NULL)
        return;
    profile_reader_free(&profile->reader);
    input_close(&profile->input);
    free(profile->name);
    free(profile);
}

bool covsplit_profile_next(covsplit_profile *profile, bool *found, covsplit_error **error)
{
    struct error why = {0};

    return check_result(look_at_next(profile, found, &why), error, &why);
}

/* ---- the current profile ---- */

uint64_t covsplit_profile_raw_version(const covsplit_profile *profile)
{
    return profile->profile.header.version;
}

bool covsplit_profile_needs_sidecar(const covsplit_profile *profile)
{
    return profile_needs_sidecar(&profile->profile);
}

size_t covsplit_profile_uuid(const covsplit_profile *profile, uint8_t *uuid, size_t size)
{
    enum profile_uuid_source source;
    struct uuid found = profile_uuid(&profile->profile, &source);

    if (found.size != 0 && size != 0)
        memcpy(uuid, found.bytes, found.size < size ? found.size : size);
    return found.size;
}

uint64_t covsplit_profile_counter_count(const covsplit_profile *profile)
{
    return profile_whole_counters(&profile->profile).size /
           profile_counter_size(profile->profile.header.version);
}

uint64_t covsplit_profile_counter(const covsplit_profile *profile, uint64_t index)
{
    const struct profile *view = &profile->profile;
    struct bytes counters = profile_whole_counters(view);

    if (index >= covsplit_profile_counter_count(profile))
        return 0;
    /* With byte coverage, a function that runs clears its bytes. */
    if (profile_counter_size(view->header.version) == 1)
        return counters.data[index] == 0;
    return load_u64(counters.data + index * sizeof(uint64_t), view->big_endian);
}

/* ---- correlating ---- */

bool covsplit_profile_check(const covsplit_profile *profile, const covsplit_sidecar *sidecar,
                            covsplit_error **error)
{
    struct error why = {0};

    return check_result(correlation_check(sidecar->sidecar, &profile->profile, profile->name, &why),
                        error, &why);
}

bool covsplit_profile_correlate(const covsplit_profile *profile, covsplit_sidecar *sidecar,
                                covsplit_sink sink, void *context, covsplit_error **error)
{
    struct caller_sink caller = {sink, context, profile->name};
    struct error why = {0};

    return check_result(correlation_write(sidecar == NULL ? NULL : &sidecar->correlation,
                                          sidecar == NULL ? NULL : sidecar->sidecar,
                                          &profile->profile, profile->name, pass_to_caller, &caller,
                                          &why),
                        error, &why);
}
