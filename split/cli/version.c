/*
 * Versions: see version.h.
 *
 * Libraries are asked for their version at run time, as they may be newer than their headers were.
 * Those that cannot tell are reported with the version of their headers.
 */
#include "split/cli/version.h"

#include <libdeflate.h>
#include <nettle/version.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#ifdef COVSPLIT_WITH_LIEF
#include <LIEF/version.h>
#endif

void print_version(void)
{
    unsigned xxhash = XXH_versionNumber();

    puts("covsplit " COVSPLIT_VERSION);
    printf("libelf " LIBELF_VERSION ", zstd %s, xxHash %u.%u.%u, libdeflate %s, nettle %d.%d",
           ZSTD_versionString(), xxhash / 10000, xxhash / 100 % 100, xxhash % 100,
           LIBDEFLATE_VERSION_STRING, nettle_version_major(), nettle_version_minor());
#ifdef COVSPLIT_WITH_LIEF
    printf(", LIEF %.*s", (int)strcspn(LIEF_VERSION, "-"), LIEF_VERSION);
#endif
    putchar('\n');
}
