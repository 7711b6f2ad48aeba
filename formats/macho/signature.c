/*
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

/* ---- reading ---- */

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
