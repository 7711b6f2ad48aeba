/*
 * Whether the tests, and so the command too, are built with a sanitizer that keeps a shadow of all
 * memory: such a program is slower, and needs far more addresses and memory.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_SANITIZED_H
#define COVSPLIT_TESTS_SUPPORT_SANITIZED_H

#ifdef __has_feature
#define IS_SANITIZED                                                                               \
    (__has_feature(address_sanitizer) || __has_feature(memory_sanitizer) ||                        \
     __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#endif
