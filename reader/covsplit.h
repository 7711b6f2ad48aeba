/*
 * libcovsplit: reads covsplit sidecars, and the profiles that split images write; merges profiles,
 * and makes files for LLVM's tools from sidecars.
 *
 * A sidecar holds the coverage mapping, profile names and profile data that `covsplit split` took
 * out of an instrumented image, and what is needed to restore the image byte for byte. It is an ELF
 * file with zstd-compressed sections (ELF gABI, "Section Compression"). Profiles are LLVM's raw
 * profiles, versions 7 to 11 (LLVM's InstrProfData.inc).
 *
 * Sizes, offsets and addresses are in bytes unless the comment or the name says otherwise.
 *
 * The library has no global state. Different threads may use different objects at the same time,
 * but an object must only be used by one thread at a time. The library starts no threads unless
 * covsplit_sidecar_set_threads allows it.
 *
 * A function that takes an `error` argument returns NULL or false on failure. If `error` is not
 * NULL, it then also sets *error to a new covsplit_error, which the caller must free with
 * covsplit_error_free. On success *error is left unchanged.
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

/* One line without a newline: "FILE: what is wrong; what to do". Valid until the error is freed. */
const char *covsplit_error_message(const covsplit_error *error);
/* True if memory ran out. This says nothing about the file; a caller that works through many files
 * should stop rather than skip this one. */
bool covsplit_error_is_of_memory(const covsplit_error *error);
/* Frees an error. NULL is allowed. */
void covsplit_error_free(covsplit_error *error);

/* ---- sidecars ---- */

typedef struct covsplit_sidecar covsplit_sidecar;

/* Opens a sidecar file. The file is read into memory, but nothing is decompressed yet. It is an
 * error if the file changes while it is being read; afterwards it may be changed or removed. No
 * file descriptor stays open. The caller must close the sidecar with covsplit_sidecar_close. */
covsplit_sidecar *covsplit_sidecar_open(const char *path, covsplit_error **error);

/* Like covsplit_sidecar_open, but reads from a file descriptor, which must be open for reading and
 * refer to a regular file. The whole file is read, whatever the descriptor's position, which is
 * left unchanged. The caller keeps the descriptor and may close it right after the call. `name` is
 * the file's name in error messages; it is copied. */
covsplit_sidecar *covsplit_sidecar_open_fd(int fd, const char *name, covsplit_error **error);

/* Like covsplit_sidecar_open, but for a sidecar in memory. The `size` bytes at `data` must stay
 * valid and unchanged until the sidecar is closed. `name` is used in error messages; it is copied.
 */
covsplit_sidecar *covsplit_sidecar_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error);

/* True if the sidecar is a delta, made by `covsplit store delta` or `split --delta`: without its
 * base, another sidecar, it can be opened and described, but no content can be read. The base of a
 * delta that was opened by a path (or by a name that is its path) is found in its store. */
bool covsplit_sidecar_is_delta(const covsplit_sidecar *sidecar);

/* A function of the caller that gives the base of a delta: the whole bytes of the file whose
 * XXH3-128 digest, in canonical form, is in the 16 bytes at `digest`. In a store, that is
 * .build-id/bases/HEX.base. Sets *data and *size, and returns true; the bytes must stay valid and
 * unchanged until the sidecar is closed. False: look for it in the store. */
typedef bool (*covsplit_base_finder)(void *context, const uint8_t *digest, const void **data,
                                     size_t *size);

/* Sets the function that gives the sidecar's base, when it is needed; `context` is passed to it.
 * For a delta in memory, or whose base is elsewhere. No effect on a whole sidecar. */
void covsplit_sidecar_set_base_finder(covsplit_sidecar *sidecar, covsplit_base_finder finder,
                                      void *context);

/* Closes a sidecar and frees it. What is documented as valid until then must not be used any more.
 * NULL is allowed. */
void covsplit_sidecar_close(covsplit_sidecar *sidecar);

/* Sets the memory limit, in bytes. A damaged or hostile sidecar of a few kilobytes may claim to
 * hold gigabytes, so it is an error if a single block of data (a section, or a part that it is
 * decoded from) is larger than the limit. A function may need several such blocks, so its total
 * memory use can be a few times the limit.
 *
 * The default is 64 MiB plus 512 bytes for each byte of the file, but at most 4 GiB; sections of
 * real sidecars are 10 to 200 times as large as the file. UINT64_MAX means no limit; 0 leaves the
 * limit unchanged. */
void covsplit_sidecar_limit_memory(covsplit_sidecar *sidecar, uint64_t bytes);
uint64_t covsplit_sidecar_memory_limit(const covsplit_sidecar *sidecar);

/* Sets how many threads may work at the same time to decompress sections that take long: names,
 * whose zlib streams have to be recreated, and large coverage mappings. The default is 1, the
 * calling thread; 0 leaves the number unchanged. Threads that a function starts have ended when it
 * returns. They never call the caller's functions, and all signals are blocked in them except those
 * that a thread raises itself. The results do not depend on the number of threads; each further
 * thread needs a few MiB of memory. */
void covsplit_sidecar_set_threads(covsplit_sidecar *sidecar, unsigned threads);

/* True if the bytes look like a sidecar, of this or another format version. */
bool covsplit_is_sidecar(const void *data, size_t size);

/* The UUID of the image (ELF: build ID), *size bytes long. Valid until the sidecar is closed. */
const uint8_t *covsplit_sidecar_uuid(const covsplit_sidecar *sidecar, size_t *size);

/* The format of the image: "ELF", "Mach-O" or "COFF". A static string. */
const char *covsplit_sidecar_format(const covsplit_sidecar *sidecar);

/* The file name of the image without its directory, as a label for people; "" if it is unknown.
 * Valid until the sidecar is closed. */
const char *covsplit_sidecar_image_name(const covsplit_sidecar *sidecar);

/* The machine of the image as an ELF machine number (e_machine), whatever the image's format. */
uint16_t covsplit_sidecar_machine(const covsplit_sidecar *sidecar);

/* The image's __llvm_profile_raw_version. The low bits are the version of the raw profiles that the
 * image writes, the high bits are variant flags (LLVM's InstrProfData.inc). 0 if the image contains
 * no profile runtime. */
uint64_t covsplit_sidecar_raw_version(const covsplit_sidecar *sidecar);

/* The size in bytes of the image before and after the split. */
uint64_t covsplit_sidecar_original_size(const covsplit_sidecar *sidecar);
uint64_t covsplit_sidecar_stripped_size(const covsplit_sidecar *sidecar);

/* True for a placeholder: a sidecar without contents, made because the image had already been split
 * and its own sidecar was not found. From any other, and the stripped image, the original can be
 * restored. */
bool covsplit_sidecar_is_placeholder(const covsplit_sidecar *sidecar);

/* ---- sections ---- */

/* Describes one section of the sidecar. The name is valid until the sidecar is closed. */
typedef struct {
    const char *name;     /* the ELF name: "__llvm_covmap", ... */
    uint64_t address;     /* in the image; 0 if the section was not loaded */
    uint64_t size;        /* in bytes, decompressed */
    uint64_t stored_size; /* in bytes, in the sidecar; 0 if only address and size are recorded */
} covsplit_section;

size_t covsplit_sidecar_section_count(const covsplit_sidecar *sidecar);
/* Fills *section. Returns false if index is not less than the section count. */
bool covsplit_sidecar_section(const covsplit_sidecar *sidecar, size_t index,
                              covsplit_section *section);

/* Looks up a section by its ELF name, which is used whatever the image's format: "__llvm_covmap",
 * "__llvm_covfun", "__llvm_prf_names", "__llvm_prf_data", "__llvm_covnames", "__llvm_covdata",
 * "__llvm_prf_cnts" or "__llvm_prf_bits". Of an image with packed objects there are also
 * ".covsplit.covmap" and perhaps ".covsplit.covfun", the mapping as it was linked, which only
 * joining needs. Returns false if the sidecar has no such section. */
bool covsplit_sidecar_find(const covsplit_sidecar *sidecar, const char *name,
                           covsplit_section *section);

/* A function of the caller that receives output piece by piece, in order: `size` bytes at `data`,
 * which are valid during the call. `context` is what the caller passed along with the function.
 * Return false to stop; the library function then fails. */
typedef bool (*covsplit_sink)(void *context, const void *data, size_t size);

/* There are four ways to get a section's contents, all by its ELF name. Each fails if the sidecar
 * holds no contents for that name, or if a digest shows that they are damaged. To decode one
 * section, others that it depends on may have to be decoded too. Where function names are needed
 * for that, 8 bytes for each name are kept until the sidecar is closed.
 *
 * The first: decompresses the section into a new block of *size bytes, which the caller frees with
 * free(). Never NULL on success, even for an empty section. */
void *covsplit_sidecar_read(const covsplit_sidecar *sidecar, const char *name, size_t *size,
                            covsplit_error **error);

/* Decompresses the section on the first call and keeps it: the *size bytes are valid until the
 * sidecar is closed. Never NULL on success. */
const void *covsplit_sidecar_content(covsplit_sidecar *sidecar, const char *name, size_t *size,
                                     covsplit_error **error);

/* Reads only the `size` bytes that start at `offset`, into a new block that the caller frees with
 * free(). Every byte returned has been checked against a digest. Fails if the section ends before
 * offset + size.
 *
 * The cost depends on how the section is stored:
 * - the coverage mapping of functions: in blocks of a few MiB, each with its own digest; only the
 *   blocks needed are decoded;
 * - plain zstd (split --portable): the first call decompresses the whole section, piece by piece,
 *   to check it; later calls decompress it up to the end of the part;
 * - anything else: each call decodes the whole section. To read many parts of it, use
 *   covsplit_sidecar_content instead. */
void *covsplit_sidecar_read_part(const covsplit_sidecar *sidecar, const char *name, uint64_t offset,
                                 size_t size, covsplit_error **error);

/* Passes the section to the sink piece by piece. For plain zstd sections and the coverage mapping
 * of functions the memory needed does not depend on their size; other sections are decoded as a
 * whole first. The digest is checked at the end, so do not rely on what the sink has received until
 * the function has returned true. */
bool covsplit_sidecar_stream(const covsplit_sidecar *sidecar, const char *name, covsplit_sink sink,
                             void *context, covsplit_error **error);

/* ---- functions ---- */

/* The instrumented functions of an image, in the order of its profile data records. */
typedef struct covsplit_functions covsplit_functions;

/* A function can appear several times, if the image has several records for it. */
typedef struct {
    /* As in profiles: "main", "file.c:static_function". NULL if the image does not contain the
     * name. Valid until the covsplit_functions are closed. */
    const char *name;
    uint64_t name_hash; /* NameRef: first 8 bytes of the name's MD5, read as little-endian */
    uint64_t hash;      /* FuncHash: a hash of the function's structure */
    /* The function's counters, as indexes for covsplit_profile_counter, and its bytes in the
     * profile's MC/DC bitmap. */
    uint64_t first_counter;
    uint64_t counter_count;
    uint64_t first_bitmap_byte;
    uint64_t bitmap_byte_count;
} covsplit_function;

/* Decompresses the profile data and names, but no other section. The sidecar must stay open while
 * the result is in use; close that with covsplit_functions_close. Fails if the profile data was
 * left in the image (as it is for value profiling), or if the sidecar is damaged. */
covsplit_functions *covsplit_functions_open(covsplit_sidecar *sidecar, covsplit_error **error);
/* Closes and frees. NULL is allowed. */
void covsplit_functions_close(covsplit_functions *functions);

size_t covsplit_functions_count(const covsplit_functions *functions);
/* Fills *function. Returns false if index is not less than the count. */
bool covsplit_functions_get(const covsplit_functions *functions, size_t index,
                            covsplit_function *function);

/* ---- whole sidecars ---- */

/* Decompresses everything and checks every digest and bound. */
bool covsplit_sidecar_verify(const covsplit_sidecar *sidecar, covsplit_error **error);

/* Restores the original image from the whole stripped image, the `size` bytes at `stripped`, and
 * passes it to the sink. `stripped_name` is used in error messages. The digest of the original is
 * checked at the end, so do not rely on what the sink has received until the function has returned
 * true. */
bool covsplit_sidecar_restore(const covsplit_sidecar *sidecar, const void *stripped, size_t size,
                              const char *stripped_name, covsplit_sink sink, void *context,
                              covsplit_error **error);

/* Like covsplit_sidecar_restore, but for a file. The file is mapped, and its pages are released
 * after use, so the memory needed does not grow with the image. Also fails if the file changes
 * meanwhile. If the file is truncated meanwhile, the process receives SIGBUS; a program that must
 * survive that should read the image into memory and call covsplit_sidecar_restore. */
bool covsplit_sidecar_restore_file(const covsplit_sidecar *sidecar, const char *stripped_path,
                                   covsplit_sink sink, void *context, covsplit_error **error);

/* Writes an object: an ELF file that unmodified llvm-cov and llvm-profdata can read in place of the
 * image. It contains the image's UUID, the unchanged coverage mapping, and each function name once,
 * uncompressed. If the image was built with -profile-correlate=binary, it also contains what
 * `llvm-profdata merge --binary-file` needs. Do not rely on what the sink has received until the
 * function has returned true. Fails if the sidecar contains nothing that these tools could use.
 * The distinct names and the section that they come from are held in memory. */
bool covsplit_sidecar_export(covsplit_sidecar *sidecar, covsplit_sink sink, void *context,
                             covsplit_error **error);

/* True if the bytes are such an object, made by any version of covsplit. */
bool covsplit_is_object(const void *data, size_t size);

/* ---- profiles ---- */

/* A file of raw profiles, and a current profile in it. A file can hold several profiles, one
 * after the other. Sparse profiles (docs/format.md) are expanded; one that would expand to more
 * than 64 MiB plus 512 bytes for each byte of the file is an error. */
typedef struct covsplit_profile covsplit_profile;

/* Opens a file; its first profile becomes the current one. The file is read into memory; it may be
 * changed or removed afterwards, and no file descriptor stays open. Fails if the file
 * contains no complete profile, or changes while it is being read. The caller must close the
 * result with covsplit_profile_close. */
covsplit_profile *covsplit_profile_open(const char *path, covsplit_error **error);

/* Like covsplit_profile_open, but for a file in memory. The `size` bytes at `data` must stay valid
 * and unchanged until the profile is closed. `name` is used in error messages; it is copied. */
covsplit_profile *covsplit_profile_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error);

/* Closes and frees. NULL is allowed. */
void covsplit_profile_close(covsplit_profile *profile);

/* Moves on to the next profile of the file. If there is none, sets *found to false and leaves the
 * current profile unchanged. Fails if what follows is not a complete profile, or is more than
 * 64 MiB of zeros. */
bool covsplit_profile_next(covsplit_profile *profile, bool *found, covsplit_error **error);

/* The version word of the profile's header: the version in the low bits, variant flags in the high
 * bits. */
uint64_t covsplit_profile_raw_version(const covsplit_profile *profile);

/* True if the profile lacks names or data, as it does when its image was split or was built with
 * -profile-correlate=binary. */
bool covsplit_profile_needs_sidecar(const covsplit_profile *profile);

/* The UUID of the image that wrote the profile, if the profile contains it: its first binary ID, or
 * else what the stub record of a split image holds, which is the first 8 bytes of the UUID, padded
 * with zeros. Returns the UUID's full size in bytes, of which at most `size` bytes are written to
 * `uuid`; 0 if the profile contains no UUID. */
size_t covsplit_profile_uuid(const covsplit_profile *profile, uint8_t *uuid, size_t size);

/* The number of counters, and the value of one; 0 if index is not less than the number. In a
 * profile with byte coverage, a value of 1 means executed. */
uint64_t covsplit_profile_counter_count(const covsplit_profile *profile);
uint64_t covsplit_profile_counter(const covsplit_profile *profile, uint64_t index);

/* Checks whether the sidecar belongs to the image that wrote the profile: by UUID if the profile
 * contains one, by the profile version, the numbers of counters and bitmap bytes, and what tells
 * builds of one UUID apart: a digest in what the split left in the image, or the records of a full
 * profile. A profile without records does not fit the sidecar of a split that left them in the
 * image. Decompresses nothing. Returns true if it does; otherwise the error says why not. */
bool covsplit_profile_check(const covsplit_profile *profile, const covsplit_sidecar *sidecar,
                            covsplit_error **error);

/* Correlates the profile: passes to the sink a full raw profile, which LLVM's tools read as they
 * would read the unsplit image's. `sidecar` may be NULL for a profile that needs none; such a
 * profile is passed on unchanged. If the sidecar is damaged or belongs to another image, this fails
 * before the sink is called. */
bool covsplit_profile_correlate(const covsplit_profile *profile, covsplit_sidecar *sidecar,
                                covsplit_sink sink, void *context, covsplit_error **error);

/* ---- stores ---- */

/* One or more directories of sidecars. The sidecar of an image is the file
 * DIR/.build-id/ab/cdef....covsplit, where abcdef... is the UUID in hexadecimal digits. */
typedef struct covsplit_store covsplit_store;

/* Opens a list of directories separated by ':', which are searched in this order. The environment
 * variable COVSPLIT_STORE has the same form, but the library does not read it. The text is copied.
 * A directory that does not exist counts as an empty store. A URL is an error. The caller must
 * close the store with covsplit_store_close. */
covsplit_store *covsplit_store_open(const char *directories, covsplit_error **error);
/* The same, and a store may be given by its URL: http://HOST:PORT/PATH or https://..., where an
 * HTTP server has a copy of the directory. What is looked for there is fetched and kept in a cache,
 * as by the command ("Where sidecars are found" in docs/guide.md, also for the environment
 * variables that count); this takes time, needs libcurl.so.4, and is the only thing in this library
 * that uses the network. A store at a URL finds whole UUIDs only, and cannot be visited. */
covsplit_store *covsplit_store_open_urls(const char *stores, covsplit_error **error);
/* Opens a single directory, whose name may contain ':'. */
covsplit_store *covsplit_store_open_directory(const char *directory, covsplit_error **error);
/* Closes and frees. NULL is allowed. */
void covsplit_store_close(covsplit_store *store);

/* Finds the sidecar for a UUID, given in full or by its first bytes (at least one). Returns its
 * path as a new string that the caller frees with free(). Fails if there is no such sidecar, or if
 * the first bytes fit several UUIDs; the message then names two of them. The file may be replaced
 * at any time; a caller that caches its contents can detect that by its device, inode, size and
 * times. */
char *covsplit_store_path(const covsplit_store *store, const uint8_t *uuid, size_t size,
                          covsplit_error **error);

/* Finds the sidecar of the image that wrote the profile: by the profile's binary IDs, then by its
 * stub record, in the first directory where it fits (covsplit_profile_check). Fails if nothing
 * tells it from one of another build in another directory. Returns its path as covsplit_store_path
 * does. */
char *covsplit_store_path_for_profile(const covsplit_store *store, const covsplit_profile *profile,
                                      covsplit_error **error);

/* Opens the sidecar that covsplit_store_path finds. Also fails if the file turns out to be the
 * sidecar of another UUID. */
covsplit_sidecar *covsplit_store_find(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                      covsplit_error **error);

/* Likewise for the sidecar that covsplit_store_path_for_profile finds. */
covsplit_sidecar *covsplit_store_find_for_profile(const covsplit_store *store,
                                                  const covsplit_profile *profile,
                                                  covsplit_error **error);

/* A function of the caller that receives one sidecar of a store: its path, and the UUID of
 * `uuid_size` bytes that it is named after. Both are valid during the call. Other processes may
 * remove sidecars at any time, so opening the path may fail with ENOENT without anything being
 * wrong. Return false to stop; covsplit_store_visit then fails. */
typedef bool (*covsplit_store_visitor)(void *context, const char *path, const uint8_t *uuid,
                                       size_t uuid_size);

/* Calls `visit` for every sidecar of the store: directory by directory, and within each in
 * ascending order of UUIDs. A UUID that is in several directories is visited once, with the path
 * that covsplit_store_path returns. Opens no sidecar. Sidecars that are added or removed meanwhile
 * may or may not be visited. Only the file names of one .build-id subdirectory (of up to 256) are
 * held in memory at a time. Fails if a directory cannot be read, or if `visit` returned false. */
bool covsplit_store_visit(const covsplit_store *store, covsplit_store_visitor visit, void *context,
                          covsplit_error **error);

/* ---- states ---- */

/* The state of an incremental merge: the directory STATE of `covsplit merge --into STATE`. It has
 * the sums of all profiles that were merged into it. The library only reads states; others may
 * write to them at the same time. */
typedef struct covsplit_state covsplit_state;

/* Opens a state. It must be closed with covsplit_state_close. */
covsplit_state *covsplit_state_open(const char *path, covsplit_error **error);
/* Closes and frees. NULL is allowed. */
void covsplit_state_close(covsplit_state *state);

/* ---- merging ---- */

/* Adds up the profiles of any number of images, as `covsplit merge` does. What is held in memory is
 * the sum of each image, and its sidecar, compressed, if its profiles need one; it does not grow
 * with the number of profiles.
 *
 *     merger = covsplit_merger_new(store, &error);
 *     for each file, and each profile in it (covsplit_profile_next):
 *         covsplit_merger_add(merger, profile, &error);
 *     covsplit_merger_finish(merger, sink, context, &error);
 *     covsplit_merger_free(merger);
 */
typedef struct covsplit_merger covsplit_merger;

/* Creates a merger that finds sidecars in the store. `store` may be NULL; otherwise it must stay
 * open until the merger is freed. The caller must free the merger with covsplit_merger_free. */
covsplit_merger *covsplit_merger_new(const covsplit_store *store, covsplit_error **error);
/* Frees a merger. NULL is allowed. */
void covsplit_merger_free(covsplit_merger *merger);

/* Gives the merger a sidecar, which is taken in place of the store's for the profiles that it fits.
 * Any number of sidecars may be given, before the profiles that need them. The sidecar must stay
 * open until the merger is freed, and counts as used during each call for the merger. */
bool covsplit_merger_add_sidecar(covsplit_merger *merger, covsplit_sidecar *sidecar,
                                 covsplit_error **error);

/* Adds the current profile of the file, which may be closed afterwards. The sidecar of an
 * image, if needed, is found and checked with its first profile.
 *
 * A profile counts as a whole or, if this fails, not at all; the merger can still be used. The only
 * exception is a failure for which covsplit_error_is_of_memory is true: then part of the profile
 * may have been added, and later calls fail too. Profiles with a counter that llvm-profdata takes
 * for damage, above 2^56, are refused, and those that cannot be added up: value profiles and
 * temporal profiles. Such a profile can be correlated by itself
 * (covsplit_profile_correlate) and given to llvm-profdata beside the merged ones. */
bool covsplit_merger_add(covsplit_merger *merger, const covsplit_profile *profile,
                         covsplit_error **error);

/* Adds all sums of a state, as if their profiles were added now. The merger finds the sidecars; the
 * state may be closed afterwards. If this fails, the merger can only be freed. */
bool covsplit_merger_add_state(covsplit_merger *merger, covsplit_state *state,
                               covsplit_error **error);

/* Passes the sums to the sink: one full raw profile for each image, in the order in which the first
 * profiles of the images were added, as they can follow each other in a .profraw file. Profiles of
 * a split image and of the same image before the split are added up in one if its names are not
 * compressed; otherwise there are two, which llvm-profdata adds up. So does it if a sum exceeds
 * 2^56: the image then has as many profiles as it takes for none to do so, 256 at most. Counters
 * that do not fit in 64 bits stay at 2^64 - 3 in llvm-profdata. With byte coverage the result says
 * whether code was executed in any profile.
 *
 * Fails if no profile was added. Do not rely on what the sink has received until the function has
 * returned true. Afterwards, the merger can only be freed. */
bool covsplit_merger_finish(covsplit_merger *merger, covsplit_sink sink, void *context,
                            covsplit_error **error);

/* ---- unions ---- */

/* Writes a union: one file that llvm-cov reads in place of any number of images. It is an archive
 * with an object for each image, in the order in which they are added. A function record that
 * llvm-cov would read from an earlier one is left out of the later ones, so that reports are those
 * of all images (`llvm-cov report A -object B ...`), but take a fraction of the time and memory.
 * `covsplit export --union` does the same. */
typedef struct covsplit_union covsplit_union;

/* Creates a union, which is passed to the sink piece by piece while sidecars are added. The caller
 * must free it with covsplit_union_free. */
covsplit_union *covsplit_union_new(covsplit_sink sink, void *context, covsplit_error **error);
/* Frees a union. NULL is allowed. */
void covsplit_union_free(covsplit_union *all);

/* Adds the image of the sidecar, which may be closed afterwards. Fails for a placeholder
 * (covsplit_sidecar_is_placeholder) and for a sidecar without coverage mapping (no section
 * "__llvm_covfun"), which a program may want to leave out. If it fails, the union can only be
 * freed: reports would be wrong without the image. 16 bytes for each record in the union are kept
 * in memory. */
bool covsplit_union_add(covsplit_union *all, const covsplit_sidecar *sidecar,
                        covsplit_error **error);

/* Ends the union. Fails if nothing was added. Do not rely on what the sink has received until the
 * function has returned true. Afterwards, the union can only be freed. */
bool covsplit_union_finish(covsplit_union *all, covsplit_error **error);

/* True if the bytes look like a union, made by any version of covsplit. */
bool covsplit_is_union(const void *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif
