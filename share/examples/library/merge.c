/*
 * Adds up profiles with libcovsplit, as `covsplit merge --failure-mode=all` does.
 *
 *     cc merge.c $(pkg-config --cflags --libs covsplit) -o merge
 *     ./merge STORE OUT.profraw PROFILE...
 */
#include <covsplit.h>
#include <stdio.h>

/* Prints the message and frees the error. True if memory ran out, when there is no use in trying
 * the next file. */
static bool complain(covsplit_error *error)
{
    bool is_of_memory = covsplit_error_is_of_memory(error);

    fprintf(stderr, "%s\n", covsplit_error_message(error));
    covsplit_error_free(error);
    return is_of_memory;
}

/* Adds all profiles of a file, or those before the first bad one. */
static bool add_file(covsplit_merger *merger, const char *path, covsplit_error **error)
{
    covsplit_profile *profile = covsplit_profile_open(path, error);
    bool found = profile != NULL, done = found;

    while (done && found)
        done = covsplit_merger_add(merger, profile, error) &&
               covsplit_profile_next(profile, &found, error);
    covsplit_profile_close(profile);
    return done;
}

static bool write_part(void *context, const void *data, size_t size)
{
    return fwrite(data, 1, size, (FILE *)context) == size;
}

static bool write_result(covsplit_merger *merger, const char *path)
{
    covsplit_error *error = NULL;
    FILE *file = fopen(path, "wb");
    bool done;

    if (file == NULL) {
        perror(path);
        return false;
    }
    done = covsplit_merger_finish(merger, write_part, file, &error);
    if (!done)
        complain(error);
    if (fclose(file) != 0) {
        perror(path);
        done = false;
    }
    if (!done)
        remove(path);
    return done;
}

static bool merge(covsplit_merger *merger, const char *output, char **profiles)
{
    covsplit_error *error = NULL;
    bool stop = false;

    for (; *profiles != NULL && !stop; profiles++)
        stop = !add_file(merger, *profiles, &error) && complain(error);
    return !stop && write_result(merger, output);
}

int main(int argument_count, char **arguments)
{
    covsplit_error *error = NULL;
    covsplit_store *store;
    covsplit_merger *merger;
    bool done = false;

    if (argument_count < 4)
        return 2;
    store = covsplit_store_open(arguments[1], &error);
    merger = store == NULL ? NULL : covsplit_merger_new(store, &error);
    if (merger != NULL)
        done = merge(merger, arguments[2], &arguments[3]);
    else
        complain(error);
    covsplit_merger_free(merger);
    covsplit_store_close(store);
    return done ? 0 : 1;
}
