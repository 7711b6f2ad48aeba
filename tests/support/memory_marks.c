/*
 * What MemorySanitizer must know of libraries that are not compiled with it.
 *
 * It follows each byte from where it is written, but sees nothing of what these libraries do. So
 * their functions that the project uses, and that read or write memory of the caller, are defined
 * here once more. Each calls the library's function of the same name, and marks what that has
 * written as initialized. Before that it checks what the function reads: a byte that nobody wrote
 * would otherwise leave the library as a good one. If a function is missing here, MemorySanitizer
 * reports whoever reads its results.
 *
 * Linked with common/ and the tests if COVSPLIT_SANITIZE is `memory`.
 */
/* The definitions here are hidden from the libraries, like all functions of the project, which
 * needs this: otherwise zstd would call them instead of its own, and its memory looks
 * uninitialized. */
#define ZSTDLIB_VISIBLE

#include <dlfcn.h>
#include <gelf.h>
#include <libdeflate.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <sanitizer/msan_interface.h>
#include <stdint.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

/* The library's function: of this name, the only one that is not hidden. */
#define REAL(function) ((__typeof__(&(function)))dlsym(RTLD_DEFAULT, #function))

static void will_read(const void *data, size_t size)
{
    __msan_check_mem_is_initialized(data, size);
}

/* Returns `result`; NULL says that nothing was written. */
static void *has_written(void *result, size_t size)
{
    if (result != NULL)
        __msan_unpoison(result, size);
    return result;
}

/* ---- libelf ---- */

Elf *elf_memory(char *image, size_t size)
{
    will_read(image, size);
    return REAL(elf_memory)(image, size);
}

int elf_getphdrnum(Elf *elf, size_t *count)
{
    int failed = REAL(elf_getphdrnum)(elf, count);

    has_written(failed != 0 ? NULL : count, sizeof(*count));
    return failed;
}

int elf_getshdrnum(Elf *elf, size_t *count)
{
    int failed = REAL(elf_getshdrnum)(elf, count);

    has_written(failed != 0 ? NULL : count, sizeof(*count));
    return failed;
}

int elf_getshdrstrndx(Elf *elf, size_t *index)
{
    int failed = REAL(elf_getshdrstrndx)(elf, index);

    has_written(failed != 0 ? NULL : index, sizeof(*index));
    return failed;
}

GElf_Ehdr *gelf_getehdr(Elf *elf, GElf_Ehdr *header)
{
    return has_written(REAL(gelf_getehdr)(elf, header), sizeof(*header));
}

GElf_Phdr *gelf_getphdr(Elf *elf, int index, GElf_Phdr *header)
{
    return has_written(REAL(gelf_getphdr)(elf, index, header), sizeof(*header));
}

GElf_Shdr *gelf_getshdr(Elf_Scn *section, GElf_Shdr *header)
{
    return has_written(REAL(gelf_getshdr)(section, header), sizeof(*header));
}

GElf_Dyn *gelf_getdyn(Elf_Data *data, int index, GElf_Dyn *entry)
{
    return has_written(REAL(gelf_getdyn)(data, index, entry), sizeof(*entry));
}

size_t gelf_getnote(Elf_Data *data, size_t offset, GElf_Nhdr *header, size_t *name,
                    size_t *descriptor)
{
    size_t next = REAL(gelf_getnote)(data, offset, header, name, descriptor);

    if (next != 0) {
        has_written(header, sizeof(*header));
        has_written(name, sizeof(*name));
        has_written(descriptor, sizeof(*descriptor));
    }
    return next;
}

/* What libelf has made for the caller: the structure, and the bytes that it points to. */
static Elf_Data *has_made(Elf_Data *data)
{
    if (has_written(data, sizeof(*data)) != NULL)
        has_written(data->d_buf, data->d_size);
    return data;
}

Elf_Data *elf_getdata_rawchunk(Elf *elf, int64_t offset, size_t size, Elf_Type type)
{
    return has_made(REAL(elf_getdata_rawchunk)(elf, offset, size, type));
}

Elf_Data *elf_getdata(Elf_Scn *section, Elf_Data *data)
{
    return has_made(REAL(elf_getdata)(section, data));
}

Elf_Data *elf_rawdata(Elf_Scn *section, Elf_Data *data)
{
    return has_made(REAL(elf_rawdata)(section, data));
}

typedef Elf_Data *translate(Elf_Data *to, const Elf_Data *from, unsigned encoding);

static Elf_Data *translate_checked(translate *real, Elf_Data *to, const Elf_Data *from,
                                   unsigned encoding)
{
    will_read(from->d_buf, from->d_size);
    return has_made(real(to, from, encoding));
}

Elf_Data *elf32_xlatetof(Elf_Data *to, const Elf_Data *from, unsigned encoding)
{
    return translate_checked(REAL(elf32_xlatetof), to, from, encoding);
}

Elf_Data *elf64_xlatetof(Elf_Data *to, const Elf_Data *from, unsigned encoding)
{
    return translate_checked(REAL(elf64_xlatetof), to, from, encoding);
}

Elf_Data *elf32_xlatetom(Elf_Data *to, const Elf_Data *from, unsigned encoding)
{
    return translate_checked(REAL(elf32_xlatetom), to, from, encoding);
}

Elf_Data *elf64_xlatetom(Elf_Data *to, const Elf_Data *from, unsigned encoding)
{
    return translate_checked(REAL(elf64_xlatetom), to, from, encoding);
}

/* ---- zstd ---- */

ZSTD_bounds ZSTD_cParam_getBounds(ZSTD_cParameter parameter)
{
    ZSTD_bounds bounds = REAL(ZSTD_cParam_getBounds)(parameter);

    has_written(&bounds, sizeof(bounds));
    return bounds;
}

size_t ZSTD_compress2(ZSTD_CCtx *context, void *to, size_t capacity, const void *from, size_t size)
{
    will_read(from, size);

    size_t written = REAL(ZSTD_compress2)(context, to, capacity, from, size);

    has_written(to, written > capacity ? 0 : written); /* which would be an error's code */
    return written;
}

unsigned long long ZSTD_getFrameContentSize(const void *from, size_t size)
{
    will_read(from, size);
    return REAL(ZSTD_getFrameContentSize)(from, size);
}

size_t ZSTD_compressStream2(ZSTD_CCtx *context, ZSTD_outBuffer *output, ZSTD_inBuffer *input,
                            ZSTD_EndDirective end)
{
    size_t start = output->pos;

    will_read((const char *)input->src + input->pos, input->size - input->pos);

    size_t result = REAL(ZSTD_compressStream2)(context, output, input, end);

    has_written((char *)output->dst + start, output->pos - start);
    return result;
}

size_t ZSTD_decompressStream(ZSTD_DCtx *context, ZSTD_outBuffer *output, ZSTD_inBuffer *input)
{
    size_t start = output->pos;

    will_read((const char *)input->src + input->pos, input->size - input->pos);

    size_t result = REAL(ZSTD_decompressStream)(context, output, input);

    has_written((char *)output->dst + start, output->pos - start);
    return result;
}

/* ---- xxhash ---- */

XXH128_hash_t XXH3_128bits(const void *data, size_t size)
{
    will_read(data, size);
    return REAL(XXH3_128bits)(data, size);
}

XXH_errorcode XXH3_128bits_update(XXH3_state_t *state, const void *data, size_t size)
{
    will_read(data, size);
    return REAL(XXH3_128bits_update)(state, data, size);
}

void XXH128_canonicalFromHash(XXH128_canonical_t *canonical, XXH128_hash_t hash)
{
    REAL(XXH128_canonicalFromHash)(canonical, hash);
    has_written(canonical, sizeof(*canonical));
}

/* ---- libdeflate ---- */

enum libdeflate_result libdeflate_zlib_decompress_ex(struct libdeflate_decompressor *decompressor,
                                                     const void *from, size_t size, void *to,
                                                     size_t capacity, size_t *read, size_t *written)
{
    will_read(from, size);

    enum libdeflate_result result =
        REAL(libdeflate_zlib_decompress_ex)(decompressor, from, size, to, capacity, read, written);

    if (result == LIBDEFLATE_SUCCESS) {
        has_written(read, sizeof(*read));
        has_written(written, sizeof(*written));
        has_written(to, written != NULL ? *written : capacity);
    }
    return result;
}

uint32_t libdeflate_adler32(uint32_t sum, const void *data, size_t size)
{
    will_read(data, size);
    return REAL(libdeflate_adler32)(sum, data, size);
}

uint32_t libdeflate_crc32(uint32_t sum, const void *data, size_t size)
{
    will_read(data, size);
    return REAL(libdeflate_crc32)(sum, data, size);
}

/* ---- nettle ---- */

void nettle_sha1_update(struct sha1_ctx *context, size_t size, const uint8_t *data)
{
    will_read(data, size);
    REAL(nettle_sha1_update)(context, size, data);
}

void nettle_sha1_digest(struct sha1_ctx *context, size_t size, uint8_t *digest)
{
    REAL(nettle_sha1_digest)(context, size, digest);
    has_written(digest, size);
}

void nettle_sha256_update(struct sha256_ctx *context, size_t size, const uint8_t *data)
{
    will_read(data, size);
    REAL(nettle_sha256_update)(context, size, data);
}

void nettle_sha256_digest(struct sha256_ctx *context, size_t size, uint8_t *digest)
{
    REAL(nettle_sha256_digest)(context, size, digest);
    has_written(digest, size);
}

/* ---- zlib, which only tests use ---- */

int compress(Bytef *to, uLongf *written, const Bytef *from, uLong size)
{
    will_read(from, size);

    int result = REAL(compress)(to, written, from, size);

    has_written(result == Z_OK ? to : NULL, *written);
    return result;
}

int compress2(Bytef *to, uLongf *written, const Bytef *from, uLong size, int level)
{
    will_read(from, size);

    int result = REAL(compress2)(to, written, from, size, level);

    has_written(result == Z_OK ? to : NULL, *written);
    return result;
}

int uncompress(Bytef *to, uLongf *written, const Bytef *from, uLong size)
{
    will_read(from, size);

    int result = REAL(uncompress)(to, written, from, size);

    has_written(result == Z_OK ? to : NULL, *written);
    return result;
}

int deflate(z_stream *stream, int flush)
{
    Bytef *start = stream->next_out;

    will_read(stream->next_in, stream->avail_in);

    int result = REAL(deflate)(stream, flush);

    has_written(start, (size_t)(stream->next_out - start));
    return result;
}
