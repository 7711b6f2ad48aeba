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
    uint64_t digest, hash;
    size_t image;
};

struct function_table {
    struct intern_table by_name; /* the numbers of forms, by name and files */
    struct form *forms;
    size_t count, capacity;
    size_t image; /* the number of the image whose functions come */
    uint64_t differing;
    char *differing_name;
    struct form differing_form;
    size_t differing_image;
    struct digest_set told; /* functions with another hash, which have been named */
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
    digest_set_free(&table->told);
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
    struct form form = {load_u64(function->digest.bytes, false), function->hash, table->image};
    uint64_t number;

    if (function->is_dummy)
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
        table->differing_form = table->forms[number];
        table->differing_image = form.image;
    }
}

void functions_check_forms(struct report *report)
{
    const struct function_table *table = report->functions;
    char count[COUNT_TEXT_MAX];

    if (table->differing == 0)
        return;
    report_leave_out(report, LEFT_OUT_MISMATCHED,
                     "%s, such as '%s': %s and %s have different forms of it, of which the report "
                     "shows that of %s; build both from the same sources, in the same way",
                     count_text(table->differing, "function", count), table->differing_name,
                     name_of(&report->images[table->differing_form.image]),
                     name_of(&report->images[table->differing_image]),
                     name_of(&report->images[table->differing_form.image]));
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

struct hash_search {
    struct bytes name;
    uint64_t hash;
    bool is_found;
};

static void find_hash(void *context, struct bytes name, uint64_t hash)
{
    struct hash_search *search = context;

    if (bytes_equal(name, search->name) && !search->is_found) {
        search->hash = hash;
        search->is_found = true;
    }
}

/* The first image whose mapping has the function with this hash. */
static const char *find_image_of(const struct report *report, struct bytes name, uint64_t hash)
{
    uint64_t name_ref = md5_name_reference(name);
    const char *found = "an image";

    for (size_t i = 0; i < report->image_count; i++) {
        struct function_places places = {0};
        struct names files = {0};
        const struct function_place *place;
        struct error ignored;
        bool is_it;

        is_it = function_places_read(&places, report->images[i].sidecar, NULL, &files, &ignored) &&
                (place = function_places_find(&places, name_ref, hash)) != NULL &&
                place->hash == hash;
        function_places_free(&places);
        names_free(&files);
        if (is_it) {
            found = name_of(&report->images[i]);
            break;
        }
    }
    return found;
}

/* "hash-mismatch: No profile record found for 'NAME' with hash = 0x..." */
void functions_check_mismatch(struct report *report, const char *line)
{
    static const char before[] = "hash-mismatch: No profile record found for '";
    static const char middle[] = "' with hash = 0x";
    struct hash_search search = {0};
    const char *name = line + sizeof(before) - 1, *end, *next;
    struct digest digest = digest_of((struct bytes){(const uint8_t *)line, strlen(line)});
    struct error ignored;
    uint64_t hash;

    if (strncmp(line, before, sizeof(before) - 1) != 0)
        return;
    end = strstr(name, middle);
    while (end != NULL && (next = strstr(end + 1, middle)) != NULL)
        end = next;
    if (end == NULL || (hash = strtoull(end + sizeof(middle) - 1, NULL, 16)) == 0 ||
        digest_set_has(&report->functions->told, &digest))
        return;
    command_require(digest_set_add(&report->functions->told, &digest), strlen(line));
    search.name = (struct bytes){(const uint8_t *)name, (uint64_t)(end - name)};
    read_profile(report, find_hash, &search, &ignored);
    report_leave_out(report, LEFT_OUT_MISMATCHED,
                     "function '%.*s' of %s: left out, as its hash is 0x%" PRIx64
                     " there and 0x%" PRIx64 " in the profile; give profiles of this build",
                     (int)search.name.size, (const char *)search.name.data,
                     find_image_of(report, search.name, hash), hash, search.hash);
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
                         "%s of the profile, such as '%s', are in no image of the report; name the "
                         "image, too, or link it with --build-id",
                         count_text(known.foreign, "function", count), known.first);
    intern_table_free(&known.both);
    intern_table_free(&known.names);
    free(known.first);
    return done;
}
