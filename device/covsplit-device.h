/*
 * covsplit-device: writes the profile of a running image piece by piece.
 *
 * The profile runtimes of compilers write a profile to a file, or into a buffer that holds all of
 * it. A device may have neither. With this library, it fills a buffer of any size, one byte or
 * more, as many times as needed, and sends the same bytes over any link that it has:
 *
 *     struct covsplit_device device;
 *     unsigned char piece[64];
 *     size_t size;
 *
 *     if (covsplit_device_start(&device, 0) == COVSPLIT_DEVICE_OK)
 *         while ((size = covsplit_device_fill(&device, piece, sizeof(piece))) != 0)
 *             send(piece, size);
 *
 * The bytes are those of a raw profile (.profraw), as __llvm_profile_write_file writes it for the
 * image that this library is linked into: in an image that `covsplit split` has made, a lightweight
 * profile. `covsplit merge` and `covsplit correlate` read it from a file or from standard input.
 *
 * The library consists of stream.c. It is C11 and freestanding: it does not allocate, has no
 * variables of its own, and of a C library calls memcpy and memset at most. All of its state is in
 * the struct, which has at most 512 bytes. Compiled with optimization (-Os), its functions need at
 * most 256 bytes of stack, and may be called from interrupts; several streams may be in progress at
 * once, each with a struct of its own.
 *
 * It works beside the profile runtime that clang links (compiler-rt), from LLVM 13 on. Where there
 * is none, runtime.c replaces it; see there. Compile and link both without LTO: `covsplit split`
 * looks for their functions in the image.
 */
#ifndef COVSPLIT_DEVICE_H
#define COVSPLIT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each executable and shared library has its own copy of the library, and writes its own profile.
 */
#define COVSPLIT_DEVICE_FUNCTION __attribute__((visibility("hidden"), noinline))

/* The results of covsplit_device_start. */
enum covsplit_device_error {
    COVSPLIT_DEVICE_OK = 0,
    /* The version of the image's raw profiles is not one of 7 to 11 (LLVM 13 to 23). */
    COVSPLIT_DEVICE_VERSION = 1,
    /* The image needs what only compiler-rt does: temporal profiles (-pgo-temporal-instrumentation)
     * or correlation with debug information (-profile-correlate=debug-info). */
    COVSPLIT_DEVICE_VARIANT = 2,
    /* A function is compiled for value profiling, as with IR PGO. -mllvm -disable-vp turns this
     * off. */
    COVSPLIT_DEVICE_VALUES = 3,
    /* The counters are in a file that is mapped (continuous mode, %c): that file is the profile. */
    COVSPLIT_DEVICE_RELOCATED = 4,
    /* The bounds of a section make no sense: look at the linker script. */
    COVSPLIT_DEVICE_BOUNDS = 5,
    /* There are no counters: nothing is instrumented, or the linker script hides the sections. */
    COVSPLIT_DEVICE_EMPTY = 6,
    /* An unknown flag. */
    COVSPLIT_DEVICE_FLAGS = 7
};

/* The sparse form, for slow links: a run of zeros takes two bytes or a few more, and a small number
 * one or two, so that a profile takes little more than the counters that are not zero. covsplit on
 * the host expands it; LLVM's tools do not read it. One call of covsplit_device_fill reads a run of
 * zeros to its end, which takes time if the run is long. */
#define COVSPLIT_DEVICE_SPARSE 1u

/* The members are for the library alone. A copy of the struct is a second stream, which continues
 * from the same place. */
struct covsplit_device {
    uint64_t header[19];
    struct {
        const unsigned char *at;
        size_t size;
    } ranges[6]; /* what follows the header and the binary IDs */
    struct {
        const unsigned char *notes; /* not yet looked at, of one segment */
        size_t size;
        const void *segment; /* the next program header, of so many */
        size_t segments;
        uintptr_t base; /* where address 0 of the image is */
    } ids;
    const unsigned char *at; /* of the current range: what is to be read yet */
    size_t left;
    uint64_t rest;            /* read, but not part of the last word of the sparse form */
    unsigned char staged[24]; /* read, but not yet written */
    unsigned char staged_at;
    unsigned char staged_size;
    unsigned char words; /* of the header */
    unsigned char word;  /* the next one */
    unsigned char range; /* the next one */
    unsigned char rest_size;
    unsigned char flags;
};

/* Starts a stream at its beginning. `flags` is 0 or COVSPLIT_DEVICE_SPARSE. Returns
 * COVSPLIT_DEVICE_OK or an error; after an error covsplit_device_fill writes nothing. */
COVSPLIT_DEVICE_FUNCTION int covsplit_device_start(struct covsplit_device *device, unsigned flags);

/* Writes the next bytes into the buffer, as many as fit, and returns their number; 0 at the end.
 * The stream can pause after any byte: the buffer may be of another size in each call.
 *
 * The image may go on counting. Every counter has the value that it has when it is read, and is not
 * torn: where the machine loads 64 bits at once, one load reads it. On 32-bit machines, its halves
 * are read until they fit each other, so that it is right whatever interrupts or other threads on
 * the same processor count in between. (It may be 2^32 too low or too high if it passes a multiple
 * of 2^32 at that very moment on another processor, or in code that this call interrupts.) */
COVSPLIT_DEVICE_FUNCTION size_t covsplit_device_fill(struct covsplit_device *device, void *buffer,
                                                     size_t size);

#ifdef __cplusplus
}
#endif

#endif
