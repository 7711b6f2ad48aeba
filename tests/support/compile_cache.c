/*
 * The cache behind compile_cache.h: directories that are named after what they were made of.
 */
#include "tests/support/compile_cache.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/file_system.h"
#include "tests/support/text.h"

/* FNV-1a: nobody attacks a test. */
static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

const char *cache_directory(const char *label, const char *clang, const char *inputs,
                            cache_maker make)
{
    char *directory = text_format("%s/%s-clang%s-%016" PRIx64, COVSPLIT_TEST_CACHE, label, clang,
                                  hash_text(inputs));
    if (file_exists(directory)) {
        return directory;
    }
    /* Renamed when all is there: another test may be at the same, and the first one wins. */
    char *work = text_format("%s-XXXXXX", directory);
    ck_assert_msg(mkdtemp(work) != NULL, "%s: cannot be made", work);
    make(work, clang);
    if (rename(work, directory) != 0) {
        ck_assert_msg(errno == EEXIST || errno == ENOTEMPTY, "%s: cannot be renamed", work);
        directory_remove(work);
    }
    free(work);
    return directory;
}
