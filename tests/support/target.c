/*
 * The table of target.h.
 */
#include "tests/support/target.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/process.h"

#define FREESTANDING COVSPLIT_FIXTURE_DIRECTORY "/freestanding"

/* Left out is what cannot work before any split:
 *   - GNU ld 2.40 for mips64el: records of the profile's data get wrong distances to their
 * counters, so that llvm-profdata refuses the profiles of any image that it links;
 *   - lld of LLVM 14 for s390x, and of 14 and 16 for LoongArch, which it does not know; and of 14
 *     and 16 for a C library for RISC-V, which it cannot relax;
 *   - GNU ld for riscv32, which refuses relocations in what is read-only;
 *   - clang 14 for riscv64, which cannot write the relocations of what it instruments. */
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
        .options = {"-marm", "-mthumb"},
        .bfd_clangs = "14 19",
        .lld_clangs = "14 19",
        .has_large_pages = true,
        .lacks_locks = true,
    },
    {
        .name = "i386",
        .triple = "i686-linux-gnu",
        .architecture = "i386",
        .emulator = "qemu-i386",
        /* As GNU ld: in lld's, 4 MiB up, calls in the code look like addresses now and then, and
         * what they seem to refer to stays. */
        .lld_fixed_options = "-Wl,--image-base=0x8048000",
        .bfd_clangs = "14 19",
        .lld_clangs = "14 19",
        .cannot_fork = true,
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
    {
        .name = "riscv64",
        .triple = "riscv64-linux-gnu",
        .emulator = "qemu-riscv64",
        .options = {NULL, "-march=rv64imafd"},
        .bfd_clangs = "16 19",
        .lld_clangs = "19 22",
    },
    {
        .name = "riscv32",
        .triple = "riscv32-linux-gnu",
        .emulator = "qemu-riscv32",
        .is_freestanding = true,
        .options = {NULL, "-march=rv32imafd"},
        .lld_clangs = "14 19 22",
    },
    {
        .name = "loongarch64",
        .triple = "loongarch64-linux-gnu",
        .emulator = "qemu-loongarch64",
        .page_size = 16384,
        .address_unit = 4,
        .is_freestanding = true,
        .all_options = "-mno-lsx", /* vectors, which the emulator does not know */
        .lld_clangs = "19 22",
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

size_t target_page_size(const struct target *target)
{
    return target->page_size != 0 ? target->page_size : 4096;
}

const char *target_page_option(const struct target *target)
{
    return text_format("-Wl,-z,max-page-size=%zu", target_page_size(target));
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
    text_list_add_words(words, target->all_options != NULL ? target->all_options : "");
    if (target->is_freestanding) {
        text_list_add_words(words, "-ffreestanding -isystem " FREESTANDING "/include");
    } else {
        text_list_add_format(words, "-isystem/usr/%s/include", target->triple);
    }
}

/* The directory that the link leads to has the package's version in its name, by which the cache of
 * what was compiled tells it from another. */
static void add_packaged_runtime(const struct target *target, const char *clang,
                                 struct text_list *words)
{
    char *link = text_format("%s/runtimes/%s-%s", COVSPLIT_TEST_CACHE, target->architecture, clang);
    char *runtime = realpath(link, NULL);
    if (runtime == NULL) {
        ck_abort_msg("%s: %s; see tests/fetch-runtimes.sh", link, strerror(errno));
    }
    text_list_add_format(words, "-resource-dir=%s", runtime);
    text_list_add(words, "-fprofile-instr-generate");
    free(runtime);
    free(link);
}

void target_add_link_words(const struct target *target, const char *clang, const char *linker,
                           struct text_list *words)
{
    text_list_add_format(words, "--target=%s", target->triple);
    if (target->architecture != NULL) {
        add_packaged_runtime(target, clang, words);
    }
    text_list_add_words(words, target->is_freestanding ? "-nostdlib" : "");
    if (strcmp(linker, "bfd") == 0) {
        text_list_add_format(words, "-fuse-ld=/usr/bin/%s-ld", target->triple);
    } else {
        text_list_add_format(words, "-fuse-ld=%s", linker);
    }
}

const char *target_build_runtime(const struct target *target, const char *clang,
                                 const char *directory)
{
    static const char *const parts[] = {"profile_runtime", "profile_writer", "start", "library"};
    size_t count = target->architecture != NULL ? 0 : target->is_freestanding ? 4 : 2;
    const char *objects = "";
    for (size_t i = 0; i < count; i++) {
        struct command command =
            command_words(directory, "clang-%s -O2 -fPIC -c " FREESTANDING "/%s.c -o %s.o", clang,
                          parts[i], parts[i]);
        target_add_compile_words(target, &command.arguments);
        command_run_or_abort(&command);
        command_free(&command);
        objects = text_format("%s %s.o", objects, parts[i]);
    }
    return objects;
}

const char *target_emulator(const struct target *target)
{
    return target->is_freestanding ? target->emulator
                                   : text_format("%s -L /usr/%s", target->emulator, target->triple);
}
