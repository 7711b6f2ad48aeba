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

/* A function that llvm-cov has dropped. */
struct mismatch {
    char *name;
    uint64_t name_ref, hash, hash_in_profile;
    const char *image; /* NULL: not known yet */
};

struct function_table {
    struct intern_table by_name; /* the numbers of forms, by name and files */
    struct form *forms;
    size_t count, capacity;
    size_t image; /* the number of the image whose functions come */
    uint64_t differing;
    char *differing_name;
    size_t differing_first, differing_other; /* images */
    struct mismatch *mismatches;             /* as llvm-cov lists them, with equal ones */
    size_t mismatch_count, mismatch_capacity;
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
    for (size_t i = 0; i < table->mismatch_count; i++)
        free(table->mismatches[i].name);
    free(table->mismatches);
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
    command_require(
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

/* Reads what `llvm-profdata show -all-functions` prints of the profile. */
static bool read_profile(const struct report *report, function_user use, void *context,
                         struct error *error)
{
    struct llvm_command command = {0};
    struct output shown = {.fd = -1};
    struct input text = {.fd = -1};
    struct bytes rest, line, name = {0};
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
        static const char hash[] = "    Hash: 0x";
        size_t size = sizeof(hash) - 1;

        if (line.size > size && memcmp(line.data, hash, size) == 0 && name.size > 3) {
            char *digits =
                command_text("%.*s", (int)(line.size - size), (const char *)line.data + size);

            /* "  NAME:" */
            use(context, (struct bytes){name.data + 2, name.size - 3}, strtoull(digits, NULL, 16));
            free(digits);
        }
        name = line;
    }
    input_close(&text);
    output_discard(&shown);
    llvm_command_free(&command);
    free(program);
    return done;
}

/* ---- other hashes ---- */

/* So many functions are named. */
#define NAMED_MAX 10

/* "hash-mismatch: No profile record found for 'NAME' with hash = 0x..." */
void functions_note_mismatch(struct report *report, const char *line)
{
    static const char before[] = "hash-mismatch: No profile record found for '";
    static const char middle[] = "' with hash = 0x";
    struct function_table *table = report->functions;
    const char *name = line + sizeof(before) - 1, *end = NULL, *next;
    struct mismatch mismatch = {.name = NULL};

    if (strncmp(line, before, sizeof(before) - 1) != 0)
        return;
    for (next = name; (next = strstr(next, middle)) != NULL; next++)
        end = next;
    if (end == NULL || (mismatch.hash = strtoull(end + sizeof(middle) - 1, NULL, 16)) == 0)
        return;
    mismatch.name_ref =
        md5_name_reference((struct bytes){(const uint8_t *)name, (uint64_t)(end - name)});
    for (size_t i = 0; i < table->mismatch_count; i++) {
        if (table->mismatches[i].name_ref == mismatch.name_ref &&
            table->mismatches[i].hash == mismatch.hash)
            return;
    }
    mismatch.name = command_text("%.*s", (int)(end - name), name);
    COMMAND_ROOM_FOR_ONE(table->mismatches, table->mismatch_capacity, table->mismatch_count);
    table->mismatches[table->mismatch_count++] = mismatch;
}

static void note_hash(void *context, struct bytes name, uint64_t hash)
{
    struct function_table *table = context;

    for (size_t i = 0; i < table->mismatch_count && i < NAMED_MAX; i++) {
        struct mismatch *mismatch = &table->mismatches[i];

        if (mismatch->hash_in_profile == 0 && strlen(mismatch->name) == name.size &&
            memcmp(mismatch->name, name.data, (size_t)name.size) == 0)
            mismatch->hash_in_profile = hash;
    }
}

/* Finds the images whose mapping has the functions with these hashes. */
static bool note_images(struct report *report, struct error *error)
{
    struct function_table *table = report->functions;

    for (size_t i = 0; i < report->image_count; i++) {
        struct function_places places = {0};
        struct names files = {0};
        bool done = function_places_read(&places, report->images[i].sidecar, NULL, &files, error);

        for (size_t k = 0; done && k < table->mismatch_count && k < NAMED_MAX; k++) {
            struct mismatch *mismatch = &table->mismatches[k];
            const struct function_place *place =
                function_places_find(&places, mismatch->name_ref, mismatch->hash);

            if (mismatch->image == NULL && place != NULL && place->hash == mismatch->hash)
                mismatch->image = name_of(&report->images[i]);
        }
        function_places_free(&places);
        names_free(&files);
        if (!done)
            return false;
    }
    return true;
}

bool functions_check_mismatches(struct report *report, struct error *error)
{
    struct function_table *table = report->functions;
    char more[COUNT_TEXT_MAX];

    if (table->mismatch_count == 0)
        return true;
    if (!note_images(report, error) || !read_profile(report, note_hash, table, error))
        return false;
    for (size_t i = 0; i < table->mismatch_count && i < NAMED_MAX; i++) {
        const struct mismatch *mismatch = &table->mismatches[i];

        report_leave_out(report, LEFT_OUT_MISMATCHED,
                         "function '%s' of %s: left out, as its hash is 0x%" PRIx64
                         " there and 0x%" PRIx64 " in the profile; give profiles of this build",
                         mismatch->name, mismatch->image != NULL ? mismatch->image : "an image",
                         mismatch->hash, mismatch->hash_in_profile);
    }
    if (table->mismatch_count > NAMED_MAX)
        report_leave_out(report, LEFT_OUT_MISMATCHED, "%s left out, as their hashes differ, too",
                         count_text(table->mismatch_count - NAMED_MAX, "more function", more));
    return true;
}

/* ---- functions that no image has ---- */

struct known_functions {
    struct intern_table both;  /* names with their hashes */
    struct intern_table names; /* names whose hashes are not known */
    uint64_t foreign;
    char *first;
};

static uint64_t key_of(uint64_t name_ref, uint64_t hash)
{
    return name_ref ^ (hash * UINT64_C(0x9e3779b97f4a7c15));
}

static void add_known(struct intern_table *table, uint64_t key)
{
    uint64_t number;

    command_require(intern_table_add(table, key, &number), table->count);
}

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
    command_require(!done || names_hash(&names, 1), names.count);
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
