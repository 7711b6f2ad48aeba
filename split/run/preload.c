/*
 * libcovsplit-preload.so: the module that `covsplit run` loads into every program.
 *
 * It interposes the functions that open files. If a program opens a regular file for reading that
 * begins like an image, a sidecar or a raw profile, or the directory of a store as if it were a
 * file, the module asks the broker (see preload_protocol.h), and replaces the file by what it gets,
 * under the same descriptor. For all other files it only costs a statx and a pread.
 *
 * A module in a program that does not know of it must be small: no library but libc, no allocation,
 * no threads, no locks, nothing written but the flag below. So it may be called before any
 * constructor has run, from inside malloc, in the child of a vfork and in a signal handler. Its own
 * system calls go through syscall(2), which is not a cancellation point and which no other module
 * interposes; and it calls no function that is new in some version of a C library (as fstat is in
 * glibc 2.33), so that the same file can be loaded into programs of old systems.
 *
 * This file is compiled without _FILE_OFFSET_BITS, which would make open and open64 the same name.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "split/run/preload_protocol.h"

/* Each function is named differently here and gets the name of the interposed function in the
 * module: the headers may declare that one in ways that a definition would clash with. */
#define INTERPOSE(name) __asm__(#name) __attribute__((visibility("default")))

/* ---- what the constructor finds ---- */

typedef int open_function(const char *path, int flags, ...);
typedef int openat_function(int directory, const char *path, int flags, ...);
typedef FILE *fopen_function(const char *path, const char *mode);
typedef FILE *freopen_function(const char *path, const char *mode, FILE *stream);

/* The next definitions of the functions. NULL before the constructor has run, or if there is
 * none. */
static struct {
    open_function *open, *open64;
    openat_function *openat, *openat64;
    fopen_function *fopen, *fopen64;
    freopen_function *freopen, *freopen64;
} next;

/* The address of the broker. Its size is 0 if there is none. */
static struct sockaddr_un broker;
static socklen_t broker_size;

/* The end of the broker was reported. */
static atomic_flag is_gone_reported = ATOMIC_FLAG_INIT;

/* dlsym returns functions as pointers to objects. */
static void find_next(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(function, &found, sizeof(found));
}

static void find_broker(void)
{
    const char *name = getenv(PRELOAD_ENVIRONMENT);
    size_t prefix = strlen(PRELOAD_PREFIX), length;

    if (name == NULL || strncmp(name, PRELOAD_PREFIX, prefix) != 0)
        return;
    name += prefix;
    length = strlen(name);
    if (length == 0 || length > PRELOAD_NAME_MAX)
        return;
    broker.sun_family = AF_UNIX;
    memcpy(broker.sun_path + 1, name, length);
    broker_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

__attribute__((constructor(101))) static void prepare(void)
{
    find_next(&next.open, "open");
    find_next(&next.open64, "open64");
    find_next(&next.openat, "openat");
    find_next(&next.openat64, "openat64");
    find_next(&next.fopen, "fopen");
    find_next(&next.fopen64, "fopen64");
    find_next(&next.freopen, "freopen");
    find_next(&next.freopen64, "freopen64");
    find_broker();
}

/* ---- what could be converted ---- */

/* Raw profiles: INSTR_PROF_RAW_MAGIC_64 and _32 in both byte orders, and sparse ones. COFF images:
 * the DOS header. Mach-O images: MH_MAGIC_64, and for universal ones FAT_MAGIC and FAT_MAGIC_64
 * with a small count (Java class files begin like that too; the broker recognizes these). */
static const struct {
    const char *bytes;
    size_t size;
} magics[] = {
    {"\xfflprofr\x81", 8},
    {"\x81rforpl\xff", 8},
    {"\xfflprofR\x81", 8},
    {"\x81Rforpl\xff", 8},
    {"\xff"
     "cspar",
     6},
    {"MZ", 2},
    {"\xcf\xfa\xed\xfe", 4},
    {"\xca\xfe\xba\xbe\0\0\0", 7},
    {"\xca\xfe\xba\xbf\0\0\0", 7},
};

/* Executables, shared libraries and objects, which may be packed. A sidecar has the type of its
 * image.
 */
static bool is_elf_image(const uint8_t *start)
{
    unsigned type;

    if (memcmp(start, ELFMAG, SELFMAG) != 0)
        return false;
    type = start[EI_DATA] == ELFDATA2MSB ? start[EI_NIDENT] * 256u + start[EI_NIDENT + 1]
                                         : start[EI_NIDENT] + 256u * start[EI_NIDENT + 1];
    return type == ET_EXEC || type == ET_DYN || type == ET_REL;
}

/* Attributes in sysfs and the like claim this size, but have no blocks. Reading one may have
 * effects and must be left to the program. */
#define KERNEL_FILE_SIZE 4096

static bool may_be_converted(int file)
{
    struct statx status;
    uint8_t start[PRELOAD_SIZE_MIN];

    if (syscall(SYS_statx, file, "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE | STATX_BLOCKS,
                &status) != 0)
        return false;
    if (S_ISDIR(status.stx_mode)) /* of a store? */
        return syscall(SYS_statx, file, ".build-id", 0, STATX_TYPE, &status) == 0 &&
               S_ISDIR(status.stx_mode);
    if (!S_ISREG(status.stx_mode) || status.stx_size < PRELOAD_SIZE_MIN ||
        (status.stx_blocks == 0 && status.stx_size == KERNEL_FILE_SIZE) ||
        syscall(SYS_pread64, file, start, sizeof(start), (off_t)0) != (long)sizeof(start))
        return false;
    if (is_elf_image(start))
        return true;
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
        if (memcmp(start, magics[i].bytes, magics[i].size) == 0)
            return true;
    }
    return false;
}

/* ---- asking the broker ---- */

/* Room for one descriptor beside a message. */
union ancillary {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

static long retry(long number, long a, long b, long c)
{
    long result;

    do
        result = syscall(number, a, b, c);
    while (result < 0 && errno == EINTR);
    return result;
}

/* Prints one line: the file might be one to convert, but there is no broker to tell. Nor is there
 * the code that tells control characters from others, so of the path only ASCII is printed. */
static void report_as_it_is(const char *path, const char *why)
{
    static const char start[] = "covsplit: warning: ", middle[] = ": read as it is: ";
    char name[PRELOAD_PATH_MAX];
    struct iovec parts[] = {
        {(void *)(uintptr_t)start, sizeof(start) - 1},
        {name, strnlen(path, sizeof(name))},
        {(void *)(uintptr_t)middle, sizeof(middle) - 1},
        {(void *)(uintptr_t)why, strlen(why)},
        {(void *)(uintptr_t) "\n", 1},
    };

    for (size_t i = 0; i < parts[1].iov_len; i++)
        name[i] = (char)(path[i] >= ' ' && path[i] <= '~' ? path[i] : '?');
    (void)!syscall(SYS_writev, STDERR_FILENO, parts, sizeof(parts) / sizeof(parts[0]));
}

/* Connects to the broker, which must be a process of the same user. -1 with errno. */
static int connect_to_broker(void)
{
    long connection = syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct ucred peer;
    socklen_t size = sizeof(peer);
    int number = EPERM;

    if (connection < 0)
        return -1;
    if (retry(SYS_connect, connection, (long)&broker, (long)broker_size) != 0)
        number = errno;
    else if (syscall(SYS_getsockopt, connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        number = errno;
    else if (peer.uid == (uid_t)syscall(SYS_geteuid))
        return (int)connection;
    syscall(SYS_close, connection);
    errno = number;
    return -1;
}

static bool send_question(int connection, int file, int directory, const char *path)
{
    struct preload_question question = {.directory = directory};
    struct iovec parts[] = {
        {&question, sizeof(question)},
        {(void *)(uintptr_t)path, strnlen(path, PRELOAD_PATH_MAX)},
    };
    union ancillary ancillary = {.header = {.cmsg_level = SOL_SOCKET,
                                            .cmsg_type = SCM_RIGHTS,
                                            .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = &ancillary,
                             .msg_controllen = sizeof(ancillary)};

    memcpy(CMSG_DATA(&ancillary.header), &file, sizeof(file));
    return retry(SYS_sendmsg, connection, (long)&message, MSG_NOSIGNAL) > 0;
}

/* Waits for the answer and prints its text. *content is the descriptor to read instead, or -1.
 * False if there was no valid answer. */
static bool receive_answer(int connection, int *content)
{
    struct {
        struct preload_answer answer;
        char text[PRELOAD_TEXT_MAX];
    } reply;
    struct iovec part = {&reply, sizeof(reply)};
    union ancillary ancillary;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &ancillary,
                             .msg_controllen = sizeof(ancillary)};
    const struct cmsghdr *header;
    long size = retry(SYS_recvmsg, connection, (long)&message, MSG_CMSG_CLOEXEC);

    *content = -1;
    if (size < (long)sizeof(reply.answer) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        reply.answer.text_size != (size_t)size - sizeof(reply.answer))
        return false;
    header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(content, CMSG_DATA(header), sizeof(*content));
    if (reply.answer.text_size != 0)
        (void)!syscall(SYS_write, STDERR_FILENO, reply.text, (size_t)reply.answer.text_size);
    return true;
}

/* Asks for the descriptor to read instead of the file; -1 for the file itself. */
static int ask(int file, int directory, const char *path)
{
    int connection = connect_to_broker(), content = -1;

    if (connection < 0) {
        /* Everything that still runs has to do without the broker, and one line says so. */
        if (errno != ECONNREFUSED)
            report_as_it_is(path, "'covsplit run' cannot be reached from this process");
        else if (!atomic_flag_test_and_set(&is_gone_reported))
            report_as_it_is(path, "'covsplit run' has ended and this process outlives it, or is in "
                                  "another network namespace");
        return -1;
    }
    if (!send_question(connection, file, directory, path) || !receive_answer(connection, &content))
        report_as_it_is(path, "'covsplit run' gave no answer");
    syscall(SYS_close, connection);
    return content;
}

/* Replaces an opened file by what the broker has for it, under the same descriptor. */
static void replace(int file, int directory, const char *path)
{
    int number = errno, content;

    if (broker_size != 0 && may_be_converted(file)) {
        content = ask(file, directory, path);
        if (content >= 0) {
            long descriptor_flags = syscall(SYS_fcntl, file, F_GETFD);

            retry(SYS_dup3, content, file, (descriptor_flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
            syscall(SYS_close, content);
        }
    }
    errno = number;
}

/* ---- open ---- */

/* Only files that are opened read-only are ever replaced. */
static int opened(int file, int directory, const char *path, int flags)
{
    if (file >= 0 && (flags & O_ACCMODE) == O_RDONLY &&
        (flags & (O_PATH | O_DIRECTORY | O_TRUNC)) == 0)
        replace(file, directory, path);
    return file;
}

static bool takes_mode(int flags)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

/* The mode is an argument only if a file may be created. */
#define READ_MODE(mode, flags)                                                                     \
    do {                                                                                           \
        if (takes_mode(flags)) {                                                                   \
            va_list arguments;                                                                     \
            va_start(arguments, flags);                                                            \
            (mode) = va_arg(arguments, mode_t);                                                    \
            va_end(arguments);                                                                     \
        }                                                                                          \
    } while (0)

/* The kernel does what the next definition would do, if that is unknown. */
static int openat_with(openat_function *function, int directory, const char *path, int flags,
                       mode_t mode)
{
    int file = function != NULL ? function(directory, path, flags, mode)
                                : (int)syscall(SYS_openat, directory, path, flags, mode);

    return opened(file, directory, path, flags);
}

static int open_with(open_function *function, const char *path, int flags, mode_t mode)
{
    return function == NULL ? openat_with(NULL, AT_FDCWD, path, flags, mode)
                            : opened(function(path, flags, mode), AT_FDCWD, path, flags);
}

/* What programs call that are compiled with _FORTIFY_SOURCE. It is for calls without a mode, and
 * ends a program that needed one. */
static int without_mode(int flags)
{
    if (takes_mode(flags))
        abort();
    return flags;
}

/* The functions, for files that are opened as large ones (64) or not. */
#define OPEN_FUNCTIONS(size)                                                                       \
    int preload_open##size(const char *path, int flags, ...) INTERPOSE(open##size);                \
    int preload_openat##size(int directory, const char *path, int flags, ...)                      \
        INTERPOSE(openat##size);                                                                   \
    int preload_open##size##_2(const char *path, int flags) INTERPOSE(__open##size##_2);           \
    int preload_openat##size##_2(int directory, const char *path, int flags)                       \
        INTERPOSE(__openat##size##_2);                                                             \
                                                                                                   \
    int preload_open##size(const char *path, int flags, ...)                                       \
    {                                                                                              \
        mode_t mode = 0;                                                                           \
                                                                                                   \
        READ_MODE(mode, flags);                                                                    \
        return open_with(next.open##size, path, flags, mode);                                      \
    }                                                                                              \
                                                                                                   \
    int preload_openat##size(int directory, const char *path, int flags, ...)                      \
    {                                                                                              \
        mode_t mode = 0;                                                                           \
                                                                                                   \
        READ_MODE(mode, flags);                                                                    \
        return openat_with(next.openat##size, directory, path, flags, mode);                       \
    }                                                                                              \
                                                                                                   \
    int preload_open##size##_2(const char *path, int flags)                                        \
    {                                                                                              \
        return open_with(next.open##size, path, without_mode(flags), 0);                           \
    }                                                                                              \
                                                                                                   \
    int preload_openat##size##_2(int directory, const char *path, int flags)                       \
    {                                                                                              \
        return openat_with(next.openat##size, directory, path, without_mode(flags), 0);            \
    }

OPEN_FUNCTIONS()
OPEN_FUNCTIONS(64)

/* ---- fopen ---- */

/* A stream that was just opened has not read anything yet, so its descriptor can be replaced. */
static FILE *stream_opened(FILE *stream, const char *path, const char *mode)
{
    if (stream != NULL && path != NULL && mode[0] == 'r' && strchr(mode, '+') == NULL &&
        fileno(stream) >= 0)
        replace(fileno(stream), AT_FDCWD, path);
    return stream;
}

/* No system call can do the work of these: before the constructor has run, the next definition is
 * looked up, which is safe wherever a stream can be opened. */
static FILE *fopen_with(fopen_function *function, const char *name, const char *path,
                        const char *mode)
{
    if (function == NULL)
        find_next(&function, name);
    if (function == NULL) {
        errno = ENOSYS;
        return NULL;
    }
    return stream_opened(function(path, mode), path, mode);
}

static FILE *freopen_with(freopen_function *function, const char *name, const char *path,
                          const char *mode, FILE *stream)
{
    if (function == NULL)
        find_next(&function, name);
    if (function == NULL) {
        errno = ENOSYS;
        return NULL;
    }
    return stream_opened(function(path, mode, stream), path, mode);
}

#define FOPEN_FUNCTIONS(size)                                                                      \
    FILE *preload_fopen##size(const char *path, const char *mode) INTERPOSE(fopen##size);          \
    FILE *preload_freopen##size(const char *path, const char *mode, FILE *stream)                  \
        INTERPOSE(freopen##size);                                                                  \
                                                                                                   \
    FILE *preload_fopen##size(const char *path, const char *mode)                                  \
    {                                                                                              \
        return fopen_with(next.fopen##size, "fopen" #size, path, mode);                            \
    }                                                                                              \
                                                                                                   \
    FILE *preload_freopen##size(const char *path, const char *mode, FILE *stream)                  \
    {                                                                                              \
        return freopen_with(next.freopen##size, "freopen" #size, path, mode, stream);              \
    }

FOPEN_FUNCTIONS()
FOPEN_FUNCTIONS(64)
