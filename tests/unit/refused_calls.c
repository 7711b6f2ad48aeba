/*
 * Refused calls: see refused_calls.h. The names are those that glibc gives to functions of 64-bit
 * file offsets.
 */
#include "tests/unit/refused_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t calls_granted = CALLS_ALL;
int calls_errno;
const char *calls_refused;
bool calls_are_poor;
void (*calls_watch)(const char *name);

static bool is_granted(const char *name)
{
    if (calls_watch != NULL)
        calls_watch(name);
    if (calls_granted == CALLS_ALL)
        return true;
    if (calls_granted != 0) {
        calls_granted--;
        return true;
    }
    calls_granted = CALLS_ALL;
    calls_refused = name;
    errno = calls_errno;
    return false;
}

#define REFUSABLE(type, failure, name, parameters, arguments)                                      \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return is_granted(#name) ? __real_##name arguments : failure;                              \
    }

REFUSABLE(void *, NULL, malloc, (size_t size), (size))
REFUSABLE(void *, NULL, calloc, (size_t count, size_t size), (count, size))
REFUSABLE(void *, NULL, realloc, (void *moved, size_t size), (moved, size))
REFUSABLE(char *, NULL, strdup, (const char *text), (text))
REFUSABLE(int, -1, stat64, (const char *path, struct stat *status), (path, status))
REFUSABLE(int, -1, lstat64, (const char *path, struct stat *status), (path, status))
REFUSABLE(int, -1, fstat64, (int fd, struct stat *status), (fd, status))
REFUSABLE(int, -1, fstatat64, (int fd, const char *path, struct stat *status, int flags),
          (fd, path, status, flags))
REFUSABLE(ssize_t, -1, read, (int fd, void *to, size_t size), (fd, to, size))
REFUSABLE(ssize_t, -1, pread64, (int fd, void *to, size_t size, off_t offset),
          (fd, to, size, offset))
REFUSABLE(ssize_t, -1, write, (int fd, const void *from, size_t size), (fd, from, size))
REFUSABLE(off_t, -1, lseek64, (int fd, off_t offset, int whence), (fd, offset, whence))
REFUSABLE(void *, MAP_FAILED, mmap64,
          (void *address, size_t size, int protection, int flags, int fd, off_t offset),
          (address, size, protection, flags, fd, offset))
REFUSABLE(int, -1, ftruncate64, (int fd, off_t size), (fd, size))
REFUSABLE(int, -1, fchmod, (int fd, mode_t mode), (fd, mode))
REFUSABLE(int, -1, futimens, (int fd, const struct timespec times[2]), (fd, times))
REFUSABLE(int, -1, fsync, (int fd), (fd))
REFUSABLE(int, -1, rename, (const char *from, const char *to), (from, to))
REFUSABLE(int, -1, renameat2,
          (int from_fd, const char *from, int to_fd, const char *to, unsigned flags),
          (from_fd, from, to_fd, to, flags))
REFUSABLE(int, -1, link, (const char *from, const char *to), (from, to))
REFUSABLE(int, -1, linkat, (int from_fd, const char *from, int to_fd, const char *to, int flags),
          (from_fd, from, to_fd, to, flags))
REFUSABLE(int, -1, unlink, (const char *path), (path))
REFUSABLE(int, -1, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
REFUSABLE(int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
REFUSABLE(int, -1, mkostemp64, (char *path, int flags), (path, flags))
REFUSABLE(int, -1, memfd_create, (const char *name, unsigned flags), (name, flags))
REFUSABLE(int, -1, dup3, (int from, int to, int flags), (from, to, flags))
REFUSABLE(int, -1, access, (const char *path, int mode), (path, mode))
REFUSABLE(ssize_t, -1, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags))
REFUSABLE(DIR *, NULL, opendir, (const char *path), (path))
REFUSABLE(struct dirent *, NULL, readdir64, (DIR * directory), (directory))
REFUSABLE(char *, NULL, realpath, (const char *path, char *resolved), (path, resolved))

/* ---- with arguments that not all calls have ---- */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_asprintf(char **text, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

int __wrap_open64(const char *path, int flags, ...)
{
    va_list list;
    mode_t mode;

    va_start(list, flags);
    mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (calls_are_poor && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return is_granted("open64") ? __real_open64(path, flags, mode) : -1;
}

int __wrap_fcntl64(int fd, int command, ...)
{
    va_list list;
    void *argument;

    va_start(list, command);
    argument = va_arg(list, void *);
    va_end(list);
    if (calls_are_poor && command == F_OFD_SETLKW) {
        errno = ENOLCK;
        return -1;
    }
    return is_granted("fcntl64") ? __real_fcntl64(fd, command, argument) : -1;
}

long __wrap_syscall(long number, ...)
{
    va_list list;
    long arguments[4];

    va_start(list, number);
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return is_granted("syscall")
               ? __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3])
               : -1;
}

int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list list;
    int length = -1;

    if (is_granted("asprintf")) {
        va_start(list, format);
        length = vasprintf(text, format, list);
        va_end(list);
    }
    return length;
}
