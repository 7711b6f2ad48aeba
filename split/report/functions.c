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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/sidecar/correlate.h"
#include "split/cli/memory.h"
#include "split/cli/table.h"
#include "split/profiles/function_places.h"
#include "split/profiles/llvm_tool.h"
#include "split/report/report.h"

/* A function as the first image has it that has one of this name in these files. */
struct form {
    uint64_t digest;
    size_t image;
};

struct function_table {
    struct intern_table by_name; /* the numbers of forms, by name and files */
    struct form *forms;
    size_t count, capacity;
    size_t image; /* the number of the image whose functions come */
    uint64_t differing;
    char *differing_name;
    size_t differing_first, differing_other; /* images */
};

struct function_table *functions_new(void)
{
    return command_array(1, sizeof(struct function_table));
}

void functions_free(struct function_table *table)
{
    if (table == NULL)
        return;
    intern_table_free(&table->by_name);
    free(table->forms);
    free(table->differing_name);
    free(table);
}

static const char *name_of(const struct report_image *image)
{
    return image->sidecar->image_name[0] != '\0' ? image->sidecar->image_name
                                                 : image->sidecar->name;
}

static uint64_t short_digest(struct bytes bytes)
{
    struct digest digest = digest_of(bytes);

    return load_u64(digest.bytes, false);
}

/* ---- forms ---- */

void functions_next_image(struct report *report)
{
    report->functions->image++;
}

void functions_visit(void *context, const struct union_function *function)
{
    struct function_table *table = ((struct report *)context)->functions;
    struct form form = {load_u64(function->digest.bytes, false), table->image};
    uint64_t number;

    if (function->is_unused)
        return;
    exit_unless_allocated(
        intern_table_add(&table->by_name, short_digest(function->name) ^ function->files, &number),
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

void functions_check_forms(struct report *report)
{
    const struct function_table *table = report->functions;
    const struct report_image *first, *other;
    char count[COUNT_TEXT_MAX], hex[UUID_HEX_MAX];

    if (table->differing == 0)
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

/* A function_user gets a name of the profile and a hash that it has. */
typedef void (*function_user)(void *context, struct bytes name, uint64_t hash);

/* Reads what `llvm-profdata show -all-functions` prints of the profile. In the end it says how many
 * functions that are: if they were not found, it is not understood. */
static bool read_profile(const struct report *report, function_user use, void *context,
                         struct error *error)
{
    struct llvm_command command = {0};
    struct output shown = {.fd = -1};
    struct input text = {.fd = -1};
    struct bytes rest, line, name = {0};
    bool is_understood = false;
    uint64_t count = 0;
    char *program =
        llvm_tool_find(LLVM_PROFDATA, option_text(report->options, OPTION_LLVM_PROFDATA),
                       report->raw_version, error);
    bool done = program != NULL && output_create_in_memory(&shown, "the functions", error) &&
                output_lend(&shown, error);

    if (done) {
        llvm_command_add(&command, "%s", program);
        llvm_command_add(&command, "show");
        llvm_command_add(&command, "-all-functions");
        llvm_command_add_file(&command, "", report->profile, "the merged profile");
        done = llvm_command_run(&command, shown.fd, shown.path, error) &&
               output_take_back(&shown, error) && output_map(&shown, &text, error);
    }
    rest = text.bytes;
    while (done && take_line(&rest, &line)) {
        static const char hash[] = "    Hash: 0x", shown_count[] = "Functions shown: ";
        size_t size = sizeof(hash) - 1, count_size = sizeof(shown_count) - 1;

        if (line.size > size && memcmp(line.data, hash, size) == 0 && name.size > 3) {
            char *digits =
                command_text("%.*s", (int)(line.size - size), (const char *)line.data + size);

            /* "  NAME:" */
            use(context, (struct bytes){name.data + 2, name.size - 3}, strtoull(digits, NULL, 16));
            free(digits);
            count++;
        } else if (line.size > count_size && memcmp(line.data, shown_count, count_size) == 0) {
            char *digits = command_text("%.*s", (int)(line.size - count_size),
                                        (const char *)line.data + count_size);

            is_understood = strtoull(digits, NULL, 10) == count;
            free(digits);
        }
        name = line;
    }
    if (done && !is_understood)
        done = error_set(error,
                         "the merged profile: '%s show' does not list its functions as it should; "
                         "give another --llvm-profdata",
                         program);
    input_close(&text);
    output_discard(&shown);
    llvm_command_free(&command);
    free(program);
    return done;
}

/* ---- other hashes ---- */

/* So many functions are named. */
#define NAMED_MAX 10

/* A function that llvm-cov drops. */
struct mismatch {
    char *name;
    uint64_t name_ref, hash, hash_in_profile;
    const struct report_image *image;
};

struct mismatches {
    struct intern_table both;  /* the names of the profile with their hashes */
    struct intern_table names; /* a hash for each name */
    struct mismatch named[NAMED_MAX];
    uint64_t count;
};

static uint64_t key_of(uint64_t name_ref, uint64_t hash)
{
    return name_ref ^ (hash * UINT64_C(0x9e3779b97f4a7c15));
}

static void add_known(struct intern_table *table, uint64_t key)
{
    uint64_t number;

    exit_unless_allocated(intern_table_add(table, key, &number), table->count);
}

static void note_hash(void *context, struct bytes name, uint64_t hash)
{
    struct mismatches *mismatches = context;
    uint64_t name_ref = md5_name_reference(name);

    add_known(&mismatches->both, key_of(name_ref, hash));
    exit_unless_allocated(intern_table_put(&mismatches->names, name_ref, hash), name.size);
}

static void note_name(void *context, struct bytes name, uint64_t hash)
{
    struct mismatches *mismatches = context;
    uint64_t name_ref = md5_name_reference(name);

    (void)hash;
    for (size_t i = 0; i < mismatches->count && i < NAMED_MAX; i++) {
        struct mismatch *mismatch = &mismatches->named[i];

        if (mismatch->name_ref == name_ref && mismatch->name == NULL)
            mismatch->name = command_text("%.*s", (int)name.size, (const char *)name.data);
    }
}

/* Finds the functions of an image of which the profile has only other hashes. Like llvm-cov, takes
 * the first record of each that is of code. */
static bool find_mismatches(struct mismatches *mismatches, const struct report_image *image,
                            struct error *error)
{
    struct function_places places = {0};
    struct names files = {0};
    bool done = function_places_read(&places, image->sidecar, NULL, &files, error);

    for (size_t i = 0; done && i < places.count; i++) {
        const struct function_place *place = &places.items[i];
        struct mismatch mismatch = {
            .name_ref = place->name_ref, .hash = place->hash, .image = image};
        uint64_t number;

        if (place->hash == 0 || place->is_dummy ||
            !intern_table_find(&places.by_name, place->name_ref, &number) || number != i ||
            intern_table_find(&mismatches->both, key_of(place->name_ref, place->hash), &number) ||
            !intern_table_find(&mismatches->names, place->name_ref, &mismatch.hash_in_profile))
            continue;
        if (mismatches->count < NAMED_MAX)
            mismatches->named[mismatches->count] = mismatch;
        mismatches->count++;
    }
    function_places_free(&places);
    names_free(&files);
    return done;
}

bool functions_check_mismatches(struct report *report, struct error *error)
{
    struct mismatches mismatches = {.count = 0};
    char more[COUNT_TEXT_MAX];
    bool done = read_profile(report, note_hash, &mismatches, error);

    for (size_t i = 0; done && i < report->image_count; i++)
        done = find_mismatches(&mismatches, &report->images[i], error);
    done = done && (mismatches.count == 0 || read_profile(report, note_name, &mismatches, error));
    for (size_t i = 0; i < mismatches.count && i < NAMED_MAX; i++) {
        const struct mismatch *mismatch = &mismatches.named[i];

        if (done)
            report_leave_out(report, LEFT_OUT_MISMATCHED,
                             "function '%s' of %s: left out, as its hash is 0x%" PRIx64
                             " there and 0x%" PRIx64 " in the profile; give profiles of this build",
                             mismatch->name, name_of(mismatch->image), mismatch->hash,
                             mismatch->hash_in_profile);
        free(mismatch->name);
    }
    if (done && mismatches.count > NAMED_MAX)
        report_leave_out(report, LEFT_OUT_MISMATCHED, "%s left out, as their hashes differ, too",
                         count_text(mismatches.count - NAMED_MAX, "more function", more));
    intern_table_free(&mismatches.both);
    intern_table_free(&mismatches.names);
    return done;
}

/* ---- functions that no image has ---- */

struct known_functions {
    struct intern_table both;  /* names with their hashes */
    struct intern_table names; /* names whose hashes are not known */
    uint64_t foreign;
    char *first;
};

/* The functions of the data records. */
static void add_records(struct known_functions *known, const struct profile_sidecar *opened)
{
    struct profile records = {.layout = opened->layout,
                              .big_endian = opened->big_endian,
                              .data = buffer_view(&opened->data)};

    for (uint64_t i = 0; i < profile_function_count(&records); i++) {
        struct profile_function function = profile_get_function(&records, i);

        add_known(&known->both, key_of(function.name_ref, function.hash));
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
            add_known(&known->both, key_of(places.items[i].name_ref, places.items[i].hash));
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

static void check_function(void *context, struct bytes name, uint64_t hash)
{
    struct known_functions *known = context;
    uint64_t name_ref = md5_name_reference(name), number;

    if (intern_table_find(&known->both, key_of(name_ref, hash), &number) ||
        intern_table_find(&known->names, name_ref, &number))
        return;
    if (known->foreign++ == 0)
        known->first = command_text("%.*s", (int)name.size, (const char *)name.data);
}

bool functions_check_foreign(struct report *report, struct error *error)
{
    struct known_functions known = {.foreign = 0};
    char count[COUNT_TEXT_MAX];
    bool done = true;

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
    done = done && read_profile(report, check_function, &known, error);
    if (done && known.foreign != 0)
        report_leave_out(report, LEFT_OUT_FOREIGN,
                         "counts of %s left out, such as '%s': in no image of the report; name its "
                         "image, too, or link it with --build-id",
                         count_text(known.foreign, "function", count), known.first);
    intern_table_free(&known.both);
    intern_table_free(&known.names);
    free(known.first);
    return done;
}
