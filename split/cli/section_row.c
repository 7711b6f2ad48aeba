/*
 * Sections in tables and JSON: see section_row.h.
 */
#include "split/cli/section_row.h"

struct section_row section_row_make(enum section_kind kind, uint64_t size, const char *status)
{
    return (struct section_row){
        .name = section_kind_name(kind),
        .kind = section_kind_word(kind),
        .size = section_number_known(size),
        .status = status,
        .reason = "",
    };
}

struct section_row section_row_of_image(const struct image_plan *plan,
                                        const struct section *section)
{
    static const char *const fates[] = {
        [FATE_STAYS] = "stays",
        [FATE_COPIED] = "copied",
        [FATE_ZEROED] = "zeroed",
        [FATE_REMOVED] = "removed",
    };
    struct section_row row = section_row_make(image_plan_stored_kind(plan, section->kind),
                                              section->size, fates[section->fate]);

    row.name = section->name;
    row.reason = section->reason;
    if (section->loaded)
        row.address = section_number_known(section->address);
    if (plan->already_split && (SECTION_BIT(section->kind) & SECTION_REMOVABLE) != 0)
        row.status = "left";
    return row;
}

bool section_row_ratio(const struct section_row *row, uint64_t *ten_thousandths)
{
    if (!row->size.known || !row->stored_size.known || row->size.value == 0)
        return false;
    *ten_thousandths =
        (uint64_t)((double)row->stored_size.value / (double)row->size.value * 10000 + 0.5);
    return true;
}

static void write_number(struct json_writer *json, const char *key, struct section_number number)
{
    if (number.known)
        json_number(json, key, number.value);
    else
        json_null(json, key);
}

void section_row_write(const struct section_row *row, struct json_writer *json)
{
    uint64_t ratio;

    json_begin_object(json, NULL);
    json_string(json, "name", row->name);
    json_string(json, "kind", row->kind);
    write_number(json, "address", row->address);
    write_number(json, "size", row->size);
    write_number(json, "stored_size", row->stored_size);
    if (section_row_ratio(row, &ratio))
        json_fraction(json, "ratio", ratio);
    else
        json_null(json, "ratio");
    json_string(json, "status", row->status);
    json_string_or_null(json, "reason", row->reason);
    json_end_object(json);
}
