/*
 * Checking a sidecar: see sidecar_check.h.
 */
#include "split/sidecars/sidecar_check.h"

#include "common/base/file.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "formats/container.h"
#include "split/cli/find_sidecar.h"
#include "split/sidecars/second_reader.h"

/* A bytes_sink. Here only the final digest of the restored image matters. */
static bool drop_part(void *context, struct bytes part, struct error *error)
{
    (void)context;
    (void)part;
    (void)error;
    return true;
}

static bool check_not_placeholder(const struct sidecar *sidecar, struct error *error)
{
    return !sidecar_facts(sidecar)->is_placeholder ||
           error_set(error,
                     "%s: is a placeholder, which holds nothing; split the original image again, "
                     "or remove it",
                     sidecar_name(sidecar));
}

/* A sidecar belongs to the slice that it can be joined with. */
static bool restore_from_slices(const struct sidecar *sidecar, const struct container *container,
                                struct error *error)
{
    bool done = false;

    for (size_t i = 0; i < container->count && !done; i++) {
        const struct input *slice = &container->slices[i].input;

        if (container->is_universal && slice->bytes.size != sidecar_facts(sidecar)->stripped_size)
            continue;
        done = sidecar_restore_input(sidecar, slice, drop_part, NULL, error);
    }
    return done;
}

static bool check_join(const struct sidecar *sidecar, const char *stripped_path,
                       struct error *error)
{
    struct input stripped;
    struct container container;
    bool done;

    if (!input_open(&stripped, stripped_path, error))
        return false;
    done = container_open(&container, &stripped, error);
    if (done) {
        error_set(error, "%s: belongs to no slice of %s; give the sidecar of a slice",
                  sidecar_name(sidecar), stripped_path);
        done = restore_from_slices(sidecar, &container, error) &&
               input_unchanged(&stripped, error) &&
               second_reader_agrees(&stripped, &container, error);
    }
    container_close(&container);
    input_close(&stripped);
    return done;
}

bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped,
                   const struct parsed_options *options, struct checked_sidecar *checked,
                   struct error *error)
{
    struct sidecar *sidecar = sidecar_read_for(options, path, error);
    bool good;

    *checked = (struct checked_sidecar){.is_empty = false};
    if (sidecar == NULL)
        return false;
    checked->uuid = sidecar_facts(sidecar)->uuid;
    checked->is_empty = sidecar_holds_nothing(sidecar);
    good = (uuid == NULL || store_check_uuid(path, &sidecar_facts(sidecar)->uuid, uuid, error)) &&
           check_not_placeholder(sidecar, error) && sidecar_verify(sidecar, error) &&
           (stripped == NULL || check_join(sidecar, stripped, error));
    sidecar_close(sidecar);
    return good;
}

void write_checked_sidecar(struct json_writer *json, const char *path,
                           const struct checked_sidecar *checked, const struct error *error)
{
    char uuid[UUID_HEX_MAX];

    json_begin_object(json, NULL);
    json_string(json, "file", path);
    json_string_or_null(json, "uuid", uuid_format(&checked->uuid, uuid));
    json_boolean(json, "ok", error == NULL);
    json_boolean(json, "empty", checked->is_empty);
    json_string_or_null(json, "error", error == NULL ? NULL : error->message);
    json_end_object(json);
}
