/*
 * Writing the files of a merge: see merge.h.
 *
 * A .profraw file gets one profile for each group of profiles. For a .profdata file, each group's
 * profile is written to an unnamed file, a spool, and llvm-profdata makes the result from these: it
 * does once for each group what it would otherwise do for every profile.
 *
 * No llvm-profdata reads the raw profiles of every LLVM. Those of each version are given to one
 * that reads them, and the newest puts the indexed profiles that these write together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/file.h"
#include "split/cli/memory.h"
#include "split/profiles/llvm_tool.h"
#include "split/profiles/merge.h"

/* An unnamed file that llvm-profdata reads. */
struct spool {
    struct output file;
    const struct profile_group *group; /* whose profiles it has */
    const char *name;                  /* in messages */
    uint64_t weight;                   /* by which its counters are multiplied */
};

struct spools {
    struct spool *items; /* in the order of the groups */
    size_t count, capacity;
};

#define RAW_VERSIONS (PROFILE_VERSION_MAX - PROFILE_VERSION_MIN + 1)

/* The llvm-profdata for raw profiles of a version. */
struct reader {
    unsigned version;
    char *program;
};

struct maker {
    const struct merge *merge;
    const struct merge_request *request; /* beside whose output there should be room for spools */
    struct reader readers[RAW_VERSIONS]; /* for .profdata; the oldest LLVM first */
    size_t reader_count;
    const char *writer; /* the llvm-profdata that puts together what several readers write */
    struct spools spools;
};

/* Some of the groups, in their order. */
struct selection {
    const struct profile_group **groups;
    size_t count;
};

/* ---- groups into files ---- */

/* A merge_user: writes the profile to an output. */
static bool write_profile(void *context, const struct merge_found *found, struct error *error)
{
    return profile_sidecar_write(found->group->sidecar, found->profile, found->name, context,
                                 error);
}

/* The place for the parts of a group's sum: a file, or a spool for each of them. */
struct target {
    const struct profile_group *group;
    struct output *output;
    struct maker *maker;
};

/* A profile_sum_visitor. */
static bool append_part(void *context, const struct profile *part, uint64_t weight,
                        struct error *error)
{
    const struct target *target = context;
    const struct profile_group *group = target->group;

    (void)weight;
    return profile_sidecar_write(group->sidecar, part, group->name, target->output, error);
}

static bool write_raw(const struct merge *merge, const struct selection *selection,
                      struct output *output, struct error *error)
{
    for (size_t i = 0; i < selection->count; i++) {
        const struct profile_group *group = selection->groups[i];
        struct target target = {.group = group, .output = output};

        if (group->is_temporal)
            return error_set(error,
                             "%s: a temporal profile: a .profraw file cannot hold the order of "
                             "events of several runs; merge into a .profdata file",
                             group->name);
        if (group->can_be_summed
                ? !profile_sum_visit(group->sum, false, append_part, &target, error)
                : !merge_read_again(merge, &group, 1, write_profile, output, error))
            return false;
        profile_sidecar_unload(group->sidecar);
    }
    return true;
}

/* ---- spools ---- */

static void free_spools(struct spools *spools)
{
    for (size_t i = 0; i < spools->count; i++)
        output_discard(&spools->items[i].file);
    free(spools->items);
}

/* Adds a spool, in the directory of the output. The pointer is valid until the next call. */
static struct output *add_spool(struct spools *spools, const char *path,
                                const struct profile_group *group, const char *name,
                                uint64_t weight, struct error *error)
{
    struct output_options options = {.mode = 0600, .is_nameless = true};
    struct spool *spool;

    COMMAND_ROOM_FOR_ONE(spools->items, spools->capacity, spools->count);
    spool = &spools->items[spools->count];
    *spool = (struct spool){.group = group, .name = name, .weight = weight};
    if (!output_create(&spool->file, path, &options, error))
        return NULL;
    spools->count++;
    return &spool->file;
}

/* A profile_sum_visitor: makes a spool of each part, since parts have different weights.
 * llvm-profdata limits what gets too large. */
static bool spool_part(void *context, const struct profile *part, uint64_t weight,
                       struct error *error)
{
    const struct target *target = context;
    const struct profile_group *group = target->group;
    struct maker *maker = target->maker;
    struct output *file;

    if (__builtin_mul_overflow(weight, group->weight, &weight))
        weight = UINT64_MAX;
    file = add_spool(&maker->spools, maker->request->output, group, group->name, weight, error);
    return file != NULL && profile_sidecar_write(group->sidecar, part, group->name, file, error) &&
           output_lend(file, error);
}

/* Makes the spools of all groups but the temporal ones. Profiles with value data can be in one
 * file, one after the other. */
static bool spool_all(struct maker *maker, struct error *error)
{
    struct rlimit limit;

    /* Every spool is an open file in this process and in llvm-profdata. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (size_t i = 0; i < maker->merge->groups.count; i++) {
        const struct profile_group *group = maker->merge->groups.list[i];
        struct target target = {.group = group, .maker = maker};
        struct output *file;
        bool done;

        if (group->is_temporal)
            continue;
        if (group->can_be_summed) {
            done = profile_sum_visit(group->sum, true, spool_part, &target, error);
        } else {
            file = add_spool(&maker->spools, maker->request->output, group, group->name,
                             group->weight, error);
            done = file != NULL &&
                   merge_read_again(maker->merge, &group, 1, write_profile, file, error) &&
                   output_lend(file, error);
        }
        if (!done)
            return false;
        profile_sidecar_unload(group->sidecar);
    }
    return true;
}

/* ---- temporal profiles ---- */

struct temporal_target {
    const char *path;
    struct spools spools;
    size_t input; /* that the last spool was from */
};

/* A merge_user: llvm-profdata takes all events in a file for those of one run, so each input with
 * temporal profiles gets a spool. */
static bool spool_temporal(void *context, const struct merge_found *found, struct error *error)
{
    struct temporal_target *target = context;
    struct spools *spools = &target->spools;
    const struct profile_group *group = found->group;

    if (!group->is_temporal)
        return true;
    if (spools->count == 0 || target->input != found->input) {
        if ((spools->count != 0 && !output_lend(&spools->items[spools->count - 1].file, error)) ||
            add_spool(spools, target->path, group, found->name, group->weight, error) == NULL)
            return false;
    }
    target->input = found->input;
    return write_profile(&spools->items[spools->count - 1].file, found, error);
}

static bool spool_all_temporal(const struct merge *merge, const struct selection *selection,
                               struct temporal_target *target, struct error *error)
{
    struct spools *spools = &target->spools;
    bool has_any = false, done;

    for (size_t i = 0; i < selection->count; i++)
        has_any |= selection->groups[i]->is_temporal;
    done = !has_any || merge_read_again(merge, selection->groups, selection->count, spool_temporal,
                                        target, error);
    if (done && spools->count != 0)
        done = output_lend(&spools->items[spools->count - 1].file, error);
    for (size_t i = 0; i < selection->count; i++)
        profile_sidecar_unload(selection->groups[i]->sidecar);
    return done;
}

/* ---- one file ---- */

static void add_input(struct llvm_command *command, const struct spool *spool)
{
    char before[64];

    snprintf(before, sizeof(before), "-weighted-input=%" PRIu64 ",", spool->weight);
    llvm_command_add_file(command, before, spool->file.fd, spool->name);
}

/* Starts a command that merges to the output, which must be lent. */
static void start_command(const struct maker *maker, const char *program,
                          const struct output *output, struct llvm_command *command)
{
    llvm_command_add(command, "%s", program);
    llvm_command_add(command, "merge");
    if (maker->request->is_sparse)
        llvm_command_add(command, "-sparse");
    if (maker->request->goes_on)
        llvm_command_add(command, "-failure-mode=all");
    /* With one thread the order, and so the output, is always the same. */
    llvm_command_add(command, "-num-threads=1");
    llvm_command_add(command, "-o");
    llvm_command_add_file(command, "", output->fd, output->path);
}

static bool is_selected(const struct selection *selection, const struct profile_group *group)
{
    size_t i = 0;

    while (i < selection->count && selection->groups[i] != group)
        i++;
    return i < selection->count;
}

/* Runs llvm-profdata with the spools of the groups, which are of a version that it reads, and those
 * of their temporal profiles. */
static bool write_version(const struct maker *maker, const char *program,
                          const struct selection *selection, struct output *output,
                          struct error *error)
{
    struct temporal_target temporal = {.path = maker->request->output};
    const struct spools *spools = &maker->spools;
    struct llvm_command command = {0};
    bool done =
        spool_all_temporal(maker->merge, selection, &temporal, error) && output_lend(output, error);

    start_command(maker, program, output, &command);
    for (size_t i = 0; i < spools->count; i++) {
        if (is_selected(selection, spools->items[i].group))
            add_input(&command, &spools->items[i]);
    }
    for (size_t i = 0; i < temporal.spools.count; i++)
        add_input(&command, &temporal.spools.items[i]);
    done = done && llvm_command_run(&command, -1, output->path, error) &&
           output_take_back(output, error);
    llvm_command_free(&command);
    free_spools(&temporal.spools);
    return done;
}

/* Has each reader write an indexed profile of the groups that are for it, and the writer put these
 * together. */
static bool write_versions(const struct maker *maker, const struct selection *selection,
                           struct output *output, struct error *error)
{
    const struct output_options options = {.mode = 0600, .is_nameless = true};
    struct selection some = {.groups = command_array(selection->count, sizeof(*some.groups))};
    struct output parts[RAW_VERSIONS];
    struct llvm_command command = {0};
    size_t part_count = 0;
    bool done = output_lend(output, error);

    start_command(maker, maker->writer, output, &command);
    for (size_t i = 0; done && i < maker->reader_count; i++) {
        const struct reader *reader = &maker->readers[i];
        struct output *part = &parts[part_count];

        some.count = 0;
        for (size_t k = 0; k < selection->count; k++) {
            if (selection->groups[k]->version == reader->version)
                some.groups[some.count++] = selection->groups[k];
        }
        if (some.count == 0)
            continue;
        done = output_create(part, maker->request->output, &options, error);
        part_count += done;
        done = done && write_version(maker, reader->program, &some, part, error) &&
               output_lend(part, error);
        if (done)
            llvm_command_add_file(&command, "", part->fd, some.groups[0]->name);
    }
    done = done && llvm_command_run(&command, -1, output->path, error) &&
           output_take_back(output, error);
    llvm_command_free(&command);
    for (size_t i = 0; i < part_count; i++)
        output_discard(&parts[i]);
    free(some.groups);
    return done;
}

static bool write_indexed(const struct maker *maker, const struct selection *selection,
                          struct output *output, struct error *error)
{
    unsigned version = selection->groups[0]->version;
    size_t reader = 0;

    for (size_t i = 1; i < selection->count; i++) {
        if (selection->groups[i]->version != version)
            return write_versions(maker, selection, output, error);
    }
    while (maker->readers[reader].version != version)
        reader++;
    return write_version(maker, maker->readers[reader].program, selection, output, error);
}

/* ---- the programs ---- */

/* The first group of this version; NULL if there is none. */
static const struct profile_group *find_version(const struct maker *maker, unsigned version)
{
    const struct profile_groups *groups = &maker->merge->groups;

    for (size_t i = 0; i < groups->count; i++) {
        if (groups->list[i]->version == version)
            return groups->list[i];
    }
    return NULL;
}

/* Says of which version which profiles are, where no program reads those of one. What to do follows
 * the last semicolon, and stays last. */
static void tell_versions(const struct maker *maker, struct error *error)
{
    struct error list = {.message = ""}, before, why = *error;
    const char *advice = strrchr(why.message, ';');

    for (unsigned version = PROFILE_VERSION_MIN; version <= PROFILE_VERSION_MAX; version++) {
        const struct profile_group *group = find_version(maker, version);
        struct profile_sidecar *sidecar = group == NULL ? NULL : profile_group_sidecar(group);
        const char *image = sidecar == NULL ? "" : sidecar->sidecar->image_name;

        if (group == NULL)
            continue;
        before = list;
        error_set(&list, "%.400s%s%.120s%s%.60s%s is of version %u", before.message,
                  before.message[0] == '\0' ? "" : ", ", group->name,
                  image[0] == '\0' ? "" : " (image '", image, image[0] == '\0' ? "" : "')",
                  version);
    }
    error_set(error, "%.*s; %s%s", advice == NULL ? 0 : (int)(advice - why.message), why.message,
              list.message, advice == NULL ? "" : advice);
    error->number = why.number;
}

/* Finds a reader for each version. The program that is given reads what it can, and writes unless
 * it is older than another one. */
static bool find_readers(struct maker *maker, struct error *error)
{
    const char *given = llvm_tool_given(LLVM_PROFDATA, maker->request->llvm_profdata);
    unsigned newest, first = maker->merge->groups.list[0]->version;
    bool is_one = true;

    for (size_t i = 0; i < maker->merge->groups.count; i++)
        is_one = is_one && maker->merge->groups.list[i]->version == first;
    for (unsigned version = PROFILE_VERSION_MIN; version <= PROFILE_VERSION_MAX; version++) {
        struct reader *reader = &maker->readers[maker->reader_count];

        if (find_version(maker, version) == NULL)
            continue;
        reader->version = version;
        reader->program = given != NULL && (is_one || llvm_profdata_reads(given, version))
                              ? command_copy(given)
                              : llvm_tool_search(LLVM_PROFDATA, version, error);
        if (reader->program == NULL) {
            if (!is_one)
                tell_versions(maker, error);
            return false;
        }
        maker->reader_count++;
    }
    maker->writer = maker->readers[maker->reader_count - 1].program;
    if (!is_one && given != NULL && strcmp(given, maker->writer) != 0) {
        newest = llvm_tool_release(maker->writer);
        if (llvm_tool_release(given) >= newest)
            maker->writer = given;
    }
    return true;
}

/* ---- files ---- */

/* Makes the next file, of some of the groups. */
static bool make_file(const struct maker *maker, const char *path,
                      const struct selection *selection, struct merge_outputs *outputs,
                      struct error *error)
{
    const struct output_options options = {.mode = file_new_mode()};
    struct output *output = &outputs->files[outputs->count];

    if (!(maker->request->is_in_memory
              ? output_create_in_memory(output, "the merged profile", error)
              : output_create(output, path, &options, error)))
        return false;
    outputs->count++;
    return maker->request->format == FORMAT_RAW ? write_raw(maker->merge, selection, output, error)
                                                : write_indexed(maker, selection, output, error);
}

/* ---- a file for each image ---- */

/* DIR/UUID.profdata. An image without a UUID is told by the identity of its profiles. */
static char *image_path(const struct maker *maker, const struct profile_group *group)
{
    const char *directory = maker->request->per_image;
    const char *ending = maker->request->format == FORMAT_RAW ? "profraw" : "profdata";
    struct uuid uuid = profile_group_uuid(group);
    char hex[UUID_HEX_MAX];

    if (uuid.size != 0)
        uuid_format(&uuid, hex);
    else
        digest_format(&group->sum->identity, hex);
    return command_text("%s/%s%s.%s", directory, uuid.size != 0 ? "" : "no-uuid-", hex, ending);
}

/* Makes the files of the images, in the order of their first groups. Groups of one UUID have one
 * file. */
static bool make_image_files(const struct maker *maker, const struct profile_group **groups,
                             struct merge_outputs *outputs, struct error *error)
{
    size_t count = maker->merge->groups.count;
    char **paths = command_array(count, sizeof(*paths));
    bool done = directory_make(maker->request->per_image, error);

    for (size_t i = 0; i < count; i++)
        paths[i] = image_path(maker, maker->merge->groups.list[i]);
    for (size_t i = 0; done && i < count; i++) {
        struct selection selection = {.groups = groups};
        size_t first = 0;

        while (strcmp(paths[first], paths[i]) != 0)
            first++;
        if (first != i)
            continue;
        for (size_t k = i; k < count; k++) {
            if (strcmp(paths[k], paths[i]) == 0)
                groups[selection.count++] = maker->merge->groups.list[k];
        }
        done = (!paths_refer_to_same_file(paths[i], maker->request->output) ||
                error_set(error, "%s: is also the output of one image; give another --output",
                          paths[i])) &&
               make_file(maker, paths[i], &selection, outputs, error);
    }
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    return done;
}

/* ---- all files ---- */

bool merge_outputs_make(struct merge_outputs *outputs, const struct merge *merge,
                        struct error *error)
{
    size_t count = merge->groups.count;
    struct selection all = {command_array(count, sizeof(*all.groups)), count};
    struct maker maker = {.merge = merge, .request = merge->request};
    bool done = true;

    outputs->files = command_array(count + 1, sizeof(*outputs->files));
    if (maker.request->format == FORMAT_INDEXED)
        done = find_readers(&maker, error) && spool_all(&maker, error);
    if (done && maker.request->per_image != NULL)
        done = make_image_files(&maker, all.groups, outputs, error);
    for (size_t i = 0; i < count; i++)
        all.groups[i] = merge->groups.list[i];
    done = done && make_file(&maker, maker.request->output, &all, outputs, error);
    free_spools(&maker.spools);
    for (size_t i = 0; i < maker.reader_count; i++)
        free(maker.readers[i].program);
    free(all.groups);
    return done;
}

bool merge_outputs_commit(struct merge_outputs *outputs, struct error *error)
{
    enum output_result result;

    for (size_t i = 0; i < outputs->count; i++) {
        if (!output_commit(&outputs->files[i], &result, error))
            return false;
    }
    return true;
}

void merge_outputs_free(struct merge_outputs *outputs)
{
    for (size_t i = 0; i < outputs->count; i++)
        output_discard(&outputs->files[i]);
    free(outputs->files);
    *outputs = (struct merge_outputs){0};
}
