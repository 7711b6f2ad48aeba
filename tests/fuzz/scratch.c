/*
 * A directory for files of a target: see scratch.h.
 */
#include "tests/fuzz/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/support.h"

#define DIRECTORIES_MAX 4

static char root[64];
static char directories[DIRECTORIES_MAX][SCRATCH_PATH_SIZE];
static size_t directory_count;

static void empty(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;

    if (directory == NULL)
        return;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_type != DT_DIR)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
}

static void remove_all(void)
{
    for (size_t i = directory_count; i > 0; i--) {
        empty(directories[i - 1]);
        rmdir(directories[i - 1]);
    }
    empty(root);
    rmdir(root);
}

static void start(void)
{
    snprintf(root, sizeof(root), "%s/covsplit-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_EXPECT(mkdtemp(root) != NULL, "no directory for the target");
    atexit(remove_all);
}

void scratch_path(char *path, const char *name)
{
    if (root[0] == '\0')
        start();
    snprintf(path, SCRATCH_PATH_SIZE, "%s%s%s", root, name[0] == '\0' ? "" : "/", name);
}

void scratch_make_directory(const char *name)
{
    char path[SCRATCH_PATH_SIZE];

    scratch_path(path, name);
    FUZZ_EXPECT(directory_count < DIRECTORIES_MAX && mkdir(path, 0700) == 0,
                "no directory for the target");
    snprintf(directories[directory_count++], SCRATCH_PATH_SIZE, "%s", path);
}

void scratch_write(const char *name, struct bytes content)
{
    char path[SCRATCH_PATH_SIZE];
    int file;

    scratch_path(path, name);
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_EXPECT(file >= 0 &&
                    write(file, content.data, (size_t)content.size) == (ssize_t)content.size &&
                    close(file) == 0,
                "no file for the target");
}

void scratch_empty(const char *name)
{
    char path[SCRATCH_PATH_SIZE];

    scratch_path(path, name);
    empty(path);
}
