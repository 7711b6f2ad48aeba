/*
 * Keep-lists: what a line may be, and which UUIDs a list has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "split/sidecars/selection.h"
#include "tests/support/suite.h"

/* The linker puts this in the place of the function behind getline: it fails after so many lines.
 */
static long lines_left = -1;

ssize_t __real___getdelim(char **line, size_t *capacity, int delimiter, FILE *stream);
ssize_t __wrap___getdelim(char **line, size_t *capacity, int delimiter, FILE *stream);

ssize_t __wrap___getdelim(char **line, size_t *capacity, int delimiter, FILE *stream)
{
    if (lines_left == 0) {
        errno = ENOMEM;
        return -1;
    }
    lines_left -= lines_left > 0;
    return __real___getdelim(line, capacity, delimiter, stream);
}

static bool read_text(const char *text, size_t size, struct keep_list *list, struct error *error)
{
    FILE *stream =
        size == 0 ? fopen("/dev/null", "r") : fmemopen((void *)(uintptr_t)text, size, "r");
    bool done;

    ck_assert_ptr_nonnull(stream);
    done = keep_list_read_stream(list, stream, "list", error);
    fclose(stream);
    return done;
}

static struct keep_list list_of(const char *text)
{
    struct keep_list list;
    struct error error = {0};

    ck_assert_msg(read_text(text, strlen(text), &list, &error), "%s", error.message);
    return list;
}

static bool has(struct keep_list *list, const char *hex)
{
    struct uuid uuid;

    ck_assert(uuid_parse(hex, &uuid));
    return keep_list_has(list, &uuid);
}

#define LONG "00112233445566778899aabbccddeeff00112233"

START_TEST(test_forms_of_a_line)
{
    static const char *const texts[] = {
        LONG,
        LONG "\n",
        "\t " LONG " \r\n",
        "# first\n\n   \n" LONG "# last",
        "00112233-4455-6677-8899-AABBCCDDEEFF00112233\n",
        "00112233\n",
        LONG "\n" LONG "\n",
        "ffffffff\n" LONG "\n11111111\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        FREED_BY(keep_list_free) struct keep_list list = list_of(texts[i]);

        ck_assert_msg(has(&list, LONG), "%s", texts[i]);
        ck_assert(!has(&list, "10112233445566778899aabbccddeeff00112233"));
    }
}
END_TEST

/* Without memory for a line the list does not end there: what is missing from it would be removed.
 */
START_TEST(test_no_memory)
{
    static const char text[] = LONG "\n00112233\n44556677\n";

    for (lines_left = 0; lines_left < 3;) {
        long lines = lines_left;
        struct keep_list list;
        struct error error = {0};

        ck_assert_msg(!read_text(text, strlen(text), &list, &error), "%ld lines", lines);
        ck_assert_msg(strstr(error.message, strerror(ENOMEM)) != NULL, "%s", error.message);
        lines_left = lines + 1;
    }
    lines_left = -1;
}
END_TEST

START_TEST(test_prefixes)
{
    FREED_BY(keep_list_free)
    struct keep_list list = list_of("01020304\n0102030405\nab\nabcdef\n"
                                    "ffeeddccbbaa99887766554433221100\n");

    ck_assert(has(&list, "01020304"));
    ck_assert(has(&list, "010203049999"));
    ck_assert(has(&list, "0102030405060708"));
    ck_assert(!has(&list, "010203"));
    ck_assert(!has(&list, "01020305"));
    /* Less than four bytes stand for themselves alone. */
    ck_assert(has(&list, "ab"));
    ck_assert(has(&list, "abcdef"));
    ck_assert(!has(&list, "abcd"));
    ck_assert(!has(&list, "abcdef00"));
    ck_assert(!has(&list, "ffeeddccbbaa998877665544332211"));
    ck_assert(has(&list, "ffeeddccbbaa99887766554433221100"));
}
END_TEST

/* As a search through all of it would say. */
START_TEST(test_many)
{
    FREED_BY(keep_list_free) struct keep_list list;
    struct error error = {0};
    FREED_BY(drop_memory) char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    for (unsigned i = 0; i < 5000; i++)
        fprintf(stream, "%08x%s\n", i * 2654435761u, i % 2 == 0 ? "" : "aabb");
    fclose(stream);
    ck_assert_msg(read_text(text, size, &list, &error), "%s", error.message);
    for (unsigned i = 0; i < 5000; i++) {
        char hex[32];

        snprintf(hex, sizeof(hex), "%08xaabbcc", i * 2654435761u);
        ck_assert(has(&list, hex));
        snprintf(hex, sizeof(hex), "%08xffff", i * 2654435761u);
        ck_assert(has(&list, hex) == (i % 2 == 0));
    }
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_forms_of_a_line, test_no_memory, test_prefixes, test_many);
    return suite_main("keep list", all);
}
