/*
 * Objects: what LLVM's tools read in place of the image that a sidecar is of.
 *
 * An object is an ELF file of the image's class, byte order, machine and type, whatever the image's
 * format, with what is wanted of the image and nothing else:
 *
 *   PT_NOTE, .note.gnu.build-id    the UUID: llvm-cov looks at the sections or the segments for it
 *   .note.covsplit                 what this is, see below
 *   __llvm_covmap, __llvm_covfun   as in the image
 *   __llvm_prf_names               all names in one chunk, not compressed, each once
 *   __llvm_covdata                 as in the image: for llvm-profdata merge --binary-file
 *   __llvm_covnames                like __llvm_prf_names
 *   __llvm_prf_cnts, _bits         SHT_NOBITS with address and size: likewise
 *   xray_instr_map, xray_fn_idx    as in the image, with their addresses but not as loaded ones
 *   .debug_str                     one string
 *   .shstrtab
 *
 * A section of the name .debug_* and none that is loaded from the file make elfutils' debuginfod
 * take it for debug information, and not for an executable, and thus serve it to whoever asks for
 * the debug information of that UUID; one with nothing but a string says nothing to a debugger.
 *
 * .note.covsplit (SHT_NOTE) holds one note of owner "covsplit" and type 0x1010, in the form that
 * sidecar/note.h describes:
 *      0   4  format version; this page describes 1
 *      4   4  format of the image: 1 ELF, 2 Mach-O, 3 COFF
 *      8   8  size of the original image in bytes
 *     16  16  digest of the original image
 *     32   -  text: file name of the image, without directory; may be empty
 */
#ifndef COVSPLIT_COMMON_SIDECAR_OBJECT_H
#define COVSPLIT_COMMON_SIDECAR_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/sidecar/sidecar.h"

#define OBJECT_FORMAT_VERSION 1

/* Writes the object to the sink, in order; it is only good when the function has returned true.
 * Fails before the sink is called where no tool could use the object: it needs coverage mapping and
 * names, or what binary correlation takes. The same sidecar always gives the same bytes.
 *
 * In memory are only the distinct names and the section that they come from. */
bool object_write(const struct sidecar *sidecar, bytes_sink sink, void *context,
                  struct error *error);

/* Whether the bytes look like an object of any version. Cheap. */
bool object_recognize(struct bytes bytes);

/* What an object says of the image. */
struct object_facts {
    uint32_t format_version;
    enum image_format format;
    uint8_t elf_class;
    uint8_t elf_data;
    uint16_t machine;
    struct uuid uuid;
    uint64_t original_size;
    struct digest original_digest;
    char *image_name;
    /* The sections of section.h that it has. */
    struct object_section {
        enum section_kind kind;
        uint64_t address;
        uint64_t size;
    } sections[SECTION_KIND_MAX];
    size_t section_count;
};

/* `name` is for messages. Free with object_facts_free, even after a failure. */
bool object_read(struct bytes bytes, const char *name, struct object_facts *facts,
                 struct error *error);
void object_facts_free(struct object_facts *facts);

#endif
