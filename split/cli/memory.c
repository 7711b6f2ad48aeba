/*
 * Memory of the command: see memory.h.
 */
#include "split/cli/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "split/cli/child.h"
#include "split/cli/message.h"

static _Noreturn void end_without_memory(const struct error *error)
{
    message_error(error);
    signals_remove_unfinished();
    /* Other threads still use what exit would tear down. */
    fflush(stdout);
    _exit(STATUS_FAILED);
}

void command_check_memory(const struct error *error)
{
    if (error_is_of_memory(error))
        end_without_memory(error);
}

void command_exit_without_memory(uint64_t size)
{
    struct error error = {.number = ENOMEM};

    snprintf(error.message, sizeof(error.message), "out of memory (%llu bytes)",
             (unsigned long long)size);
    end_without_memory(&error);
}

void *command_array(size_t count, size_t item_size)
{
    /* calloc(0) may yield NULL. */
    void *array = calloc(count == 0 ? 1 : count, item_size);

    exit_unless_allocated(array != NULL, (uint64_t)count * item_size);
    return array;
}

char *command_copy(const char *text)
{
    char *copy = strdup(text);

    exit_unless_allocated(copy != NULL, strlen(text) + 1);
    return copy;
}

char *command_text(const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    int length;

    va_start(arguments, format);
    length = vasprintf(&text, format, arguments);
    va_end(arguments);
    exit_unless_allocated(length >= 0, strlen(format));
    return text;
}
