/*
 * Matrices that are made in memory: see reached.h.
 */
#include "common/state/reached.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/state/reached_rows.h"

bool reached_check_name(const char *test, struct error *error)
{
    size_t length = strlen(test);

    if (length == 0)
        return error_set(error, "a test with an empty name; give it a name");
    return length <= REACHED_NAME_MAX ||
           error_set(error, "%.60s...: the name of a test has %zu bytes; give it one of at most %d",
                     test, length, REACHED_NAME_MAX);
}

struct reached {
    uint64_t function_count;
    size_t test_count, test_capacity, row_capacity;
    const char **tests; /* owned, in ascending order */
    uint8_t **rows;     /* a bit set of functions for each test */
    uint64_t name_bytes;
};

struct reached *reached_new(uint64_t function_count)
{
    struct reached *reached = calloc(1, sizeof(*reached));

    if (reached != NULL)
        reached->function_count = function_count;
    return reached;
}

void reached_free(struct reached *reached)
{
    if (reached == NULL)
        return;
    for (size_t i = 0; i < reached->test_count; i++) {
        free((void *)(uintptr_t)reached->tests[i]);
        free(reached->rows[i]);
    }
    free(reached->tests);
    free(reached->rows);
    free(reached);
}

/* The first test whose name is not less. */
static size_t find_place(const char *const *tests, size_t count, const char *test)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(tests[middle], test) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Rows are whole words, so that they can be united word by word. */
static size_t row_words(const struct reached *reached)
{
    return (size_t)(reached->function_count / 64 + 1);
}

static bool insert_test(struct reached *reached, size_t place, const char *test)
{
    size_t after = reached->test_count - place;
    uint8_t *row;
    char *copy;

    if (!ARRAY_ROOM_FOR_ONE(reached->tests, reached->test_capacity, reached->test_count) ||
        !ARRAY_ROOM_FOR_ONE(reached->rows, reached->row_capacity, reached->test_count))
        return false;
    row = calloc(row_words(reached), sizeof(uint64_t));
    copy = strdup(test);
    if (row == NULL || copy == NULL) {
        free(row);
        free(copy);
        return false;
    }
    memmove(&reached->tests[place + 1], &reached->tests[place], after * sizeof(*reached->tests));
    memmove(&reached->rows[place + 1], &reached->rows[place], after * sizeof(*reached->rows));
    reached->tests[place] = copy;
    reached->rows[place] = row;
    reached->test_count++;
    reached->name_bytes += strlen(test) + 1;
    return true;
}

bool reached_add(struct reached *reached, const char *test, const uint8_t *functions)
{
    size_t place = find_place(reached->tests, reached->test_count, test);
    bool is_new = place == reached->test_count || strcmp(reached->tests[place], test) != 0;

    if (is_new && !insert_test(reached, place, test))
        return false;
    bit_set_unite(reached->rows[place], functions, bit_set_size(reached->function_count));
    return true;
}

uint64_t reached_memory_of_test(uint64_t function_count)
{
    return function_count / 8 + 2 * sizeof(uint64_t);
}

uint64_t reached_memory(const struct reached *reached)
{
    return reached->test_count * reached_memory_of_test(reached->function_count) +
           reached->name_bytes;
}

static bool fill_from_memory(void *context, uint64_t block, uint8_t *rows, struct error *error)
{
    const struct reached *reached = context;
    size_t size = bit_set_size(reached_block_width(reached->function_count, block));

    (void)error;
    for (size_t i = 0; i < reached->test_count; i++)
        memcpy(rows + i * REACHED_ROW_SIZE, reached->rows[i] + block * REACHED_ROW_SIZE, size);
    return true;
}

bool reached_encode(const struct reached *reached, const char *name, struct buffer *to,
                    struct error *error)
{
    const struct reached_rows rows = {
        .name = name,
        .function_count = reached->function_count,
        .test_count = reached->test_count,
        .tests = reached->tests,
        .fill = fill_from_memory,
        .context = (void *)(uintptr_t)reached,
    };

    return reached_rows_encode(&rows, to, error);
}
