/*
 * covsplit-device: writes the profile of a running image piece by piece.
 *
 * The profile runtimes of compilers write a profile to a file, or into a buffer that holds all of
 * it. A device may have neither. With this library it writes the same bytes into a buffer of any
 * size, from one byte on, as often as it takes, and sends them over whatever link it has:
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
 * profile. `covsplit merge` and `covsplit correlate` take it from a file or from standard input.
 *
 * The library consists of stream.c. It is C11 and freestanding: it does not allocate, has no
 * variables of its own, and of a C library calls memcpy and memset at most. All that it knows is in
 * the struct, which has at most 512 bytes. Compiled with optimization (-Os), its functions may run
 * on any stack that has 256 bytes left, also in interrupts; several streams may be under way at
 * once, each with its own struct.
 *
 * It works with the profile runtime that clang links (compiler-rt), from LLVM 13 on. Where there is
 * none, runtime.c replaces it, see there. Compile and link both without LTO: `covsplit split` looks
 * for the functions in the image.
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

/* What covsplit_device_start returns. */
enum covsplit_device_error {
    COVSPLIT_DEVICE_OK = 0,
    /* The version of the image's raw profiles is not one of 7 to 11 (LLVM 13 to 23). */
    COVSPLIT_DEVICE_VERSION = 1,
    /* The image needs what only compiler-rt does: temporal profiles (-pgo-temporal-instrumentation)
     * or correlation with debug information (-profile-correlate=debug-info). */
    COVSPLIT_DEVICE_VARIANT = 2,
    /* A function is compiled for value profiling, as with IR PGO. -mllvm -disable-vp turns this
       off. */
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

/* For slow links: runs of zeros take two bytes or a few more, and small numbers one or two, so that
 * a profile takes little more than the counters that are not zero. covsplit on the host expands it;
 * LLVM's tools do not read it. A long run of zeros is read by one call of covsplit_device_fill. */
#define COVSPLIT_DEVICE_SPARSE 1u

/* The members are the library's own. The struct may be copied, which gives two streams. */
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
 * What belongs together need not be fetched at once: the stream can pause after any byte.
 *
 * The image may go on counting. Every counter is what it is at the time when it is read, and no
 * counter is torn: where the machine loads 64 bits at once, one load reads it. On 32-bit machines
 * its halves are read until they fit each other: so a counter is right whatever interrupts or other
 * threads of the same processor count in between. (It may lack 2^32, or have 2^32 too much, if it
 * passes a multiple of that at this very moment on another processor, or in code that this call
 * interrupts.) */
COVSPLIT_DEVICE_FUNCTION size_t covsplit_device_fill(struct covsplit_device *device, void *buffer,
                                                     size_t size);

#ifdef __cplusplus
}
#endif

#endif
