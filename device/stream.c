/*
 * The writer of profiles: see covsplit-device.h.
 *
 * A raw profile is a sequence of 64-bit words: a header, which is made at the start; the binary
 * IDs, each as its length and its bytes; and copies of sections. Each of these is padded to whole
 * words (with a few exceptions in old versions). So the stream is read a word at a time, into a few
 * staged bytes, and from there copied to buffers of any size.
 *
 * The bounds of the sections come from functions of the profile runtime, the accessors. `covsplit
 * split` rewrites these, so that in a split image data is one record and names are the tripwire,
 * and the stream is a lightweight profile. It takes any other code that calls them for a program
 * that looks at its own records, and then keeps the records. So only one function calls them, whose
 * name tells covsplit that it is this library's.
 */
#include "covsplit-device.h"

#include <stdbool.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_profile_instrument_function)), apply_to = function)
#endif

#define WORD sizeof(uint64_t)

_Static_assert(sizeof(struct covsplit_device) <= 512, "the state is as small as is promised");

void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);

/* ---- what the image provides ---- */

#define HIDDEN __attribute__((visibility("hidden")))
#define WEAK   __attribute__((visibility("hidden"), weak))

HIDDEN const void *__llvm_profile_begin_data(void);
HIDDEN const void *__llvm_profile_end_data(void);
HIDDEN const void *__llvm_profile_begin_names(void);
HIDDEN const void *__llvm_profile_end_names(void);
HIDDEN const void *__llvm_profile_begin_counters(void);
HIDDEN const void *__llvm_profile_end_counters(void);
/* Since versions 9 and 10. */
WEAK const void *__llvm_profile_begin_bitmap(void);
WEAK const void *__llvm_profile_end_bitmap(void);
WEAK const void *__llvm_profile_begin_vtables(void);
WEAK const void *__llvm_profile_end_vtables(void);
WEAK const void *__llvm_profile_begin_vtabnames(void);
WEAK const void *__llvm_profile_end_vtabnames(void);

extern const uint64_t __llvm_profile_raw_version;

/* The distance of the counters that code increments from their section: -1 if that cannot
 * change. */
extern WEAK intptr_t __llvm_profile_counter_bias;

/* The bounds of all notes, by which kernels name them in their linker scripts. */
extern WEAK const unsigned char __start_notes[];
extern WEAK const unsigned char __stop_notes[];

/* The ELF header, if it is loaded with the image. */
extern WEAK const unsigned char __ehdr_start[];

/* True if the linker found what is weak. In images that can be anywhere, gold takes what is missing
 * for something at the address 0 of the image, where its header is. */
static bool is_there(const void *object)
{
    return object != NULL && object != __ehdr_start;
}

/* ---- the format (LLVM's InstrProfData.inc) ---- */

#define VERSION_MIN           7
#define VERSION_RELATIVE      8 /* distances in place of addresses, and padding after binary IDs */
#define VERSION_BITMAP        9
#define VERSION_VTABLES       10
#define VERSION_UNIFORM       11 /* counters of their own for a GPU's code, of which a CPU's has none */
#define VERSION_MAX           11

#define VARIANT_DEBUG_INFO    (UINT64_C(1) << 59)
#define VARIANT_BYTE_COVERAGE (UINT64_C(1) << 60)
#define VARIANT_TEMPORAL      (UINT64_C(1) << 63)

/* "\xfflprofr\x81" as a number, with a capital R where addresses have 32 bits. */
#define MAGIC (UINT64_C(0xff6c70726f660081) | (sizeof(void *) == 8 ? 'r' : 'R') << 8)

struct vtable_record {
    uint64_t hash;
    uintptr_t address;
    uint32_t size;
};

enum range { DATA, COUNTERS, BITMAP, NAMES, VTABLES, VTABLE_NAMES, RANGES };

static size_t align_to_word(size_t size)
{
    return (size + (WORD - 1)) & ~(WORD - 1);
}

/* Data records: NameRef, FuncHash, pointers, NumCounters, NumValueSites, NumBitmapBytes. */
struct record_layout {
    size_t sites;      /* where NumValueSites is */
    size_t sites_size; /* its bytes, with OffloadDeviceWaveSize behind it */
    size_t fields_size;
    size_t size;
};

static void find_layout(unsigned version, struct record_layout *layout)
{
    size_t pointers = version >= VERSION_UNIFORM ? 5 : version >= VERSION_BITMAP ? 4 : 3;

    layout->sites = 2 * WORD + pointers * sizeof(void *) + sizeof(uint32_t);
    layout->sites_size = version >= VERSION_UNIFORM ? 8 : version >= VERSION_VTABLES ? 6 : 4;
    layout->fields_size = layout->sites + layout->sites_size;
    if (version >= VERSION_BITMAP)
        layout->fields_size = ((layout->fields_size + 3) & ~(size_t)3) + sizeof(uint32_t);
    layout->size = align_to_word(layout->fields_size);
}

/* ---- reading ---- */

/* The most times that the halves of a counter are read until they fit each other. */
#define TRIES 16

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HIGH_HALF 0
#else
#define HIGH_HALF 1
#endif

static bool is_aligned(const void *at)
{
    return (uintptr_t)at % sizeof(uintptr_t) == 0;
}

/* Reads 8 aligned bytes, which the image may be changing. */
static uint64_t load_aligned(const unsigned char *at)
{
#if UINTPTR_MAX > UINT32_MAX
    return *(const volatile uint64_t *)(const void *)at;
#else
    const volatile uint32_t *halves = (const volatile uint32_t *)(const void *)at;
    uint32_t high = halves[HIGH_HALF], low, before;
    unsigned tries = TRIES;

    do {
        before = high;
        low = halves[1 - HIGH_HALF];
        high = halves[HIGH_HALF];
    } while (high != before && --tries != 0);
    return (uint64_t)high << 32 | low;
#endif
}

/* Reads up to 8 bytes, each once, in the order of memory; zeros take the place of missing ones. */
static uint64_t load_word(const unsigned char *at, size_t size)
{
    union {
        unsigned char bytes[WORD];
        uint64_t word;
    } loaded = {.word = 0};

    if (size == WORD && is_aligned(at))
        return load_aligned(at);
    for (size_t i = 0; i < size; i++)
        loaded.bytes[i] = *(const volatile unsigned char *)(at + i);
    return loaded.word;
}

/* ---- binary IDs ---- */

#define SEGMENT_LOAD  1
#define SEGMENT_NOTE  4
#define NOTE_BUILD_ID 3
#define NOTE_NAME     "GNU" /* with the byte behind it */

struct elf_header {
    unsigned char e_ident[16];
    uint16_t e_type;
    uint16_t e_machine;
    uint32_t e_version;
    uintptr_t e_entry;
    uintptr_t e_phoff;
    uintptr_t e_shoff;
    uint32_t e_flags;
    uint16_t e_ehsize;
    uint16_t e_phentsize;
    uint16_t e_phnum;
};

struct elf_segment {
    uint32_t p_type;
#if UINTPTR_MAX > UINT32_MAX
    uint32_t p_flags;
#endif
    uintptr_t p_offset;
    uintptr_t p_vaddr;
    uintptr_t p_paddr;
    uintptr_t p_filesz;
    uintptr_t p_memsz;
#if UINTPTR_MAX <= UINT32_MAX
    uint32_t p_flags;
#endif
    uintptr_t p_align;
};

struct elf_note {
    uint32_t n_namesz;
    uint32_t n_descsz;
    uint32_t n_type;
    unsigned char name[sizeof(NOTE_NAME)];
};

/* Prepares to go through the notes: those that a linker script names or, if it names none, those of
 * the segments. Linkers may define the address of the ELF header even if it is not loaded: then
 * there is something else, or nothing at address 0. */
static void start_notes(struct covsplit_device *device)
{
    const struct elf_header *header = (const struct elf_header *)(const void *)__ehdr_start;
    const struct elf_segment *segments;

    if ((uintptr_t)__start_notes < (uintptr_t)__stop_notes) {
        device->ids.notes = __start_notes;
        device->ids.size = (size_t)(__stop_notes - __start_notes);
        return;
    }
    if (header == NULL || header->e_ident[0] != 0x7f || header->e_ident[1] != 'E' ||
        header->e_ident[2] != 'L' || header->e_ident[3] != 'F')
        return;
    segments = (const struct elf_segment *)(const void *)(__ehdr_start + header->e_phoff);
    device->ids.segment = segments;
    device->ids.segments = header->e_phnum;
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == SEGMENT_LOAD && segments[i].p_offset == 0)
            device->ids.base = (uintptr_t)segments - header->e_phoff - segments[i].p_vaddr;
    }
}

/* Goes on to the notes of the next segment that has some. */
static bool next_notes(struct covsplit_device *device)
{
    while (device->ids.segments != 0) {
        const struct elf_segment *segment = device->ids.segment;

        device->ids.segment = segment + 1;
        device->ids.segments--;
        if (segment->p_type == SEGMENT_NOTE) {
            device->ids.notes = (const unsigned char *)(device->ids.base + segment->p_vaddr);
            device->ids.size = segment->p_memsz;
            return true;
        }
    }
    return false;
}

static size_t align_note(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

/* Makes the next build ID the current range. False if there is none left. */
static bool next_id(struct covsplit_device *device)
{
    do {
        while (device->ids.size >= sizeof(struct elf_note)) {
            const struct elf_note *note = (const struct elf_note *)(const void *)device->ids.notes;
            size_t start = offsetof(struct elf_note, name) + align_note(note->n_namesz);
            size_t size = note->n_descsz, end = start + align_note(size);
            bool is_id = note->n_type == NOTE_BUILD_ID && note->n_namesz == sizeof(NOTE_NAME);

            if (start > device->ids.size || size > device->ids.size - start)
                break;
            for (size_t i = 0; i < sizeof(NOTE_NAME) && is_id; i++)
                is_id = note->name[i] == (unsigned char)NOTE_NAME[i];
            device->at = device->ids.notes + start;
            device->left = is_id ? size : 0;
            device->ids.notes += end;
            device->ids.size -= end < device->ids.size ? end : device->ids.size;
            if (device->left != 0)
                return true;
        }
    } while (next_notes(device));
    return false;
}

/* ---- the stream ---- */

static unsigned version_of(uint64_t raw_version)
{
    return (unsigned)(raw_version & UINT32_MAX);
}

/* Goes on to the next section that is not empty. */
static bool next_range(struct covsplit_device *device)
{
    while (device->range != RANGES) {
        device->at = device->ranges[device->range].at;
        device->left = device->ranges[device->range].size;
        device->range++;
        if (device->left != 0)
            return true;
    }
    return false;
}

/* True if the part that is being read is padded to whole words in the profile. */
static bool is_padded(const struct covsplit_device *device)
{
    unsigned version = version_of(device->header[1]);

    if (device->range == 0) /* binary IDs */
        return version >= VERSION_RELATIVE;
    return version >= VERSION_BITMAP || device->range != COUNTERS + 1;
}

/* Reads the next bytes, 8 if there are as many; others are zero. Returns how many of them belong to
 * the profile; 0 at the end. */
static size_t next_word(struct covsplit_device *device, uint64_t *word)
{
    size_t size;

    if (device->word < device->words) {
        *word = device->header[device->word++];
        return WORD;
    }
    if (device->left == 0) {
        if (next_id(device)) {
            *word = device->left;
            return WORD;
        }
        if (!next_range(device))
            return 0;
    }
    size = device->left < WORD ? device->left : WORD;
    *word = load_word(device->at, size);
    device->at += size;
    device->left -= size;
    return is_padded(device) ? WORD : size;
}

/* ---- the sparse form ---- */

static const unsigned char signature[WORD] = {
    0xff, 'c', 's', 'p', 'a', 'r', 1, HIGH_HALF == 0 ? 'b' : 'l',
};

static void stage_byte(struct covsplit_device *device, unsigned char byte)
{
    device->staged[device->staged_size++] = byte;
}

/* As ULEB128: 7 bits a byte, the lowest first, and the highest bit set in all but the last. */
static void stage_number(struct covsplit_device *device, uint64_t number)
{
    while (number >= 0x80) {
        stage_byte(device, (unsigned char)(number | 0x80));
        number >>= 7;
    }
    stage_byte(device, (unsigned char)number);
}

/* Reads 8 bytes of the profile, wherever its parts end. False at the end. */
static bool next_whole_word(struct covsplit_device *device, uint64_t *word)
{
    uint64_t parts[2] = {device->rest, 0};
    size_t read = device->rest_size, size;

    while (read < WORD && (size = next_word(device, word)) != 0) {
        memcpy((unsigned char *)parts + read, word, WORD);
        read += size;
    }
    *word = parts[0];
    device->rest = parts[1];
    device->rest_size = (unsigned char)(read > WORD ? read - WORD : 0);
    return read != 0;
}

static void stage_sparse(struct covsplit_device *device)
{
    uint64_t word, zeros = 0;
    bool is_there;

    while ((is_there = next_whole_word(device, &word)) && word == 0)
        zeros++;
    if (zeros != 0) {
        stage_byte(device, 0);
        stage_number(device, zeros);
    }
    if (is_there)
        stage_number(device, word);
}

static void stage_plain(struct covsplit_device *device)
{
    uint64_t word;
    size_t size = next_word(device, &word);

    memcpy(device->staged, &word, WORD);
    device->staged_size = (unsigned char)size;
}

size_t covsplit_device_fill(struct covsplit_device *device, void *buffer, size_t size)
{
    size_t filled = 0;

    while (filled < size) {
        size_t piece = (size_t)(device->staged_size - device->staged_at);

        if (piece == 0) {
            device->staged_at = 0;
            device->staged_size = 0;
            if ((device->flags & COVSPLIT_DEVICE_SPARSE) != 0)
                stage_sparse(device);
            else
                stage_plain(device);
            if (device->staged_size == 0)
                break;
            continue;
        }
        if (piece > size - filled)
            piece = size - filled;
        memcpy((unsigned char *)buffer + filled, device->staged + device->staged_at, piece);
        device->staged_at = (unsigned char)(device->staged_at + piece);
        filled += piece;
    }
    return filled;
}

/* ---- the start ---- */

static bool set_range(struct covsplit_device *device, enum range range, const void *begin,
                      const void *end)
{
    if ((uintptr_t)begin > (uintptr_t)end)
        return false;
    device->ranges[range].at = begin;
    device->ranges[range].size = (uintptr_t)end - (uintptr_t)begin;
    return true;
}

/* Calls an accessor, if the runtime has it. No instruction calls it directly: linkers turn calls of
 * functions that are missing into code that seems to refer to anything. */
static const void *call_weak(const void *(*volatile accessor)(void))
{
    const void *(*found)(void) = accessor;

    return is_there((const void *)(uintptr_t)found) ? found() : NULL;
}

/* Asks the runtime for the bounds. False if they make no sense. */
COVSPLIT_DEVICE_FUNCTION bool covsplit_device_find_ranges(struct covsplit_device *device);
bool covsplit_device_find_ranges(struct covsplit_device *device)
{
    return set_range(device, DATA, __llvm_profile_begin_data(), __llvm_profile_end_data()) &&
           set_range(device, COUNTERS, __llvm_profile_begin_counters(),
                     __llvm_profile_end_counters()) &&
           set_range(device, NAMES, __llvm_profile_begin_names(), __llvm_profile_end_names()) &&
           set_range(device, BITMAP, call_weak(__llvm_profile_begin_bitmap),
                     call_weak(__llvm_profile_end_bitmap)) &&
           set_range(device, VTABLES, call_weak(__llvm_profile_begin_vtables),
                     call_weak(__llvm_profile_end_vtables)) &&
           set_range(device, VTABLE_NAMES, call_weak(__llvm_profile_begin_vtabnames),
                     call_weak(__llvm_profile_end_vtabnames));
}

/* Counts the records, without a division, and makes the size of data whole: on i386 the padding of
 * the last record may be missing, and so is copied from what follows, as compiler-rt does. */
static int check_records(struct covsplit_device *device, unsigned version, uint64_t *records)
{
    const unsigned char *at = device->ranges[DATA].at;
    size_t left = device->ranges[DATA].size;
    struct record_layout layout;

    find_layout(version, &layout);
    device->ranges[DATA].size = 0;
    *records = 0;
    while (left != 0) {
        if (left < layout.fields_size)
            return COVSPLIT_DEVICE_BOUNDS;
        for (size_t i = 0; i < layout.sites_size; i++) {
            if (at[layout.sites + i] != 0)
                return COVSPLIT_DEVICE_VALUES;
        }
        at += layout.size;
        left -= layout.size < left ? layout.size : left;
        device->ranges[DATA].size += layout.size;
        (*records)++;
    }
    return COVSPLIT_DEVICE_OK;
}

/* The number of bytes that the binary IDs take in the profile. */
static size_t measure_ids(struct covsplit_device *device, unsigned version)
{
    size_t size = 0;

    start_notes(device);
    while (next_id(device))
        size += WORD + (version >= VERSION_RELATIVE ? align_to_word(device->left) : device->left);
    start_notes(device);
    device->left = 0;
    return size;
}

static void put_word(struct covsplit_device *device, uint64_t word)
{
    device->header[device->words++] = word;
}

static void put_padding(struct covsplit_device *device, size_t size)
{
    put_word(device, align_to_word(size) - size);
}

/* The place of a section: its distance from the records or, in version 7, its address. */
static uintptr_t delta_of(const struct covsplit_device *device, enum range range, unsigned version)
{
    uintptr_t data = version >= VERSION_RELATIVE ? (uintptr_t)device->ranges[DATA].at : 0;

    return (uintptr_t)device->ranges[range].at - data;
}

static void make_header(struct covsplit_device *device, unsigned version, uint64_t records)
{
    size_t counters = device->ranges[COUNTERS].size, bitmap = device->ranges[BITMAP].size;
    bool has_bytes = (__llvm_profile_raw_version & VARIANT_BYTE_COVERAGE) != 0;
    put_word(device, MAGIC);
    put_word(device, __llvm_profile_raw_version);
    put_word(device, measure_ids(device, version));
    put_word(device, records);
    put_word(device, 0); /* padding before the counters */
    put_word(device, has_bytes ? counters : counters / WORD);
    put_padding(device, version >= VERSION_BITMAP ? counters : 0);
    if (version >= VERSION_BITMAP) {
        put_word(device, bitmap);
        put_padding(device, bitmap);
    }
    if (version >= VERSION_UNIFORM) {
        put_word(device, 0); /* uniform counters */
        put_word(device, 0); /* padding after them */
        put_word(device, 0); /* where they are */
    }
    put_word(device, device->ranges[NAMES].size);
    put_word(device, delta_of(device, COUNTERS, version));
    if (version >= VERSION_BITMAP)
        put_word(device, delta_of(device, BITMAP, version));
    put_word(device, (uintptr_t)device->ranges[NAMES].at);
    if (version >= VERSION_VTABLES) {
        put_word(device, device->ranges[VTABLES].size / sizeof(struct vtable_record));
        put_word(device, device->ranges[VTABLE_NAMES].size);
    }
    put_word(device, version >= VERSION_VTABLES ? 2 : 1); /* the last value kind */
}

/* Fills in a struct that is all zeros. */
static int prepare(struct covsplit_device *device, unsigned flags)
{
    const uint64_t raw_version = __llvm_profile_raw_version;
    unsigned version = version_of(raw_version);
    uint64_t records;
    int error;

    if ((flags & ~COVSPLIT_DEVICE_SPARSE) != 0)
        return COVSPLIT_DEVICE_FLAGS;
    if (version < VERSION_MIN || version > VERSION_MAX)
        return COVSPLIT_DEVICE_VERSION;
    if ((raw_version & (VARIANT_DEBUG_INFO | VARIANT_TEMPORAL)) != 0)
        return COVSPLIT_DEVICE_VARIANT;
    if (is_there(&__llvm_profile_counter_bias) && __llvm_profile_counter_bias != 0)
        return COVSPLIT_DEVICE_RELOCATED;
    if (!covsplit_device_find_ranges(device))
        return COVSPLIT_DEVICE_BOUNDS;
    if (device->ranges[COUNTERS].size == 0)
        return COVSPLIT_DEVICE_EMPTY;
    if ((raw_version & VARIANT_BYTE_COVERAGE) == 0 &&
        (!is_aligned(device->ranges[COUNTERS].at) || device->ranges[COUNTERS].size % WORD != 0))
        return COVSPLIT_DEVICE_BOUNDS;
    error = check_records(device, version, &records);
    /* Since version 9 records may be in a section that is not loaded (-profile-correlate=binary).
     */
    if (error == COVSPLIT_DEVICE_OK && records == 0 && version < VERSION_BITMAP)
        error = COVSPLIT_DEVICE_BOUNDS;
    if (error != COVSPLIT_DEVICE_OK)
        return error;
    make_header(device, version, records);
    if ((flags & COVSPLIT_DEVICE_SPARSE) != 0) {
        memcpy(device->staged, signature, WORD);
        device->staged_size = WORD;
        device->flags = COVSPLIT_DEVICE_SPARSE;
    }
    return COVSPLIT_DEVICE_OK;
}

int covsplit_device_start(struct covsplit_device *device, unsigned flags)
{
    int error;

    memset(device, 0, sizeof(*device));
    error = prepare(device, flags);
    if (error != COVSPLIT_DEVICE_OK)
        memset(device, 0, sizeof(*device));
    return error;
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
