/*
 * The images of a report: those that the profiles are of, by their sidecars, and those that are
 * named. See report.h.
 *
 * A directory of profiles gathers those of earlier builds, too. They must not be added up: the
 * counts would be shown at the lines of one build or the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "formats/object/packing.h"
#include "split/cli/images.h"
#include "split/cli/memory.h"
#include "split/cli/table.h"
#include "split/profiles/function_places.h"
#include "split/report/report.h"

/* ---- finding them ---- */

static void release(struct report *report, struct report_image *image)
{
    free(image->groups);
    free(image->has_file);
    function_places_free(&image->mains);
    sidecar_close(image->own);
    profile_sidecars_release(&report->sidecars, image->found);
}

void report_free_images(struct report *report)
{
    for (size_t i = 0; i < report->image_count; i++)
        release(report, &report->images[i]);
    free(report->images);
    names_free(&report->build_files);
    lacking_images_free(&report->lacking);
    free(report->request.operands);
    free(report->indexed);
}

/* The image of this UUID, which it has or had when it was split; NULL if there is none yet. */
static struct report_image *find_image(const struct report *report, const struct uuid *uuid)
{
    for (size_t i = 0; uuid->size != 0 && i < report->image_count; i++) {
        if (uuid_equal(&report->images[i].sidecar->facts.uuid, uuid) ||
            uuid_equal(&report->images[i].changed_uuid, uuid))
            return &report->images[i];
    }
    return NULL;
}

/* Adds an image, unless it is there already or has nothing for a report: then returns NULL. */
static struct report_image *add_image(struct report *report, struct report_image image)
{
    bool is_empty =
        sidecar_holds_nothing(image.sidecar) && sidecar_mapping(image.sidecar) == MAPPING_IS_ABSENT;

    if (image.is_named && is_empty)
        report_leave_out(report, LEFT_OUT_UNMAPPED,
                         "%s: left out, as it has no coverage data; compile it with "
                         "-fprofile-instr-generate -fcoverage-mapping",
                         image.sidecar->name);
    if (is_empty || find_image(report, &image.sidecar->facts.uuid) != NULL) {
        release(report, &image);
        return NULL;
    }
    COMMAND_ROOM_FOR_ONE(report->images, report->image_capacity, report->image_count);
    report->images[report->image_count] = image;
    return &report->images[report->image_count++];
}

/* Two builds can have one UUID, if it was set by hand. */
static bool check_is_same(const struct report *report, const struct sidecar *sidecar,
                          struct error *error)
{
    const struct report_image *known = find_image(report, &sidecar->facts.uuid);

    return known == NULL || sidecar_agrees(known->sidecar, sidecar) ||
           error_set(error,
                     "%s: of another build than %s, with the same UUID; leave one of them out, and "
                     "link each build %s",
                     sidecar->name, known->sidecar->name, uuid_link_advice(sidecar->facts.format));
}

static bool read_operands(struct report *report, const char *const *operands, size_t count,
                          struct error *error)
{
    const struct parsed_options *options = report->options;
    uint64_t limit = option_number(options, OPTION_MEMORY_LIMIT);

    report->request.operands = command_array(count, sizeof(*report->request.operands));
    report->indexed = command_array(count, sizeof(*report->indexed));
    for (size_t i = 0; i < count; i++) {
        const char *path = operands[i];
        struct report_image image = {.is_named = true};
        struct input input;
        struct stat status;
        bool is_image, is_sidecar, is_indexed;

        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
            report->request.operands[report->request.operand_count++] =
                (struct merge_operand){path, 1};
            continue;
        }
        if (!input_open(&input, path, error))
            return false;
        is_sidecar = sidecar_recognize(input.bytes);
        is_indexed = profile_recognize_indexed(input.bytes);
        is_image = !is_sidecar && (image_is_linked(input.bytes) || object_is_packed(input.bytes));
        *error = (struct error){0};
        if (is_sidecar)
            image.own = sidecar_read_for(options, path, error);
        else if (is_image)
            image.own = image_sidecar_open(&report->sidecars.places, &input, limit,
                                           &image.changed_uuid, error);
        input_close(&input);
        image.sidecar = image.own;
        if (is_indexed)
            report->indexed[report->indexed_count++] = path;
        else if (!is_image && !is_sidecar)
            report->request.operands[report->request.operand_count++] =
                (struct merge_operand){path, 1};
        else if (image.own == NULL)
            return false;
        else if (check_is_same(report, image.own, error))
            add_image(report, image);
        else
            return release(report, &image), false;
    }
    return true;
}

/* Notes that there is no sidecar of this image, for these are told of together. False if there is
 * another error. */
static bool note_lacking(struct report *report, const struct uuid *uuid, uint64_t profiles,
                         const char *name, const struct error *error)
{
    if (error->number != ENODATA)
        return false;
    if (report->lacking.count == 0)
        report->first_lacking = *error;
    lacking_images_note(&report->lacking, uuid, profiles, name);
    return true;
}

static bool add_indexed(struct report *report, const char *path, struct error *error)
{
    bool is_any = report->image_count != 0, done = true;
    struct profile_uuids uuids = {0};
    enum profile_uuid_source source;
    struct profile profile;
    struct input input;
    struct uuid uuid;

    if (!input_open(&input, path, error))
        return false;
    profile_open_indexed(&profile, input.bytes);
    uuids.profile = &profile;
    while (done && profile_next_uuid(&uuids, &uuid, &source)) {
        struct report_image image = {.is_indexed = true}, *known = find_image(report, &uuid);

        is_any = true;
        if (known != NULL) {
            known->is_indexed = true;
            continue;
        }
        image.found = profile_sidecars_find_uuid(&report->sidecars, &uuid, path, error);
        if (image.found == NULL) {
            done = note_lacking(report, &uuid, 1, path, error);
        } else {
            image.sidecar = image.found->sidecar;
            add_image(report, image);
        }
    }
    input_close(&input);
    return done && (is_any || error_set(error,
                                        "%s: does not say of which images it is, as LLVM 16 and "
                                        "later write it; name the images, too",
                                        path));
}

/* Checks that the profiles are of the image that is known by their UUID. Full ones can fit those of
 * several builds, as where none is known yet. */
static bool check_known(struct report *report, const struct profile_group *group,
                        const struct report_image *known, struct error *error)
{
    struct profile_sidecar *found;
    bool is_same;

    if (!profile_group_check(group, known->sidecar, error))
        return false;
    if (known->is_named || profile_group_sidecar(group) != NULL)
        return true;
    found = profile_sidecars_find_group(&report->sidecars, group, error);
    is_same = found != NULL ? check_is_same(report, found->sidecar, error)
                            : error->number == ENODATA; /* none beside these profiles */
    profile_sidecars_release(&report->sidecars, found);
    return is_same;
}

static bool add_merged(struct report *report, struct error *error)
{
    struct profile_groups *groups = &report->merge.groups;
    bool has_operands = report->image_count != 0;

    for (size_t i = 0; i < groups->count; i++) {
        const struct profile_group *group = groups->list[i];
        struct profile_sidecar *found = profile_group_sidecar(group);
        struct uuid uuid = profile_group_uuid(group);
        struct report_image image = {0}, *known = find_image(report, &uuid);

        if (known == NULL && uuid.size == 0 && found == NULL && has_operands) {
            report->has_strangers = true;
            continue;
        }
        if (known != NULL && !check_known(report, group, known, error))
            return false;
        if (known == NULL && found == NULL && uuid.size == 0) {
            error_set(error,
                      "%s: a profile of an image that was not split, and it does not say of "
                      "which; name the image, too",
                      group->name);
            error->number = ENODATA;
        } else if (known == NULL && found == NULL) {
            found = image.found = profile_sidecars_find_group(&report->sidecars, group, error);
        }
        if (known == NULL && found == NULL) {
            if (!note_lacking(report, &uuid, group->sum->profile_count, group->name, error))
                return false;
            profile_groups_drop(groups, i--);
            continue;
        }
        if (known == NULL) {
            image.sidecar = found->sidecar;
            known = add_image(report, image);
        }
        if (known == NULL)
            continue;
        COMMAND_ROOM_FOR_ONE(known->groups, known->group_capacity, known->group_count);
        known->groups[known->group_count++] = group;
        if (group->newest > known->newest)
            known->newest = group->newest;
        known->profile_count += group->sum->profile_count;
    }
    return true;
}

/* A store_visitor. */
static bool add_stored(void *context, const char *path, const struct uuid *uuid,
                       struct error *error)
{
    struct report *report = context;
    struct report_image image = {.own = sidecar_read_for(report->options, path, error)};

    image.sidecar = image.own;
    if (image.own == NULL)
        return false;
    if (!store_check_uuid(path, &image.own->facts.uuid, uuid, error)) {
        sidecar_close(image.own);
        return false;
    }
    add_image(report, image);
    return true;
}

/* ---- the profiles ---- */

/* Leaves out an image of which no sidecar was found. */
static void leave_out_lacking(struct report *report, const struct lacking_image *image)
{
    char hex[UUID_HEX_MAX], count[COUNT_TEXT_MAX];

    if (image->uuid.size == 0)
        report_leave_out(report, LEFT_OUT_MISSING,
                         "%s left out, such as %s: of images that were not split and are not "
                         "named, so the report lacks these",
                         count_text(image->profile_count, "profile", count), image->first);
    else
        report_leave_out(report, LEFT_OUT_MISSING,
                         "%s of the image with UUID %s left out, such as %s: no sidecar of it was "
                         "found, so the report lacks the image",
                         count_text(image->profile_count, "profile", count),
                         uuid_format(&image->uuid, hex), image->first);
}

/* Tells of the inputs that the merge has left out. It is an error if one is bad for another reason
 * than that no sidecar of its image was found: a sidecar that is damaged or of another build is not
 * missing. */
static bool check_inputs(struct report *report, struct error *error)
{
    const struct merge *merge = &report->merge;
    char count[COUNT_TEXT_MAX];

    for (size_t i = 0; i < merge->failure_count; i++) {
        if (merge->failures[i].error.number != ENODATA) {
            *error = merge->failures[i].error;
            return false;
        }
    }
    for (size_t i = 0; i < merge->lacking.count; i++)
        leave_out_lacking(report, &merge->lacking.items[i]);
    if (merge->empty_count != 0)
        report_leave_out(report, LEFT_OUT_EMPTY,
                         "%s, such as %s: " PROFILE_EMPTY_BECAUSE "; left out",
                         count_text(merge->empty_count, "profile", count),
                         merge_input_name(merge, merge->first_empty));
    return true;
}

static void note_time(struct report *report, const char *path)
{
    struct stat status;

    if (stat(path, &status) == 0 && status.st_mtime > 0 &&
        (uint64_t)status.st_mtime > report->newest)
        report->newest = (uint64_t)status.st_mtime;
}

/* Reads the raw profiles and the states, and the operands that are indexed profiles. */
static bool read_profiles(struct report *report, struct error *error)
{
    bool done = true;

    if (report->request.operand_count != 0)
        done = merge_open(&report->merge, error) && check_inputs(report, error) &&
               add_merged(report, error);
    for (size_t i = 0; i < report->merge.inputs.count; i++)
        note_time(report, report->merge.inputs.paths[i]);
    sidecars_fetch(&report->sidecars.places, report->indexed, report->indexed_count, true);
    for (size_t i = 0; done && i < report->indexed_count; i++) {
        note_time(report, report->indexed[i]);
        done = add_indexed(report, report->indexed[i], error);
    }
    return done;
}

/* ---- builds of one image ---- */

static uint64_t main_reference(void)
{
    return md5_name_reference((struct bytes){(const uint8_t *)"main", 4});
}

/* Reads what tells whether two images of one name are builds of one, unless that has been done: an
 * image may be compared with many. */
static bool read_build(struct report *report, struct report_image *image, struct error *error)
{
    struct names *files = &report->build_files;

    if (image->has_file != NULL)
        return true;
    if (!function_places_read(&image->mains, image->sidecar, NULL, files, error))
        return false;
    image->file_count = files->count;
    image->has_file = command_array(files->count, sizeof(*image->has_file));
    for (size_t i = 0; i < image->mains.count; i++)
        image->has_file[image->mains.items[i].file] = true;
    function_places_keep(&image->mains, main_reference());
    return true;
}

/* What the functions of two images of one name tell. */
struct likeness {
    bool has_common; /* a file has functions of both */
    bool has_mains;  /* both have a `main`, in different files */
    bool has_own[2]; /* each has a file that the other lacks */
};

static struct likeness compare_functions(const struct report_image *one,
                                         const struct report_image *other)
{
    struct likeness likeness = {.has_common = false};

    for (size_t i = 0; i < one->file_count || i < other->file_count; i++) {
        bool in_one = i < one->file_count && one->has_file[i];
        bool in_other = i < other->file_count && other->has_file[i];

        likeness.has_own[0] |= in_one && !in_other;
        likeness.has_own[1] |= in_other && !in_one;
        likeness.has_common |= in_one && in_other;
    }
    for (size_t i = 0; i < one->mains.count; i++) {
        const struct function_place *place = &one->mains.items[i];
        const struct function_place *same =
            function_places_find(&other->mains, place->name_ref, place->hash);

        likeness.has_mains |= same != NULL && same->file != place->file;
    }
    return likeness;
}

/* True if the profiles of one were written before the other was made. */
static bool is_before(const struct report_image *one, const struct report_image *other)
{
    return one->newest != 0 && one->newest < merge_file_time(other->sidecar->name);
}

/* Two images of one name are builds of one if they have a source file in common: functions may have
 * other names in each build, as those of Rust. They are not if their `main` is in different files;
 * nor if each has files of its own, as tests with a library in
 * common, and both were there when they ran. */
static bool are_builds_of_one(struct report *report, struct report_image *one,
                              struct report_image *other, bool *are_builds, struct error *error)
{
    const char *name = one->sidecar->image_name;
    struct likeness likeness;

    *are_builds = false;
    if (name[0] == '\0' || strcmp(name, other->sidecar->image_name) != 0)
        return true;
    if (!read_build(report, one, error) || !read_build(report, other, error))
        return false;
    likeness = compare_functions(one, other);
    *are_builds = likeness.has_common && !likeness.has_mains &&
                  (!likeness.has_own[0] || !likeness.has_own[1] || is_before(one, other) ||
                   is_before(other, one));
    return true;
}

/* Compares two builds of an image: more than 0 if the first one is to be reported. */
static int compare_builds(const struct report_image *one, const struct report_image *other)
{
    int64_t left = merge_file_time(one->sidecar->name),
            right = merge_file_time(other->sidecar->name);

    if (one->is_named != other->is_named)
        return one->is_named ? 1 : -1;
    if (one->newest != other->newest)
        return one->newest > other->newest ? 1 : -1;
    return (left > right) - (left < right);
}

/* Takes an image out, with its groups. */
static void drop_image(struct report *report, size_t index)
{
    struct profile_groups *groups = &report->merge.groups;
    struct report_image *image = &report->images[index];

    for (size_t i = groups->count; i-- > 0;) {
        for (size_t k = 0; k < image->group_count; k++) {
            if (groups->list[i] == image->groups[k]) {
                profile_groups_drop(groups, i);
                break;
            }
        }
    }
    release(report, image);
    report->image_count--;
    memmove(&report->images[index], &report->images[index + 1],
            (report->image_count - index) * sizeof(*report->images));
}

/* Takes out the build that is not to be reported. */
static bool drop_build(struct report *report, size_t index, const struct report_image *kept,
                       struct error *error)
{
    const struct report_image *image = &report->images[index];
    char hex[UUID_HEX_MAX], other[UUID_HEX_MAX], profiles[COUNT_TEXT_MAX];

    uuid_format(&image->sidecar->facts.uuid, hex);
    uuid_format(&kept->sidecar->facts.uuid, other);
    if (image->is_indexed)
        return error_set(error,
                         "%s: the profiles and images are of two builds of it, with UUIDs %s and "
                         "%s, and in an indexed profile the counts of both may be added up; merge "
                         "the profiles of one build, or give --all-builds",
                         image->sidecar->image_name, hex, other);
    if (compare_builds(image, kept) == 0)
        return error_set(error,
                         "%s: there are profiles of two builds of it, with UUIDs %s and %s, and "
                         "their times do not tell which is newer; name the image, or give "
                         "--all-builds",
                         image->sidecar->image_name, hex, other);
    if (image->profile_count != 0)
        report_leave_out(report, LEFT_OUT_EARLIER,
                         "%s, such as %s: left out, of %s build of '%s' (UUID %s); remove them, or "
                         "give --all-builds",
                         count_text(image->profile_count, "profile", profiles),
                         image->groups[0]->name,
                         image->newest < kept->newest ? "an earlier" : "another",
                         image->sidecar->image_name, hex);
    else if (image->is_named)
        report_leave_out(report, LEFT_OUT_EARLIER,
                         "%s: left out, another build of '%s' than that of the newest profiles; "
                         "leave it out, or give --all-builds",
                         image->sidecar->name, image->sidecar->image_name);
    drop_image(report, index);
    return true;
}

/* Takes out all builds of the image but the one that is to be reported. */
static bool choose_build(struct report *report, size_t index, struct error *error)
{
    bool *is_build = command_array(report->image_count, sizeof(*is_build));
    struct report_image kept = report->images[index];
    size_t count = report->image_count;
    bool done = true;

    is_build[index] = true;
    for (size_t i = index + 1; done && i < count; i++) {
        done = are_builds_of_one(report, &report->images[index], &report->images[i], &is_build[i],
                                 error);
        if (is_build[i] && compare_builds(&report->images[i], &kept) > 0)
            kept = report->images[i];
    }
    for (size_t i = count; done && i-- > index;) {
        if (is_build[i] && report->images[i].sidecar != kept.sidecar)
            done = drop_build(report, i, &kept, error);
    }
    free(is_build);
    return done;
}

/* ---- all of them ---- */

static bool choose_images(struct report *report, struct error *error)
{
    const char *first =
        report->indexed_count != 0 ? report->indexed[0] : report->request.operands[0].path;
    bool all_builds = option_given(report->options, OPTION_ALL_BUILDS);
    bool may_lack = report_ignores(report, LEFT_OUT_MISSING) && report->image_count != 0;
    struct unmapped_images unmapped = {0};
    struct error text;
    size_t kept = 0;

    if (report->lacking.count != 0 && !may_lack) {
        *error = report->first_lacking;
        if (report->lacking.items[0].uuid.size == 0)
            return false;
        if (report->lacking.count == 1) {
            unsplit_image_tell(&report->lacking.items[0].uuid, report->lacking.items[0].first,
                               error);
            return false;
        }
        lacking_images_tell(&report->lacking, error);
        text = *error;
        error_set(error, "%.940s, or if they were not split: name the images, too", text.message);
        error->number = text.number;
        return false;
    }
    for (size_t i = 0; i < report->lacking.count; i++)
        leave_out_lacking(report, &report->lacking.items[i]);
    for (size_t i = 0; !all_builds && i < report->image_count;) {
        const struct sidecar *sidecar = report->images[i].sidecar;

        if (!choose_build(report, i, error))
            return false;
        i += i < report->image_count && report->images[i].sidecar == sidecar;
    }
    for (size_t i = 0; i < report->image_count; i++) {
        struct report_image *image = &report->images[i];

        if (unmapped_images_note(&unmapped, image->sidecar))
            release(report, image);
        else
            report->images[kept++] = *image;
    }
    report->image_count = kept;
    if (unmapped_images_tell(&unmapped, &text) && kept != 0)
        report_leave_out(report, LEFT_OUT_UNMAPPED, "%s", text.message);
    unmapped_images_free(&unmapped);
    return kept != 0 || error_set(error,
                                  "%s: no image of the profiles has coverage mapping; compile with "
                                  "-fcoverage-mapping for reports",
                                  first);
}

/* By name, then UUID: the same however the profiles are named. */
static int compare_images(const void *a, const void *b)
{
    const struct sidecar *left = ((const struct report_image *)a)->sidecar;
    const struct sidecar *right = ((const struct report_image *)b)->sidecar;
    int order = strcmp(left->image_name, right->image_name);

    return order != 0 ? order : uuid_compare(&left->facts.uuid, &right->facts.uuid);
}

bool report_gather(struct report *report, const char *const *operands, size_t count,
                   struct error *error)
{
    const struct sidecar_places *places = &report->sidecars.places;

    if (!profile_sidecars_open(&report->sidecars, report->options, error) ||
        !sidecar_places_check(places, error) || !read_operands(report, operands, count, error))
        return false;
    if (report->request.operand_count == 0 && report->indexed_count == 0)
        return error_set(error, "%s: an image, and no profile is named; name the profiles, too",
                         operands[0]);
    if (!read_profiles(report, error) ||
        (option_given(report->options, OPTION_ALL) &&
         !(store_list_walk(&places->store, add_stored, report, error) &&
           store_list_walk(&places->environment, add_stored, report, error))) ||
        !choose_images(report, error))
        return false;
    if (report->image_count > 1)
        qsort(report->images, report->image_count, sizeof(*report->images), compare_images);
    return report->request.operand_count == 0 || report->merge.groups.count != 0 ||
           error_set(error,
                     "%s: no raw profile is left for the report; give profiles of the images that "
                     "are named",
                     report->request.operands[0].path);
}
