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

#include "common/base/array.h"
#include "common/llvm/profile.h"
#include "split/snapshot/memory.h"

/* A line of /proc/PID/maps. */
struct mapping {
    uint64_t start; /* first: see array_count_up_to */
    uint64_t end;
    uint64_t offset; /* in the file */
    uint64_t major, minor, inode;
    bool is_shared;
    bool is_writable;
};

struct process {
    struct memory memory;
    int directory;            /* /proc/PID */
    int descriptor;           /* its mem */
    struct mapping *mappings; /* in ascending order of their addresses */
    size_t mapping_count;
    size_t mapping_capacity;
};

static struct process *process_of(struct memory *memory)
{
    return (struct process *)memory;
}

/* ---- errors ---- */

static bool not_permitted(const struct process *process, int number, struct error *error)
{
    return error_set_errno(error, number,
                           "%s: its memory may not be read; run covsplit as the same user with "
                           "kernel.yama.ptrace_scope 0, or as root (CAP_SYS_PTRACE)",
                           process->memory.name);
}

static bool has_no_memory(const struct process *process, struct error *error)
{
    return error_set(error,
                     "%s: has no memory: it has exited, or is a thread of the kernel; give the "
                     "number of a running process",
                     process->memory.name);
}

static bool has_ended(const struct process *process, struct error *error)
{
    return error_set(error,
                     "%s: ended, or executed another program, while it was read; take the snapshot "
                     "again",
                     process->memory.name);
}

static bool cannot_read(const struct process *process, int number, struct error *error)
{
    if (number == ESRCH || number == ENOENT)
        return has_ended(process, error);
    if (number == EACCES || number == EPERM)
        return not_permitted(process, number, error);
    return error_set_errno(error, number, "%s: cannot be read", process->memory.name);
}

/* ---- operations ---- */

static bool read_memory(struct memory *memory, uint64_t address, void *to, size_t size, size_t *got,
                        struct error *error)
{
    struct process *process = process_of(memory);
    ssize_t count;

    *got = 0;
    if (address > INT64_MAX)
        return true;
    do
        count = pread(process->descriptor, to, size, (off_t)address);
    while (count < 0 && errno == EINTR);
    *got = count > 0 ? (size_t)count : 0;
    if (count > 0 || (count < 0 && (errno == EIO || errno == EFAULT)))
        return true;
    /* The first page of a process is never mapped, but the kernel only says that its memory is
     * gone by reading nothing. */
    return count == 0 ? has_ended(process, error) : cannot_read(process, errno, error);
}

/* The mapping that the address is in; NULL if there is none. */
static const struct mapping *mapping_of(const struct process *process, uint64_t address)
{
    size_t next = array_count_up_to(process->mappings, process->mapping_count,
                                    sizeof(*process->mappings), address);
    const struct mapping *last = next == 0 ? NULL : &process->mappings[next - 1];

    return last == NULL || address >= last->end ? NULL : last;
}

static bool is_writable(struct memory *memory, uint64_t address)
{
    const struct mapping *mapping = mapping_of(process_of(memory), address);

    return mapping != NULL && mapping->is_writable;
}

static bool is_mapped_file(const struct mapping *front, const struct stat *status)
{
    return status->st_ino == front->inode && major(status->st_dev) == front->major &&
           minor(status->st_dev) == front->minor;
}

/* A path below /proc/PID. */
static int open_below(const struct process *process, const char *path)
{
    return openat(process->directory, path, O_RDONLY | O_CLOEXEC);
}

/* A regular file: to open a device can have effects. */
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

static int open_by_mapping(const struct process *process, const struct mapping *front)
{
    char path[64];

    snprintf(path, sizeof(path), "map_files/%" PRIx64 "-%" PRIx64, front->start, front->end);
    return open_regular(process, path);
}

static int open_by_path(const struct process *process, const char *module_path)
{
    char path[PATH_MAX + 8];
    int length = snprintf(path, sizeof(path), "root%s", module_path);

    if (length < 0 || (size_t)length >= sizeof(path) || module_path[0] != '/') {
        errno = ENOENT;
        return -1;
    }
    return open_regular(process, path);
}

static bool open_file(struct memory *memory, const struct memory_module *module, struct input *file,
                      bool *is_same, struct error *error)
{
    const struct process *process = process_of(memory);
    const struct mapping *front = mapping_of(process, module->base);
    int fd = front == NULL ? -1 : open_by_mapping(process, front);
    bool done;

    *is_same = fd >= 0;
    if (fd < 0)
        fd = open_by_path(process, module->path);
    if (fd < 0)
        return error_set_errno(error, errno, "%s: cannot be opened", module->path);
    done = input_open_descriptor(file, fd, module->path, error);
    close(fd);
    *is_same = done && (*is_same || (front != NULL && is_mapped_file(front, &file->status)));
    return done;
}

static void close_process(struct memory *memory)
{
    struct process *process = process_of(memory);

    if (process->descriptor >= 0)
        close(process->descriptor);
    if (process->directory >= 0)
        close(process->directory);
    free(process->mappings);
    memory_free_lists(memory);
    free(process);
}

static const struct memory_operations operations = {
    .absent_because = "they are not mapped any more; take the snapshot again",
    .read = read_memory,
    .is_writable = is_writable,
    .open_file = open_file,
    .close = close_process,
};

/* ---- the modules ---- */

/* The path at the end of a line is as it is, except that a line feed in it is written \012. */
static void clean_path(char *path)
{
    char *from = path;

    while (*from != '\0') {
        bool is_feed = strncmp(from, "\\012", 4) == 0;

        *path++ = is_feed ? '\n' : *from;
        from += is_feed ? 4 : 1;
    }
    *path = '\0';
}

/* Reads "START-END PERMS OFFSET MAJOR:MINOR INODE PATH". False for a line of another form. */
static bool read_line(char *line, struct mapping *mapping, char **path)
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

static bool is_profile(struct process *process, const struct mapping *mapping)
{
    uint8_t magic[sizeof(uint64_t)];
    struct error error;

    return mapping->is_shared && mapping->offset == 0 &&
           memory_read_whole(&process->memory, mapping->start, magic, sizeof(magic), &error) &&
           profile_recognize((struct bytes){magic, sizeof(magic)});
}

static bool add_mapping(struct process *process, const struct mapping *mapping, char *path,
                        struct error *error)
{
    struct memory *memory = &process->memory;

    if (!ARRAY_ROOM_FOR_ONE(process->mappings, process->mapping_capacity, process->mapping_count))
        return error_out_of_memory(error, memory->name, sizeof(*mapping));
    process->mappings[process->mapping_count++] = *mapping;
    if (mapping->inode == 0 || mapping->offset != 0)
        return true;
    memory->maps_profile |= is_profile(process, mapping);
    clean_path(path);
    return memory_add_module(memory, path, mapping->start, error);
}

static bool read_maps(struct process *process, FILE *maps, struct error *error)
{
    char *line = NULL, *path;
    size_t capacity = 0;
    struct mapping mapping;
    bool done = true;

    errno = 0;
    while (done && getline(&line, &capacity, maps) >= 0) {
        if (read_line(line, &mapping, &path))
            done = add_mapping(process, &mapping, path, error);
        errno = 0;
    }
    if (done && (errno == ENOMEM || errno == EIO || ferror(maps)))
        done = cannot_read(process, errno == 0 ? EIO : errno, error);
    free(line);
    return done;
}

static bool find_modules(struct process *process, struct error *error)
{
    int fd = open_below(process, "maps");
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    bool done;

    if (maps == NULL) {
        cannot_read(process, errno, error);
        if (fd >= 0)
            close(fd);
        return false;
    }
    done = read_maps(process, maps, error);
    fclose(maps);
    memory_sort_modules(&process->memory);
    if (done && process->memory.module_count == 0)
        return has_no_memory(process, error);
    return done;
}

/* ---- opening ---- */

/* Takes the 22nd field off /proc/PID/stat, which is in ticks since the machine was started. The
 * second one is a name in parentheses, in which anything can be. */
static bool read_ticks(const struct process *process, uint64_t *ticks)
{
    char text[1024];
    const char *field;
    int fd = open_below(process, "stat");
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
    process->descriptor = open_below(process, "mem");
    if (process->descriptor < 0 && errno == ESRCH)
        return has_no_memory(process, error);
    return process->descriptor >= 0 || cannot_read(process, errno, error);
}

struct memory *process_open(uint64_t number, struct error *error)
{
    struct process *process = calloc(1, sizeof(*process));
    char name[32];

    snprintf(name, sizeof(name), "process %" PRIu64, number);
    if (process == NULL) {
        error_out_of_memory(error, name, sizeof(*process));
        return NULL;
    }
    process->memory = (struct memory){
        .operations = &operations, .name = strdup(name), .process = number, .is_running = true};
    process->directory = process->descriptor = -1;
    if (process->memory.name == NULL)
        error_out_of_memory(error, name, sizeof(name));
    else if (open_files(process, error) && find_modules(process, error)) {
        find_start(process);
        return &process->memory;
    }
    close_process(&process->memory);
    return NULL;
}
