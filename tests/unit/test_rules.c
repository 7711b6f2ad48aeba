/*
 * The rules for the runtime's functions, on a machine of the test's own: each instruction has eight
 * bytes, of which the last says what it does with the address in the first six.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/runtime/runtime.h"
#include "tests/support/suite.h"

#define CODE  UINT64_C(0x1000)
#define WORDS 32
#define START UINT64_C(0x10000) /* of the section */
#define SIZE  UINT64_C(0x100)
#define END   (START + SIZE)
#define FAR   (UINT64_C(1) << 40) /* no code can form it anew */

enum { USE = 1, RETURN, RETURN_IMMEDIATE, RETURN_SLOT };

/* ---- the machine ---- */

static uint64_t word_at(const struct code *code, uint64_t offset)
{
    return load_u64(code->bytes.data + offset, false);
}

static uint64_t address_in(uint64_t word)
{
    return word & ((UINT64_C(1) << 48) - 1);
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    static const enum accessor_form forms[] = {
        [RETURN] = ACCESSOR_PC_RELATIVE,
        [RETURN_IMMEDIATE] = ACCESSOR_IMMEDIATE,
        [RETURN_SLOT] = ACCESSOR_LOAD,
    };
    uint64_t word = code->bytes.size < 8 ? 0 : word_at(code, 0);

    if (word >> 56 < RETURN || word >> 56 > RETURN_SLOT)
        return false;
    *accessor = (struct accessor){
        .form = forms[word >> 56], .value = address_in(word), .size = 8, .patch_size = 6};
    return true;
}

static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    uint8_t word[8];

    (void)code;
    (void)accessor;
    store_u64(word, value, false);
    memcpy(patch, word, 6);
    return value < FAR;
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    for (*position = align_up(*position, 8); *position + 8 <= code->bytes.size; *position += 8) {
        uint64_t word = word_at(code, *position);

        if (word >> 56 != 0 && reference_counts(target, address_in(word)))
            return true;
    }
    return false;
}

/* ---- the image ---- */

static struct {
    uint8_t file[WORDS * 8];
    struct machine machine;
    struct code_operations operations;
    struct input input;
    struct image_plan *plan;
    struct image_code code;
    uint64_t pointer; /* 0: there is none */
    const char *unknown_pointers;
    uint64_t slot; /* what all slots hold; 0: it is not known */
    uint64_t other_start;
    uint64_t other_end_from;
} image;

static bool code_of(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code)
{
    uint64_t offset = definition->address - CODE;

    (void)planning;
    code->address = definition->address;
    return bytes_slice(image.input.bytes, offset, image.input.bytes.size - offset, &code->bytes);
}

static bool part_at(const struct planning *planning, size_t index, struct image_part *part)
{
    (void)planning;
    *part = (struct image_part){.kind = PART_CODE,
                                .code = {.bytes = image.input.bytes, .address = CODE}};
    return index == 0;
}

static bool slot_value(const struct planning *planning, uint64_t slot, uint64_t *value)
{
    (void)planning;
    (void)slot;
    *value = image.slot;
    return image.slot != 0;
}

static bool find_pointer(const struct planning *planning, const struct reference_target *target,
                         uint64_t *from, const char **reason)
{
    (void)planning;
    *from = image.pointer;
    *reason = image.unknown_pointers;
    return image.unknown_pointers != NULL ||
           (image.pointer != 0 && reference_counts(target, image.pointer));
}

static bool is_start_of_section(const struct planning *planning, uint64_t address)
{
    (void)planning;
    return address == image.other_start;
}

static bool means_other_end(const struct planning *planning, uint64_t address, uint64_t from)
{
    (void)planning;
    ck_assert_uint_eq(address, START);
    return from == image.other_end_from;
}

static void prepare(void)
{
    memset(&image, 0, sizeof(image));
    image.machine = (struct machine){.name = "test",
                                     .look_ahead = 8,
                                     .decode_accessor = decode,
                                     .encode_accessor = encode,
                                     .find_reference = find_reference};
    image.operations = (struct code_operations){.folding_advice = "link without folding",
                                                .missing_advice = "it is missing",
                                                .code_of = code_of,
                                                .part_at = part_at,
                                                .slot_value = slot_value,
                                                .find_pointer = find_pointer};
}

static void clean_up(void)
{
    image_plan_free(image.plan);
    input_close(&image.input);
}

static void put(unsigned index, unsigned what, uint64_t address)
{
    store_u64(image.file + (size_t)index * 8, (uint64_t)what << 56 | address, false);
}

static void define(enum runtime_symbol symbol, uint64_t address)
{
    ck_assert(runtime_symbols_add(&image.code.symbols, symbol, address, 0));
}

/* Puts the function there, and defines it. */
static void put_function(enum runtime_symbol symbol, unsigned index, unsigned what,
                         uint64_t address)
{
    put(index, what, address);
    define(symbol, CODE + index * UINT64_C(8));
}

/* The code is complete. */
static const struct image_code *finish(void)
{
    struct buffer copy = {0};
    struct error error;

    ck_assert(buffer_append(&copy, image.file, sizeof(image.file)));
    ck_assert(input_from_buffer(&image.input, &copy, "image", &error));
    image.plan = image_plan_new(&image.input, &error);
    ck_assert_ptr_nonnull(image.plan);
    image_plan_add(image.plan, &(struct section){.kind = SECTION_NAMES, .name = "names"});
    image.code.operations = &image.operations;
    image.code.input = &image.input;
    image.code.plan = image.plan;
    image.code.machine = &image.machine;
    image.code.bound_window = 16;
    image.code.symbols.from_symbol_table = true;
    return &image.code;
}

static void assert_reason(const char *reason)
{
    ck_assert_str_eq(image_plan_section(image.plan, SECTION_NAMES)->reason, reason);
}

/* ---- what functions return ---- */

static uint64_t returned(void)
{
    uint64_t value = 0;

    ck_assert(rules_returned(&image.code, SECTION_NAMES, RUNTIME_END_NAMES, &value));
    return value;
}

static void assert_nothing_returned(const char *reason)
{
    uint64_t value;

    ck_assert(!rules_returned(&image.code, SECTION_NAMES, RUNTIME_END_NAMES, &value));
    assert_reason(reason);
}

START_TEST(test_returned)
{
    put_function(RUNTIME_END_NAMES, 0, RETURN, END);
    put_function(RUNTIME_END_NAMES, 1, RETURN_IMMEDIATE, END);
    put_function(RUNTIME_END_NAMES, 2, RETURN_SLOT, 0x5000);
    put_function(RUNTIME_BEGIN_NAMES, 3, RETURN, START);
    image.slot = END;
    finish();
    ck_assert_uint_eq(returned(), END);
    image.slot = END + 1;
    assert_nothing_returned(
        "the image has several definitions of __llvm_profile_end_names that differ");
    image.slot = 0;
    assert_nothing_returned("covsplit cannot tell what __llvm_profile_end_names returns");
    image.operations.slot_value = NULL;
    assert_nothing_returned(
        "covsplit does not know the code of __llvm_profile_end_names; link with "
        "LLVM's own profile runtime, without LTO");
}
END_TEST

/* ---- edits ---- */

/* Each copy is rewritten once, however many symbols it has. */
START_TEST(test_rewrite)
{
    const struct edit_script *edits;

    put_function(RUNTIME_END_NAMES, 0, RETURN, END);
    put_function(RUNTIME_END_NAMES, 4, RETURN_IMMEDIATE, END);
    put_function(RUNTIME_BEGIN_NAMES, 5, RETURN, START);
    define(RUNTIME_END_NAMES, CODE);
    finish();
    edits = &image.plan->edits;
    ck_assert(rules_check_rewrite(&image.code, SECTION_NAMES, RUNTIME_END_NAMES, END - 0x10));
    ck_assert(rules_rewrite(&image.code, RUNTIME_END_NAMES, END - 0x10));
    ck_assert_uint_eq(edits->count, 2);
    ck_assert_uint_eq(edits->edits[0].offset / 8, 0);
    ck_assert_uint_eq(edits->edits[1].offset / 8, 4);
}
END_TEST

START_TEST(test_no_rewrite)
{
    put_function(RUNTIME_END_NAMES, 0, RETURN, END);
    finish();
    ck_assert(!rules_check_rewrite(&image.code, SECTION_NAMES, RUNTIME_END_NAMES, FAR));
    assert_reason("__llvm_profile_end_names cannot be rewritten");
    ck_assert(!rules_rewrite(&image.code, RUNTIME_END_NAMES, FAR));
    ck_assert_uint_eq(image.plan->edits.count, 0);
    image.code.symbols.definitions[0].is_shared = true;
    ck_assert(!rules_can_rewrite(&image.code, RUNTIME_END_NAMES, END));
    ck_assert(!rules_check_rewrite(&image.code, SECTION_NAMES, RUNTIME_END_NAMES, END));
    assert_reason("__llvm_profile_end_names shares its code with another function; link without "
                  "folding");
    ck_assert(!rules_is_shared(&image.code, RUNTIME_BEGIN_NAMES));
}
END_TEST

START_TEST(test_bodies)
{
    struct code body;

    put_function(RUNTIME_END_NAMES, 0, RETURN_SLOT, 0x5000);
    put_function(RUNTIME_BEGIN_NAMES, 2, RETURN, START);
    put_function(RUNTIME_RAW_VERSION, 4, RETURN_SLOT, 0x6000);
    define(RUNTIME_BEGIN_DATA, CODE + 48);
    finish();
    ck_assert(rules_find_body(&image.code, &image.code.symbols.definitions[0], &body));
    ck_assert_uint_eq(body.bytes.size, 8);
    ck_assert(!rules_find_body(&image.code, &image.code.symbols.definitions[3], &body));
    ck_assert(rules_is_inside_accessor(&image.code, CODE + 7));
    ck_assert(!rules_is_inside_accessor(&image.code, CODE + 8));
    ck_assert(rules_is_inside_accessor(&image.code, CODE + 16));
    ck_assert(!rules_is_inside_accessor(&image.code, CODE + 32));
    ck_assert(!rules_is_inside_accessor(&image.code, CODE + 48));
    ck_assert(rules_is_accessor_slot(&image.code, 0x5000));
    ck_assert(!rules_is_accessor_slot(&image.code, START));
    ck_assert(!rules_is_accessor_slot(&image.code, 0x6000));
}
END_TEST

/* ---- references ---- */

/* Whether there is one to the section, of its bounds or of all of it. */
static enum reference_kind find(bool is_bound, bool has_records, uint64_t *from)
{
    const char *reason;

    return rules_find_reference(&image.code, START, SIZE, is_bound, has_records, from, &reason);
}

START_TEST(test_references)
{
    static const struct {
        uint64_t address;
        bool is_found, is_found_as_bound;
    } uses[] = {
        {START, true, true}, {START + 8, true, true},   {END - 1, true, true},
        {END, false, true},  {START - 1, false, false}, {END + 1, false, false},
    };
    uint64_t from;

    put(3, USE, uses[_i].address);
    put_function(RUNTIME_END_NAMES, 5, RETURN, END);
    image.operations.is_start_of_section = is_start_of_section;
    finish();
    ck_assert_int_eq(find(false, false, &from),
                     uses[_i].is_found ? REFERENCE_CODE : REFERENCE_NONE);
    ck_assert_int_eq(find(true, false, &from),
                     uses[_i].is_found_as_bound ? REFERENCE_CODE : REFERENCE_NONE);
    ck_assert(!uses[_i].is_found_as_bound || from == CODE + 24);
    /* Another section starts there, which may be meant. */
    image.other_start = END;
    ck_assert_int_eq(find(true, false, &from), uses[_i].is_found ? REFERENCE_CODE : REFERENCE_NONE);
    image.code.code_has_relocations = true;
    ck_assert_int_eq(find(true, false, &from), REFERENCE_NONE);
}
END_TEST

/* On a machine with many hits by chance, only the bounds are looked at, and fields beside them. */
START_TEST(test_windows)
{
    static const struct {
        uint64_t address;
        bool is_found, is_field;
    } uses[] = {
        {START, true, true},        {START + 4, true, true}, {START + 5, true, false},
        {START + 16, false, false}, {END - 16, true, true},  {END - 2, true, false},
    };
    uint64_t from;

    put(3, USE, uses[_i].address);
    image.machine.has_chance_hits = true;
    finish();
    ck_assert_int_eq(find(false, false, &from),
                     uses[_i].is_found ? REFERENCE_CODE : REFERENCE_NONE);
    ck_assert_int_eq(find(false, true, &from), uses[_i].is_field ? REFERENCE_CODE : REFERENCE_NONE);
    /* Of a small section, all of it. */
    image.code.bound_window = SIZE / 2;
    ck_assert_int_eq(find(false, true, &from), REFERENCE_CODE);
}
END_TEST

/* The first address may mean the end of the section before it; others may not. */
START_TEST(test_other_end)
{
    uint64_t from;

    put(3, USE, START);
    image.operations.means_other_end = means_other_end;
    image.other_end_from = CODE + 24;
    finish();
    ck_assert_int_eq(find(false, false, &from), REFERENCE_NONE);
    image.other_end_from = 0;
    ck_assert_int_eq(find(false, false, &from), REFERENCE_CODE);
    store_u64((uint8_t *)(uintptr_t)image.input.bytes.data + 24, (uint64_t)USE << 56 | (START + 8),
              false);
    image.other_end_from = CODE + 24;
    ck_assert_int_eq(find(false, false, &from), REFERENCE_CODE);
}
END_TEST

/* What is in the range itself does not count: here the range is code. */
START_TEST(test_own_references)
{
    const char *reason;
    uint64_t from;

    put(3, USE, CODE + 16);
    finish();
    ck_assert_int_eq(rules_find_reference(&image.code, CODE, 64, false, false, &from, &reason),
                     REFERENCE_NONE);
    ck_assert_int_eq(rules_find_reference(&image.code, CODE, 24, false, false, &from, &reason),
                     REFERENCE_CODE);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    tcase_add_checked_fixture(all, prepare, clean_up);
    suite_loops(all, 6, test_references, test_windows);
    suite_tests(all, test_returned, test_rewrite, test_no_rewrite, test_bodies, test_other_end,
                test_own_references);
    return suite_main("rules", all);
}
