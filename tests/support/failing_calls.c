/*
 * The functions of failing_calls.h. Each finds libc's by dlsym; those for memory have names in libc
 * that nobody else defines.
 */
#include "tests/support/failing_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

const struct call_kind call_kinds[CALL_COUNT] = {
    [CALL_MEMORY] = {"malloc", {ENOMEM}},
    [CALL_MAP] = {"mmap", {ENOMEM, ENODEV, EPERM}},
    [CALL_MEMORY_FILE] = {"memfd_create", {ENOMEM, EMFILE, ENOSYS}},
    [CALL_OPEN] = {"open", {EIO, EACCES, EMFILE, ENFILE, ENOMEM, EINTR, ESTALE}},
    [CALL_CREATE] = {"creat", {ENOSPC, EIO, EACCES, EMFILE, EDQUOT, EROFS, ENOMEM, EINTR}},
    [CALL_READ] = {"read", {EIO, EINTR, CALL_SHORT, ESTALE, ENOMEM}},
    [CALL_WRITE] = {"write", {ENOSPC, EIO, EINTR, CALL_SHORT, EDQUOT, EFBIG}},
    [CALL_BYTE] = {"byte written", {EIO}},
    [CALL_SYNC] = {"fsync", {EIO, ENOSPC, EDQUOT, EINVAL}},
    [CALL_RENAME] = {"rename", {EIO, EACCES, EPERM, ENOSPC, EDQUOT, EROFS, EINVAL, EXDEV}},
    [CALL_LINK] = {"link", {EIO, EPERM, EACCES, EMLINK, ENOSPC, EDQUOT, EROFS, EOPNOTSUPP, EXDEV}},
    [CALL_REMOVE] = {"unlink", {EIO, EACCES, EPERM, EBUSY, EROFS}},
    [CALL_TRUNCATE] = {"ftruncate", {EIO, ENOSPC, EFBIG, EPERM, EINTR}},
    [CALL_MODE] = {"fchmod", {EPERM, EIO, EROFS}},
    [CALL_OWNER] = {"fchown", {EPERM, EIO, EDQUOT, EINVAL}},
    [CALL_TIMES] = {"futimens", {EPERM, EIO, EROFS}},
    [CALL_ATTRIBUTE] = {"flistxattr", {ENOTSUP, EIO, EPERM, ENOSPC}},
    [CALL_STATUS] = {"stat", {EIO, EACCES, ENOMEM, ESTALE}},
    [CALL_ACCESS] = {"access", {EACCES, EIO, ENOMEM}},
    [CALL_PATH] = {"realpath", {EACCES, EIO, ENOMEM}},
    [CALL_OPEN_DIRECTORY] = {"opendir", {EIO, EACCES, EMFILE, ENFILE, ENOMEM}},
    [CALL_READ_DIRECTORY] = {"readdir", {EIO, ENOMEM}},
    [CALL_MAKE_DIRECTORY] = {"mkdir", {EIO, EACCES, ENOSPC, EDQUOT, EROFS, EMLINK}},
    [CALL_LOCK] = {"flock", {ENOLCK, EINTR, EOPNOTSUPP}},
    [CALL_CONTROL] = {"fcntl", {EMFILE, ENOLCK, EINVAL}},
    [CALL_SEEK] = {"lseek", {EIO}},
    [CALL_CLOSE] = {"close", {EIO, EINTR, EDQUOT}},
    [CALL_STREAM] = {"fclose", {ENOSPC, EIO}},
    [CALL_LINE] = {"getline", {EBADF}},
    [CALL_THREAD] = {"pthread_create", {EAGAIN, EPERM}},
    [CALL_RANDOM] = {"getrandom", {ENOSYS, EINTR}},
    [CALL_START] = {"fork", {EAGAIN, ENOMEM}},
    [CALL_PIPE] = {"pipe", {EMFILE, ENFILE, ENOMEM}},
    [CALL_SOCKET] = {"socket", {EMFILE, ENFILE, ENOMEM, ENOBUFS}},
    [CALL_DUPLICATE] = {"dup", {EMFILE, EINTR}},
    [CALL_WAIT] = {"wait", {EINTR}},
};

static struct failing_call planned;
static struct call_counts *made;
static pid_t process;

struct call_counts *call_counts_create(void)
{
    void *map =
        mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        abort();
    return map;
}

void calls_fail(const struct failing_call *failing, struct call_counts *counts)
{
    *counts = (struct call_counts){0};
    planned = *failing;
    process = getpid();
    made = counts;
}

/* Counts `times` calls, and says whether the one that fails is among them. Threads share the
 * counts. */
static bool has_turn(enum call call, uint64_t times)
{
    uint64_t before;

    if (made == NULL || getpid() != process)
        return false;
    before = __atomic_fetch_add(&made->calls[call], times, __ATOMIC_RELAXED);
    if (planned.number <= before || planned.number > before + times || planned.call != call)
        return false;
    made->has_failed = true;
    return true;
}

/* Whether the call fails; errno says how. */
static bool fails(enum call call)
{
    if (!has_turn(call, 1))
        return false;
    errno = planned.error;
    return true;
}

/* ---- memory ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    return fails(CALL_MEMORY) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(CALL_MEMORY) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return fails(CALL_MEMORY) ? NULL : __libc_realloc(block, size);
}

/* libc's reallocarray comes to realloc. */

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = fails(CALL_MEMORY) ? NULL : __libc_memalign(alignment, size);
    return *block == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(CALL_MEMORY) ? NULL : __libc_memalign(alignment, size);
}

/* ---- what fails in one way, and is not done then ---- */

/* Declares `next`, which is libc's function of that name. ISO C has no conversion for it. */
#define NEXT(result, name, parameters)                                                             \
    static result(*next) parameters;                                                               \
    if (next == NULL)                                                                              \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

/* The function NAME of a kind, and what it returns if it fails. */
#define FAILING(kind, failure, result, name, parameters, arguments)                                \
    result name parameters                                                                         \
    {                                                                                              \
        NEXT(result, name, parameters);                                                            \
        return fails(kind) ? failure : next arguments;                                             \
    }

/* clang-format off */
FAILING(CALL_MEMORY_FILE, -1, int, memfd_create, (const char *name, unsigned flags), (name, flags))
FAILING(CALL_CREATE, -1, int, mkostemp, (char *template, int flags), (template, flags))
FAILING(CALL_OPEN, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
FAILING(CALL_SYNC, -1, int, fsync, (int fd), (fd))
FAILING(CALL_RENAME, -1, int, rename, (const char *from, const char *to), (from, to))
FAILING(CALL_RENAME, -1, int, renameat2,
        (int from_fd, const char *from, int to_fd, const char *to, unsigned flags),
        (from_fd, from, to_fd, to, flags))
FAILING(CALL_LINK, -1, int, link, (const char *from, const char *to), (from, to))
FAILING(CALL_LINK, -1, int, linkat,
        (int from_fd, const char *from, int to_fd, const char *to, int flags),
        (from_fd, from, to_fd, to, flags))
FAILING(CALL_REMOVE, -1, int, unlink, (const char *path), (path))
FAILING(CALL_REMOVE, -1, int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
FAILING(CALL_REMOVE, -1, int, rmdir, (const char *path), (path))
FAILING(CALL_TRUNCATE, -1, int, ftruncate, (int fd, off_t size), (fd, size))
FAILING(CALL_MODE, -1, int, fchmod, (int fd, mode_t mode), (fd, mode))
FAILING(CALL_OWNER, -1, int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
FAILING(CALL_TIMES, -1, int, futimens, (int fd, const struct timespec times[2]), (fd, times))
FAILING(CALL_TIMES, -1, int, utimensat,
        (int fd, const char *path, const struct timespec times[2], int flags),
        (fd, path, times, flags))
FAILING(CALL_ATTRIBUTE, -1, ssize_t, flistxattr, (int fd, char *list, size_t size),
        (fd, list, size))
FAILING(CALL_ATTRIBUTE, -1, ssize_t, fgetxattr,
        (int fd, const char *name, void *value, size_t size), (fd, name, value, size))
FAILING(CALL_ATTRIBUTE, -1, int, fsetxattr,
        (int fd, const char *name, const void *value, size_t size, int flags),
        (fd, name, value, size, flags))
FAILING(CALL_STATUS, -1, int, stat, (const char *path, struct stat *status), (path, status))
FAILING(CALL_STATUS, -1, int, lstat, (const char *path, struct stat *status), (path, status))
FAILING(CALL_STATUS, -1, int, fstat, (int fd, struct stat *status), (fd, status))
FAILING(CALL_STATUS, -1, int, fstatat, (int fd, const char *path, struct stat *status, int flags),
        (fd, path, status, flags))
FAILING(CALL_STATUS, -1, int, fstatfs, (int fd, struct statfs *status), (fd, status))
FAILING(CALL_ACCESS, -1, int, access, (const char *path, int mode), (path, mode))
FAILING(CALL_PATH, NULL, char *, realpath, (const char *path, char *resolved), (path, resolved))
FAILING(CALL_PATH, -1, ssize_t, readlink, (const char *path, char *text, size_t size),
        (path, text, size))
FAILING(CALL_PATH, NULL, char *, getcwd, (char *text, size_t size), (text, size))
FAILING(CALL_OPEN_DIRECTORY, NULL, DIR *, opendir, (const char *path), (path))
FAILING(CALL_READ_DIRECTORY, NULL, struct dirent *, readdir, (DIR *stream), (stream))
FAILING(CALL_MAKE_DIRECTORY, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
FAILING(CALL_LOCK, -1, int, flock, (int fd, int operation), (fd, operation))
FAILING(CALL_SEEK, -1, off_t, lseek, (int fd, off_t offset, int from), (fd, offset, from))
FAILING(CALL_THREAD, planned.error, int, pthread_create,
        (pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context),
        (thread, attributes, start, context))
FAILING(CALL_RANDOM, -1, ssize_t, getrandom, (void *bytes, size_t size, unsigned flags),
        (bytes, size, flags))
FAILING(CALL_START, -1, pid_t, fork, (void), ())
FAILING(CALL_START, planned.error, int, posix_spawnp,
        (pid_t *child, const char *file, const posix_spawn_file_actions_t *actions,
         const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment),
        (child, file, actions, attributes, arguments, environment))
FAILING(CALL_PIPE, -1, int, pipe2, (int fds[2], int flags), (fds, flags))
FAILING(CALL_PIPE, -1, int, eventfd, (unsigned value, int flags), (value, flags))
FAILING(CALL_PIPE, -1, int, signalfd, (int fd, const sigset_t *signals, int flags),
        (fd, signals, flags))
FAILING(CALL_SOCKET, -1, int, socket, (int domain, int type, int protocol),
        (domain, type, protocol))
FAILING(CALL_SOCKET, -1, int, listen, (int fd, int count), (fd, count))
FAILING(CALL_DUPLICATE, -1, int, dup3, (int fd, int to, int flags), (fd, to, flags))
FAILING(CALL_WAIT, -1, int, poll, (struct pollfd *fds, nfds_t count, int timeout),
        (fds, count, timeout))
/* clang-format on */

/* What is of no file is memory like any other. */
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    NEXT(void *, mmap, (void *, size_t, int, int, int, off_t));
    if (fails((flags & MAP_ANONYMOUS) != 0 ? CALL_MEMORY : CALL_MAP))
        return MAP_FAILED;
    return next(address, size, protection, flags, fd, offset);
}

/* What does not wait is not interrupted. */
pid_t waitpid(pid_t child, int *status, int options)
{
    NEXT(pid_t, waitpid, (pid_t, int *, int));
    return (options & WNOHANG) == 0 && fails(CALL_WAIT) ? -1 : next(child, status, options);
}

/* ---- what takes any number of arguments ---- */

static int open_words(int (*next)(int fd, const char *path, int flags, ...), int fd,
                      const char *path, int flags, va_list words)
{
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(words, mode_t) : 0;

    return fails(flags == (flags & ~(O_ACCMODE | O_CREAT)) ? CALL_OPEN : CALL_CREATE)
               ? -1
               : next(fd, path, flags, mode);
}

int openat(int fd, const char *path, int flags, ...)
{
    va_list words;
    int result;

    NEXT(int, openat, (int, const char *, int, ...));
    va_start(words, flags);
    result = open_words(next, fd, path, flags, words);
    va_end(words);
    return result;
}

int open(const char *path, int flags, ...)
{
    va_list words;
    int result;

    NEXT(int, openat, (int, const char *, int, ...));
    va_start(words, flags);
    result = open_words(next, AT_FDCWD, path, flags, words);
    va_end(words);
    return result;
}

/* No argument of any command is larger than a pointer. Looking at a descriptor's flags cannot fail.
 */
int fcntl(int fd, int command, ...)
{
    va_list words;
    void *word;

    NEXT(int, fcntl, (int, int, ...));
    va_start(words, command);
    word = va_arg(words, void *);
    va_end(words);
    if (command != F_GETFD && command != F_GETFL && fails(CALL_CONTROL))
        return -1;
    return next(fd, command, word);
}

/* With it covsplit opens files past its own preload module. */
long syscall(long number, ...)
{
    long words[6];
    va_list list;

    NEXT(long, syscall, (long, ...));
    va_start(list, number);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat && fails(CALL_OPEN))
        return -1;
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* ---- what may do a part ---- */

/* Whether the descriptor is of a counter of events or signals, which cannot fail. */
static bool is_eventfd(int fd)
{
    struct stat status;

    return made != NULL && syscall(SYS_fstat, fd, &status) == 0 && (status.st_mode & S_IFMT) == 0;
}

/* Whether all that remains to be done is to fail; otherwise *size bytes are to be read or written.
 */
static bool fails_in_part(enum call call, int fd, size_t *size)
{
    if (is_eventfd(fd) || !has_turn(call, 1))
        return false;
    if (planned.error == CALL_SHORT) {
        *size -= *size / 2;
        return false;
    }
    errno = planned.error;
    return true;
}

ssize_t read(int fd, void *data, size_t size)
{
    NEXT(ssize_t, read, (int, void *, size_t));
    return fails_in_part(CALL_READ, fd, &size) ? -1 : next(fd, data, size);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    NEXT(ssize_t, pread, (int, void *, size_t, off_t));
    return fails_in_part(CALL_READ, fd, &size) ? -1 : next(fd, data, size, offset);
}

/* If one of the bytes is to arrive as another one, what is in front of it is written alone, and
 * then that byte: a short write is no error. */
static const void *spoil(const void *data, size_t *size)
{
    static unsigned char wrong;
    uint64_t ahead = planned.number - 1 - made->calls[CALL_BYTE];

    if (planned.call == CALL_BYTE && ahead < *size)
        *size = ahead == 0 ? 1 : (size_t)ahead;
    if (!has_turn(CALL_BYTE, *size))
        return data;
    wrong = *(const unsigned char *)data ^ 0x10;
    return &wrong;
}

static bool is_file(int fd)
{
    struct stat status;

    return fd > STDERR_FILENO && syscall(SYS_fstat, fd, &status) == 0 && S_ISREG(status.st_mode);
}

ssize_t write(int fd, const void *data, size_t size)
{
    NEXT(ssize_t, write, (int, const void *, size_t));
    if (fails_in_part(CALL_WRITE, fd, &size))
        return -1;
    if (made != NULL && is_file(fd))
        data = spoil(data, &size);
    return next(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    NEXT(ssize_t, pwrite, (int, const void *, size_t, off_t));
    if (fails_in_part(CALL_WRITE, fd, &size))
        return -1;
    if (made != NULL)
        data = spoil(data, &size);
    return next(fd, data, size, offset);
}

/* ---- what is done nevertheless ---- */

int close(int fd)
{
    int result;

    NEXT(int, close, (int));
    result = next(fd);
    return fails(CALL_CLOSE) ? -1 : result;
}

/* A stream that has no descriptor is in memory. */
int fclose(FILE *stream)
{
    bool is_file = fileno(stream) >= 0;
    int result;

    NEXT(int, fclose, (FILE *));
    result = next(stream);
    return is_file && fails(CALL_STREAM) ? EOF : result;
}

/* libc must know of the error: it reads from what cannot be read. */
ssize_t __getdelim(char **line, size_t *capacity, int end, FILE *stream);

ssize_t getdelim(char **line, size_t *capacity, int end, FILE *stream)
{
    NEXT(ssize_t, getdelim, (char **, size_t *, int, FILE *));
    if (has_turn(CALL_LINE, 1)) {
        int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);

        dup2(nothing, fileno(stream));
        close(nothing);
    }
    return next(line, capacity, end, stream);
}

ssize_t __getdelim(char **line, size_t *capacity, int end, FILE *stream)
{
    return getdelim(line, capacity, end, stream);
}
