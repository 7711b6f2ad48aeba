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
#include <string.h>

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
    /* Renamed when all is there: another test may be at the same, and the first one wins. No
     * ck_assert: benchmarks, which are no Check tests, come here too. */
    char *work = text_format("%s-XXXXXX", directory);
    if (mkdtemp(work) == NULL) {
        ck_abort_msg("%s: cannot be made: %s", work, strerror(errno));
    }
    make(work, clang);
    if (rename(work, directory) != 0) {
        if (errno != EEXIST && errno != ENOTEMPTY) {
            ck_abort_msg("%s: cannot be renamed: %s", work, strerror(errno));
        }
        directory_remove(work);
    }
    free(work);
    return directory;
}
