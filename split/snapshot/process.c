/*
 * A running process as the target of a snapshot.
 *
 * Its memory is read through /proc/PID/mem. That is one descriptor for one program: if the process
 * ends or executes another program, it reads nothing any more, even if the number of the process
 * has been given to another one. process_vm_readv(2), which needs the same permission, goes by the
 * number alone. The process is not stopped and does not notice.
 *
 * Modules come from /proc/PID/maps. The file of a module may have been deleted or replaced, or be
 * in another mount namespace (a container), so it is opened by what the kernel has of the mapping
 * itself, if permitted, and else by its path below /proc/PID/root.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "split/cli/memory.h"
#include "split/snapshot/snapshot.h"

/* A line of /proc/PID/maps. */
struct process_mapping {
    uint64_t start; /* first: see array_count_up_to */
    uint64_t end;
    uint64_t offset; /* in the file */
    uint64_t major, minor, inode;
    bool is_shared;
    bool is_writable;
};

struct process {
    struct target memory;
    int directory;                    /* /proc/PID */
    int descriptor;                   /* its mem */
    struct process_mapping *mappings; /* in ascending order of their addresses */
    size_t mapping_count, mapping_capacity;
};

/* ---- errors ---- */

static bool cannot_read(const struct process *process, int number, struct error *error)
{
    if (number == ESRCH || number == ENOENT)
        return error_set(error,
                         "%s: ended, or executed another program, while it was read; take the "
                         "snapshot again",
                         process->memory.name);
    if (number == EACCES || number == EPERM)
        return error_set_errno(error, number,
                               "%s: its memory may not be read; run covsplit as the same user with "
                               "kernel.yama.ptrace_scope 0, or as root (CAP_SYS_PTRACE)",
                               process->memory.name);
    return error_set_errno(error, number, "%s: cannot be read", process->memory.name);
}

static bool has_no_memory(const struct process *process, struct error *error)
{
    return error_set(error,
                     "%s: has no memory: it has exited, or is a thread of the kernel; give the "
                     "number of a running process",
                     process->memory.name);
}

/* ---- operations ---- */

static size_t read_memory(struct target *memory, uint64_t address, void *to, size_t size)
{
    struct process *process = (struct process *)memory;
    ssize_t count;

    if (address > INT64_MAX)
        return 0;
    do
        count = pread(process->descriptor, to, size, (off_t)address);
    while (count < 0 && errno == EINTR);
    /* The first page of a process is never mapped, but the kernel only says that its memory is
     * gone by reading nothing. */
    if (count == 0)
        cannot_read(process, ESRCH, &memory->failure);
    else if (count < 0 && errno != EIO && errno != EFAULT)
        cannot_read(process, errno, &memory->failure);
    return count > 0 ? (size_t)count : 0;
}

/* The mapping that the address is in; NULL if there is none. */
static const struct process_mapping *mapping_of(const struct process *process, uint64_t address)
{
    size_t next = array_count_up_to(process->mappings, process->mapping_count,
                                    sizeof(*process->mappings), address);
    const struct process_mapping *last = next == 0 ? NULL : &process->mappings[next - 1];

    return last == NULL || address >= last->end ? NULL : last;
}

static bool is_writable(struct target *memory, uint64_t address)
{
    const struct process_mapping *mapping = mapping_of((struct process *)memory, address);

    return mapping != NULL && mapping->is_writable;
}

/* Opens a path below /proc/PID if it is a regular file: to open a device can have effects. */
static int open_regular(const struct process *process, const char *path)
{
    struct stat status;

    if (fstatat(process->directory, path, &status, 0) != 0)
        return -1;
    if (S_ISREG(status.st_mode))
        return openat(process->directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    errno = ENOENT;
    return -1;
}

static bool open_file(struct target *memory, const struct memory_module *module, struct input *file,
                      bool *is_same, struct error *error)
{
    const struct process *process = (struct process *)memory;
    const struct process_mapping *front = mapping_of(process, module->base);
    char path[PATH_MAX + 8];
    int fd = -1;
    bool done;

    if (front != NULL) {
        snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64, front->start, front->end);
        fd = open_regular(process, path);
    }
    *is_same = fd >= 0;
    errno = ENOENT;
    if (fd < 0 && module->path[0] == '/' &&
        snprintf(path, sizeof(path), "root%s", module->path) < (int)sizeof(path))
        fd = open_regular(process, path);
    if (fd < 0)
        return error_set_errno(error, errno, "%s: cannot be opened", module->path);
    done = input_open_descriptor(file, fd, module->path, error);
    close(fd);
    *is_same = done && (*is_same || (front != NULL && file->status.st_ino == front->inode &&
                                     major(file->status.st_dev) == front->major &&
                                     minor(file->status.st_dev) == front->minor));
    return done;
}

static void close_process(struct target *memory)
{
    struct process *process = (struct process *)memory;

    if (process->descriptor >= 0)
        close(process->descriptor);
    if (process->directory >= 0)
        close(process->directory);
    free(process->mappings);
}

static const struct memory_operations operations = {
    .absent_because = "they are not mapped any more; take the snapshot again",
    .read = read_memory,
    .is_writable = is_writable,
    .open_file = open_file,
    .close = close_process,
};

/* ---- the modules ---- */

/* Reads "START-END PERMS OFFSET MAJOR:MINOR INODE PATH". False for a line of another form. */
static bool read_line(char *line, struct process_mapping *mapping, char **path)
{
    char permissions[5];
    int end = 0;

    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line,
               "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx64 ":%" SCNx64 " %" SCNu64 " %n",
               &mapping->start, &mapping->end, permissions, &mapping->offset, &mapping->major,
               &mapping->minor, &mapping->inode, &end) != 7 ||
        end == 0 || mapping->end <= mapping->start)
        return false;
    mapping->is_writable = permissions[1] == 'w';
    mapping->is_shared = permissions[3] == 's';
    *path = line + end;
    return true;
}

static void add_mapping(struct process *process, const struct process_mapping *mapping, char *path)
{
    char *from = path, *to = path;

    COMMAND_ROOM_FOR_ONE(process->mappings, process->mapping_capacity, process->mapping_count);
    process->mappings[process->mapping_count++] = *mapping;
    if (mapping->inode == 0 || mapping->offset != 0)
        return;
    process->memory.maps_profile |=
        mapping->is_shared && memory_has_profile(&process->memory, mapping->start);
    /* The path is as it is, except that a line feed in it is written \012. */
    while (*from != '\0') {
        bool is_feed = strncmp(from, "\\012", 4) == 0;

        *to++ = is_feed ? '\n' : *from;
        from += is_feed ? 4 : 1;
    }
    *to = '\0';
    memory_add_module(&process->memory, path, mapping->start);
}

static bool find_modules(struct process *process, struct error *error)
{
    int fd = openat(process->directory, "maps", O_RDONLY | O_CLOEXEC);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL, *path;
    size_t capacity = 0;
    struct process_mapping mapping;
    bool done = true;

    if (maps == NULL) {
        cannot_read(process, errno, error);
        if (fd >= 0)
            close(fd);
        return false;
    }
    errno = 0;
    while (getline(&line, &capacity, maps) >= 0) {
        if (read_line(line, &mapping, &path))
            add_mapping(process, &mapping, path);
        errno = 0;
    }
    if (errno == ENOMEM || errno == EIO || ferror(maps))
        done = cannot_read(process, errno == 0 ? EIO : errno, error);
    free(line);
    fclose(maps);
    memory_sort_modules(&process->memory);
    return done && (process->memory.module_count != 0 || has_no_memory(process, error));
}

/* ---- opening ---- */

/* Takes the 22nd field off /proc/PID/stat, which is in ticks since the machine was started. The
 * second one is a name in parentheses, in which anything can be. */
static bool read_ticks(const struct process *process, uint64_t *ticks)
{
    char text[1024];
    const char *field;
    int fd = openat(process->directory, "stat", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    if (size < 0)
        return false;
    text[size] = '\0';
    field = strrchr(text, ')');
    for (int i = 2; field != NULL && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field != NULL && sscanf(field, "%" SCNu64, ticks) == 1;
}

/* If it cannot be found out, it stays unknown. */
static void find_start(struct process *process)
{
    int64_t second = 1000000000, nanoseconds;
    long rate = sysconf(_SC_CLK_TCK);
    struct timespec now, running;
    uint64_t ticks;

    if (rate <= 0 || !read_ticks(process, &ticks) || ticks > INT64_MAX / 1000000000 ||
        clock_gettime(CLOCK_REALTIME, &now) != 0 || clock_gettime(CLOCK_BOOTTIME, &running) != 0)
        return;
    nanoseconds = (int64_t)now.tv_sec * second + now.tv_nsec -
                  ((int64_t)running.tv_sec * second + running.tv_nsec) +
                  (int64_t)ticks * (second / rate);
    process->memory.start = (struct timespec){nanoseconds / second, nanoseconds % second};
}

static bool open_files(struct process *process, struct error *error)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%" PRIu64, process->memory.process);
    process->directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process->directory < 0)
        return error_set(error, "%s: does not exist%s", process->memory.name,
                         errno == ENOENT && access("/proc/self", F_OK) == 0
                             ? "; give the number of a running process"
                             : ", or /proc is not mounted");
    process->descriptor = openat(process->directory, "mem", O_RDONLY | O_CLOEXEC);
    if (process->descriptor < 0 && errno == ESRCH)
        return has_no_memory(process, error);
    return process->descriptor >= 0 || cannot_read(process, errno, error);
}

struct target *process_open(uint64_t number, struct error *error)
{
    struct process *process = command_array(1, sizeof(*process));

    process->memory = (struct target){.operations = &operations,
                                      .name = command_text("process %" PRIu64, number),
                                      .process = number,
                                      .is_running = true};
    process->directory = process->descriptor = -1;
    if (open_files(process, error) && find_modules(process, error)) {
        find_start(process);
        return &process->memory;
    }
    memory_close(&process->memory);
    return NULL;
}
