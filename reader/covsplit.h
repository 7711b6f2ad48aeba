/*
 * libcovsplit: reads covsplit sidecars, and the profiles that split images write.
 *
 * A sidecar holds the coverage mapping, profile names and profile data that `covsplit split` took
 * out of an instrumented image, and what brings the image back byte for byte. Its layout is that of
 * an ELF file with zstd-compressed sections (ELF gABI, "Section Compression"). Profiles are LLVM's
 * raw profiles, versions 7 to 11 (LLVM's InstrProfData.inc).
 *
 * All sizes, offsets and addresses are in bytes, unless their name says what they count.
 *
 * The library has no global state. Different objects may be used by different threads at the same
 * time; one object by one thread at a time. It starts no threads, unless it is told that it may
 * (covsplit_sidecar_set_threads). A function that can fail returns NULL or false and, if
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
/* Whether memory ran out. That says nothing of the file: who goes on with others should stop. */
bool covsplit_error_is_of_memory(const covsplit_error *error);
/* NULL is allowed. */
void covsplit_error_free(covsplit_error *error);

/* ---- sidecars ---- */

typedef struct covsplit_sidecar covsplit_sidecar;

/* Opens a sidecar file: it is read into memory, and nothing is decompressed. From then on it does
 * not matter what becomes of the file; one that changes while it is read is an error. No descriptor
 * stays open. */
covsplit_sidecar *covsplit_sidecar_open(const char *path, covsplit_error **error);

/* The same by a descriptor, which must be of a regular file and open for reading; its position does
 * not matter, and is afterwards what it was. It stays the caller's, and may be closed right after.
 * `name` stands for the file in messages and is copied. */
covsplit_sidecar *covsplit_sidecar_open_fd(int fd, const char *name, covsplit_error **error);

/* Opens a sidecar in memory. The `size` bytes at `data` must stay as they are until it is closed;
 * `name` stands for the file in messages and is copied. */
covsplit_sidecar *covsplit_sidecar_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error);

/* NULL is allowed. What lives as long as the sidecar is gone afterwards. */
void covsplit_sidecar_close(covsplit_sidecar *sidecar);

/* A damaged or hostile sidecar of some kilobytes may claim to hold gigabytes. What is held in
 * memory as a whole, a section or what it is made of, must not be larger than a limit, or is an
 * error. It begins as 64 MiB and 512 bytes for each byte of the file, but at most 4 GiB; sections
 * of real sidecars are 10 to 200 times as large as the file. All together takes some times as much.
 * UINT64_MAX: no limit; 0: it stays as it is. */
void covsplit_sidecar_limit_memory(covsplit_sidecar *sidecar, uint64_t bytes);
uint64_t covsplit_sidecar_memory_limit(const covsplit_sidecar *sidecar);

/* How many threads may work at a time when sections are decompressed that take long: names, whose
 * zlib streams are made again, and large coverage mapping. One, the caller's own, unless this is
 * called; 0: it stays as it is. Those that are started end before the function returns that needs
 * them, run nothing of the caller's, and have all signals blocked but the ones that a thread raises
 * itself. The result is the same for any number; a thread more takes some MiB. */
void covsplit_sidecar_set_threads(covsplit_sidecar *sidecar, unsigned threads);

/* True where the bytes look like a sidecar, of this or another format version. */
bool covsplit_is_sidecar(const void *data, size_t size);

/* The UUID of the image (ELF: build ID): *size bytes, which live as long as the sidecar. */
const uint8_t *covsplit_sidecar_uuid(const covsplit_sidecar *sidecar, size_t *size);

/* "ELF", "Mach-O" or "COFF". */
const char *covsplit_sidecar_format(const covsplit_sidecar *sidecar);

/* File name of the image, without directory: a label for people; "" where it is unknown. Lives as
 * long as the sidecar. */
const char *covsplit_sidecar_image_name(const covsplit_sidecar *sidecar);

/* The ELF machine number (e_machine) of the image. */
uint16_t covsplit_sidecar_machine(const covsplit_sidecar *sidecar);

/* The image's __llvm_profile_raw_version: the version of the raw profiles it writes in the low
 * bits, variant bits (LLVM's InstrProfData.inc) in the high ones. 0 where it has no runtime. */
uint64_t covsplit_sidecar_raw_version(const covsplit_sidecar *sidecar);

/* Sizes in bytes of the image before and after the split. */
uint64_t covsplit_sidecar_original_size(const covsplit_sidecar *sidecar);
uint64_t covsplit_sidecar_stripped_size(const covsplit_sidecar *sidecar);

/* True for a sidecar that holds nothing: the image had been split before, and its own sidecar was
 * not there. */
bool covsplit_sidecar_is_placeholder(const covsplit_sidecar *sidecar);

/* Whether the sidecar gives the original image back. False for a placeholder, and for a sidecar
 * that was made with --no-exact: it serves reports and profiles as any other, but its sections of
 * names are not the image's own: they hold each name once. */
bool covsplit_sidecar_is_exact(const covsplit_sidecar *sidecar);

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

/* Looks a section up by its ELF name, whatever the image's format: "__llvm_covmap",
 * "__llvm_covfun", "__llvm_prf_names", "__llvm_prf_data", "__llvm_covnames", "__llvm_covdata",
 * "__llvm_prf_cnts", "__llvm_prf_bits". False where the sidecar has none of that name. */
bool covsplit_sidecar_find(const covsplit_sidecar *sidecar, const char *name,
                           covsplit_section *section);

/* Receives `size` bytes at a time, in order. Returns false to stop. */
typedef bool (*covsplit_sink)(void *context, const void *data, size_t size);

/* Four ways to a section's contents, by its ELF name. Each fails where the sidecar holds no
 * contents under that name, or its digest shows that they are damaged. What sections need of each
 * other is decoded with them; of the function names 8 bytes each are kept for that until the
 * sidecar is closed.
 *
 * Decompresses into a new block of *size bytes that the caller frees with free(). Never NULL on
 * success, even for an empty section. */
void *covsplit_sidecar_read(const covsplit_sidecar *sidecar, const char *name, size_t *size,
                            covsplit_error **error);

/* Decompresses at the first call; the *size bytes live as long as the sidecar. Never NULL on
 * success. */
const void *covsplit_sidecar_content(covsplit_sidecar *sidecar, const char *name, size_t *size,
                                     covsplit_error **error);

/* Only the `size` bytes from `offset` on, into a new block that the caller frees with free(). Every
 * byte of them was checked against a digest, in whatever form the section is stored. The coverage
 * mapping of functions is stored in blocks of some MiB with a digest each, and no others are
 * decoded. Of a plain zstd section (split --portable) the first call decompresses all, piece by
 * piece, to check it, and later ones what is before the end of the part; of any other section each
 * call decodes all: to read many parts of one, take covsplit_sidecar_content. Fails where the
 * section ends before. */
void *covsplit_sidecar_read_part(const covsplit_sidecar *sidecar, const char *name, uint64_t offset,
                                 size_t size, covsplit_error **error);

/* Decompresses piece by piece: plain zstd sections and the coverage mapping of functions in a fixed
 * amount of memory however large they are, others as a whole at the beginning. What the sink got is
 * only good when the function has returned true, since the digest is checked at the end. */
bool covsplit_sidecar_stream(const covsplit_sidecar *sidecar, const char *name, covsplit_sink sink,
                             void *context, covsplit_error **error);

/* ---- functions ---- */

/* The instrumented functions of an image, in the order of its profile data records. */
typedef struct covsplit_functions covsplit_functions;

/* A function may come several times, if the image has several records for it. */
typedef struct {
    /* As in profiles: "main", "file.c:static_function". NULL where the image does not have the
     * name. Lives as long as the covsplit_functions. */
    const char *name;
    uint64_t name_hash; /* NameRef: the MD5 of the name, its first 8 bytes as little-endian */
    uint64_t hash;      /* FuncHash: of the function's structure */
    /* Which of a profile's counters are the function's (see covsplit_profile_counter), and which
     * bytes of the MC/DC bitmap. */
    uint64_t first_counter;
    uint64_t counter_count;
    uint64_t first_bitmap_byte;
    uint64_t bitmap_byte_count;
} covsplit_function;

/* Decompresses profile data and names, and no other section. The sidecar must stay open. Fails
 * where the image's data stayed in the image (it collects value profiles), and where the sidecar is
 * damaged. */
covsplit_functions *covsplit_functions_open(covsplit_sidecar *sidecar, covsplit_error **error);
/* NULL is allowed. */
void covsplit_functions_close(covsplit_functions *functions);

size_t covsplit_functions_count(const covsplit_functions *functions);
/* False where index is not below the count. */
bool covsplit_functions_get(const covsplit_functions *functions, size_t index,
                            covsplit_function *function);

/* ---- whole sidecars ---- */

/* Decompresses everything and checks every digest and bound. */
bool covsplit_sidecar_verify(const covsplit_sidecar *sidecar, covsplit_error **error);

/* Brings the original image back: `stripped` is the whole stripped image, `stripped_name` stands
 * for it in messages. The sink gets the original's bytes in order; they are only good when the
 * function has returned true, since the original's digest is checked at the end. */
bool covsplit_sidecar_restore(const covsplit_sidecar *sidecar, const void *stripped, size_t size,
                              const char *stripped_name, covsplit_sink sink, void *context,
                              covsplit_error **error);

/* The same for a file. It is mapped, and its pages are given back as they are used, so that the
 * memory needed does not grow with the image; fails too where the file changes meanwhile. Where it
 * is cut short meanwhile, the process gets SIGBUS: who has to survive that reads the image, and
 * calls covsplit_sidecar_restore. */
bool covsplit_sidecar_restore_file(const covsplit_sidecar *sidecar, const char *stripped_path,
                                   covsplit_sink sink, void *context, covsplit_error **error);

/* Writes an object: an ELF file that unmodified llvm-cov and llvm-profdata read in place of the
 * image. It has the image's UUID, the coverage mapping as it was, and the function names once each
 * and uncompressed; and what llvm-profdata merge --binary-file wants, where the image was built for
 * that. The sink gets it in order; it is only good when the function has returned true. Fails where
 * the sidecar has nothing that such tools could use. In memory are the distinct names and the
 * section that they come from. */
bool covsplit_sidecar_export(covsplit_sidecar *sidecar, covsplit_sink sink, void *context,
                             covsplit_error **error);

/* True where the bytes are such an object, made by any version. */
bool covsplit_is_object(const void *data, size_t size);

/* ---- profiles ---- */

/* A file of raw profiles, and the one of them that is looked at. */
typedef struct covsplit_profile covsplit_profile;

/* Opens a file and looks at its first profile. The file is read into memory, and no descriptor
 * stays open; it does not matter what becomes of it afterwards. Fails where there is no whole
 * profile, and where the file changes while it is read. */
covsplit_profile *covsplit_profile_open(const char *path, covsplit_error **error);

/* The same in memory. The `size` bytes at `data` must stay as they are until it is closed; `name`
 * stands for the file in messages and is copied. */
covsplit_profile *covsplit_profile_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error);

/* NULL is allowed. */
void covsplit_profile_close(covsplit_profile *profile);

/* Looks at the next profile of the file: *found is false, and nothing changed, where there is none.
 * Fails where what follows is no whole profile, or more than 64 MiB of zeros. */
bool covsplit_profile_next(covsplit_profile *profile, bool *found, covsplit_error **error);

/* The version word of the profile's header: version in the low bits, variants in the high ones. */
uint64_t covsplit_profile_raw_version(const covsplit_profile *profile);

/* True where the profile lacks names or data, as that of a split image does, and that of an image
 * built with -profile-correlate=binary. */
bool covsplit_profile_needs_sidecar(const covsplit_profile *profile);

/* The UUID of the image that wrote the profile, as far as the profile tells: its first binary ID,
 * or else what the stub record of a split image holds, which is the first 16 bytes of the UUID,
 * filled up with zeros. Returns the whole size in bytes, of which at most `size` are written to
 * `uuid`; 0: the profile does not tell. */
size_t covsplit_profile_uuid(const covsplit_profile *profile, uint8_t *uuid, size_t size);

/* The number of counters, and the value of one; 0 where index is not below the number. With byte
 * coverage, 1 stands for executed. */
uint64_t covsplit_profile_counter_count(const covsplit_profile *profile);
uint64_t covsplit_profile_counter(const covsplit_profile *profile, uint64_t index);

/* Whether the sidecar is the one of the image that wrote the profile: by UUID where the profile
 * tells it, and by what it counts. Decompresses nothing. */
bool covsplit_profile_check(const covsplit_profile *profile, const covsplit_sidecar *sidecar,
                            covsplit_error **error);

/* Correlates: gives the sink a full raw profile, which LLVM's tools read as they would read that of
 * the unsplit image. The sidecar may be NULL for a profile that needs none, which comes out as it
 * is. Fails before the sink is called where the sidecar is of another image, or damaged. */
bool covsplit_profile_correlate(const covsplit_profile *profile, covsplit_sidecar *sidecar,
                                covsplit_sink sink, void *context, covsplit_error **error);

/* ---- stores ---- */

/* Directories of sidecars: DIR/.build-id/ab/cdef....covsplit, by UUID in hexadecimal digits. */
typedef struct covsplit_store covsplit_store;

/* Takes directories to look in, in this order: a list with ':' between, as in the environment
 * variable COVSPLIT_STORE, which the library itself does not look at. The text is copied. A
 * directory that does not exist is an empty store. */
covsplit_store *covsplit_store_open(const char *directories, covsplit_error **error);
/* One directory, whose name may have a ':' in it. */
covsplit_store *covsplit_store_open_directory(const char *directory, covsplit_error **error);
/* NULL is allowed. */
void covsplit_store_close(covsplit_store *store);

/* The path of the sidecar of that UUID, or of the only UUID that begins with these bytes (at least
 * one), as a new string that the caller frees with free(). What it is a path of may change at any
 * time: whoever keeps what he read of it can tell by the file's device, inode, size and times.
 * Fails where there is none, and where several fit: the message names two of them. */
char *covsplit_store_path(const covsplit_store *store, const uint8_t *uuid, size_t size,
                          covsplit_error **error);

/* That of the image that wrote the profile: by its binary IDs, then by its stub record. */
char *covsplit_store_path_for_profile(const covsplit_store *store, const covsplit_profile *profile,
                                      covsplit_error **error);

/* Opens the sidecar at covsplit_store_path. Fails too where it is that of another UUID. */
covsplit_sidecar *covsplit_store_find(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                      covsplit_error **error);

/* Opens the sidecar at covsplit_store_path_for_profile, likewise. */
covsplit_sidecar *covsplit_store_find_for_profile(const covsplit_store *store,
                                                  const covsplit_profile *profile,
                                                  covsplit_error **error);

/* Receives one sidecar of a store: its path, and the UUID (uuid_size bytes) that it is named after;
 * both live during the call. Others may remove it at any time: one that is gone (ENOENT) is no
 * fault. Returns false to stop. */
typedef bool (*covsplit_store_visitor)(void *context, const char *path, const uint8_t *uuid,
                                       size_t uuid_size);

/* Calls `visit` for every sidecar, one directory after the other, in each by rising UUIDs; a UUID
 * comes once, with the path that covsplit_store_find opens. Opens no sidecar. What is added or
 * removed meanwhile may come or not. The memory needed is that for the names of one of the up to
 * 256 directories inside a directory. Fails where a directory cannot be read, and where the visitor
 * stopped. */
bool covsplit_store_visit(const covsplit_store *store, covsplit_store_visitor visit, void *context,
                          covsplit_error **error);

#ifdef __cplusplus
}
#endif

#endif
