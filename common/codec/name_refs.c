/*
 * NameRefs by number: see name_refs.h.
 */
#include "common/codec/name_refs.h"

#include "common/base/numbers.h"

/* Stored in sidecars. */
enum code {
    CODE_NEXT = 0,
    CODE_RUN = 1, /* the first of NAME_REF_RUNS codes */
    CODE_NO_NAME = 5,
    CODE_DATA = 6,
    CODE_FAR = 7,
    CODE_NEAR = 8,
};

/* How many differences have a code of their own. Larger ones are too rare for that. */
#define NEAR_COUNT 80

/* ---- both ---- */

/* Leaves the current run and puts it at the front of the list. Removes the run at `index`, or the
 * last one if the list is full. */
static void leave_run(struct name_refs *refs, unsigned index)
{
    if (index == refs->run_count && index < NAME_REF_RUNS)
        refs->run_count++;
    else if (index == NAME_REF_RUNS)
        index--;
    for (; index != 0; index--)
        refs->runs[index] = refs->runs[index - 1];
    refs->runs[0] = refs->next;
}

/* Updates the state for a name with this code and number. */
static void pass(struct name_refs *refs, unsigned code, uint64_t number)
{
    if (code >= CODE_RUN && code < CODE_RUN + NAME_REF_RUNS)
        leave_run(refs, code - CODE_RUN);
    else if (code != CODE_NEXT)
        leave_run(refs, refs->run_count);
    refs->next = number + 1;
}

/* The data record that is expected next: the one after the first with the previous NameRef. */
static uint64_t next_record(const struct name_refs *refs)
{
    uint64_t record;

    return data_records_find(refs->data, refs->before, &record) ? record + 1 : 0;
}

/* ---- writing ---- */

/* Finds the data record with this NameRef, and sets *difference to its distance from the expected
 * one, zigzag-encoded. False if there is none. */
static bool find_in_data(const struct name_refs *refs, uint64_t reference, uint64_t *difference)
{
    uint64_t record;

    if (refs->data == NULL || !data_records_find(refs->data, reference, &record))
        return false;
    *difference = zigzag(record - next_record(refs));
    return true;
}

/* Chooses the code of a name. *difference is the operand of CODE_FAR and CODE_DATA. */
static unsigned choose(const struct name_refs *refs, uint64_t reference, uint64_t number,
                       uint64_t *difference)
{
    uint64_t in_data;

    if (number == refs->next)
        return CODE_NEXT;
    for (unsigned i = 0; i < refs->run_count; i++) {
        if (refs->runs[i] == number)
            return CODE_RUN + i;
    }
    *difference = zigzag(number - refs->next);
    if (*difference < NEAR_COUNT)
        return CODE_NEAR + (unsigned)*difference;
    if (!find_in_data(refs, reference, &in_data) || in_data > *difference)
        return CODE_FAR;
    *difference = in_data;
    return CODE_DATA;
}

bool name_refs_put(struct name_refs *refs, uint64_t reference, struct buffer *codes,
                   struct buffer *operands)
{
    uint64_t number, difference = 0;
    unsigned code = CODE_NO_NAME;
    uint8_t byte, bytes[8];

    if (refs->names != NULL && intern_table_find(&refs->names->by_reference, reference, &number)) {
        code = choose(refs, reference, number, &difference);
        if (code != CODE_DATA)
            pass(refs, code, number);
    } else if (find_in_data(refs, reference, &difference)) {
        code = CODE_DATA;
    }
    refs->before = reference;
    byte = (uint8_t)code;
    if (!buffer_append(codes, &byte, 1))
        return false;
    if (code == CODE_FAR || code == CODE_DATA)
        return buffer_append_uleb128(operands, difference);
    store_u64(bytes, reference, false);
    return code != CODE_NO_NAME || buffer_append(operands, bytes, sizeof(bytes));
}

/* ---- reading ---- */

static bool take_name(struct name_refs *refs, unsigned code, struct bytes *operands,
                      uint64_t *reference)
{
    uint64_t number = refs->next, difference = code - CODE_NEAR;

    if (code >= CODE_RUN && code < CODE_RUN + NAME_REF_RUNS) {
        if (code - CODE_RUN >= refs->run_count)
            return false;
        number = refs->runs[code - CODE_RUN];
    } else if (code != CODE_NEXT) {
        if (code == CODE_FAR && !take_number(operands, &difference))
            return false;
        number += unzigzag(difference);
    }
    if (refs->names == NULL || number >= refs->names->count)
        return false;
    pass(refs, code, number);
    *reference = refs->names->references[number];
    return true;
}

static bool take_from_data(const struct name_refs *refs, struct bytes *operands,
                           uint64_t *reference)
{
    uint64_t difference;

    return refs->data != NULL && take_number(operands, &difference) &&
           data_records_get(refs->data, next_record(refs) + unzigzag(difference), reference);
}

static bool take_without_name(struct bytes *operands, uint64_t *reference)
{
    const uint8_t *bytes = take_bytes(operands, 8);

    if (bytes != NULL)
        *reference = load_u64(bytes, false);
    return bytes != NULL;
}

bool name_refs_take(struct name_refs *refs, struct bytes *codes, struct bytes *operands,
                    uint64_t *reference)
{
    const uint8_t *code = take_bytes(codes, 1);
    bool done;

    if (code == NULL)
        return false;
    if (*code == CODE_NO_NAME)
        done = take_without_name(operands, reference);
    else if (*code == CODE_DATA)
        done = take_from_data(refs, operands, reference);
    else
        done = take_name(refs, *code, operands, reference);
    if (done)
        refs->before = *reference;
    return done;
}
