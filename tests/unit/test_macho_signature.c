/*
 * Code signatures made by hand: which of them are made again for what file, so that each digest is
 * that of its page, and which are refused.
 */
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/macho_maker.h"

/* The signature is at the end of the file. */
#define SIGNATURE_SIZE    1024u
#define LIMIT             (MAKER_SIZE - SIGNATURE_SIZE)

#define SUPERBLOB         0xfade0cc0u
#define DIRECTORY         0xfade0c02u
#define REQUIREMENTS      0xfade0c01u
#define CERTIFICATES      0xfade0b01u

#define SLOT_DIRECTORY    0u
#define SLOT_REQUIREMENTS 2u
#define SLOT_ALTERNATE    0x1000u
#define SLOT_CERTIFICATES 0x10000u

/* Of the first code directory, in the signature: there are never more than three blobs. */
#define DIRECTORY_AT 40u

struct directory {
    uint32_t version;
    uint32_t header_size;
    uint8_t hash_size;
    uint8_t hash_type;
    uint8_t page_bits;
};

static const struct directory directories[] = {
    {0x20400, 88, 32, 2, 12}, {0x20100, 48, 20, 1, 12}, {0x20001, 44, 20, 3, 14},
    {0x20500, 96, 32, 2, 16}, {0x20300, 64, 20, 1, 13},
};

#define DIRECTORIES (sizeof(directories) / sizeof(directories[0]))

/* ---- making them ---- */

static uint8_t *signature_of(struct macho_maker *maker)
{
    return maker->file + LIMIT;
}

static uint32_t get(const uint8_t *from, uint32_t offset)
{
    return load_u32(from + offset, true);
}

static void put(uint8_t *to, uint32_t offset, uint32_t value)
{
    store_u32(to + offset, value, true);
}

/* Writes a code directory with an identifier and two special slots; returns its size. */
static uint32_t put_directory(uint8_t *to, const struct directory *directory)
{
    uint32_t pages =
        (uint32_t)(align_up(LIMIT, UINT64_C(1) << directory->page_bits) >> directory->page_bits);
    uint32_t hashes = directory->header_size + 8 + 2u * directory->hash_size;
    uint32_t size = hashes + pages * directory->hash_size;

    put(to, 0, DIRECTORY);
    put(to, 4, size);
    put(to, 8, directory->version);
    put(to, 12, 2); /* CS_ADHOC */
    put(to, 16, hashes);
    put(to, 20, directory->header_size);
    put(to, 24, 2);
    put(to, 28, pages);
    put(to, 32, LIMIT);
    to[36] = directory->hash_size;
    to[37] = directory->hash_type;
    to[39] = directory->page_bits;
    memcpy(to + directory->header_size, "a.image", 8);
    memset(to + directory->header_size + 8, 0x5a, 2u * directory->hash_size);
    return size;
}

static uint32_t put_blob(uint8_t *to, uint32_t magic, uint32_t size)
{
    put(to, 0, magic);
    put(to, 4, size);
    memset(to + 8, 0x77, size - 8);
    return size;
}

/* Writes an index of three blobs, of which the last is as long as that, and a directory as the
 * first; `second` is another directory, or NULL for requirements. */
static void put_signature(struct macho_maker *maker, const struct directory *first,
                          const struct directory *second, uint32_t certificates)
{
    uint8_t *signature = signature_of(maker);
    uint32_t at = DIRECTORY_AT;

    put(signature, 0, SUPERBLOB);
    put(signature, 8, 3);
    put(signature, 12, SLOT_DIRECTORY);
    put(signature, 16, at);
    at = (uint32_t)align_up(at + put_directory(signature + at, first), 8);
    put(signature, 20, second != NULL ? SLOT_ALTERNATE : SLOT_REQUIREMENTS);
    put(signature, 24, at);
    at += second != NULL ? put_directory(signature + at, second)
                         : put_blob(signature + at, REQUIREMENTS, 12);
    put(signature, 28, SLOT_CERTIFICATES);
    put(signature, 32, at);
    at += put_blob(signature + at, CERTIFICATES, certificates);
    put(signature, 4, at);
    ck_assert_uint_le(at, SIGNATURE_SIZE);
}

static struct macho_maker *make_image(const struct directory *first, const struct directory *second,
                                      uint32_t certificates)
{
    struct macho_maker *maker = macho_maker_new();

    for (uint32_t i = MAKER_DATA; i < LIMIT; i++)
        maker->file[i] = (uint8_t)(i * 7 + i / 253);
    put_signature(maker, first, second, certificates);
    macho_maker_table(maker, LC_CODE_SIGNATURE, LIMIT, SIGNATURE_SIZE);
    return maker;
}

/* ---- what is made again ---- */

static void digest_page(unsigned hash_type, struct bytes page, uint8_t digest[32])
{
    struct sha1_ctx sha1;
    struct sha256_ctx sha256;

    if (hash_type == 1) {
        sha1_init(&sha1);
        sha1_update(&sha1, (size_t)page.size, page.data);
        sha1_digest(&sha1, 20, digest);
    } else {
        sha256_init(&sha256);
        sha256_update(&sha256, (size_t)page.size, page.data);
        sha256_digest(&sha256, 32, digest);
    }
}

/* The directory describes the file up to `limit`, and is else as it was. */
static void check_directory(struct bytes file, uint64_t limit, const uint8_t *directory,
                            const struct directory *old)
{
    uint64_t page_size = UINT64_C(1) << old->page_bits, count = 0;
    const uint8_t *hash = directory + get(directory, 16);
    uint8_t digest[32];

    ck_assert_uint_eq(get(directory, 0), DIRECTORY);
    ck_assert_uint_eq(get(directory, 32), limit);
    for (uint64_t at = 0; at < limit; at += page_size, count++) {
        uint64_t size = limit - at < page_size ? limit - at : page_size;

        digest_page(old->hash_type, (struct bytes){file.data + at, size}, digest);
        ck_assert_msg(memcmp(hash + count * old->hash_size, digest, old->hash_size) == 0,
                      "page %u of version 0x%x", (unsigned)count, old->version);
    }
    ck_assert_uint_eq(get(directory, 28), count);
    ck_assert_uint_eq(get(directory, 4), get(directory, 16) + count * old->hash_size);
    ck_assert_str_eq((const char *)directory + get(directory, 20), "a.image");
    for (unsigned i = 0; i < 2u * old->hash_size; i++)
        ck_assert_uint_eq(directory[old->header_size + 8 + i], 0x5a);
}

static void sign(struct macho_maker *maker)
{
    struct error error;

    ck_assert_msg(macho_signature_read(&maker->state, &error), "%s", error.message);
    ck_assert(maker->state.signature.is_renewed);
    ck_assert(edit_cut(&maker->state.base.plan->edits, MAKER_DATA + 0x800, 0x1900));
    ck_assert_msg(macho_signature_reserve(&maker->state, &error), "%s", error.message);
    ck_assert(edit_script_finish(&maker->state.base.plan->edits, "image", &error));
    ck_assert_msg(macho_signature_sign(&maker->state.base, &error), "%s", error.message);
}

static void check_signed(const struct directory *first, const struct directory *second)
{
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(first, second, 8);
    uint64_t limit = LIMIT - 0x1900;
    const uint8_t *signature;
    FREED_BY(buffer_free) struct buffer result;

    macho_maker_open(maker);
    sign(maker);
    result = macho_maker_apply(maker);
    signature = result.data + limit;
    ck_assert_uint_eq(result.size % 16, limit % 16);
    ck_assert_uint_eq(get(signature, 0), SUPERBLOB);
    ck_assert_uint_eq(get(signature, 8), 3);
    ck_assert_uint_le(get(signature, 4), result.size - limit);
    check_directory(buffer_view(&result), limit, signature + get(signature, 16), first);
    if (second != NULL)
        check_directory(buffer_view(&result), limit, signature + get(signature, 24), second);
    else
        ck_assert(memcmp(signature + get(signature, 24),
                         "\xfa\xde\x0c\x01\0\0\0\x0c\x77\x77\x77\x77", 12) == 0);
    ck_assert_uint_eq(get(signature, 28), SLOT_CERTIFICATES);
    ck_assert_uint_eq(get(signature + get(signature, 32), 4), 8);
}

START_TEST(test_signed)
{
    check_signed(&directories[_i], NULL);
    check_signed(&directories[_i], &directories[1]);
}
END_TEST

/* ---- what is refused ---- */

static const char unknown[] =
    "image: its code signature is damaged, or of a kind that covsplit does not know; split before "
    "signing, or give --drop-signature and sign the stripped image";
static const char certificate[] =
    "image: its code signature is made with a certificate, which only its owner can renew; split "
    "before signing, or give --drop-signature and sign the stripped image";

/* One number of the signature, whose first blob is directories[3]. */
static const struct damage {
    const char *what;
    uint32_t offset;
    uint32_t value;
    const char *message;
} damages[] = {
    {"another magic", 0, 0xfade0cc1, unknown},
    {"a length past the end", 4, SIGNATURE_SIZE + 1, unknown},
    {"a length of nothing", 4, 0, unknown},
    {"a length without blobs", 4, 20, unknown},
    {"too many blobs", 8, 17, unknown},
    {"more blobs than fit", 8, UINT32_MAX, unknown},
    {"no blobs", 8, 0, unknown},
    {"a blob in the index", 16, 32, unknown},
    {"a blob past the end", 16, SIGNATURE_SIZE - 4, unknown},
    {"a blob far past the end", 16, UINT32_MAX, unknown},
    {"blobs that overlap", 24, DIRECTORY_AT + 8, unknown},
    {"a blob that does not end", DIRECTORY_AT + 4, UINT32_MAX, unknown},
    {"a blob shorter than its header", DIRECTORY_AT + 4, 7, unknown},
    {"a directory shorter than its fields", DIRECTORY_AT + 4, 43, unknown},
    {"a directory without the place for scattering", DIRECTORY_AT + 4, 47, unknown},
    {"a directory without its large limit", DIRECTORY_AT + 4, 63, unknown},
    {"a directory without the place for encryption", DIRECTORY_AT + 4, 95, unknown},
    {"a directory without its last byte", DIRECTORY_AT + 4, 199, unknown},
    {"no directory", DIRECTORY_AT, REQUIREMENTS, unknown},
    {"a later version", DIRECTORY_AT + 8, 0x20600, unknown},
    {"no ad-hoc signature", DIRECTORY_AT + 12, 0, certificate},
    {"digests in the header", DIRECTORY_AT + 16, 100, unknown},
    {"digests past the end", DIRECTORY_AT + 16, UINT32_MAX, unknown},
    {"more special slots than fit", DIRECTORY_AT + 24, 0x10000000, unknown},
    {"too few pages", DIRECTORY_AT + 28, 0, unknown},
    {"another limit", DIRECTORY_AT + 32, LIMIT - 1, unknown},
    {"digests of no size", DIRECTORY_AT + 36, 0x00020010, unknown},
    {"digests of another size", DIRECTORY_AT + 36, 0x14020010, unknown},
    {"digests of an unknown kind", DIRECTORY_AT + 36, 0x20040010, unknown},
    {"digests of no kind and no size", DIRECTORY_AT + 36, 0x00040010, unknown},
    {"pages that are too small", DIRECTORY_AT + 36, 0x2002000b, unknown},
    {"pages that are too large", DIRECTORY_AT + 36, 0x20020011, unknown},
    {"scattered pages", DIRECTORY_AT + 44, 96, unknown},
    {"a limit of 64 bits", DIRECTORY_AT + 56, 1, unknown},
    {"a part that is not encrypted yet", DIRECTORY_AT + 92, 96, unknown},
};

/* Refused; or taken away, if that is wanted. */
static void check_refused(struct macho_maker *maker, const char *what, const char *message)
{
    struct error error;
    FREED_BY(buffer_free) struct buffer result;

    macho_maker_open(maker);
    ck_assert_msg(!macho_signature_read(&maker->state, &error), "%s", what);
    ck_assert_msg(strcmp(error.message, message) == 0, "%s: %s", what, error.message);
    maker->options.drop_signature = true;
    ck_assert(macho_signature_read(&maker->state, &error));
    ck_assert(maker->state.signature.is_dropped && !maker->state.signature.is_renewed);
    ck_assert(macho_signature_reserve(&maker->state, &error));
    ck_assert(macho_signature_sign(&maker->state.base, &error));
    result = macho_maker_apply(maker);
    ck_assert(bytes_equal(buffer_view(&result), (struct bytes){maker->file, LIMIT}));
    macho_maker_free(maker);
}

START_TEST(test_damage)
{
    const struct damage *damage = &damages[_i];
    struct macho_maker *maker = make_image(&directories[3], NULL, 8);

    put(signature_of(maker), damage->offset, damage->value);
    check_refused(maker, damage->what, damage->message);
}
END_TEST

START_TEST(test_certificate)
{
    check_refused(make_image(&directories[0], NULL, 9), "a certificate", certificate);
}
END_TEST

/* The command points past the end of the file, or to less than a header. */
START_TEST(test_place)
{
    static const uint32_t sizes[] = {SIGNATURE_SIZE + 1, 11};

    for (size_t i = 0; i < 2; i++) {
        FREED_BY(drop_maker) struct macho_maker *maker = macho_maker_new();
        struct error error;

        put_signature(maker, &directories[0], NULL, 8);
        macho_maker_table(maker, LC_CODE_SIGNATURE, LIMIT, sizes[i]);
        macho_maker_open(maker);
        ck_assert(!macho_signature_read(&maker->state, &error));
        ck_assert_str_eq(error.message, unknown);
    }
}
END_TEST

/* Without a signature there is nothing to do. */
START_TEST(test_unsigned)
{
    FREED_BY(drop_maker) struct macho_maker *maker = macho_maker_new();
    struct error error;

    macho_maker_open(maker);
    ck_assert(macho_signature_read(&maker->state, &error));
    ck_assert(macho_signature_reserve(&maker->state, &error));
    ck_assert(macho_signature_sign(&maker->state.base, &error));
    ck_assert_uint_eq(maker->state.base.plan->edits.count, 0);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, DIRECTORIES, test_signed);
    suite_loops(all, sizeof(damages) / sizeof(damages[0]), test_damage);
    suite_tests(all, test_certificate, test_place, test_unsigned);
    return suite_main("macho_signature", all);
}
