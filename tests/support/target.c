/*
 * The table of target.h.
 */
#include "tests/support/target.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* GNU ld 2.40 for mips64el is left out: records of the profile's data get wrong distances to their
 * counters, so that llvm-profdata refuses the profiles of any image that it links. lld knows s390x
 * from version 18 on. */
const struct target target_table[] = {
    {"aarch64", "aarch64-linux-gnu", "arm64", "qemu-aarch64", "14 16 19 22", "14 16 19 22", true},
    {"arm", "arm-linux-gnueabihf", "armhf", "qemu-arm", "14 19", "14 19", true},
    {"i386", "i686-linux-gnu", "i386", "qemu-i386", "14 19", "14 19", false},
    {"ppc64le", "powerpc64le-linux-gnu", "ppc64el", "qemu-ppc64le", "14 19", "14 19", true},
    {"s390x", "s390x-linux-gnu", "s390x", "qemu-s390x", "14 19", "19", false},
    {"mips64el", "mips64el-linux-gnuabi64", "mips64el", "qemu-mips64el", NULL, "14 19", true},
};

const size_t target_count = sizeof target_table / sizeof *target_table;

const struct target *target_find(const char *name)
{
    for (size_t i = 0; i < target_count; i++) {
        if (strcmp(target_table[i].name, name) == 0) {
            return &target_table[i];
        }
    }
    return NULL;
}

bool target_has_tools(const struct target *target, const char *clang, const char *linker)
{
    const char *versions = strcmp(linker, "lld") == 0 ? target->lld_clangs : target->bfd_clangs;
    struct text_list list = {0};
    text_list_add_words(&list, versions != NULL ? versions : "");
    bool found = text_list_contains(&list, clang);
    text_list_free(&list);
    return found;
}

void target_add_compile_words(const struct target *target, struct text_list *words)
{
    text_list_add_format(words, "--target=%s", target->triple);
    text_list_add_format(words, "-isystem/usr/%s/include", target->triple);
}

void target_add_link_words(const struct target *target, const char *clang, const char *linker,
                           struct text_list *words)
{
    /* The directory that the link leads to has the package's version in its name, by which the
     * cache of what was compiled tells it from another. */
    char *link = text_format("%s/runtimes/%s-%s", COVSPLIT_TEST_CACHE, target->architecture, clang);
    char *runtime = realpath(link, NULL);
    if (runtime == NULL) {
        ck_abort_msg("%s: %s; see tests/fetch-runtimes.sh", link, strerror(errno));
    }
    text_list_add_format(words, "--target=%s", target->triple);
    text_list_add_format(words, "-resource-dir=%s", runtime);
    if (strcmp(linker, "bfd") == 0) {
        text_list_add_format(words, "-fuse-ld=/usr/bin/%s-ld", target->triple);
    } else {
        text_list_add_format(words, "-fuse-ld=%s", linker);
    }
    free(runtime);
    free(link);
}

const char *target_emulator(const struct target *target)
{
    return text_format("%s -L /usr/%s", target->emulator, target->triple);
}
