/*
 * Who frees what a test makes: its declaration says it, and the end of its block does it, however
 * that is reached.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_FREED_H
#define COVSPLIT_TESTS_SUPPORT_FREED_H

#include <stdlib.h>
#include <string.h>

/* At the end of the block the function is called with the address of the variable. */
#define FREED_BY(function) __attribute__((cleanup(function)))

/* Defines such a function for pointers to a type. */
#define DEFINE_DROP(name, type, function)                                                          \
    static inline void name(type *const *pointer)                                                  \
    {                                                                                              \
        function(*pointer);                                                                        \
    }

/* The same for what malloc gave. */
static inline void drop_memory(const void *pointer)
{
    void *memory;

    memcpy(&memory, pointer, sizeof(memory));
    free(memory);
}

#endif
