/*
 * A stand-in for compiler-rt's profile runtime where there is none: on bare metal, in
 * kernels, in programs without a C library. Do not link it where compiler-rt's runtime is linked.
 *
 * Clang's instrumented code increments counters by itself. It needs a runtime for three things:
 *
 *   - The linker must find a symbol, __llvm_profile_runtime. (On Linux, Clang links with
 *     -u __llvm_profile_runtime; for other targets each object refers to it.)
 *   - The bounds of the profile's sections. ELF linkers define __start_NAME and __stop_NAME for a
 *     section NAME, if the linker script leaves it an output section of that name; otherwise the
 *     script must define these symbols itself.
 *   - The version of the raw profile format, which depends on the compiler.
 *
 * The functions of the bounds, the accessors, have the names that they have in compiler-rt.
 * `covsplit split` recognizes their code as compilers generate it at any level of optimization, but
 * they must remain functions: so they are never inlined, and need to be compiled without LTO.
 *
 * Compile this file with the Clang that compiles what is instrumented, or give the number of the
 * version: -DCOVSPLIT_DEVICE_RAW_VERSION=10. With 0, or by another compiler without that, it leaves
 * __llvm_profile_raw_version to be defined elsewhere. So does the installed archive, which cannot
 * know the compiler that it will be used with.
 *
 * For what it does not do, such as value profiling (__llvm_profile_instrument_target) and temporal
 * profiles (__llvm_profile_set_timestamp), there is no function here, so that the link fails.
 */
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((no_profile_instrument_function)), apply_to = function)
#endif

void *memset(void *to, int value, size_t size);

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN extern int __llvm_profile_runtime;
int __llvm_profile_runtime;

/* ---- the version ---- */

#if !defined(COVSPLIT_DEVICE_RAW_VERSION) && defined(__clang_major__)
#if __clang_major__ >= 23
#define COVSPLIT_DEVICE_RAW_VERSION 11
#elif __clang_major__ >= 19
#define COVSPLIT_DEVICE_RAW_VERSION 10
#elif __clang_major__ >= 18
#define COVSPLIT_DEVICE_RAW_VERSION 9
#elif __clang_major__ >= 14
#define COVSPLIT_DEVICE_RAW_VERSION 8
#elif __clang_major__ >= 13
#define COVSPLIT_DEVICE_RAW_VERSION 7
#else
#error "covsplit knows the raw profiles of Clang 13 and later"
#endif
#endif

extern const uint64_t __llvm_profile_raw_version;

/* Objects that are instrumented for IR PGO bring their own, with variant bits. */
#if defined(COVSPLIT_DEVICE_RAW_VERSION) && COVSPLIT_DEVICE_RAW_VERSION != 0
__attribute__((weak)) const uint64_t __llvm_profile_raw_version = COVSPLIT_DEVICE_RAW_VERSION;
#endif

#define VARIANT_BYTE_COVERAGE (UINT64_C(1) << 60)

/* ---- the bounds ---- */

/* Both are null if the image has no such section. */
#define DEFINE_BOUNDS(name, section)                                                               \
    extern HIDDEN __attribute__((weak)) char __start_##section[], __stop_##section[];              \
    HIDDEN void *__llvm_profile_begin_##name(void);                                                \
    HIDDEN void *__llvm_profile_end_##name(void);                                                  \
    __attribute__((noinline)) void *__llvm_profile_begin_##name(void)                              \
    {                                                                                              \
        return __start_##section;                                                                  \
    }                                                                                              \
    __attribute__((noinline)) void *__llvm_profile_end_##name(void)                                \
    {                                                                                              \
        return __stop_##section;                                                                   \
    }

DEFINE_BOUNDS(data, __llvm_prf_data)
DEFINE_BOUNDS(names, __llvm_prf_names)
DEFINE_BOUNDS(counters, __llvm_prf_cnts)
DEFINE_BOUNDS(bitmap, __llvm_prf_bits)

/* ---- functions ---- */

/* Clang up to 18 calls these when the program starts, if the target is neither Linux nor another
 * system that it knows to have ELF linkers. The bounds tell all that they would. */
HIDDEN void __llvm_profile_register_function(void *record);
HIDDEN void __llvm_profile_register_names_function(void *names, uint64_t size);

void __llvm_profile_register_function(void *record)
{
    (void)record;
}

void __llvm_profile_register_names_function(void *names, uint64_t size)
{
    (void)names;
    (void)size;
}

/* Calls an accessor. If compilers knew which, they would put what it returns in place of the call,
 * which is then another reference to a bound, and where two sections touch, to the records. */
static void *call(void *(*volatile accessor)(void))
{
    return accessor();
}

static void fill(void *begin, void *end, int value)
{
    memset(begin, value, (size_t)((uintptr_t)end - (uintptr_t)begin));
}

/* Sets all counters to zero; those of one byte to what says that code has not run. */
HIDDEN void __llvm_profile_reset_counters(void);
void __llvm_profile_reset_counters(void)
{
    fill(call(__llvm_profile_begin_counters), call(__llvm_profile_end_counters),
         (__llvm_profile_raw_version & VARIANT_BYTE_COVERAGE) != 0 ? 0xff : 0);
    fill(call(__llvm_profile_begin_bitmap), call(__llvm_profile_end_bitmap), 0);
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
