/*
 * The main function of a fuzz target without an engine: runs it on each file that is named, and on
 * each file in a directory that is. What goes wrong aborts, as it does under an engine. Prints the
 * number of inputs; fails if there were none.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/support.h"

#define PATH_SIZE 4096

/* Of a target that prepares something. */
int LLVMFuzzerInitialize(int *argument_count, char ***arguments) __attribute__((weak));

static unsigned long inputs;

static void stop(const char *path)
{
    perror(path);
    exit(1);
}

/* The input gets memory of just its size, so that a sanitizer sees what is read behind its end. */
static void run_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size + (size == 0));

    if (file == NULL || data == NULL || fread(data, 1, size, file) != size)
        stop(path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    inputs++;
}

static void run_path(const char *path)
{
    struct stat status;
    struct dirent **names;
    int count;

    if (stat(path, &status) != 0)
        stop(path);
    if (!S_ISDIR(status.st_mode)) {
        run_file(path, (size_t)status.st_size);
        return;
    }
    count = scandir(path, &names, NULL, alphasort);
    if (count < 0)
        stop(path);
    for (int i = 0; i < count; i++) {
        char inside[PATH_SIZE];

        if (names[i]->d_name[0] != '.' &&
            snprintf(inside, sizeof(inside), "%s/%s", path, names[i]->d_name) < PATH_SIZE)
            run_path(inside);
        free(names[i]);
    }
    free(names);
}

int main(int argument_count, char **arguments)
{
    if (LLVMFuzzerInitialize != NULL)
        LLVMFuzzerInitialize(&argument_count, &arguments);
    for (int i = 1; i < argument_count; i++)
        run_path(arguments[i]);
    printf("%lu inputs\n", inputs);
    return inputs == 0;
}
