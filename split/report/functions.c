/*
 * The functions of which a report does not have all counts. See report.h.
 *
 * llvm-cov drops a function without a name if the profile has another hash for it, and of functions
 * with one name in the same files it shows the first only. Counts of functions that no image has
 * are nowhere. Each is named here.
 *
 * A function that a translation unit does not use has the hash 0 there: when it is dropped, nothing
 * is lost, as another unit has it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/sidecar/correlate.h"
#include "split/cli/memory.h"
#include "split/cli/table.h"
#include "split/profiles/function_places.h"
#include "split/report/report.h"

/* A function as the first image has it that has one of this name in these files. */
struct form {
    uint64_t digest;
    size_t image;
};

/* A function that counts in an image and is of code. */
struct mapped_function {
    uint64_t name_ref, hash;
    size_t image;
};

/* A function of the profile. */
struct listed_function {
    struct bytes name;
    uint64_t name_ref, hash;
};

struct function_table {
    struct intern_table by_name; /* the numbers of forms, by name and files */
    struct form *forms;
    size_t count, capacity;
    uint64_t differing;
    char *differing_name;
    size_t differing_first, differing_other; /* images */
    struct mapped_function *mapped;
    size_t mapped_count, mapped_capacity;

    struct llvm_capture list; /* of the profile's functions, once it was needed */
    struct listed_function *listed;
    size_t listed_count, listed_capacity;
    struct intern_table listed_both, listed_names; /* their numbers; those of the first of a name */
};

static struct function_table *table_of(struct report *report)
{
    if (report->functions == NULL)
        report->functions = command_array(1, sizeof(*report->functions));
    return report->functions;
}

void functions_free(struct function_table *table)
{
    if (table == NULL)
        return;
    intern_table_free(&table->by_name);
    intern_table_free(&table->listed_both);
    intern_table_free(&table->listed_names);
    free(table->forms);
    free(table->differing_name);
    free(table->mapped);
    free(table->listed);
    llvm_capture_free(&table->list);
    free(table);
}

static const char *name_of(const struct report_image *image)
{
    return image->sidecar->image_name[0] != '\0' ? image->sidecar->image_name
                                                 : image->sidecar->name;
}

/* ---- forms ---- */

void functions_visit(void *context, const struct union_function *function)
{
    struct report *report = context;
    struct function_table *table = table_of(report);
    struct form form = {load_u64(function->digest.bytes, false), report->image_read};
    struct digest name;
    uint64_t number;

    if (!function->is_dummy && function->hash != 0) {
        COMMAND_ROOM_FOR_ONE(table->mapped, table->mapped_capacity, table->mapped_count);
        table->mapped[table->mapped_count++] =
            (struct mapped_function){function->name_ref, function->hash, report->image_read};
    }
    if (function->is_unused)
        return;
    name = digest_of(function->name);
    exit_unless_allocated(
        intern_table_add(&table->by_name, load_u64(name.bytes, false) ^ function->files, &number),
        table->count);
    if (number == table->count) {
        COMMAND_ROOM_FOR_ONE(table->forms, table->capacity, table->count);
        table->forms[table->count++] = form;
    } else if (table->forms[number].digest != form.digest && table->differing++ == 0) {
        table->differing_name =
            command_text("%.*s", (int)function->name.size, (const char *)function->name.data);
        table->differing_first = table->forms[number].image;
        table->differing_other = form.image;
    }
}

/* Leaves out those of which images have different forms, as llvm-cov shows only the first. */
static void check_forms(struct report *report)
{
    const struct function_table *table = report->functions;
    const struct report_image *first, *other;
    char count[COUNT_TEXT_MAX], hex[UUID_HEX_MAX];

    if (table == NULL || table->differing == 0)
        return;
    first = &report->images[table->differing_first];
    other = &report->images[table->differing_other];
    report_leave_out(report, LEFT_OUT_MISMATCHED,
                     "%s left out, such as '%s' of %s (UUID %s): %s has another form of it in the "
                     "same file, and llvm-cov shows one of them; build both from the same sources, "
                     "in the same way",
                     count_text(table->differing, "function", count), table->differing_name,
                     name_of(other), uuid_format(&other->sidecar->facts.uuid, hex), name_of(first));
}

/* ---- the profile ---- */

/* Takes the number off a line, behind the prefix. False if the line is another one. */
static bool read_number(struct bytes line, const char *prefix, int base, uint64_t *number)
{
    size_t size = strlen(prefix), length;
    char digits[24] = "";

    if (line.size <= size || memcmp(line.data, prefix, size) != 0)
        return false;
    length = (size_t)line.size - size;
    memcpy(digits, line.data + size, length < sizeof(digits) ? length : sizeof(digits) - 1);
    *number = strtoull(digits, NULL, base);
    return true;
}

/* Fills in the NameRefs, and makes the tables. */
static void index_listed(struct function_table *table)
{
    struct bytes names[MD5_NAMES_MAX];
    uint64_t references[MD5_NAMES_MAX];

    for (size_t i = 0; i < table->listed_count; i++) {
        struct listed_function *function = &table->listed[i];
        size_t place = i % MD5_NAMES_MAX, count = table->listed_count - i;

        count = count < MD5_NAMES_MAX ? count : MD5_NAMES_MAX;
        for (size_t k = 0; place == 0 && k < count; k++)
            names[k] = function[k].name;
        if (place == 0)
            md5_name_references(names, count, references);
        function->name_ref = references[place];
        exit_unless_allocated(
            intern_table_put(&table->listed_both,
                             function_places_key(function->name_ref, function->hash), i) &&
                intern_table_put(&table->listed_names, function->name_ref, i),
            table->listed_count);
    }
}

/* Lists the functions of the profile as `llvm-profdata show -all-functions` prints them, unless
 * that has been done. In the end it says how many these are: if they were not found, it is not
 * understood. */
static bool list_profile(struct report *report, struct error *error)
{
    struct function_table *table = table_of(report);
    struct llvm_command command = {0};
    struct bytes rest, line, name = {0};
    bool is_understood = false, done;
    uint64_t number;
    char *program;

    if (table->listed_count != 0)
        return true;
    program = llvm_tool_find(LLVM_PROFDATA, option_text(report->options, OPTION_LLVM_PROFDATA),
                             report->raw_version, error);
    if (program == NULL)
        return false;
    llvm_command_add(&command, "%s", program);
    llvm_command_add(&command, "show");
    llvm_command_add(&command, "-all-functions");
    llvm_command_add_file(&command, "", report->profile.fd, "the merged profile");
    llvm_capture_free(&table->list);
    done = llvm_command_capture(&command, "the functions", &table->list, error);
    rest = table->list.text.bytes;
    while (done && take_line(&rest, &line)) {
        /* "  NAME:" */
        if (name.size > 3 && read_number(line, "    Hash: 0x", 16, &number)) {
            COMMAND_ROOM_FOR_ONE(table->listed, table->listed_capacity, table->listed_count);
            table->listed[table->listed_count++] =
                (struct listed_function){.name = {name.data + 2, name.size - 3}, .hash = number};
        } else if (read_number(line, "Functions shown: ", 10, &number)) {
            is_understood = number == table->listed_count;
        }
        name = line;
    }
    if (done && !is_understood)
        done = error_set(error,
                         "the merged profile: '%s show' does not list its functions as it should; "
                         "give another --llvm-profdata",
                         program);
    index_listed(table);
    llvm_command_free(&command);
    free(program);
    return done;
}

/* ---- other hashes ---- */

/* So many functions are named. */
#define NAMED_MAX 10

bool functions_check_mismatches(struct report *report, struct error *error)
{
    const struct function_table *table = table_of(report);
    char more[COUNT_TEXT_MAX];
    uint64_t count = 0, number;
    bool done = list_profile(report, error);

    for (size_t i = 0; done && i < table->mapped_count; i++) {
        const struct mapped_function *function = &table->mapped[i];
        const struct listed_function *listed;

        if (intern_table_find(&table->listed_both,
                              function_places_key(function->name_ref, function->hash), &number) ||
            !intern_table_find(&table->listed_names, function->name_ref, &number) ||
            ++count > NAMED_MAX)
            continue;
        listed = &table->listed[number];
        report_leave_out(report, LEFT_OUT_MISMATCHED,
                         "function '%.*s' of %s: left out, as its hash is 0x%" PRIx64
                         " there and 0x%" PRIx64 " in the profile; give profiles of this build",
                         (int)listed->name.size, (const char *)listed->name.data,
                         name_of(&report->images[function->image]), function->hash, listed->hash);
    }
    if (done && count > NAMED_MAX)
        report_leave_out(report, LEFT_OUT_MISMATCHED, "%s left out, as their hashes differ, too",
                         count_text(count - NAMED_MAX, "more function", more));
    return done;
}

/* ---- functions that no image has ---- */

struct known_functions {
    struct intern_table both;  /* names with their hashes */
    struct intern_table names; /* names whose hashes are not known */
};

static void add_known(struct intern_table *table, uint64_t key)
{
    uint64_t number;

    exit_unless_allocated(intern_table_add(table, key, &number), table->count);
}

/* The functions of the data records. */
static void add_records(struct known_functions *known, const struct profile_sidecar *opened)
{
    struct profile records = {.layout = opened->layout,
                              .big_endian = opened->big_endian,
                              .data = buffer_view(&opened->data)};

    for (uint64_t i = 0; i < profile_function_count(&records); i++) {
        struct profile_function function = profile_get_function(&records, i);

        add_known(&known->both, function_places_key(function.name_ref, function.hash));
    }
}

/* Without data records, the functions of the mapping, and those of the names that are not there. */
static bool add_mapped(struct known_functions *known, const struct sidecar *sidecar,
                       struct error *error)
{
    const struct section *section = sidecar_find(sidecar, SECTION_NAMES);
    struct function_places places = {0};
    struct names files = {0}, names = {0};
    bool done = function_places_read(&places, sidecar, NULL, &files, error);
    uint64_t number;

    if (section == NULL)
        section = sidecar_find(sidecar, SECTION_COVNAMES);
    done = done && (section == NULL || sidecar_read_names(sidecar, section, &names, error));
    for (size_t i = 0; done && i < places.count; i++) {
        if (!places.items[i].is_dummy)
            add_known(&known->both,
                      function_places_key(places.items[i].name_ref, places.items[i].hash));
    }
    exit_unless_allocated(!done || names_hash(&names, 1), names.count);
    for (size_t i = 0; done && i < names.count; i++) {
        if (!intern_table_find(&places.by_name, names.references[i], &number))
            add_known(&known->names, names.references[i]);
    }
    function_places_free(&places);
    names_free(&files);
    names_free(&names);
    return done;
}

/* Leaves out functions of the profile that no image has. */
static bool check_foreign(struct report *report, struct error *error)
{
    struct known_functions known = {.both = {0}};
    const struct listed_function *first = NULL;
    uint64_t foreign = 0, number;
    char count[COUNT_TEXT_MAX];
    bool done = list_profile(report, error);

    for (size_t i = 0; done && i < report->image_count; i++) {
        struct sidecar *sidecar = (struct sidecar *)(uintptr_t)report->images[i].sidecar;
        struct profile_sidecar opened = {.sidecar = sidecar};
        struct error why;

        if (sidecar->facts.has_stub && profile_sidecar_load(&opened, &why))
            add_records(&known, &opened);
        else
            done = add_mapped(&known, sidecar, error);
        profile_sidecar_unload(&opened);
    }
    for (size_t i = 0; done && i < report->functions->listed_count; i++) {
        const struct listed_function *listed = &report->functions->listed[i];

        if (!intern_table_find(&known.both, function_places_key(listed->name_ref, listed->hash),
                               &number) &&
            !intern_table_find(&known.names, listed->name_ref, &number) && foreign++ == 0)
            first = listed;
    }
    if (first != NULL)
        report_leave_out(report, LEFT_OUT_FOREIGN,
                         "counts of %s left out, such as '%.*s': in no image of the report; name "
                         "its image, too, or link it with --build-id",
                         count_text(foreign, "function", count), (int)first->name.size,
                         (const char *)first->name.data);
    intern_table_free(&known.both);
    intern_table_free(&known.names);
    return done;
}

bool functions_check(struct report *report, struct error *error)
{
    check_forms(report);
    return (report->indexed_count == 0 && !report->has_strangers) || check_foreign(report, error);
}
