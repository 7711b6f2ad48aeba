/*
 * The notes of owner "covsplit": what a sidecar records about the image and its own sections.
 *
 * They are in the section .note.covsplit (SHT_NOTE, sh_addralign 4), in the common form of ELF
 * notes: n_namesz = 9, n_descsz, n_type (32 bits each), the name "covsplit" with its NUL and 3
 * bytes of padding, the description padded with zeros to a multiple of 4. All numbers, also in the
 * descriptions, are in the file's byte order (EI_DATA) and unsigned; descriptions are packed as
 * given here, whatever the file's class. Texts are not NUL-terminated and hold no NUL: they reach
 * to the end of the description (n_descsz). Digests are XXH3-128 in canonical form (digest.h). A
 * "kind" is a number of section.h.
 *
 * FORMAT (type 0x1001): the first note; once; has the same layout in every format version.
 *      0   4  format version; this page describes 1 to 3, which are the same here
 *
 * IMAGE (type 0x1002): once.
 *      0   4  format of the image: 1 ELF, 2 Mach-O, 3 COFF
 *      4   4  machine: an ELF machine number, the same as e_machine
 *      8   4  size of a pointer in bytes: 4 or 8
 *     12   4  where the UUID comes from: 1 the image itself, 2 an option, 3 the image's digest
 *     16   4  flags: bit 0: the first record of the data section was replaced by a stub record;
 *             bit 1: a placeholder: the image had been split before, and its sidecar was not found;
 *             bit 2: not exact: the names sections hold the same names in another form, and the
 *             inverse edit script is empty, so the original cannot be restored;
 *             other bits are written as 0 and ignored
 *     20   4  0
 *     24   8  the image's __llvm_profile_raw_version; 0 if it has none
 *     32   8  size of the original image in bytes
 *     40  16  digest of the original image
 *     56   8  size of the stripped image in bytes
 *     64  16  digest of the stripped image
 *     80   -  text: file name of the image, without directory; may be empty
 *
 * REMOVED (type 0x1003): once for each section that is stored (compressed, and named after the
 * kind).
 *      0   4  kind
 *      4   4  flags: bit 0: a copy: the section is still in the image, and joining does not use
 *             it; other bits are written as 0 and ignored
 *      8   8  size in bytes, decompressed; the same as ch_size
 *     16  16  digest of the decompressed contents
 *
 * KEPT (type 0x1004): once for each section that was to be removed but stayed in the image. The
 * sidecar may hold a copy of it, with a REMOVED note.
 *      0   4  kind
 *      4   4  0
 *      8   8  size in bytes
 *     16   -  text: why it stayed
 *
 * INVERSE (type 0x1005): once.
 *      0   8  size in bytes of the inverse edit script, decompressed
 *      8  16  digest of it
 *
 * SEAL (type 0x1006): once.
 *      0  16  digest of the whole file except for the compressed bytes of its SHF_COMPRESSED
 * sections (which have their own digests; the Elf32_Chdr or Elf64_Chdr before them is covered),
 *             with these 16 bytes taken as zero
 *
 * STUB (type 0x1007): at most once, if the image has a stub record.
 *      0  16  NameRef and FuncHash of the stub, as bytes in the image. Without this note they are
 *             the first 16 bytes of the UUID, padded with zeros, as earlier versions wrote them
 *
 * RECORDS (type 0x1008): at most once, if the names were removed and the data records were not.
 *      0  16  digest of NameRef and FuncHash of all records, as bytes in the original image, one
 *             record after the other. Earlier versions did not write it
 *
 * The types are so high because some tools name low ones regardless of the owner (binutils calls 1
 * NT_VERSION). Notes with other owners or types are ignored. The UUID is not here but in
 * .note.gnu.build-id; class, byte order, machine and type of the image are in the ELF header.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_NOTE_H
#define COVSPLIT_COMMON_SIDECAR_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/section.h"
#include "common/sidecar/facts.h"

#define SIDECAR_NOTE_SECTION ".note.covsplit"
#define SIDECAR_NOTE_OWNER   "covsplit"

/* Objects (object.h) have a note with another type in a section of the same name. */
enum sidecar_note_type {
    SIDECAR_NOTE_FORMAT = 0x1001,
    SIDECAR_NOTE_IMAGE = 0x1002,
    SIDECAR_NOTE_REMOVED = 0x1003,
    SIDECAR_NOTE_KEPT = 0x1004,
    SIDECAR_NOTE_INVERSE = 0x1005,
    SIDECAR_NOTE_SEAL = 0x1006,
    SIDECAR_NOTE_STUB = 0x1007,
    SIDECAR_NOTE_RECORDS = 0x1008,
};

/* Size and digest of something that the sidecar holds compressed. */
struct sidecar_note_content {
    bool present;
    bool copied; /* sections only */
    uint64_t size;
    struct digest digest;
};

/* The contents of the notes. The functions below do not use the members of `facts` that are not in
 * the notes (UUID, class, byte order, type), except that sidecar_notes_encode takes the byte order
 * from elf_data. */
struct sidecar_notes {
    uint32_t format_version;
    struct sidecar_facts facts;
    bool has_stub_id; /* facts.stub_id was read */
    char *image_name;
    struct sidecar_note_content removed[SECTION_KIND_MAX + 1]; /* by kind */
    struct kept_section kept[SECTION_KIND_MAX];
    size_t kept_count;
    struct sidecar_note_content inverse;
    struct digest seal;
    uint64_t seal_offset; /* of the seal's digest, in the section's contents */
};

/* Appends the section's contents to *encoded. The seal's digest is the last DIGEST_SIZE bytes.
 * `name` is for messages. */
bool sidecar_notes_encode(const struct sidecar_notes *notes, const char *name,
                          struct buffer *encoded, struct error *error);

/* Reads the notes of the section. Fails for other format versions. The texts are copied; free with
 * sidecar_notes_free. */
bool sidecar_notes_decode(const struct elf_note_list *list, const char *name,
                          struct sidecar_notes *notes, struct error *error);
void sidecar_notes_free(struct sidecar_notes *notes);

/* True if the first note is FORMAT, as in sidecars of every format version. */
bool sidecar_notes_recognize(const struct elf_note_list *list);

#endif
