/*
 * The cache of conversions: who converts, who waits, what is kept and what goes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "split/run/conversion_cache.h"
#include "tests/support/suite.h"

static struct digest digest_of_number(unsigned number)
{
    return digest_of((struct bytes){(const uint8_t *)&number, sizeof(number)});
}

/* A file in memory with that text. */
static int make_file(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static void assert_content(int fd, const char *text)
{
    char content[16] = {0};

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(read(fd, content, sizeof(content)), (ssize_t)strlen(text));
    ck_assert_str_eq(content, text);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    close(fd);
}

/* Looks for what should be missing, and adds it. */
static void add(struct conversion_cache *cache, enum cache_class class, unsigned number,
                uint64_t size)
{
    struct digest identity = digest_of_number(number);
    int fd;

    ck_assert_int_eq(cache_look(cache, class, &identity, &fd), CACHE_MISSING);
    fd = cache_add(cache, class, &identity, make_file("content"), size);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

/* True where it is there; where not, nobody is left to convert it either. */
static bool has(struct conversion_cache *cache, enum cache_class class, unsigned number)
{
    struct digest identity = digest_of_number(number);
    int fd;
    enum cache_answer answer = cache_look(cache, class, &identity, &fd);

    if (answer == CACHE_FOUND) {
        assert_content(fd, "content");
        return true;
    }
    ck_assert_int_eq(answer, CACHE_MISSING);
    cache_give_up(cache, class, &identity);
    return false;
}

START_TEST(test_one_converts)
{
    struct conversion_cache *cache = cache_new(CACHE_COUNT_MAX);
    struct digest identity = digest_of_number(1), other = digest_of_number(2);
    int fd, again;

    ck_assert_ptr_nonnull(cache);
    ck_assert_int_eq(cache_look(cache, CACHE_OBJECTS, &identity, &fd), CACHE_MISSING);
    ck_assert_int_eq(cache_look(cache, CACHE_OBJECTS, &identity, &fd), CACHE_BUSY);
    ck_assert_int_eq(cache_look(cache, CACHE_OBJECTS, &other, &fd), CACHE_MISSING);
    cache_give_up(cache, CACHE_OBJECTS, &identity);
    ck_assert_int_eq(cache_look(cache, CACHE_OBJECTS, &identity, &fd), CACHE_MISSING);
    fd = cache_add(cache, CACHE_OBJECTS, &identity, make_file("one"), 3);
    ck_assert_int_eq(cache_look(cache, CACHE_OBJECTS, &identity, &again), CACHE_FOUND);
    assert_content(fd, "one"); /* each with a position of its own */
    assert_content(again, "one");
    cache_free(cache); /* with one conversion that never ended */
}
END_TEST

START_TEST(test_least_recently_used_goes)
{
    static const size_t limits[] = {3, CACHE_COUNT_MAX, 2 * CACHE_COUNT_MAX};
    unsigned count = limits[_i] < CACHE_COUNT_MAX ? (unsigned)limits[_i] : CACHE_COUNT_MAX;
    struct conversion_cache *cache = cache_new(limits[_i]);

    for (unsigned i = 0; i < count; i++)
        add(cache, CACHE_PROFILES, i, 1);
    ck_assert(has(cache, CACHE_PROFILES, 0));
    add(cache, CACHE_PROFILES, count, 1);
    ck_assert(has(cache, CACHE_PROFILES, 0));
    ck_assert(!has(cache, CACHE_PROFILES, 1));
    ck_assert(has(cache, CACHE_PROFILES, 2));
    cache_free(cache);
}
END_TEST

START_TEST(test_sizes)
{
    struct conversion_cache *cache = cache_new(CACHE_COUNT_MAX);

    add(cache, CACHE_OBJECTS, 0, CACHE_OBJECTS_SIZE_MAX);
    add(cache, CACHE_PROFILES, 1, CACHE_PROFILES_SIZE_MAX / 2);
    add(cache, CACHE_PROFILES, 2, CACHE_PROFILES_SIZE_MAX / 2);
    ck_assert(has(cache, CACHE_PROFILES, 1));
    add(cache, CACHE_PROFILES, 3, CACHE_PROFILES_SIZE_MAX / 2);
    ck_assert(!has(cache, CACHE_PROFILES, 2));
    ck_assert(has(cache, CACHE_PROFILES, 1));
    /* One that is too large by itself drives out the others, and stays until the next comes. */
    add(cache, CACHE_PROFILES, 4, CACHE_PROFILES_SIZE_MAX + 1);
    ck_assert(!has(cache, CACHE_PROFILES, 1));
    ck_assert(has(cache, CACHE_PROFILES, 4));
    add(cache, CACHE_PROFILES, 5, 1);
    ck_assert(!has(cache, CACHE_PROFILES, 4));
    ck_assert(has(cache, CACHE_PROFILES, 5));
    ck_assert(has(cache, CACHE_OBJECTS, 0));
    cache_free(cache);
}
END_TEST

int main(void)
{
    TCase *test_case = tcase_create("cache");
    suite_tests(test_case, test_one_converts, test_least_recently_used_goes, test_sizes);
    return suite_main("conversion_cache", test_case);
}
