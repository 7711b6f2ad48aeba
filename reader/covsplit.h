/*
 * libcovsplit: reads covsplit sidecars.
 *
 * A sidecar holds the coverage mapping, profile names and profile data that `covsplit split` took
 * out of an instrumented image, and what brings the image back byte for byte. Its layout is that of
 * an ELF file with zstd-compressed sections (ELF gABI, "Section Compression").
 *
 * The library has no global state. Different objects may be used by different threads at the same
 * time; one object by one thread at a time. A function that can fail returns NULL or false and, if
 * `error` is not NULL, sets *error to a new covsplit_error, which the caller frees.
 */
#ifndef COVSPLIT_H
#define COVSPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COVSPLIT_VERSION_MAJOR 0
#define COVSPLIT_VERSION_MINOR 1
#define COVSPLIT_VERSION_PATCH 0

/* ---- errors ---- */

typedef struct covsplit_error covsplit_error;

/* One line without a newline: "FILE: what is wrong; what to do". Lives as long as the error. */
const char *covsplit_error_message(const covsplit_error *error);
/* NULL is allowed. */
void covsplit_error_free(covsplit_error *error);

/* ---- sidecars ---- */

typedef struct covsplit_sidecar covsplit_sidecar;

/* Opens a sidecar file; it is mapped, not read, and nothing is decompressed. The file must not
 * change while it is open. */
covsplit_sidecar *covsplit_sidecar_open(const char *path, covsplit_error **error);

/* Opens a sidecar in memory. The `size` bytes at `data` must stay as they are until it is closed;
 * `name` stands for the file in messages and is copied. */
covsplit_sidecar *covsplit_sidecar_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error);

/* NULL is allowed. */
void covsplit_sidecar_close(covsplit_sidecar *sidecar);

/* True where the bytes look like a sidecar, of this or another format version. */
bool covsplit_is_sidecar(const void *data, size_t size);

/* The UUID of the image (ELF: build ID): *size bytes, which live as long as the sidecar. */
const uint8_t *covsplit_sidecar_uuid(const covsplit_sidecar *sidecar, size_t *size);

/* "ELF", "Mach-O" or "COFF". */
const char *covsplit_sidecar_format(const covsplit_sidecar *sidecar);

/* The ELF machine number (e_machine) of the image. */
uint16_t covsplit_sidecar_machine(const covsplit_sidecar *sidecar);

/* The image's __llvm_profile_raw_version: the version of the raw profiles it writes in the low
 * bits, variant bits (LLVM's InstrProfData.inc) in the high ones. 0 where it has no runtime. */
uint64_t covsplit_sidecar_raw_version(const covsplit_sidecar *sidecar);

/* Sizes in bytes of the image before and after the split. */
uint64_t covsplit_sidecar_original_size(const covsplit_sidecar *sidecar);
uint64_t covsplit_sidecar_stripped_size(const covsplit_sidecar *sidecar);

/* ---- sections ---- */

/* One section of the sidecar. The name lives as long as the sidecar. */
typedef struct {
    const char *name;     /* the ELF name: "__llvm_covmap", ... */
    uint64_t address;     /* in the image; 0 where it was not loaded */
    uint64_t size;        /* in bytes, decompressed */
    uint64_t stored_size; /* in bytes, in the sidecar; 0 where only place and size are recorded */
} covsplit_section;

size_t covsplit_sidecar_section_count(const covsplit_sidecar *sidecar);
/* False where index is not below the count. */
bool covsplit_sidecar_section(const covsplit_sidecar *sidecar, size_t index,
                              covsplit_section *section);

/* Decompresses a section by its ELF name and checks its digest. The result is a new block of *size
 * bytes that the caller frees with free(); never NULL on success, even for an empty section. Fails
 * where the sidecar holds no contents under that name. */
void *covsplit_sidecar_read(const covsplit_sidecar *sidecar, const char *name, size_t *size,
                            covsplit_error **error);

/* ---- whole sidecars ---- */

/* Decompresses everything and checks every digest and bound. */
bool covsplit_sidecar_verify(const covsplit_sidecar *sidecar, covsplit_error **error);

/* Receives `size` bytes of the original image at a time, in order. Returns false to stop. */
typedef bool (*covsplit_sink)(void *context, const void *data, size_t size);

/* Brings the original image back: `stripped` is the whole stripped image, `stripped_name` stands
 * for it in messages. The sink gets the original's bytes in order; they are only good when the
 * function has returned true, since the original's digest is checked at the end. */
bool covsplit_sidecar_restore(const covsplit_sidecar *sidecar, const void *stripped, size_t size,
                              const char *stripped_name, covsplit_sink sink, void *context,
                              covsplit_error **error);

#ifdef __cplusplus
}
#endif

#endif
