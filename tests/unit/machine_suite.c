/*
 * The suite of a machine: see machine_suite.h.
 */
#include "tests/unit/machine_suite.h"

#include <string.h>

#include "tests/support/suite.h"

static const struct machine_suite *suite;

static struct code code_of(const struct machine_body *body)
{
    return (struct code){.machine = body->machine,
                         .bytes = {(const uint8_t *)body->code, body->size},
                         .address = MACHINE_ADDRESS,
                         .base = MACHINE_BASE,
                         .is_thumb = body->is_thumb};
}

START_TEST(test_known_body)
{
    const struct machine_body *body = &suite->known[_i];
    struct code code = code_of(body);
    struct accessor accessor;

    ck_assert_msg(body->machine->decode_accessor(&code, &accessor), "%s", body->what);
    ck_assert_msg(accessor.value == body->value, "%s: 0x%llx", body->what,
                  (unsigned long long)accessor.value);
    ck_assert_int_eq(accessor.form, body->form);
    ck_assert_uint_eq(accessor.size, body->size);
    ck_assert_uint_le(accessor.patch_size, ACCESSOR_PATCH_MAX);
    ck_assert_uint_le(accessor.patch_offset + accessor.patch_size, accessor.size);
}
END_TEST

/* A body that is cut short anywhere is not one. */
START_TEST(test_cut_short)
{
    const struct machine_body *body = &suite->known[_i];
    struct code code = code_of(body);
    struct accessor accessor;

    for (code.bytes.size = 0; code.bytes.size < body->size; code.bytes.size++)
        ck_assert_msg(!body->machine->decode_accessor(&code, &accessor), "%s, %zu bytes",
                      body->what, (size_t)code.bytes.size);
}
END_TEST

/* What is written decodes to the new value, and needs no slot any more. */
START_TEST(test_rewrite)
{
    const struct machine_body *body = &suite->known[_i];
    struct code code = code_of(body);
    uint64_t value = suite->new_value != 0 ? suite->new_value : MACHINE_ADDRESS + 0x54320;
    uint8_t patch[ACCESSOR_PATCH_MAX], changed[256];
    struct accessor accessor, again;

    ck_assert(body->machine->decode_accessor(&code, &accessor));
    ck_assert_msg(body->machine->encode_accessor(&code, &accessor, value, patch), "%s", body->what);
    ck_assert_uint_le(body->size, sizeof(changed));
    memcpy(changed, code.bytes.data, body->size);
    memcpy(changed + accessor.patch_offset, patch, accessor.patch_size);
    code.bytes.data = changed;
    ck_assert_msg(body->machine->decode_accessor(&code, &again), "%s", body->what);
    ck_assert_msg(again.value == value, "%s: 0x%llx", body->what, (unsigned long long)again.value);
    ck_assert_int_ne(again.form, ACCESSOR_LOAD);
}
END_TEST

/* With any one bit changed, a body is no body, or one of its own value: what is written over it
 * decodes to the new value still. */
START_TEST(test_changed_bit)
{
    const struct machine_body *body = &suite->known[_i];
    struct code code = code_of(body);
    uint64_t value = suite->new_value != 0 ? suite->new_value : MACHINE_ADDRESS + 0x54320;
    uint8_t patch[ACCESSOR_PATCH_MAX], changed[256];
    struct accessor accessor, again;

    ck_assert_uint_le(body->size, sizeof(changed));
    code.bytes.data = changed;
    for (size_t bit = 0; bit < 8 * body->size; bit++) {
        memcpy(changed, body->code, body->size);
        changed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (!body->machine->decode_accessor(&code, &accessor) ||
            !body->machine->encode_accessor(&code, &accessor, value, patch))
            continue;
        ck_assert_uint_le(accessor.patch_size, ACCESSOR_PATCH_MAX);
        ck_assert_uint_le(accessor.patch_offset + accessor.patch_size, accessor.size);
        ck_assert_uint_le(accessor.size, body->size);
        memcpy(changed + accessor.patch_offset, patch, accessor.patch_size);
        ck_assert_msg(body->machine->decode_accessor(&code, &again) && again.value == value &&
                          again.form != ACCESSOR_LOAD,
                      "%s, bit %zu", body->what, bit);
    }
}
END_TEST

/* An address that does not fit is refused, not cut: what is written at all decodes to it. */
START_TEST(test_out_of_reach)
{
    const struct machine_body *body = &suite->known[_i];
    unsigned bits = body->machine->address_size == 4 ? 31 : 63;
    struct code code = code_of(body);
    uint8_t patch[ACCESSOR_PATCH_MAX], changed[256];
    struct accessor accessor, again;

    ck_assert(body->machine->decode_accessor(&code, &accessor));
    ck_assert_uint_le(body->size, sizeof(changed));
    for (unsigned bit = 4; bit <= bits; bit++) {
        for (uint64_t near = 0; near <= 8; near += 4) {
            uint64_t value = (UINT64_C(1) << bit) - near;

            if (!body->machine->encode_accessor(&code, &accessor, value, patch))
                continue;
            memcpy(changed, body->code, body->size);
            memcpy(changed + accessor.patch_offset, patch, accessor.patch_size);
            ck_assert(body->machine->decode_accessor(&(struct code){.machine = body->machine,
                                                                    .bytes = {changed, body->size},
                                                                    .address = code.address,
                                                                    .base = code.base,
                                                                    .is_thumb = code.is_thumb},
                                                     &again));
            ck_assert_msg(again.value == value, "%s: 0x%llx, not 0x%llx", body->what,
                          (unsigned long long)again.value, (unsigned long long)value);
        }
    }
}
END_TEST

/* A body is found from a byte of its patch, with the bytes in front that belong to it. */
START_TEST(test_around)
{
    enum { FRONT = 20, BEFORE_MAX = 16 };
    const struct machine_body *body = &suite->known[_i];
    struct code code = code_of(body);
    struct accessor accessor, around;
    uint8_t bytes[256];
    uint64_t start;

    ck_assert(body->machine->decode_accessor(&code, &accessor));
    ck_assert_uint_le(body->size + 2 * FRONT, sizeof(bytes));
    memset(bytes, 0x90, sizeof(bytes));
    memcpy(bytes + FRONT, body->code, body->size);
    code.bytes = (struct bytes){bytes, body->size + 2 * FRONT};
    code.address -= FRONT;
    if (accessor.patch_offset > BEFORE_MAX)
        return; /* more bytes in front than are looked at */
    ck_assert_msg(
        code_decode_around(body->machine, &code, FRONT + accessor.patch_offset, &start, &around),
        "%s", body->what);
    ck_assert_uint_eq(start, FRONT);
    ck_assert_uint_eq(around.value, accessor.value);
    if (accessor.patch_offset + accessor.patch_size < body->size)
        ck_assert(
            !code_decode_around(body->machine, &code, FRONT + body->size - 1, &start, &around));
}
END_TEST

START_TEST(test_unknown_body)
{
    const struct machine_body *body = &suite->unknown[_i];
    struct code code = code_of(body);
    struct accessor accessor;

    ck_assert_msg(!body->machine->decode_accessor(&code, &accessor), "%s", body->what);
}
END_TEST

static uint64_t place_of(const struct machine_reference *reference)
{
    size_t index = (size_t)(reference - suite->late_references);

    return suite->late_references != NULL && index < suite->late_reference_count
               ? MACHINE_LATE_ADDRESS
               : MACHINE_ADDRESS;
}

static bool finds(const struct machine_reference *reference, struct reference_target target)
{
    struct code code = {.machine = reference->machine,
                        .bytes = {(const uint8_t *)reference->code, reference->size},
                        .address = place_of(reference),
                        .base = MACHINE_BASE};
    uint64_t position = 0;
    uint8_t got[8 * 8] = {0};

    if (reference->machine->got_size_max != 0) {
        store_u64(got + 16, MACHINE_GOT_PAGE, reference->machine->big_endian);
        store_u64(got + 24, MACHINE_GOT_ADDRESS, reference->machine->big_endian);
        code.got = MACHINE_GOT;
        code.got_bytes = (struct bytes){got, sizeof(got)};
    }
    return reference->machine->find_reference(&code, &target, &position);
}

/* True if an instruction refers to the target, if the code is decoded from its start. */
static bool judges(const struct machine_reference *reference, struct reference_target target)
{
    struct code code = {.machine = reference->machine,
                        .bytes = {(const uint8_t *)reference->code, reference->size},
                        .address = place_of(reference),
                        .base = MACHINE_BASE};
    bool refers = false;
    uint64_t size;

    for (uint64_t at = 0; at < reference->size && !refers; at += size) {
        size = reference->machine->judge_instruction(&code, at, &target, &refers);
        ck_assert_msg(size != 0 && size <= reference->size - at, "%s", reference->what);
    }
    return refers;
}

/* It is found as what it is, and leads nowhere else. */
static void check_reference(const struct machine_reference *reference)
{
    struct reference_target target = {.first = reference->target,
                                      .size = 1,
                                      .absolute = reference->absolute,
                                      .called = reference->called};
    struct reference_target other = target;

    bool is_judged = reference->machine->judge_instruction != NULL;

    ck_assert_msg(finds(reference, target), "%s", reference->what);
    ck_assert_msg(!is_judged || judges(reference, target), "%s, judged", reference->what);
    other.first = target.first + 1;
    ck_assert_msg(!finds(reference, other), "%s, one further", reference->what);
    ck_assert_msg(!is_judged || !judges(reference, other), "%s, judged one further",
                  reference->what);
    other.first = target.first - 64;
    other.size = 64;
    ck_assert_msg(!finds(reference, other), "%s, in front of it", reference->what);
    other.size = 65;
    ck_assert_msg(finds(reference, other), "%s, in a range", reference->what);
    other.absolute = false;
    ck_assert_msg(!reference->absolute || !finds(reference, other), "%s, not absolute",
                  reference->what);
    other = target;
    other.called = false;
    ck_assert_msg(!reference->called || !finds(reference, other), "%s, not called",
                  reference->what);
}

START_TEST(test_reference)
{
    check_reference(&suite->references[_i]);
}
END_TEST

START_TEST(test_late_reference)
{
    check_reference(&suite->late_references[_i]);
}
END_TEST

int machine_suite_main(const struct machine_suite *given)
{
    TCase *bodies = suite_case("bodies", 60, NULL);
    TCase *references = suite_case("references", 60, NULL);

    suite = given;
    suite_loops(bodies, (int)suite->known_count, test_known_body, test_cut_short, test_rewrite,
                test_changed_bit, test_out_of_reach, test_around);
    suite_loops(bodies, (int)suite->unknown_count, test_unknown_body);
    suite_loops(references, (int)suite->reference_count, test_reference);
    suite_loops(references, (int)suite->late_reference_count, test_late_reference);
    return suite_main(suite->name, bodies, references);
}
