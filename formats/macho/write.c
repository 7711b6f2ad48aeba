/*
 * Writes the load commands of the stripped image.
 *
 * Their number and total size stay the same, so they are overwritten in place. What changes: the
 * file offsets of everything behind a cut, the sizes of segments in the file, the headers of
 * emptied sections, and, if a segment was split, where one segment ends and the next begins.
 * Addresses of sections stay, except for those with the stub or a tripwire.
 *
 * Code signatures: ad-hoc signatures, which linkers make, are made again for the stripped image.
 *
 * LC_CODE_SIGNATURE points to a blob at the end of the file that contains further blobs; those that
 * matter are code directories. A code directory has the digest of every page of the file before the
 * signature, and of some other blobs, which stay. The kernel kills an arm64 image at its start if
 * the digests of its pages do not match, so the digests of the stripped image's pages replace the
 * old ones. An ad-hoc signature contains nothing else; a signature with a certificate signs the
 * code directory, and only the owner of the certificate can make it.
 *
 * The layout is that of CS_SuperBlob and CS_CodeDirectory in xnu's cs_blobs.h; all numbers are
 * big-endian.
 */
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <string.h>

#include "common/edit/edit.h"
#include "formats/macho/macho.h"

#define CSMAGIC_EMBEDDED_SIGNATURE 0xfade0cc0u
#define CSMAGIC_CODEDIRECTORY      0xfade0c02u

/* CS_SuperBlob: magic, length, count, and an index of types and offsets */
#define SUPERBLOB_INDEX      12
#define INDEX_SIZE           8

#define BLOB_LENGTH          4
#define BLOB_HEADER_SIZE     8

#define CSSLOT_SIGNATURESLOT 0x10000u

/* CS_CodeDirectory */
#define DIRECTORY_N_CODE_SLOTS       28
#define DIRECTORY_CODE_LIMIT         32
#define DIRECTORY_SIZE               44 /* without the fields of later versions */
#define DIRECTORY_VERSION_MAX        0x205ffu

#define CS_ADHOC                     0x2u

#define CS_HASHTYPE_SHA1             1
#define CS_HASHTYPE_SHA256           2
#define CS_HASHTYPE_SHA256_TRUNCATED 3

/* No real signature has more blobs. */
#define BLOBS_MAX 16

/* Signatures start, and end, at multiples of this. */
#define SIGNATURE_ALIGNMENT 16

/* A code directory whose page hashes are its last bytes. */
struct directory {
    uint32_t flags;
    uint32_t hashes; /* their offset in the blob */
    uint32_t code_limit;
    unsigned hash_size;
    unsigned hash_type;
    uint64_t page_size;
};

struct blob {
    uint32_t type;
    uint32_t offset;
    struct bytes bytes;
    bool is_directory;
};

struct signature_blobs {
    struct blob list[BLOBS_MAX];
    uint32_t count;
};

static bool refuse(const struct macho_state *state, struct error *error, const char *what)
{
    return error_set(error,
                     "%s: its code signature is %s; split before signing, or give "
                     "--drop-signature and sign the stripped image",
                     state->image.path, what);
}

static const char unknown[] = "damaged, or of a kind that covsplit does not know";
static const char certificate[] = "made with a certificate, which only its owner can renew";

/* ---- load commands ---- */

bool macho_commands_reserve(struct macho_state *state, struct error *error)
{
    struct edit_script *edits = &state->base.plan->edits;
    struct bytes commands = {state->image.file.data, state->image.commands_end};

    state->commands_literal = edits->literals.size;
    return edit_replace(edits, 0, commands.size, commands) ||
           error_out_of_memory(error, state->image.path, commands.size);
}

/* The new bytes of the load command that is at `offset` in the original file. */
static uint8_t *at(struct macho_state *state, uint64_t offset)
{
    return state->base.plan->edits.literals.data + state->commands_literal + offset;
}

static uint64_t map(const struct macho_state *state, uint64_t offset)
{
    return edit_script_map(&state->base.plan->edits, offset);
}

static void put_32(struct macho_state *state, uint64_t field, uint64_t value)
{
    store_u32(at(state, field), (uint32_t)value, false);
}

static void put_64(struct macho_state *state, uint64_t field, uint64_t value)
{
    store_u64(at(state, field), value, false);
}

static void write_segments(struct macho_state *state)
{
    uint64_t end = edit_script_result_size(&state->base.plan->edits);

    for (size_t i = 0; i < state->image.segment_count; i++) {
        const struct macho_segment *segment = &state->image.segments[i];
        uint64_t fileoff = map(state, segment->fileoff);
        uint64_t filesize = map(state, segment->fileoff + macho_filesize(state, i)) - fileoff;

        if (i == state->image.segment_count - 1)
            filesize = end - fileoff;
        /* A segment without bytes may have no place in the file at all. */
        if (segment->fileoff != 0 || segment->filesize != 0)
            put_64(state, segment->command + SEGMENT_FILEOFF, fileoff);
        if (segment->filesize != 0)
            put_64(state, segment->command + SEGMENT_FILESIZE, filesize);
        if (filesize > segment->vmsize)
            put_64(state, segment->command + SEGMENT_VMSIZE,
                   align_up(filesize, state->image.page_size));
    }
}

/* Makes a section one of zeros, like its memory, so that tools do not look for it in the file. */
static void write_zerofill(struct macho_state *state, const struct macho_section *section)
{
    put_32(state, section->header + SECTION_64_OFFSET, 0);
    put_32(state, section->header + SECTION_64_FLAGS,
           (section->flags & ~SECTION_64_TYPE_MASK) | S_ZEROFILL);
}

static void write_place(struct macho_state *state, uint64_t header, struct macho_place place)
{
    put_64(state, header + SECTION_64_ADDR, place.address);
    put_32(state, header + SECTION_64_OFFSET, map(state, place.offset));
}

/* Describes what is left of a removed section. */
static void write_emptied(struct macho_state *state, const struct section *removed)
{
    const struct macho_section *section =
        &state->image.sections[state->base.section_index[removed->kind]];
    uint64_t rest = planning_remnant(&state->base, removed->kind, removed->size).size;

    put_64(state, section->header + SECTION_64_BYTES, rest);
    put_32(state, section->header + SECTION_64_RESERVED3, MACHO_EMPTIED_MARK);
    if (rest == 0) {
        write_zerofill(state, section);
    } else if (removed->kind == SECTION_DATA) {
        write_place(state, section->header, state->stub);
    } else if (removed->kind == SECTION_NAMES) {
        write_place(state, section->header, state->names);
    } else {
        write_place(state, section->header, state->mapping);
        /* In a split segment, the mapping's section becomes one of zeros for everything that loads
         * the image (layout.c). Readers recognize it by flags that have no other meaning. */
        if (state->split_segment != NO_INDEX)
            put_32(state, section->header + SECTION_64_FLAGS, S_ZEROFILL);
    }
}

static void write_sections(struct macho_state *state)
{
    const struct image_plan *plan = state->base.plan;

    for (size_t i = 0; i < state->image.section_count; i++) {
        const struct macho_section *section = &state->image.sections[i];

        if (section->offset != 0)
            put_32(state, section->header + SECTION_64_OFFSET, map(state, section->offset));
    }
    for (size_t i = 0; i < plan->section_count; i++) {
        if (section_goes(&plan->sections[i]))
            write_emptied(state, &plan->sections[i]);
    }
    for (size_t i = state->zeros; i != NO_INDEX && i < state->base.section_index[SECTION_DATA]; i++)
        write_zerofill(state, &state->image.sections[i]);
}

static void write_name(struct macho_state *state, uint64_t field, const char *name)
{
    memset(at(state, field), 0, MACHO_NAME_SIZE);
    memcpy(at(state, field), name, strlen(name));
}

/* Writes the fields of both segments, whose load commands are still in their old places. */
static void write_split_fields(struct macho_state *state)
{
    const struct macho_segment *first = &state->image.segments[state->split_segment];
    const struct macho_segment *next = first + 1;
    uint64_t distance = state->split_fileoff - first->fileoff;
    uint64_t fileoff = map(state, state->split_fileoff);
    uint64_t end = map(state, first->fileoff + first->filesize);

    write_name(state, next->command + SEGMENT_SEGNAME, first->segname);
    put_64(state, next->command + SEGMENT_VMADDR, first->vmaddr + distance);
    put_64(state, next->command + SEGMENT_VMSIZE, first->vmsize - distance + next->vmsize);
    put_64(state, next->command + SEGMENT_FILEOFF, fileoff);
    put_64(state, next->command + SEGMENT_FILESIZE, end - fileoff);
    memcpy(at(state, next->command + SEGMENT_FLAGS), at(state, first->command + SEGMENT_FLAGS), 4);
    put_64(state, first->command + SEGMENT_VMSIZE, distance);
    write_name(state, first->command + SEGMENT_SEGNAME, MACHO_PROFILE_SEGMENT);
}

static void write_section_count(struct macho_state *state, uint64_t command, size_t count)
{
    put_32(state, command + COMMAND_CMDSIZE, SEGMENT_SIZE + SECTION_64_SIZE * (uint64_t)count);
    put_32(state, command + SEGMENT_NSECTS, count);
}

/* Moves the second load command up, before the headers of the sections that now belong to it. */
static void move_split_command(struct macho_state *state)
{
    const struct macho_segment *first = &state->image.segments[state->split_segment];
    const struct macho_segment *next = first + 1;
    uint64_t address = first->vmaddr + (state->split_fileoff - first->fileoff), moved;
    uint8_t segment[SEGMENT_SIZE];
    size_t kept = 0;

    for (; kept < first->section_count; kept++) {
        uint64_t header = state->image.sections[first->first_section + kept].header;

        if (load_u64(at(state, header + SECTION_64_ADDR), false) >= address)
            break;
        write_name(state, header + SECTION_64_SEGNAME, MACHO_PROFILE_SEGMENT);
    }
    moved = first->command + SEGMENT_SIZE + SECTION_64_SIZE * (uint64_t)kept;
    memcpy(segment, at(state, next->command), SEGMENT_SIZE);
    memmove(at(state, moved + SEGMENT_SIZE), at(state, moved),
            SECTION_64_SIZE * (first->section_count - kept));
    memcpy(at(state, moved), segment, SEGMENT_SIZE);
    write_section_count(state, first->command, kept);
    write_section_count(state, moved, first->section_count - kept + next->section_count);
}

/* Writes where tables are now, and the sizes of those that are made anew. */
static void write_tables(struct macho_state *state)
{
    const struct macho_image *image = &state->image;
    const struct macho_command *signature = macho_find_command(image, LC_CODE_SIGNATURE);
    const struct macho_command *chains = macho_find_command(image, LC_DYLD_CHAINED_FIXUPS);
    const struct macho_command *dyld_info = macho_find_dyld_info(image);
    struct macho_table table;

    for (size_t i = 0; macho_next_table(image, &i, &table);) {
        if (table.offset != 0)
            put_32(state, table.field, map(state, table.offset));
    }
    if (signature != NULL)
        put_32(state, signature->offset + LINKEDIT_DATASIZE, state->signature.content.size);
    if (chains != NULL)
        put_32(state, chains->offset + LINKEDIT_DATASIZE,
               macho_field(image, chains, LINKEDIT_DATASIZE) + state->chains_growth);
    if (dyld_info != NULL)
        put_32(state, dyld_info->offset + DYLD_INFO_REBASE + 4,
               macho_field(image, dyld_info, DYLD_INFO_REBASE + 4) + state->rebase_growth);
}

/* The load commands behind it move up. */
static void remove_signature_command(struct macho_state *state)
{
    const struct macho_command *command = macho_find_command(&state->image, LC_CODE_SIGNATURE);
    uint64_t end = command->offset + command->cmdsize, rest = state->image.commands_end - end;
    const uint8_t *header = at(state, 0);

    memmove(at(state, command->offset), at(state, end), (size_t)rest);
    memset(at(state, command->offset + rest), 0, command->cmdsize);
    put_32(state, HEADER_NCMDS, load_u32(header + HEADER_NCMDS, false) - 1);
    put_32(state, HEADER_SIZEOFCMDS,
           load_u32(header + HEADER_SIZEOFCMDS, false) - command->cmdsize);
}

bool macho_commands_write(struct planning *planning, struct error *error)
{
    struct macho_state *state = macho_state_of(planning);

    (void)error;
    write_segments(state);
    write_sections(state);
    write_tables(state);
    if (state->split_segment != NO_INDEX) {
        write_split_fields(state);
        move_split_command(state);
    }
    if (state->signature.is_dropped)
        remove_signature_command(state);
    return true;
}

/* ---- reading a signature ---- */

static bool read_blobs(struct bytes signature, struct signature_blobs *blobs)
{
    struct cursor cursor = cursor_open(signature, true, false);
    uint32_t magic = cursor_u32(&cursor);
    struct bytes whole;
    uint64_t end;

    if (!bytes_slice(signature, 0, cursor_u32(&cursor), &whole) || whole.size < SUPERBLOB_INDEX)
        return false;
    cursor = cursor_open(whole, true, false);
    cursor_skip(&cursor, BLOB_HEADER_SIZE);
    blobs->count = cursor_u32(&cursor);
    end = SUPERBLOB_INDEX + (uint64_t)INDEX_SIZE * blobs->count;
    if (magic != CSMAGIC_EMBEDDED_SIGNATURE || blobs->count > BLOBS_MAX || end > whole.size)
        return false;
    for (uint32_t i = 0; i < blobs->count; i++) {
        struct blob *blob = &blobs->list[i];
        struct bytes header;

        blob->type = cursor_u32(&cursor);
        blob->offset = cursor_u32(&cursor);
        /* Blobs must be in the order of the index and not overlap. */
        if (blob->offset < end || !bytes_slice(whole, blob->offset, BLOB_HEADER_SIZE, &header) ||
            !bytes_slice(whole, blob->offset, load_u32(header.data + BLOB_LENGTH, true),
                         &blob->bytes) ||
            blob->bytes.size < BLOB_HEADER_SIZE)
            return false;
        blob->is_directory = load_u32(header.data, true) == CSMAGIC_CODEDIRECTORY;
        end = blob->offset + blob->bytes.size;
    }
    return true;
}

static uint32_t hash_size_of(unsigned hash_type)
{
    return hash_type == CS_HASHTYPE_SHA256 ? SHA256_DIGEST_SIZE
           : hash_type == CS_HASHTYPE_SHA1 || hash_type == CS_HASHTYPE_SHA256_TRUNCATED
               ? SHA1_DIGEST_SIZE
               : 0;
}

/* False if the page hashes are not the last bytes of the directory, do not cover the file exactly
 * up to its code limit, or it has parts that are not known. */
static bool read_directory(struct bytes blob, struct directory *directory)
{
    struct cursor cursor = cursor_open(blob, true, false);
    uint32_t version, special, pages;
    unsigned page_bits;
    bool is_plain;

    cursor_skip(&cursor, BLOB_HEADER_SIZE);
    version = cursor_u32(&cursor);
    directory->flags = cursor_u32(&cursor);
    directory->hashes = cursor_u32(&cursor);
    cursor_skip(&cursor, 4); /* identOffset */
    special = cursor_u32(&cursor);
    pages = cursor_u32(&cursor);
    directory->code_limit = cursor_u32(&cursor);
    directory->hash_size = cursor_u8(&cursor);
    directory->hash_type = cursor_u8(&cursor);
    cursor_skip(&cursor, 1); /* platform */
    page_bits = cursor_u8(&cursor);
    cursor_skip(&cursor, 4);                                  /* spare2 */
    is_plain = version < 0x20100 || cursor_u32(&cursor) == 0; /* scatterOffset */
    if (version >= 0x20300) {
        cursor_skip(&cursor, 8);              /* teamOffset, spare3 */
        is_plain &= cursor_u64(&cursor) == 0; /* codeLimit64 */
    }
    if (version >= 0x20500) {
        cursor_skip(&cursor, 28);             /* execSegBase, -Limit, -Flags, runtime */
        is_plain &= cursor_u32(&cursor) == 0; /* preEncryptOffset */
    }
    if (cursor.bad || !is_plain || version > DIRECTORY_VERSION_MAX || page_bits < 12 ||
        page_bits > 16 || directory->hash_size == 0 ||
        directory->hash_size != hash_size_of(directory->hash_type))
        return false;
    directory->page_size = UINT64_C(1) << page_bits;
    return pages == align_up(directory->code_limit, directory->page_size) >> page_bits &&
           directory->hashes >= DIRECTORY_SIZE + (uint64_t)special * directory->hash_size &&
           directory->hashes + (uint64_t)pages * directory->hash_size == blob.size;
}

/* The reason why a signature cannot be made again; NULL if it is an ad-hoc one that can. */
static const char *why_not_renewed(const struct macho_state *state, struct bytes signature)
{
    struct signature_blobs blobs = {.count = 0};
    bool has_directory = false;

    if (!read_blobs(signature, &blobs))
        return unknown;
    for (uint32_t i = 0; i < blobs.count; i++) {
        const struct blob *blob = &blobs.list[i];
        struct directory directory;

        if (blob->type == CSSLOT_SIGNATURESLOT && blob->bytes.size > BLOB_HEADER_SIZE)
            return certificate;
        if (!blob->is_directory)
            continue;
        has_directory = true;
        if (!read_directory(blob->bytes, &directory) ||
            directory.code_limit != state->signature.offset)
            return unknown;
        if ((directory.flags & CS_ADHOC) == 0)
            return certificate;
    }
    return has_directory ? NULL : unknown;
}

bool macho_signature_read(struct macho_state *state, struct error *error)
{
    const struct macho_command *command = macho_find_command(&state->image, LC_CODE_SIGNATURE);
    struct macho_signature *signature = &state->signature;
    const char *problem;

    if (command == NULL)
        return true;
    signature->offset = macho_field(&state->image, command, LINKEDIT_DATAOFF);
    signature->size = macho_field(&state->image, command, LINKEDIT_DATASIZE);
    problem =
        why_not_renewed(state, macho_linkedit_bytes(&state->image, command, LINKEDIT_DATAOFF));
    signature->is_renewed = problem == NULL;
    signature->is_dropped = problem != NULL && state->base.options->drop_signature;
    return signature->is_renewed || signature->is_dropped || refuse(state, error, problem);
}

/* ---- the new one ---- */

/* Appends the signature for a file of `limit` bytes, with zeros for the hashes of pages. */
static bool append_signature(struct buffer *content, struct bytes old, uint64_t limit)
{
    struct signature_blobs blobs;

    if (!read_blobs(old, &blobs))
        return false;
    buffer_append(content, old.data, SUPERBLOB_INDEX + (size_t)INDEX_SIZE * blobs.count);
    for (uint32_t i = 0; i < blobs.count && !content->failed; i++) {
        const struct blob *blob = &blobs.list[i];
        struct directory directory;
        uint64_t pages;
        size_t start;

        buffer_append_zeros(content, (blob->offset - content->size) % 8);
        start = content->size;
        if (!blob->is_directory) {
            buffer_append(content, blob->bytes.data, (size_t)blob->bytes.size);
        } else {
            if (!read_directory(blob->bytes, &directory))
                return false;
            pages = align_up(limit, directory.page_size) / directory.page_size;
            buffer_append(content, blob->bytes.data, directory.hashes);
            buffer_append_zeros(content, (size_t)(pages * directory.hash_size));
            if (content->failed)
                return false;
            store_u32(content->data + start + BLOB_LENGTH, (uint32_t)(content->size - start), true);
            store_u32(content->data + start + DIRECTORY_N_CODE_SLOTS, (uint32_t)pages, true);
            store_u32(content->data + start + DIRECTORY_CODE_LIMIT, (uint32_t)limit, true);
        }
        if (!content->failed)
            store_u32(content->data + SUPERBLOB_INDEX + (size_t)INDEX_SIZE * i + 4, (uint32_t)start,
                      true);
    }
    if (content->failed)
        return false;
    store_u32(content->data + BLOB_LENGTH, (uint32_t)content->size, true);
    return buffer_append_zeros(content, (0 - content->size) % SIGNATURE_ALIGNMENT);
}

bool macho_signature_reserve(struct macho_state *state, struct error *error)
{
    struct macho_signature *signature = &state->signature;
    struct edit_script *edits = &state->base.plan->edits;
    uint64_t limit = signature->offset;
    struct bytes old = {0};

    if (signature->is_dropped)
        return edit_cut(edits, signature->offset, signature->size) ||
               error_out_of_memory(error, state->image.path, signature->size);
    if (!signature->is_renewed)
        return true;
    for (size_t i = 0; i < edits->count; i++)
        limit += edits->edits[i].new_size - edits->edits[i].old_size;
    bytes_slice(state->image.file, signature->offset, signature->size, &old);
    signature->literal = edits->literals.size;
    if (limit > UINT32_MAX)
        return refuse(state, error, "damaged");
    return (append_signature(&signature->content, old, limit) &&
            edit_replace(edits, signature->offset, signature->size,
                         buffer_view(&signature->content))) ||
           error_out_of_memory(error, state->image.path, signature->size);
}

/* ---- hashing ---- */

/* A directory that is filled in while the bytes of the file pass by. */
struct hashing {
    union {
        struct sha1_ctx sha1;
        struct sha256_ctx sha256;
    } digest;
    struct directory directory;
    uint64_t position;
    uint8_t *next_hash;
};

static void start_page(struct hashing *hashing)
{
    if (hashing->directory.hash_type == CS_HASHTYPE_SHA1)
        sha1_init(&hashing->digest.sha1);
    else
        sha256_init(&hashing->digest.sha256);
}

static void end_page(struct hashing *hashing)
{
    size_t size = hashing->directory.hash_size;

    if (hashing->directory.hash_type == CS_HASHTYPE_SHA1)
        sha1_digest(&hashing->digest.sha1, size, hashing->next_hash);
    else
        sha256_digest(&hashing->digest.sha256, size, hashing->next_hash);
    hashing->next_hash += size;
    start_page(hashing);
}

static bool hash_part(void *context, struct bytes part, struct error *error)
{
    struct hashing *hashing = context;
    uint64_t page_size = hashing->directory.page_size, limit = hashing->directory.code_limit;

    (void)error;
    while (part.size != 0 && hashing->position < limit) {
        uint64_t page_end = align_down(hashing->position, page_size) + page_size;
        uint64_t left = (page_end < limit ? page_end : limit) - hashing->position;
        uint64_t size = part.size < left ? part.size : left;

        if (hashing->directory.hash_type == CS_HASHTYPE_SHA1)
            sha1_update(&hashing->digest.sha1, (size_t)size, part.data);
        else
            sha256_update(&hashing->digest.sha256, (size_t)size, part.data);
        hashing->position += size;
        part = (struct bytes){part.data + size, part.size - size};
        if (size == left)
            end_page(hashing);
    }
    return true;
}

bool macho_signature_sign(struct planning *planning, struct error *error)
{
    struct macho_state *state = macho_state_of(planning);
    struct macho_signature *signature = &state->signature;
    struct edit_script *edits = &planning->plan->edits;
    struct signature_blobs blobs;

    if (!signature->is_renewed)
        return true;
    if (!read_blobs(buffer_view(&signature->content), &blobs))
        return refuse(state, error, "damaged");
    for (uint32_t i = 0; i < blobs.count; i++) {
        struct hashing hashing = {.position = 0};

        if (!blobs.list[i].is_directory)
            continue;
        if (!read_directory(blobs.list[i].bytes, &hashing.directory))
            return refuse(state, error, "damaged");
        hashing.next_hash =
            signature->content.data + blobs.list[i].offset + hashing.directory.hashes;
        start_page(&hashing);
        if (!edit_script_stream(edits, planning->input, hash_part, &hashing, error))
            return false;
    }
    memcpy(edits->literals.data + signature->literal, signature->content.data,
           signature->content.size);
    return true;
}
