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
    {
        .name = "aarch64",
        .triple = "aarch64-linux-gnu",
        .architecture = "arm64",
        .emulator = "qemu-aarch64",
        .bfd_clangs = "14 16 19 22",
        .lld_clangs = "14 16 19 22",
        .has_large_pages = true,
    },
    {
        .name = "arm",
        .triple = "arm-linux-gnueabihf",
        .architecture = "armhf",
        .emulator = "qemu-arm",
        .bfd_clangs = "14 19",
        .lld_clangs = "14 19",
        .has_large_pages = true,
    },
    {
        .name = "i386",
        .triple = "i686-linux-gnu",
        .architecture = "i386",
        .emulator = "qemu-i386",
        .bfd_clangs = "14 19",
        .lld_clangs = "14 19",
    },
    {
        .name = "ppc64le",
        .triple = "powerpc64le-linux-gnu",
        .architecture = "ppc64el",
        .emulator = "qemu-ppc64le",
        .bfd_clangs = "14 19",
        .lld_clangs = "14 19",
        .has_large_pages = true,
    },
    {
        .name = "s390x",
        .triple = "s390x-linux-gnu",
        .architecture = "s390x",
        .emulator = "qemu-s390x",
        .bfd_clangs = "14 19",
        .lld_clangs = "19",
        .address_unit = 2,
    },
    {
        .name = "mips64el",
        .triple = "mips64el-linux-gnuabi64",
        .architecture = "mips64el",
        .emulator = "qemu-mips64el",
        .lld_clangs = "14 19",
        .has_large_pages = true,
    },
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
