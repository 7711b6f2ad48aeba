/*
 * Exports: ELF files that LLVM's tools read in place of a sidecar's image.
 *
 * An export is an ELF file of the image's class, byte order, machine and type, whatever the image's
 * format, with only what these tools need:
 *
 *   PT_NOTE, .note.gnu.build-id    the UUID: llvm-cov looks for it in the sections or segments
 *   .note.covsplit                 what this is, see below
 *   __llvm_covmap, __llvm_covfun   as in the image
 *   __llvm_prf_names               each name once, in one uncompressed chunk
 *   __llvm_covdata                 as in the image: for llvm-profdata merge --binary-file
 *   __llvm_covnames                like __llvm_prf_names
 *   __llvm_prf_cnts, _bits         SHT_NOBITS with address and size: for the same
 *   xray_instr_map, xray_fn_idx    as in the image, with their addresses, but not SHF_ALLOC
 *   .debug_str                     one string
 *   .shstrtab
 *
 * Because it has a section named .debug_* and none that is loaded from the file, elfutils'
 * debuginfod takes an export for debug information rather than an executable, and serves it when
 * asked for the debug information of that UUID. To a debugger, a section with a single string means
 * nothing.
 *
 * .note.covsplit (SHT_NOTE) holds one note of owner "covsplit" and type 0x1010, in the form that
 * docs/format.md describes:
 *      0   4  format version; this page describes 1
 *      4   4  format of the image: 1 ELF, 2 Mach-O, 3 COFF
 *      8   8  size of the original image in bytes
 *     16  16  digest of the original image
 *     32   -  text: file name of the image, without directory; may be empty
 */
#ifndef COVSPLIT_COMMON_SIDECAR_EXPORTED_H
#define COVSPLIT_COMMON_SIDECAR_EXPORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/sidecar/sidecar.h"

#define EXPORT_FORMAT_VERSION 1

/* ---- writing ---- */

/* Writes the export to the sink; its output must not be used until the function has returned true.
 * Fails before the sink is called if no tool could use the export: it needs coverage mapping and
 * names, or data and names for binary correlation. The same sidecar always gives the same bytes.
 *
 * Only the distinct names and the section that they come from are held in memory. */
bool export_write(const struct sidecar *sidecar, bytes_sink sink, void *context,
                  struct error *error);

/* Coverage that takes the place of the sidecar's own, for a member of a union. All other sections
 * are left out. */
struct export_coverage {
    struct buffer covmap, names; /* which the export takes over */
    enum section_kind names_kind;
    /* The records of __llvm_covfun, one behind the other, and their size. */
    const struct bytes *covfun;
    size_t covfun_count;
    uint64_t covfun_size;
};

/* The same with this coverage (NULL: the sidecar's own). Before the first byte, `begin` is called
 * with the size of the export, a multiple of 8. */
bool export_write_member(const struct sidecar *sidecar, struct export_coverage *coverage,
                         bool (*begin)(void *context, uint64_t size, struct error *error),
                         bytes_sink sink, void *context, struct error *error);

/* ---- reading ---- */

/* True if the bytes look like an export of any version. Fast. */
bool export_recognize(struct bytes bytes);

/* An export's record of the image. */
struct export_facts {
    uint32_t format_version;
    /* Format, class, byte order, machine, UUID, and the original's size and digest. */
    struct sidecar_facts image;
    char image_name[256]; /* a longer one is truncated */
    struct section sections[SECTION_KIND_MAX];
    size_t section_count;
};

/* `name` is for messages. */
bool export_read(struct bytes bytes, const char *name, struct export_facts *facts,
                 struct error *error);

#endif
