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

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), ending_length = strlen(ending);

    return length > ending_length && strcmp(text + length - ending_length, ending) == 0;
}

enum profile_format merge_output_format(const struct parsed_options *options)
{
    const char *output = option_text(options, OPTION_OUTPUT);

    if (option_given(options, OPTION_FORMAT))
        return (enum profile_format)option_number(options, OPTION_FORMAT);
    return ends_with(output, ".profraw")    ? FORMAT_RAW
           : ends_with(output, ".profdata") ? FORMAT_INDEXED
                                            : FORMAT_UNKNOWN;
}

/* An unnamed file that llvm-profdata reads. */
struct spool {
    struct output file;
    const char *name; /* in messages */
    uint64_t weight;  /* by which its counters are multiplied */
    size_t group;     /* its number */
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
    const struct parsed_options *options;
    const char *path; /* --output: there should be room for spools beside it */
    enum profile_format format;
    struct reader readers[RAW_VERSIONS]; /* for .profdata; the oldest LLVM first */
    size_t reader_count;
    const char *writer; /* the llvm-profdata that puts together what several readers write */
    struct spools spools;
};

/* Some of the groups, by their numbers in ascending order. */
struct selection {
    const size_t *groups;
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
    size_t number; /* of the group */
    struct output *output;
    const char *path;
    struct spools *spools;
};

static bool write_part(const struct profile_group *group, struct bytes part, struct output *output,
                       struct error *error)
{
    struct profile profile;

    return profile_parse(part, 0, group->name, &profile, error) &&
           profile_sidecar_write(group->sidecar, &profile, group->name, output, error);
}

/* A profile_sum_visitor. */
static bool append_part(void *context, struct bytes part, uint64_t weight, struct error *error)
{
    const struct target *target = context;

    (void)weight;
    return write_part(target->group, part, target->output, error);
}

static bool write_raw(const struct merge *merge, const struct selection *selection,
                      struct output *output, struct error *error)
{
    for (size_t i = 0; i < selection->count; i++) {
        const struct profile_group *group = merge->groups.list[selection->groups[i]];
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

/* Adds a spool. The pointer is valid until the next call. */
static struct output *add_spool(struct spools *spools, const char *path, const char *name,
                                uint64_t weight, size_t group, struct error *error)
{
    struct output_options options = {.mode = 0600, .is_nameless = true};
    struct spool *spool;

    COMMAND_ROOM_FOR_ONE(spools->items, spools->capacity, spools->count);
    spool = &spools->items[spools->count];
    *spool = (struct spool){.name = name, .weight = weight, .group = group};
    if (!output_create(&spool->file, path, &options, error))
        return NULL;
    spools->count++;
    return &spool->file;
}

/* A profile_sum_visitor: makes a spool of each part, since parts have different weights.
 * llvm-profdata limits what gets too large. */
static bool spool_part(void *context, struct bytes part, uint64_t weight, struct error *error)
{
    const struct target *target = context;
    struct output *file;

    if (__builtin_mul_overflow(weight, target->group->weight, &weight))
        weight = UINT64_MAX;
    file =
        add_spool(target->spools, target->path, target->group->name, weight, target->number, error);
    return file != NULL && write_part(target->group, part, file, error) && output_lend(file, error);
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
        struct target target = {
            .group = group, .number = i, .path = maker->path, .spools = &maker->spools};
        struct output *file;
        bool done;

        if (group->is_temporal)
            continue;
        if (group->can_be_summed) {
            done = profile_sum_visit(group->sum, true, spool_part, &target, error);
        } else {
            file = add_spool(&maker->spools, maker->path, group->name, group->weight, i, error);
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

/* A merge_user. */
static bool spool_temporal(void *context, const struct merge_found *found, struct error *error)
{
    struct temporal_target *target = context;
    struct spools *spools = &target->spools;

    if (spools->count == 0 || target->input != found->input) {
        if ((spools->count != 0 && !output_lend(&spools->items[spools->count - 1].file, error)) ||
            add_spool(spools, target->path, found->name, found->group->weight, 0, error) == NULL)
            return false;
    }
    target->input = found->input;
    return write_profile(&spools->items[spools->count - 1].file, found, error);
}

/* Makes a spool for each input with temporal profiles of the groups: llvm-profdata takes all events
 * in a file for those of one run. */
static bool spool_all_temporal(const struct merge *merge, const struct selection *selection,
                               struct temporal_target *target, struct error *error)
{
    const struct profile_group **groups = command_array(selection->count, sizeof(*groups));
    struct spools *spools = &target->spools;
    size_t count = 0;
    bool done;

    for (size_t i = 0; i < selection->count; i++) {
        const struct profile_group *group = merge->groups.list[selection->groups[i]];

        if (group->is_temporal)
            groups[count++] = group;
    }
    done = count == 0 || merge_read_again(merge, groups, count, spool_temporal, target, error);
    if (done && spools->count != 0)
        done = output_lend(&spools->items[spools->count - 1].file, error);
    for (size_t i = 0; i < count; i++)
        profile_sidecar_unload(groups[i]->sidecar);
    free(groups);
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
    if (option_given(maker->options, OPTION_SPARSE))
        llvm_command_add(command, "-sparse");
    if (maker->merge->goes_on)
        llvm_command_add(command, "-failure-mode=all");
    /* With one thread the order, and so the output, is always the same. */
    llvm_command_add(command, "-num-threads=1");
    llvm_command_add(command, "-o");
    llvm_command_add_file(command, "", output->fd, output->path);
}

/* Runs llvm-profdata with the spools of the groups, which are of a version that it reads, and those
 * of their temporal profiles. */
static bool write_version(const struct maker *maker, const char *program,
                          const struct selection *selection, struct output *output,
                          struct error *error)
{
    struct temporal_target temporal = {.path = maker->path};
    const struct spools *spools = &maker->spools;
    struct llvm_command command = {0};
    size_t next = 0;
    bool done =
        spool_all_temporal(maker->merge, selection, &temporal, error) && output_lend(output, error);

    start_command(maker, program, output, &command);
    for (size_t i = 0; i < spools->count; i++) {
        while (next < selection->count && selection->groups[next] < spools->items[i].group)
            next++;
        if (next < selection->count && selection->groups[next] == spools->items[i].group)
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

/* Those groups of the selection that are of this version; free `groups`. */
static struct selection select_version(const struct maker *maker, const struct selection *selection,
                                       unsigned version, size_t **groups)
{
    struct selection found = {.groups = *groups =
                                  command_array(selection->count, sizeof(**groups))};

    for (size_t i = 0; i < selection->count; i++) {
        if (maker->merge->groups.list[selection->groups[i]]->version == version)
            (*groups)[found.count++] = selection->groups[i];
    }
    return found;
}

/* Has each reader write an indexed profile of the groups that are for it, and the writer put these
 * together. */
static bool write_versions(const struct maker *maker, const struct selection *selection,
                           struct output *output, struct error *error)
{
    const struct output_options options = {.mode = 0600, .is_nameless = true};
    struct output parts[RAW_VERSIONS];
    struct llvm_command command = {0};
    size_t part_count = 0;
    bool done = output_lend(output, error);

    start_command(maker, maker->writer, output, &command);
    for (size_t i = 0; done && i < maker->reader_count; i++) {
        const struct reader *reader = &maker->readers[i];
        size_t *groups;
        struct selection some = select_version(maker, selection, reader->version, &groups);

        if (some.count != 0 &&
            (done = output_create(&parts[part_count], maker->path, &options, error))) {
            struct output *part = &parts[part_count++];

            done = write_version(maker, reader->program, &some, part, error) &&
                   output_lend(part, error);
            llvm_command_add_file(&command, "", part->fd,
                                  maker->merge->groups.list[some.groups[0]]->name);
        }
        free(groups);
    }
    done = done && llvm_command_run(&command, -1, output->path, error) &&
           output_take_back(output, error);
    llvm_command_free(&command);
    for (size_t i = 0; i < part_count; i++)
        output_discard(&parts[i]);
    return done;
}

static bool write_indexed(const struct maker *maker, const struct selection *selection,
                          struct output *output, struct error *error)
{
    const struct profile_groups *groups = &maker->merge->groups;
    unsigned version = selection->count == 0 ? 0 : groups->list[selection->groups[0]]->version;
    size_t same = 0, reader = 0;

    while (same < selection->count && groups->list[selection->groups[same]]->version == version)
        same++;
    while (reader < maker->reader_count && maker->readers[reader].version != version)
        reader++;
    return same == selection->count
               ? write_version(maker, maker->readers[reader].program, selection, output, error)
               : write_versions(maker, selection, output, error);
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
    const char *given =
        llvm_tool_given(LLVM_PROFDATA, option_text(maker->options, OPTION_LLVM_PROFDATA));
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
static bool make_file(const struct maker *maker, const char *path, bool in_memory,
                      const struct selection *selection, struct merge_outputs *outputs,
                      struct error *error)
{
    const struct output_options options = {.mode = file_new_mode()};
    struct output *output = &outputs->files[outputs->count];

    if (!(in_memory ? output_create_in_memory(output, "the merged profile", error)
                    : output_create(output, path, &options, error)))
        return false;
    outputs->count++;
    return maker->format == FORMAT_RAW ? write_raw(maker->merge, selection, output, error)
                                       : write_indexed(maker, selection, output, error);
}

/* ---- a file for each image ---- */

/* DIR/UUID.profdata. An image without a UUID is told by the identity of its profiles. */
static char *image_path(const struct maker *maker, const struct profile_group *group)
{
    const char *directory = option_text(maker->options, OPTION_PER_IMAGE);
    const char *ending = maker->format == FORMAT_RAW ? "profraw" : "profdata";
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
static bool make_image_files(const struct maker *maker, size_t *numbers,
                             struct merge_outputs *outputs, struct error *error)
{
    size_t count = maker->merge->groups.count;
    char **paths = command_array(count, sizeof(*paths));
    bool done = directory_make(option_text(maker->options, OPTION_PER_IMAGE), error);

    for (size_t i = 0; i < count; i++)
        paths[i] = image_path(maker, maker->merge->groups.list[i]);
    for (size_t i = 0; done && i < count; i++) {
        struct selection selection = {.groups = numbers};
        size_t first = 0;

        while (strcmp(paths[first], paths[i]) != 0)
            first++;
        if (first != i)
            continue;
        for (size_t k = i; k < count; k++) {
            if (strcmp(paths[k], paths[i]) == 0)
                numbers[selection.count++] = k;
        }
        done = (!paths_refer_to_same_file(paths[i], maker->path) ||
                error_set(error, "%s: is also the output of one image; give another --output",
                          paths[i])) &&
               make_file(maker, paths[i], false, &selection, outputs, error);
    }
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    return done;
}

/* ---- all files ---- */

bool merge_outputs_make(struct merge_outputs *outputs, const struct merge *merge,
                        const struct parsed_options *options, bool in_memory, struct error *error)
{
    size_t count = merge->groups.count, *numbers = command_array(count, sizeof(*numbers));
    struct selection all = {numbers, count};
    struct maker maker = {.merge = merge,
                          .options = options,
                          .path = option_text(options, OPTION_OUTPUT),
                          .format = in_memory ? FORMAT_INDEXED : merge_output_format(options)};
    bool done = true;

    outputs->files = command_array(count + 1, sizeof(*outputs->files));
    if (maker.format == FORMAT_INDEXED) {
        done = find_readers(&maker, error) && spool_all(&maker, error);
    }
    if (done && option_given(options, OPTION_PER_IMAGE))
        done = make_image_files(&maker, numbers, outputs, error);
    for (size_t i = 0; i < count; i++)
        numbers[i] = i;
    done = done && make_file(&maker, maker.path, in_memory, &all, outputs, error);
    free_spools(&maker.spools);
    for (size_t i = 0; i < maker.reader_count; i++)
        free(maker.readers[i].program);
    free(numbers);
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
