/*
 * Names of functions: see function_names.h.
 */
#include "split/sidecars/function_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "split/sidecars/demangle.h"

/* How many names an error lists if several functions match. */
#define LISTED_MOST 8

struct search {
    const char *wanted;
    const char *key; /* what a mangled name must contain */
    size_t key_length;
    bool is_exact;           /* the state has just this name */
    struct text_set in_file; /* names that are this one behind that of a file */
    struct text_set mangled; /* names that may be this one, demangled */
};

/* ---- all names ---- */

/* LLVM 17 and later put a ';' behind the file, those before a ':'. */
static bool is_in_file(const char *name, const char *wanted)
{
    size_t length = strlen(name), wanted_length = strlen(wanted);
    const char *end = name + length - wanted_length;

    return length > wanted_length + 1 && strcmp(end, wanted) == 0 &&
           (end[-1] == ':' || end[-1] == ';');
}

static bool may_be_mangled(const struct search *search, const char *name)
{
    const char *part = demangle_part(name);

    return part != NULL && (search->key_length == 0 ||
                            memmem(part, strlen(part), search->key, search->key_length) != NULL);
}

/* A state_image_visitor. */
static bool look_at_names(void *context, struct state_image *image, struct error *error)
{
    struct search *search = context;
    const struct names *names = &image->functions.names;

    for (size_t i = 0; i < names->count; i++) {
        const char *name = (const char *)names_get(names, i).data;
        bool done = true;

        if (strcmp(name, search->wanted) == 0)
            search->is_exact = true;
        else if (is_in_file(name, search->wanted))
            done = text_set_add(&search->in_file, &name, 1);
        else if (may_be_mangled(search, name))
            done = text_set_add(&search->mangled, &name, 1);
        if (!done)
            return error_out_of_memory(error, image->file, strlen(name));
    }
    return true;
}

/* ---- the result ---- */

static bool is_ambiguous(const char *wanted, const struct text_set *found, struct error *error)
{
    char list[ERROR_MESSAGE_MAX] = "";
    size_t listed = found->count <= LISTED_MOST ? found->count : LISTED_MOST, length = 0;

    for (size_t i = 0; i < listed && length < sizeof(list); i++)
        length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s", i == 0 ? "" : ", ",
                                   found->items[i]);
    return error_set(error, "%s: %zu functions have this name; give one of these: %.800s%s", wanted,
                     found->count, list, listed < found->count || length > 800 ? ", ..." : "");
}

static bool add_names(struct text_set *names, const struct text_set *found, struct error *error)
{
    return text_set_add(names, (const char *const *)found->items, found->count) ||
           error_out_of_memory(error, "the names of functions", found->count);
}

/* Keeps the names whose demangled forms are wanted; *is_one is set if these forms are equal. */
static bool keep_demangled(const struct search *search, const struct buffer *text,
                           struct text_set *kept, bool *is_one, struct error *error)
{
    const char *demangled = (const char *)text->data, *first = NULL;

    *is_one = true;
    for (size_t i = 0; i < search->mangled.count; i++) {
        const char *name = search->mangled.items[i];

        if (demangled_is(demangled, search->wanted)) {
            if (!text_set_add(kept, &name, 1))
                return error_out_of_memory(error, "the names of functions", strlen(name));
            if (first == NULL)
                first = demangled;
            *is_one = *is_one && strcmp(first, demangled) == 0;
        }
        demangled += strlen(demangled) + 1;
    }
    return true;
}

static bool demangle_names(const struct search *search, struct buffer *text, bool *is_there,
                           struct error *error)
{
    size_t count = search->mangled.count;
    const char **parts = malloc((count + 1) * sizeof(*parts));
    bool done;

    if (parts == NULL)
        return error_out_of_memory(error, "the names of functions", count * sizeof(*parts));
    for (size_t i = 0; i < count; i++)
        parts[i] = demangle_part(search->mangled.items[i]);
    done = demangle(parts, count, text, is_there, error);
    free(parts);
    return done;
}

static bool find_demangled(const struct search *search, struct text_set *names, struct error *error)
{
    struct text_set kept = {0};
    struct buffer text = {0};
    bool is_there = true, is_one = true;
    bool done = search->mangled.count == 0 || demangle_names(search, &text, &is_there, error);

    if (done && is_there && search->mangled.count != 0)
        done = keep_demangled(search, &text, &kept, &is_one, error);
    if (done && kept.count == 0)
        done = error_set(error, "%s: no function has this name%s", search->wanted,
                         is_there ? "; give it as llvm-profdata or llvm-cov show it"
                                  : " as in profiles; to find it by its name in the source, "
                                    "install llvm-cxxfilt or c++filt");
    else if (done)
        done = is_one ? add_names(names, &kept, error) : is_ambiguous(search->wanted, &kept, error);
    text_set_free(&kept);
    buffer_free(&text);
    return done;
}

bool function_names_find(struct state *state, const struct profile_sidecar_source *source,
                         uint64_t memory_limit, const char *wanted, struct text_set *names,
                         struct error *error)
{
    struct search search = {.wanted = wanted};
    bool done;

    search.key = demangled_key(wanted, &search.key_length);
    done = state_visit_images(state, source, true, memory_limit, look_at_names, &search, error);
    if (done && search.is_exact)
        done = text_set_add(names, &wanted, 1) ||
               error_out_of_memory(error, "the names of functions", strlen(wanted));
    else if (done && search.in_file.count == 1)
        done = add_names(names, &search.in_file, error);
    else if (done && search.in_file.count > 1)
        done = is_ambiguous(wanted, &search.in_file, error);
    else if (done)
        done = find_demangled(&search, names, error);
    text_set_free(&search.in_file);
    text_set_free(&search.mangled);
    return done;
}
