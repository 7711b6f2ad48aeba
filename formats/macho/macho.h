/*
 * Reading and splitting Mach-O images. Internal to formats/macho.
 *
 * read.c reads the load commands, and checks that all that moves in a split is known; chains.c and
 * opcodes.c read fixups, in their two forms, and take some out; macho.c describes and checks
 * sections; layout.c finds the pages to cut and places the stub and the tripwires; write.c writes
 * the load commands of the stripped image, and signs it again.
 */
#ifndef COVSPLIT_FORMATS_MACHO_MACHO_H
#define COVSPLIT_FORMATS_MACHO_MACHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "formats/format.h"

/* ---- the file format ---- */

/*
 * Names are those of Apple's <mach-o/loader.h>, <mach-o/nlist.h>, <mach-o/fat.h> and
 * <mach-o/fixup-chains.h>. A structure's fields are given as offsets in bytes, because they are
 * read from bytes that may lie anywhere: SEGMENT_VMADDR is the offset of segment_command_64.vmaddr.
 * Everything is little-endian except universal headers and code signatures (write.c).
 */

#define MH_MAGIC        0xfeedfaceu
#define MH_CIGAM        0xcefaedfeu
#define MH_MAGIC_64     0xfeedfacfu
#define MH_CIGAM_64     0xcffaedfeu

#define MH_EXECUTE      2
#define MH_DYLIB        6
#define MH_BUNDLE       8

#define MH_PIE          0x200000u

#define CPU_TYPE_X86_64 0x01000007u
#define CPU_TYPE_ARM64  0x0100000cu

/* struct mach_header_64 */
#define HEADER_CPUTYPE    4
#define HEADER_FILETYPE   12
#define HEADER_NCMDS      16
#define HEADER_SIZEOFCMDS 20
#define HEADER_SIZE       32

/* struct load_command */
#define COMMAND_CMD            0
#define COMMAND_CMDSIZE        4
#define COMMAND_SIZE           8

#define LC_REQ_DYLD            0x80000000u
#define LC_SYMTAB              0x2u
#define LC_DYSYMTAB            0xbu
#define LC_TWOLEVEL_HINTS      0x16u
#define LC_SEGMENT_64          0x19u
#define LC_UUID                0x1bu
#define LC_CODE_SIGNATURE      0x1du
#define LC_SEGMENT_SPLIT_INFO  0x1eu
#define LC_ENCRYPTION_INFO     0x21u
#define LC_DYLD_INFO           0x22u
#define LC_DYLD_INFO_ONLY      (0x22u | LC_REQ_DYLD)
#define LC_MAIN                (0x28u | LC_REQ_DYLD)
#define LC_ENCRYPTION_INFO_64  0x2cu
#define LC_DYLD_CHAINED_FIXUPS (0x34u | LC_REQ_DYLD)

/* struct segment_command_64 */
#define SEGMENT_SEGNAME  8
#define SEGMENT_VMADDR   24
#define SEGMENT_VMSIZE   32
#define SEGMENT_FILEOFF  40
#define SEGMENT_FILESIZE 48
#define SEGMENT_MAXPROT  56
#define SEGMENT_INITPROT 60
#define SEGMENT_NSECTS   64
#define SEGMENT_FLAGS    68
#define SEGMENT_SIZE     72

#define VM_PROT_EXECUTE  4u

/* struct section_64, which follow their segment_command_64 */
#define SECTION_64_SECTNAME                   0
#define SECTION_64_SEGNAME                    16
#define SECTION_64_ADDR                       32
#define SECTION_64_BYTES                      40 /* section_64.size */
#define SECTION_64_OFFSET                     48
#define SECTION_64_NRELOC                     60
#define SECTION_64_FLAGS                      64
#define SECTION_64_RESERVED3                  76
#define SECTION_64_SIZE                       80

#define MACHO_NAME_SIZE                       16 /* of segname and sectname, padded with NULs */

#define SECTION_64_TYPE_MASK                  0xffu
#define S_REGULAR                             0u
#define S_ZEROFILL                            1u
#define S_NON_LAZY_SYMBOL_POINTERS            6u
#define S_LAZY_SYMBOL_POINTERS                7u
#define S_MOD_INIT_FUNC_POINTERS              9u
#define S_MOD_TERM_FUNC_POINTERS              10u
#define S_GB_ZEROFILL                         0xcu
#define S_THREAD_LOCAL_REGULAR                0x11u
#define S_THREAD_LOCAL_ZEROFILL               0x12u
#define S_THREAD_LOCAL_INIT_FUNCTION_POINTERS 0x15u
#define S_ATTR_PURE_INSTRUCTIONS              0x80000000u
#define S_ATTR_SOME_INSTRUCTIONS              0x400u

/* struct linkedit_data_command */
#define LINKEDIT_DATAOFF  8
#define LINKEDIT_DATASIZE 12
#define LINKEDIT_SIZE     16

/* struct symtab_command */
#define SYMTAB_SYMOFF  8
#define SYMTAB_NSYMS   12
#define SYMTAB_STROFF  16
#define SYMTAB_STRSIZE 20
#define SYMTAB_SIZE    24

/* struct dysymtab_command */
#define DYSYMTAB_TOCOFF         32
#define DYSYMTAB_MODTABOFF      40
#define DYSYMTAB_EXTREFSYMOFF   48
#define DYSYMTAB_INDIRECTSYMOFF 56
#define DYSYMTAB_EXTRELOFF      64
#define DYSYMTAB_NEXTREL        68
#define DYSYMTAB_LOCRELOFF      72
#define DYSYMTAB_NLOCREL        76
#define DYSYMTAB_SIZE           80

/* struct dyld_info_command: offset and size of each of five tables */
#define DYLD_INFO_REBASE    8
#define DYLD_INFO_BIND      16
#define DYLD_INFO_WEAK_BIND 24
#define DYLD_INFO_LAZY_BIND 32
#define DYLD_INFO_EXPORT    40
#define DYLD_INFO_SIZE      48

/* struct twolevel_hints_command, struct encryption_info_command(_64), struct uuid_command */
#define TWOLEVEL_HINTS_OFFSET 8
#define TWOLEVEL_HINTS_SIZE   16
#define ENCRYPTION_CRYPTID    16
#define ENCRYPTION_SIZE       20
#define UUID_BYTES            8
#define UUID_SIZE             16

/* struct entry_point_command */
#define MAIN_ENTRYOFF 8

/* struct nlist_64 */
#define NLIST_STRX  0
#define NLIST_TYPE  4
#define NLIST_SECT  5
#define NLIST_VALUE 8
#define NLIST_SIZE  16

#define N_STAB      0xe0
#define N_TYPE      0x0e
#define N_SECT      0x0e

/* struct dyld_chained_fixups_header */
#define CHAINS_STARTS_OFFSET  4
#define CHAINS_IMPORTS_OFFSET 8
#define CHAINS_SYMBOLS_OFFSET 12
#define CHAINS_HEADER_SIZE    28

/* struct dyld_chained_starts_in_image: a count, and that many offsets */
#define STARTS_SEG_INFO_OFFSET 4

/* struct dyld_chained_starts_in_segment */
#define CHAIN_SIZE                   0
#define CHAIN_PAGE_SIZE              4
#define CHAIN_POINTER_FORMAT         6
#define CHAIN_SEGMENT_OFFSET         8
#define CHAIN_PAGE_COUNT             20
#define CHAIN_PAGE_START             22

#define DYLD_CHAINED_PTR_START_NONE  0xffffu
#define DYLD_CHAINED_PTR_START_MULTI 0x8000u

/* Those of images for x86-64 and arm64 that are not part of a kernel. */
#define DYLD_CHAINED_PTR_ARM64E            1
#define DYLD_CHAINED_PTR_64                2
#define DYLD_CHAINED_PTR_64_OFFSET         6
#define DYLD_CHAINED_PTR_ARM64E_USERLAND   9
#define DYLD_CHAINED_PTR_ARM64E_USERLAND24 12

/* struct fat_header, fat_arch and fat_arch_64: big-endian */
#define FAT_MAGIC    0xcafebabeu
#define FAT_MAGIC_64 0xcafebabfu

/* ---- what covsplit writes ---- */

/* section_64.reserved3 of an emptied section ("covs"), by which a stripped image is recognized:
 * linkers write 0. */
#define MACHO_EMPTIED_MARK 0x73766f63u

/* The segment of the coverage mapping, and that of names and data. */
#define MACHO_COVERAGE_SEGMENT "__LLVM_COV"
#define MACHO_DATA_SEGMENT     "__DATA"
/* The new name of the first part of a split __DATA. */
#define MACHO_PROFILE_SEGMENT "__LLVM_PRF"

/* ---- read.c: load commands ---- */

struct macho_command {
    uint32_t cmd;
    uint32_t cmdsize;
    uint64_t offset; /* in the file */
};

struct macho_segment {
    char segname[MACHO_NAME_SIZE + 1];
    uint64_t vmaddr;
    uint64_t vmsize;
    uint64_t fileoff;
    uint64_t filesize;
    uint32_t maxprot;
    uint32_t initprot;
    uint64_t command; /* file offset of the load command */
    size_t first_section;
    size_t section_count;
};

struct macho_section {
    char sectname[MACHO_NAME_SIZE + 1];
    char segname[MACHO_NAME_SIZE + 1];
    uint64_t addr;
    uint64_t size;
    uint32_t offset; /* in the file */
    uint32_t align;  /* the exponent of a power of 2 */
    uint32_t nreloc;
    uint32_t flags;
    uint32_t reserved3;
    size_t segment;
    uint64_t header; /* file offset of the section_64 */
};

struct macho_image {
    const struct input *input;
    const char *path; /* of the input, for messages */
    struct bytes file;
    struct arena arena; /* of the arrays */
    uint32_t filetype;
    uint32_t flags;
    uint16_t machine;      /* as an ELF machine number */
    uint64_t page_size;    /* alignment of segments on such machines */
    uint64_t commands_end; /* file offset */
    struct macho_command *commands;
    size_t command_count;
    struct macho_segment *segments;
    size_t segment_count;
    struct macho_section *sections; /* in the order of their ordinals, which start at 1 */
    size_t section_count;
};

/* Opens a 64-bit little-endian executable, dynamic library or bundle for x86-64 or arm64. The input
 * must outlive the image. Checks what every reader of the image relies on: load commands and
 * segments lie in the file and do not wrap around, and a section's header is inside its segment's
 * command. After a failure there is nothing to close. */
bool macho_image_open(struct macho_image *image, const struct input *input, struct error *error);
void macho_image_close(struct macho_image *image);

/* Checks what only a change of the image relies on. Cutting a file shifts what is behind the cut,
 * so every file offset in the load commands must be known, and every byte must belong to a segment.
 * The checks are those of dyld and the kernel before they load an image, and what linkers always
 * do. A file that does not pass them is of a kind that was never considered, and is left alone. */
bool macho_image_check_layout(const struct macho_image *image, struct error *error);

/* The first load command of that kind, or of the opcodes of fixups; NULL if there is none. */
const struct macho_command *macho_find_command(const struct macho_image *image, uint32_t cmd);
const struct macho_command *macho_find_dyld_info(const struct macho_image *image);

/* Index of the segment of that name; and index of the first section of that name behind `after`
 * (NO_INDEX: from the start). NO_INDEX if there is none. */
size_t macho_find_segment(const struct macho_image *image, const char *segname);
size_t macho_find_section(const struct macho_image *image, const char *segname,
                          const char *sectname, size_t after);
/* The address of the image's header, in an image whose layout was checked. */
uint64_t macho_base(const struct macho_image *image);

/* True for a section that occupies bytes of the file. */
bool macho_section_in_file(const struct macho_section *section);
/* A 32-bit field of a load command, whose size must have been checked to include it. */
uint32_t macho_field(const struct macho_image *image, const struct macho_command *command,
                     uint64_t offset);

/* The bytes that two fields describe, an offset and the size behind it; empty if the command is
 * NULL, or the bytes are not inside the file. */
struct bytes macho_linkedit_bytes(const struct macho_image *image,
                                  const struct macho_command *command, uint64_t field);

/* A table in __LINKEDIT, to which a load command points. */
struct macho_table {
    uint64_t field;  /* file offset of the 32-bit field that holds the table's offset */
    uint32_t offset; /* of the table, in the file; 0: there is none */
    uint64_t size;   /* in bytes */
};

/* The table of the next such field, even if there is none; false behind the last one. *position is
 * 0 at first. */
bool macho_next_table(const struct macho_image *image, size_t *position, struct macho_table *table);

/* Appends the outline of an image: see image_outline in image.h. */
bool macho_outline(const struct input *input, struct buffer *outline, struct error *error);

/* ---- fixups: the pointers in an image that dyld sets when it loads the image ---- */

/* A rebase points into the image, a bind to a symbol of another image. */
struct macho_fixup {
    size_t segment;
    uint64_t address; /* of the pointer */
    uint64_t target;  /* the address in the image to which it points; only if is_rebase */
    bool is_rebase;
    /* With opcodes: offset in their table of the opcode that set segment and offset. */
    uint64_t place_opcode;
};

/* Calls `visit` for every fixup of the image; if it returns false, stops and returns false with
 * *reason NULL. If the fixups cannot be read, or are of an unknown kind, returns false with *reason
 * set to a phrase. The image's layout must have been checked. */
typedef bool (*macho_fixup_visitor)(void *context, const struct macho_fixup *fixup);
bool macho_fixups_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason);

/* The same for each of the two forms; true if the image has no fixups in that form (chains.c,
 * opcodes.c). */
bool macho_chains_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason);
bool macho_opcodes_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                        const char **reason);

/* True if a segment has chained fixups, or that is not known. */
bool macho_chains_may_be_in(const struct macho_image *image, size_t segment);
/* True if a segment has fixups of either form, or that is not known: often it is known that it has
 * none, even if macho_fixups_each fails. */
bool macho_segment_may_have_fixups(const struct macho_image *image, size_t segment);

/* A macho_fixup_visitor whose context is a section: false for a fixup in it. */
bool macho_fixup_is_outside(void *context, const struct macho_fixup *fixup);

/* ---- the state of a split ---- */

/* Runs of whole pages that hold nothing that stays: at most two in __DATA and one for each section
 * of __LLVM_COV. */
#define MACHO_HOLES_MAX 6

struct macho_hole {
    size_t segment;
    uint64_t offset; /* in the file */
    uint64_t size;
    bool is_tail;    /* it reaches the end of the segment's bytes in the file */
    const char *why; /* it is not cut from the file; NULL: it is */
};

/* The place of the tripwire (common/llvm/tripwire.h) that names leave, and of their section. */
enum macho_names_place {
    MACHO_NAMES_AT_START,    /* at the start of the names */
    MACHO_NAMES_BEHIND_STUB, /* behind the stub, on its page, which stays */
    MACHO_NAMES_AT_SPLIT,    /* at the start of the second part of a split segment */
};

struct macho_place {
    uint64_t offset; /* in the original file */
    uint64_t address;
};

/* The old code signature, and the place of the new one. */
struct macho_signature {
    bool is_renewed;
    bool is_dropped; /* it cannot be made again, and is removed with its load command */
    uint64_t offset; /* of the old one in the file */
    uint64_t size;
    size_t literal;        /* offset of the new one in the edits' literals */
    struct buffer content; /* the new one, without hashes until macho_signature_sign has run */
};

struct macho_state {
    struct planning base;
    struct macho_image image;

    /* By kind: how many bytes at the start of a removed section's range stay in the file. */
    uint64_t reserved[SECTION_KIND_MAX + 1];

    bool names_may_move; /* both accessors of their bounds can be rewritten */
    enum macho_names_place names_place;

    struct macho_hole holes[MACHO_HOLES_MAX];
    size_t hole_count;

    /* The segment that is split (NO_INDEX: none): its bytes behind a hole, from this file offset
     * on, get the load command of the next segment, which has lost all its own bytes. */
    size_t split_segment;
    uint64_t split_fileoff;

    /* The stub is before those bytes, too, so that the sections from this one up to the data, which
     * are zeros, need not be in the file. NO_INDEX: it is at the start of the data. */
    size_t zeros;

    /* The places of the stub, and of the tripwires of names and mapping, which stay of sections
     * that are removed. If a segment is split, the mapping's is not loaded at its address. */
    struct macho_place stub, names, mapping;

    uint64_t chains_growth; /* bytes by which LC_DYLD_CHAINED_FIXUPS grows */
    uint64_t rebase_growth; /* bytes by which the rebase opcodes grow */

    size_t commands_literal; /* offset of the new load commands in the edits' literals */
    struct macho_signature signature;
};

static inline struct macho_state *macho_state_of(struct planning *planning)
{
    return (struct macho_state *)planning;
}

static inline const struct macho_image *macho_image_of(const struct planning *planning)
{
    return &((const struct macho_state *)planning)->image;
}

/* Unit in bytes of what is inserted into __LINKEDIT, so that everything behind it stays aligned. */
#define MACHO_GROWTH_UNIT 16

/* ---- layout.c ---- */

/* Finds the pages to cut and the places of stub and tripwires, and adds the edits that take the
 * removed sections and their fixups out of the file. */
bool macho_layout(struct macho_state *state, struct error *error);

/* The fate of a fixup. */
enum macho_fixup_fate {
    MACHO_FIXUP_STAYS,
    MACHO_FIXUP_BEHIND, /* it stays, in the second part of a split segment */
    MACHO_FIXUP_GOES,   /* it is removed with the data */
    MACHO_FIXUP_IS_CUT, /* it is in bytes that are cut, but in no removed section: not planned for
                         */
};
enum macho_fixup_fate macho_fixup_fate(const struct macho_state *state, size_t segment,
                                       uint64_t address);
#define MACHO_FIXUP_IS_CUT_TEXT "dyld applies fixups outside all sections"

/* The size of the segment's bytes in the file after the split, counted in the original. */
uint64_t macho_filesize(const struct macho_state *state, size_t segment);

/* ---- the other steps ---- */

/* Adds the edits of fixups: those in the data are removed, and those in a split segment are
 * adjusted (chains.c, opcodes.c). False if that is impossible with the planned split (*problem says
 * why) or memory ran out (*problem is NULL); some edits may have been added by then. */
bool macho_relink_plan(struct macho_state *state, const char **problem);
bool macho_recode_plan(struct macho_state *state, const char **problem);

/* Reserves room for the new load commands in the edits; and fills it in, once the edits are in
 * order (write.c). */
bool macho_commands_reserve(struct macho_state *state, struct error *error);
bool macho_commands_write(struct planning *planning, struct error *error);

/* Finds the code signature, and refuses one that covsplit cannot make again, unless it is to be
 * dropped (write.c). */
bool macho_signature_read(struct macho_state *state, struct error *error);
/* Reserves room for the new signature in the edits, after which none may change sizes; and makes
 * the signature, once everything before it is final. */
bool macho_signature_reserve(struct macho_state *state, struct error *error);
bool macho_signature_sign(struct planning *planning, struct error *error);

#endif
