/*
 * The notes of owner "covsplit": what a sidecar says of the image and of its own sections.
 *
 * They are the contents of the section .note.covsplit (SHT_NOTE, sh_addralign 4), in the common
 * form of ELF notes: n_namesz = 9, n_descsz, n_type (32 bits each), the name "covsplit" with its
 * NUL and 3 bytes of padding, the description padded with zeros to a multiple of 4. All numbers,
 * also in the descriptions, are in the file's byte order (EI_DATA) and unsigned; descriptions are
 * packed as given here, whatever the file's class. Texts are not NUL-terminated and hold no NUL:
 * they reach to the end of the description (n_descsz). Digests are XXH3-128 in canonical form
 * (digest.h). A "kind" is a number of section.h.
 *
 * FORMAT (type 0x1001): the first note; once; this layout is the same in every format version.
 *      0   4  format version; this page describes 1 and 2, which are the same here
 *
 * IMAGE (type 0x1002): once.
 *      0   4  format of the image: 1 ELF, 2 Mach-O, 3 COFF
 *      4   4  machine: an ELF machine number, the same as e_machine
 *      8   4  size of a pointer in bytes: 4 or 8
 *     12   4  where the UUID comes from: 1 the image itself, 2 an option, 3 the image's digest
 *     16   4  flags: bit 0: the first record of the data section was replaced by a stub record;
 *             bit 1: a placeholder: the image had been split before, and its sidecar was not there;
 *             bit 2: not exact: the sections of names are others that say the same, and the
 *             inverse edit script is empty, so that nothing is restored;
 *             other bits are written as 0 and ignored
 *     20   4  0
 *     24   8  the image's __llvm_profile_raw_version; 0: none
 *     32   8  size of the original image in bytes
 *     40  16  digest of the original image
 *     56   8  size of the stripped image in bytes
 *     64  16  digest of the stripped image
 *     80   -  text: file name of the image, without directory; may be empty
 *
 * REMOVED (type 0x1003): once for each section that is stored (compressed, and named after the
 * kind).
 *      0   4  kind
 *      4   4  flags: bit 0: a copy: the section is still in the image, and joining does not need
 *             it; other bits are written as 0 and ignored
 *      8   8  size in bytes, decompressed; the same as ch_size
 *     16  16  digest of the decompressed contents
 *
 * KEPT (type 0x1004): once for each section that was to be removed but stayed in the image. There
 * may be a copy of it, with a note REMOVED.
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
 *      0  16  digest of the whole file as it is, but without the compressed bytes of its
 *             SHF_COMPRESSED sections (which have digests of their own; what comes before them, the
 *             Elf32_Chdr or Elf64_Chdr, is covered) and with these 16 bytes taken as zero
 *
 * The types start where no tool has a name for a type whoever the owner is (binutils calls 1
 * NT_VERSION). Notes of other owners and of other types are ignored. The UUID is not here but in
 * .note.gnu.build-id; class, byte order, machine and type of the image are those of the ELF header.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_NOTE_H
#define COVSPLIT_COMMON_SIDECAR_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/elf_file/note.h"
#include "common/llvm/section.h"
#include "common/sidecar/facts.h"

#define SIDECAR_NOTE_SECTION ".note.covsplit"
#define SIDECAR_NOTE_OWNER   "covsplit"

/* Objects (object.h) have a note of another type in a section of the same name. */
enum sidecar_note_type {
    SIDECAR_NOTE_FORMAT = 0x1001,
    SIDECAR_NOTE_IMAGE = 0x1002,
    SIDECAR_NOTE_REMOVED = 0x1003,
    SIDECAR_NOTE_KEPT = 0x1004,
    SIDECAR_NOTE_INVERSE = 0x1005,
    SIDECAR_NOTE_SEAL = 0x1006,
};

/* Size and digest of something that the sidecar holds compressed. */
struct sidecar_note_content {
    bool present;
    bool copied; /* sections only */
    uint64_t size;
    struct digest digest;
};

/* What the notes say. The members of `facts` that the notes do not have (UUID, class, byte order,
 * type) are left alone by the functions below, but for elf_data, which sidecar_notes_encode takes
 * the byte order from. */
struct sidecar_notes {
    uint32_t format_version;
    struct sidecar_facts facts;
    char *image_name;
    struct sidecar_note_content removed[SECTION_KIND_MAX + 1]; /* by kind */
    struct kept_section kept[SECTION_KIND_MAX];
    size_t kept_count;
    struct sidecar_note_content inverse;
    struct digest seal;
    uint64_t seal_offset; /* of that digest, in the section's contents */
};

/* Appends the section's contents, as they are in the file, to *encoded. The seal's digest is the
 * last DIGEST_SIZE bytes. `name` is for messages. */
bool sidecar_notes_encode(const struct sidecar_notes *notes, const char *name,
                          struct buffer *encoded, struct error *error);

/* Reads the notes of the section. Refuses other format versions. The texts are new; freed with
 * sidecar_notes_free. */
bool sidecar_notes_decode(const struct elf_note_list *list, const char *name,
                          struct sidecar_notes *notes, struct error *error);
void sidecar_notes_free(struct sidecar_notes *notes);

/* True if they start with the note that sidecars of every format version start with. */
bool sidecar_notes_recognize(const struct elf_note_list *list);

#endif
