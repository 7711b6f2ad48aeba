/*
 * The numbers of the Mach-O format: the offsets of the fields in its structures, and its constants.
 *
 * Names are those of Apple's <mach-o/loader.h>, <mach-o/nlist.h>, <mach-o/fat.h> and
 * <mach-o/fixup-chains.h>. A structure's fields are given as offsets in bytes, because they are
 * read from bytes that may lie anywhere: SEGMENT_VMADDR is the offset of segment_command_64.vmaddr.
 * Everything is little-endian except universal headers and code signatures (macho/signature.c).
 */
#ifndef COVSPLIT_FORMATS_MACHO_FORMAT_H
#define COVSPLIT_FORMATS_MACHO_FORMAT_H

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
#define HEADER_FLAGS      24
#define HEADER_SIZE       32

/* struct load_command */
#define COMMAND_CMD                 0
#define COMMAND_CMDSIZE             4
#define COMMAND_SIZE                8

#define LC_REQ_DYLD                 0x80000000u
#define LC_SYMTAB                   0x2u
#define LC_THREAD                   0x4u
#define LC_UNIXTHREAD               0x5u
#define LC_DYSYMTAB                 0xbu
#define LC_LOAD_DYLIB               0xcu
#define LC_ID_DYLIB                 0xdu
#define LC_LOAD_DYLINKER            0xeu
#define LC_ID_DYLINKER              0xfu
#define LC_SUB_FRAMEWORK            0x12u
#define LC_SUB_UMBRELLA             0x13u
#define LC_SUB_CLIENT               0x14u
#define LC_SUB_LIBRARY              0x15u
#define LC_TWOLEVEL_HINTS           0x16u
#define LC_LOAD_WEAK_DYLIB          (0x18u | LC_REQ_DYLD)
#define LC_SEGMENT_64               0x19u
#define LC_ROUTINES_64              0x1au
#define LC_UUID                     0x1bu
#define LC_RPATH                    (0x1cu | LC_REQ_DYLD)
#define LC_CODE_SIGNATURE           0x1du
#define LC_SEGMENT_SPLIT_INFO       0x1eu
#define LC_REEXPORT_DYLIB           (0x1fu | LC_REQ_DYLD)
#define LC_LAZY_LOAD_DYLIB          0x20u
#define LC_ENCRYPTION_INFO          0x21u
#define LC_DYLD_INFO                0x22u
#define LC_DYLD_INFO_ONLY           (0x22u | LC_REQ_DYLD)
#define LC_LOAD_UPWARD_DYLIB        (0x23u | LC_REQ_DYLD)
#define LC_VERSION_MIN_MACOSX       0x24u
#define LC_VERSION_MIN_IPHONEOS     0x25u
#define LC_FUNCTION_STARTS          0x26u
#define LC_DYLD_ENVIRONMENT         0x27u
#define LC_MAIN                     (0x28u | LC_REQ_DYLD)
#define LC_DATA_IN_CODE             0x29u
#define LC_SOURCE_VERSION           0x2au
#define LC_DYLIB_CODE_SIGN_DRS      0x2bu
#define LC_ENCRYPTION_INFO_64       0x2cu
#define LC_LINKER_OPTIMIZATION_HINT 0x2eu
#define LC_VERSION_MIN_TVOS         0x2fu
#define LC_VERSION_MIN_WATCHOS      0x30u
#define LC_BUILD_VERSION            0x32u
#define LC_DYLD_EXPORTS_TRIE        (0x33u | LC_REQ_DYLD)
#define LC_DYLD_CHAINED_FIXUPS      (0x34u | LC_REQ_DYLD)
#define LC_ATOM_INFO                0x36u
#define LC_FUNCTION_VARIANTS        0x37u
#define LC_FUNCTION_VARIANT_FIXUPS  0x38u
#define LC_TARGET_TRIPLE            0x39u

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
#define SECTION_64_ALIGN                      52
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

#endif
