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
#include "formats/macho/state.h"

#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <string.h>

#include "common/edit/apply.h"

#define CSMAGIC_EMBEDDED_SIGNATURE 0xfade0cc0u
#define CSMAGIC_CODEDIRECTORY      0xfade0c02u

/* CS_SuperBlob: magic, length, count, and an index of types and offsets */
#define SUPERBLOB_COUNT      8
#define SUPERBLOB_INDEX      12
#define INDEX_SIZE           8

#define BLOB_LENGTH          4
#define BLOB_HEADER_SIZE     8

#define CSSLOT_SIGNATURESLOT 0x10000u

/* CS_CodeDirectory */
#define DIRECTORY_VERSION            8
#define DIRECTORY_FLAGS              12
#define DIRECTORY_HASH_OFFSET        16
#define DIRECTORY_N_SPECIAL_SLOTS    24
#define DIRECTORY_N_CODE_SLOTS       28
#define DIRECTORY_CODE_LIMIT         32
#define DIRECTORY_HASH_SIZE          36
#define DIRECTORY_HASH_TYPE          37
#define DIRECTORY_PAGE_SIZE          39 /* log2 */
#define DIRECTORY_SIZE               44 /* without the fields of later versions */
#define DIRECTORY_SCATTER_OFFSET     44 /* from version 0x20100 on */
#define DIRECTORY_CODE_LIMIT_64      56 /* from 0x20300 on */
#define DIRECTORY_PRE_ENCRYPT        92 /* from 0x20500 on */

#define CS_ADHOC                     0x2u

#define CS_HASHTYPE_SHA1             1
#define CS_HASHTYPE_SHA256           2
#define CS_HASHTYPE_SHA256_TRUNCATED 3

/* No real signature has more blobs. */
#define BLOBS_MAX 16

/* Signatures start, and end, at multiples of this. */
#define SIGNATURE_ALIGNMENT 16

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

static uint32_t field(struct bytes blob, uint64_t offset)
{
    return load_u32(blob.data + offset, true);
}

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
    uint64_t end;
    struct bytes whole, index;

    if (signature.size < SUPERBLOB_INDEX || field(signature, 0) != CSMAGIC_EMBEDDED_SIGNATURE ||
        !bytes_slice(signature, 0, field(signature, BLOB_LENGTH), &whole) ||
        whole.size < SUPERBLOB_INDEX)
        return false;
    blobs->count = field(whole, SUPERBLOB_COUNT);
    if (blobs->count > BLOBS_MAX ||
        !bytes_slice(whole, SUPERBLOB_INDEX, (uint64_t)INDEX_SIZE * blobs->count, &index))
        return false;
    end = SUPERBLOB_INDEX + index.size;
    for (uint32_t i = 0; i < blobs->count; i++) {
        struct blob *blob = &blobs->list[i];
        struct bytes header;

        blob->type = field(index, (uint64_t)INDEX_SIZE * i);
        blob->offset = field(index, (uint64_t)INDEX_SIZE * i + 4);
        /* Blobs must be in the order of the index and not overlap. */
        if (blob->offset < end || !bytes_slice(whole, blob->offset, BLOB_HEADER_SIZE, &header) ||
            !bytes_slice(whole, blob->offset, field(header, BLOB_LENGTH), &blob->bytes) ||
            blob->bytes.size < BLOB_HEADER_SIZE)
            return false;
        blob->is_directory = field(header, 0) == CSMAGIC_CODEDIRECTORY;
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

/* Whether the page hashes of a directory are its last bytes, and cover the file exactly up to
 * `limit`. */
static bool is_known_directory(struct bytes directory, uint64_t limit)
{
    uint64_t pages, hashes;
    unsigned hash_size, page_bits;
    uint32_t version;

    if (directory.size < DIRECTORY_SIZE)
        return false;
    version = field(directory, DIRECTORY_VERSION);
    hash_size = directory.data[DIRECTORY_HASH_SIZE];
    page_bits = directory.data[DIRECTORY_PAGE_SIZE];
    if (version > 0x205ff || hash_size == 0 || page_bits < 12 || page_bits > 16 ||
        hash_size != hash_size_of(directory.data[DIRECTORY_HASH_TYPE]))
        return false;
    if ((version >= 0x20100 && (directory.size < DIRECTORY_SCATTER_OFFSET + 4 ||
                                field(directory, DIRECTORY_SCATTER_OFFSET) != 0)) ||
        (version >= 0x20300 && (directory.size < DIRECTORY_CODE_LIMIT_64 + 8 ||
                                load_u64(directory.data + DIRECTORY_CODE_LIMIT_64, true) != 0)) ||
        (version >= 0x20500 && (directory.size < DIRECTORY_PRE_ENCRYPT + 4 ||
                                field(directory, DIRECTORY_PRE_ENCRYPT) != 0)))
        return false;
    pages = align_up(limit, UINT64_C(1) << page_bits) >> page_bits;
    hashes = field(directory, DIRECTORY_HASH_OFFSET);
    return field(directory, DIRECTORY_CODE_LIMIT) == limit &&
           field(directory, DIRECTORY_N_CODE_SLOTS) == pages &&
           hashes >=
               DIRECTORY_SIZE + (uint64_t)field(directory, DIRECTORY_N_SPECIAL_SLOTS) * hash_size &&
           hashes + pages * hash_size == directory.size;
}

/* Why a signature cannot be made again; NULL if it is an ad-hoc one that can. */
static const char *why_not_renewed(const struct macho_state *state, struct bytes signature)
{
    struct signature_blobs blobs = {.count = 0};
    bool has_directory = false;

    if (!read_blobs(signature, &blobs))
        return unknown;
    for (uint32_t i = 0; i < blobs.count; i++) {
        const struct blob *blob = &blobs.list[i];

        if (blob->type == CSSLOT_SIGNATURESLOT && blob->bytes.size > BLOB_HEADER_SIZE)
            return certificate;
        if (!blob->is_directory)
            continue;
        has_directory = true;
        if (!is_known_directory(blob->bytes, state->signature.offset))
            return unknown;
        if ((field(blob->bytes, DIRECTORY_FLAGS) & CS_ADHOC) == 0)
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
    if (problem == NULL)
        signature->is_renewed = true;
    else if (state->base.options->drop_signature)
        signature->is_dropped = true;
    else
        return refuse(state, error, problem);
    return true;
}

/* ---- the new one ---- */

/* Appends a directory for a file of `limit` bytes, with zeros for the hashes of pages. */
static bool append_directory(struct buffer *content, struct bytes old, uint64_t limit)
{
    unsigned page_bits = old.data[DIRECTORY_PAGE_SIZE];
    uint64_t pages = align_up(limit, UINT64_C(1) << page_bits) >> page_bits;
    uint64_t hashes = field(old, DIRECTORY_HASH_OFFSET);
    uint64_t hashes_size = pages * old.data[DIRECTORY_HASH_SIZE];
    size_t start = content->size;

    if (!buffer_append(content, old.data, (size_t)hashes) ||
        !buffer_append_zeros(content, (size_t)hashes_size))
        return false;
    store_u32(content->data + start + BLOB_LENGTH, (uint32_t)(hashes + hashes_size), true);
    store_u32(content->data + start + DIRECTORY_N_CODE_SLOTS, (uint32_t)pages, true);
    store_u32(content->data + start + DIRECTORY_CODE_LIMIT, (uint32_t)limit, true);
    return true;
}

static bool append_blobs(struct buffer *content, struct bytes old,
                         const struct signature_blobs *blobs, uint64_t limit)
{
    if (!buffer_append(content, old.data, SUPERBLOB_INDEX + (size_t)INDEX_SIZE * blobs->count))
        return false;
    for (uint32_t i = 0; i < blobs->count; i++) {
        const struct blob *blob = &blobs->list[i];
        size_t padding = (blob->offset - content->size) % 8;
        uint8_t *index;
        bool done;

        if (!buffer_append_zeros(content, padding))
            return false;
        index = content->data + SUPERBLOB_INDEX + (size_t)INDEX_SIZE * i;
        store_u32(index + 4, (uint32_t)content->size, true);
        done = blob->is_directory
                   ? append_directory(content, blob->bytes, limit)
                   : buffer_append(content, blob->bytes.data, (size_t)blob->bytes.size);
        if (!done)
            return false;
    }
    store_u32(content->data + BLOB_LENGTH, (uint32_t)content->size, true);
    return buffer_append_zeros(content, (0 - content->size) % SIGNATURE_ALIGNMENT);
}

bool macho_signature_reserve(struct macho_state *state, struct error *error)
{
    struct macho_signature *signature = &state->signature;
    const struct edit_script *edits = &state->base.plan->edits;
    uint64_t limit = signature->offset;
    struct signature_blobs blobs;
    struct bytes old;

    if (signature->is_dropped)
        return edit_cut(&state->base.plan->edits, signature->offset, signature->size) ||
               error_out_of_memory(error, state->image.path, signature->size);
    if (!signature->is_renewed)
        return true;
    for (size_t i = 0; i < edits->count; i++)
        limit += edits->edits[i].new_size - edits->edits[i].old_size;
    bytes_slice(state->image.file, signature->offset, signature->size, &old);
    if (!read_blobs(old, &blobs) || limit > UINT32_MAX)
        return refuse(state, error, "damaged");
    signature->literal = edits->literals.size;
    if (!append_blobs(&signature->content, old, &blobs, limit) ||
        !edit_replace(&state->base.plan->edits, signature->offset, signature->size,
                      buffer_view(&signature->content)))
        return error_out_of_memory(error, state->image.path, signature->size);
    return true;
}

/* ---- hashing ---- */

/* A directory that is filled in while the bytes of the file pass by. */
struct hashing {
    union {
        struct sha1_ctx sha1;
        struct sha256_ctx sha256;
    } digest;
    unsigned hash_type;
    size_t hash_size;
    uint64_t page_size;
    uint64_t limit;
    uint64_t position;
    uint8_t *next_hash;
};

static void start_page(struct hashing *hashing)
{
    if (hashing->hash_type == CS_HASHTYPE_SHA1)
        sha1_init(&hashing->digest.sha1);
    else
        sha256_init(&hashing->digest.sha256);
}

static void end_page(struct hashing *hashing)
{
    if (hashing->hash_type == CS_HASHTYPE_SHA1)
        sha1_digest(&hashing->digest.sha1, hashing->hash_size, hashing->next_hash);
    else
        sha256_digest(&hashing->digest.sha256, hashing->hash_size, hashing->next_hash);
    hashing->next_hash += hashing->hash_size;
    start_page(hashing);
}

static bool hash_part(void *context, struct bytes part, struct error *error)
{
    struct hashing *hashing = context;

    (void)error;
    while (part.size != 0 && hashing->position < hashing->limit) {
        uint64_t page_left = hashing->page_size - hashing->position % hashing->page_size;
        uint64_t left = hashing->limit - hashing->position;
        uint64_t size = part.size < page_left ? part.size : page_left;

        if (size > left)
            size = left;
        if (hashing->hash_type == CS_HASHTYPE_SHA1)
            sha1_update(&hashing->digest.sha1, (size_t)size, part.data);
        else
            sha256_update(&hashing->digest.sha256, (size_t)size, part.data);
        hashing->position += size;
        bytes_slice(part, size, part.size - size, &part);
        if (hashing->position == hashing->limit || hashing->position % hashing->page_size == 0)
            end_page(hashing);
    }
    return true;
}

static bool sign_directory(struct macho_state *state, uint8_t *directory, struct error *error)
{
    struct hashing hashing = {
        .hash_type = directory[DIRECTORY_HASH_TYPE],
        .hash_size = directory[DIRECTORY_HASH_SIZE],
        .page_size = UINT64_C(1) << directory[DIRECTORY_PAGE_SIZE],
        .limit = load_u32(directory + DIRECTORY_CODE_LIMIT, true),
        .next_hash = directory + load_u32(directory + DIRECTORY_HASH_OFFSET, true),
    };

    start_page(&hashing);
    return edit_script_stream(&state->base.plan->edits, state->image.input, hash_part, &hashing,
                              error);
}

bool macho_signature_sign(struct planning *planning, struct error *error)
{
    struct macho_state *state = (struct macho_state *)planning;
    struct macho_signature *signature = &state->signature;
    struct signature_blobs blobs;

    if (!signature->is_renewed)
        return true;
    if (!read_blobs(buffer_view(&signature->content), &blobs))
        return refuse(state, error, "damaged");
    for (uint32_t i = 0; i < blobs.count; i++) {
        if (blobs.list[i].is_directory &&
            !sign_directory(state, signature->content.data + blobs.list[i].offset, error))
            return false;
    }
    memcpy(state->base.plan->edits.literals.data + signature->literal, signature->content.data,
           signature->content.size);
    return true;
}
