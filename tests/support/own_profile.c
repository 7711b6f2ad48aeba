/*
 * Writes the profile of an image of ours that is built with coverage (tests/coverage.cmake), in
 * place of what LLVM's profile runtime does at exit. That would lose most of what the tests reach:
 *
 *   - Tests run commands with environments and directories of their own, so the place of the
 *     profiles is compiled in, and LLVM_PROFILE_FILE is not asked.
 *   - The programs that tests build and run have a runtime, too. It must not hear from ours, by a
 *     variable of the environment, that their profiles were begun already.
 *   - Tests call the command's main function in forks, which end by _exit. That writes the profiles
 *     of all images of the process first.
 *   - A fork begins with the counts of its parent, which are not its own: they are reset.
 *   - Some limit the size of files, or run commands as another user, who gets profiles of his own.
 *
 * No profile comes from whoever is ended by a signal (it may have come in the middle of malloc),
 * runs with MemorySanitizer, or cannot reach the place (as after chroot).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef OWN_PROFILES
#define OWN_PROFILES "."
#endif

/* LLVM's profile runtime: functions of this image, on its counters alone. */
void __llvm_profile_set_filename(const char *pattern);
int __llvm_profile_write_file(void);
void __llvm_profile_reset_counters(void);

/* In programs with MemorySanitizer, which takes what the runtime writes for uninitialized. */
extern void __msan_init(void) __attribute__((weak));

/* With this name defined, the runtime does nothing by itself. */
extern int __llvm_profile_runtime;
__attribute__((visibility("hidden"))) int __llvm_profile_runtime;

/* The images of the process, which share the head of their list. */
struct own_image {
    void (*write)(void);
    struct own_image *next;
};
extern struct own_image *own_images;
__attribute__((visibility("default"), weak)) struct own_image *own_images;

void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));

/* The counts are written once: what follows counts from zero. Only here does the runtime allocate
 * memory and set a variable, so that programs under test are as they would be without it. */
static void write_counts(void)
{
    char pattern[sizeof OWN_PROFILES + 32];
    snprintf(pattern, sizeof pattern, "%s/%u-%%m.profraw", OWN_PROFILES, (unsigned)geteuid());
    __llvm_profile_set_filename(pattern);
    unsetenv("__LLVM_PROFILE_RT_INIT_ONCE");
    __llvm_profile_write_file();
    __llvm_profile_reset_counters();
}

/* With no word, also if it fails: tests compare what commands print. */
static void write_image(void)
{
    struct rlimit limit;
    if (__msan_init != NULL)
        return;
    int errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (access(OWN_PROFILES, W_OK) == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && nowhere >= 0) {
        const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
        dup2(nowhere, STDERR_FILENO);
        setrlimit(RLIMIT_FSIZE, &none);
        write_counts();
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (errors >= 0)
        dup2(errors, STDERR_FILENO);
    else
        close(STDERR_FILENO);
    close(errors);
    close(nowhere);
}

static void write_all(void)
{
    for (const struct own_image *image = own_images; image != NULL; image = image->next)
        image->write();
}

__attribute__((constructor(101))) static void begin(void)
{
    static struct own_image image = {.write = write_image};
    image.next = own_images;
    own_images = &image;
    pthread_atfork(NULL, NULL, __llvm_profile_reset_counters);
}

__attribute__((destructor(101))) static void end(void)
{
    write_image();
}

void __wrap__exit(int status)
{
    write_all();
    __real__exit(status);
}
