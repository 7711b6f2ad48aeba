/*
 * Check writes messages for its parent process that were made in memory which MemorySanitizer has
 * not seen written. While it does so, the C library's functions do not check what they are given.
 *
 * Linked with --wrap=ppack,--wrap=punpack if COVSPLIT_SANITIZE is `memory`; memory_marks.c is about
 * the libraries that the product uses.
 */
#include <sanitizer/msan_interface.h>
#include <stdio.h>

void __real_ppack(FILE *file, int type, void *message);
void __wrap_ppack(FILE *file, int type, void *message);
void *__real_punpack(FILE *file);
void *__wrap_punpack(FILE *file);

void __wrap_ppack(FILE *file, int type, void *message)
{
    __msan_scoped_disable_interceptor_checks();
    __real_ppack(file, type, message);
    __msan_scoped_enable_interceptor_checks();
}

void *__wrap_punpack(FILE *file)
{
    __msan_scoped_disable_interceptor_checks();

    void *message = __real_punpack(file);

    __msan_scoped_enable_interceptor_checks();
    return message;
}
