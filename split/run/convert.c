/*
 * Converts a file that a program has opened to what the program expects to find in it:
 *
 *   a stripped image       the ELF object of its sidecar, or the original image if the sidecar does
 *                          not have all of the coverage mapping
 *   a packed image         an ELF object with its coverage mapping, as ordinary sections
 *   a universal image      the original one, as far as there are sidecars for its slices
 *   a sidecar              its ELF object
 *   a store's directory    the union of its sidecars
 *   lightweight profiles   full raw profiles
 *   anything else          the file itself
 *
 * The result is a file in memory that nobody can change. The file is not trusted, and is read only
 * through the descriptor that the program opened, so a process that may not read a file gains
 * nothing here.
 *
 * A few pages show what a file is, so it is mapped for that. If another process truncates the file
 * meanwhile, reading it raises SIGBUS, which must not end the broker of a whole process tree: the
 * handler maps a page of zeros there, and the file is not converted. A file that is to be converted
 * is read into memory, except for images, of which usually only the UUID is needed.
 *
 * A thin image becomes the object of its sidecar, if reports need nothing else. From a universal
 * image, tools choose a slice themselves (-arch), so they are given a universal image: each slice
 * as it was before the split, with the original layout. A slice without a sidecar stays as it is.
 *
 * An image of packed objects that was not split is converted as if it had been, to the object of
 * a sidecar that is made for that (cli/images.h).
 *
 * The directory of a store, opened as if it were a file, becomes the union of all its sidecars
 * (sidecar/union.h). If one of them cannot be read there is no union: a report that lacks an image
 * would look right, but be wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/profile_reader.h"
#include "common/llvm/profile_sum.h"
#include "common/sidecar/exported.h"
#include "common/sidecar/union.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "split/cli/images.h"
#include "split/cli/message.h"
#include "split/run/run.h"

/* The maximum size of a file that is read into memory. */
#define CONTENT_SIZE_MAX (UINT64_C(1) << 30)

/* The allowance for a conversion beyond the contents of sidecars and of the file: headers,
 * padding. */
#define FRAME_SIZE_MAX (UINT64_C(1) << 20)

struct split_slices {
    struct container container; /* as in the stripped file, but without views of it */
    struct split_slice {
        bool is_split;
        bool has_sidecar; /* valid after find_sizes */
        struct split_image image;
    } slices[SLICES_MAX];
};

/* ---- the file in memory ---- */

/* Raises the allowed size by `more` bytes, but at most to MEMORY_LIMIT_MOST or to `more`, whichever
 * is larger. */
static void allow(struct conversion *conversion, uint64_t more)
{
    uint64_t most = more > MEMORY_LIMIT_MOST ? more : MEMORY_LIMIT_MOST, sum;

    if (!add_fits(conversion->allowed, more, &sum) || sum > most)
        sum = most;
    /* The present size was allowed before. */
    if (sum > conversion->allowed)
        conversion->allowed = sum;
}

static bool memory_failed(const struct conversion *conversion, struct error *error)
{
    return error_set_errno(error, errno, "%s: cannot be converted in memory", conversion->name);
}

/* Creates the file, whose name shows up in the memory maps of processes. */
static bool create_memory(struct conversion *conversion, struct error *error)
{
    const char *slash = strrchr(conversion->real_name, '/');
    char label[128];

    snprintf(label, sizeof(label), "covsplit:%.100s", slash == NULL ? "" : slash + 1);
    conversion->memory = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return conversion->memory >= 0 || memory_failed(conversion, error);
}

/* A bytes_sink. */
static bool write_part(void *context, struct bytes part, struct error *error)
{
    struct conversion *conversion = context;

    if (part.size > conversion->allowed - conversion->size)
        return error_set(error,
                         "%s: its conversion takes more memory than the limit of %" PRIu64
                         " bytes; raise it (--memory-limit) if the file is to be trusted",
                         conversion->name, conversion->allowed);
    while (part.size != 0 && !atomic_load_explicit(conversion->stop, memory_order_relaxed)) {
        ssize_t written = write(conversion->memory, part.data, (size_t)part.size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return memory_failed(conversion, error);
        part.data += written;
        part.size -= (uint64_t)written;
        conversion->size += (uint64_t)written;
    }
    return part.size == 0 ||
           error_set(error, "%s: its conversion was stopped; run again", conversion->name);
}

/* Gives the file in memory the mode of the original, without write permission, and its times, and
 * seals it. */
static bool seal(const struct conversion *conversion, struct error *error)
{
    const struct stat *original = &conversion->status;
    const struct timespec times[] = {original->st_atim, original->st_mtim};

    return (fchmod(conversion->memory, (original->st_mode & 0555) | S_IRUSR) == 0 &&
            futimens(conversion->memory, times) == 0 &&
            fcntl(conversion->memory, F_ADD_SEALS,
                  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) ||
           memory_failed(conversion, error);
}

/* ---- files that become shorter ---- */

/* The mapped file that a thread is examining. */
static _Thread_local struct {
    struct bytes bytes;
    bool is_cut_short;
} watched;

static struct sigaction action_before;

/* The fault comes from this thread's reading, so the handler may call any function. */
static void lost_page(int signal_number, siginfo_t *information, void *context)
{
    uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t address = (uintptr_t)information->si_addr;
    void *page = (void *)(address - address % page_size);

    if (range_within(address, 1, (uintptr_t)watched.bytes.data, watched.bytes.size) &&
        mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
        watched.is_cut_short = true;
        return;
    }
    if ((action_before.sa_flags & SA_SIGINFO) != 0)
        action_before.sa_sigaction(signal_number, information, context);
    _exit(STATUS_FAILED);
}

void conversion_prepare(void)
{
    struct sigaction action = {.sa_sigaction = lost_page, .sa_flags = SA_SIGINFO};

    sigaction(SIGBUS, &action, &action_before);
}

/* ---- examining ---- */

/* Takes the views of the file out of the slices. */
static void close_views(struct conversion *conversion)
{
    struct container views;

    if (conversion->slices == NULL)
        return;
    views = conversion->slices->container;
    container_close(&views);
    conversion->slices->container.header = (struct bytes){NULL, 0};
}

/* Looks for slices that were split or are packed; conversion->slices, if there are any, have views
 * of the input. False with an error if out of memory. */
static bool find_slices(struct conversion *conversion, const struct input *input,
                        struct error *error)
{
    struct split_slices *found = calloc(1, sizeof(*found));
    bool is_one = false;

    free(conversion->slices);
    conversion->slices = found;
    if (found == NULL)
        return error_out_of_memory(error, conversion->name, sizeof(*found));
    *error = (struct error){0};
    if (container_open(&found->container, input, error)) {
        for (size_t i = 0; i < found->container.count && !error_is_of_memory(error); i++) {
            struct split_slice *slice = &found->slices[i];

            slice->is_split =
                image_read_stripped_id(&found->container.slices[i].input, &slice->image, error);
            is_one |= slice->is_split || slice->image.is_packed;
        }
    }
    if (is_one && !error_is_of_memory(error))
        return true;
    container_close(&found->container);
    free(found);
    conversion->slices = NULL;
    return !error_is_of_memory(error);
}

/* Looks for profiles that are sparse or need their sidecar. Nothing is known of what follows a
 * damaged one. If the file is too large to convert, one such profile is enough, since the rest may
 * be a hole of any size. */
static bool find_profiles(struct conversion *conversion, const struct input *input,
                          struct error *error)
{
    struct profile_reader reader = {.file = input->bytes, .name = conversion->name};
    bool is_too_large = input->bytes.size > CONTENT_SIZE_MAX, found = true, done = true;
    struct profile profile;

    while (found && reader.offset < CONTENT_SIZE_MAX &&
           !(is_too_large && conversion->kind == SUBJECT_PROFILE)) {
        done = profile_reader_next(&reader, &profile, &found, error);
        if (!done)
            break;
        if (found && (reader.is_sparse || profile_needs_sidecar(&profile))) {
            conversion->kind = SUBJECT_PROFILE;
            conversion->has_no_data_by_design |= !reader.is_sparse && profile.header.num_data == 0;
        }
    }
    profile_reader_free(&reader);
    return done || !error_is_of_memory(error);
}

/* The file position belongs to the program and is not moved. */
static bool read_content(struct conversion *conversion, struct error *error)
{
    struct buffer *content = &conversion->content;
    size_t size = (size_t)conversion->status.st_size;

    if (content->data != NULL)
        return true;
    if ((uint64_t)conversion->status.st_size > CONTENT_SIZE_MAX)
        return error_set(error,
                         "%s: too large to convert in memory; use 'covsplit merge' or "
                         "'covsplit export'",
                         conversion->name);
    if (!buffer_reserve(content, size))
        return error_out_of_memory(error, conversion->name, size);
    content->size = size;
    return file_read_at(conversion->fd, conversion->name, 0, content->data, size, error);
}

bool conversion_examine(struct conversion *conversion, struct error *error)
{
    int flags = fcntl(conversion->fd, F_GETFL);
    struct stat *status = &conversion->status, entry;
    struct input input;
    bool done;

    if (fstat(conversion->fd, status) != 0 || flags < 0 || (flags & O_PATH) != 0 ||
        (flags & O_ACCMODE) == O_WRONLY)
        return true;
    if (S_ISDIR(status->st_mode) && fstatat(conversion->fd, ".build-id", &entry, 0) == 0 &&
        S_ISDIR(entry.st_mode))
        conversion->kind = SUBJECT_STORE;
    if (!S_ISREG(status->st_mode))
        return true;
    if (!input_open_descriptor(&input, conversion->fd, conversion->name, error))
        return false;
    *status = input.status;
    watched.bytes = input.bytes;
    watched.is_cut_short = false;
    done = find_slices(conversion, &input, error);
    close_views(conversion);
    conversion->is_raw_profile = profile_recognize(input.bytes);
    elf_file_build_id(input.bytes, &conversion->build_id);
    if (conversion->slices != NULL)
        conversion->kind = SUBJECT_IMAGE;
    else if (done && sidecar_recognize(input.bytes))
        conversion->kind = SUBJECT_SIDECAR;
    else if (done)
        done = find_profiles(conversion, &input, error);
    if (watched.is_cut_short)
        conversion->kind = SUBJECT_OTHER;
    watched.bytes = (struct bytes){NULL, 0};
    input_close(&input);
    if (done && (conversion->kind == SUBJECT_SIDECAR || conversion->kind == SUBJECT_PROFILE))
        done = read_content(conversion, error);
    return done;
}

bool conversion_check_profile(const struct conversion *conversion, const char *path,
                              const char *name, struct error *text)
{
    struct profile_uuids uuids = {0};
    enum profile_uuid_source source;
    struct profile profile;
    struct error unread;
    struct uuid uuid;
    struct input input;
    size_t count = 0;
    char hex[UUID_HEX_MAX];
    bool is_there = false;

    if (conversion->build_id.size == 0 || !input_open(&input, path, &unread))
        return true;
    watched.bytes = input.bytes;
    watched.is_cut_short = false;
    profile_open_indexed(&profile, input.bytes);
    uuids.profile = &profile;
    while (profile_recognize_indexed(input.bytes) && profile_next_uuid(&uuids, &uuid, &source)) {
        is_there |= uuid_equal(&uuid, &conversion->build_id);
        count++;
    }
    is_there |= count == 0 || watched.is_cut_short;
    watched.bytes = (struct bytes){NULL, 0};
    input_close(&input);
    return is_there ||
           error_set(text,
                     "covsplit: warning: %.400s: its UUID %s is not among those of the images that "
                     "%.400s is of: it did not run, and its coverage is rightly zero; or another "
                     "build of it ran: then merge the profiles of this one",
                     conversion->name, uuid_format(&conversion->build_id, hex), name);
}

void conversion_end(struct conversion *conversion)
{
    buffer_free(&conversion->content);
    free(conversion->slices);
}

/* ---- the sidecars of profiles and slices ---- */

struct path_names {
    char texts[2][PATH_MAX + SLICE_NAME_MAX];
    const char *list[3];
};

/* The names of a file or of a slice: the sidecar of a slice is beside the image as
 * IMAGE.ARCH.covsplit, unless it is in a store. */
static void list_names(const struct conversion *conversion, const char *arch,
                       struct path_names *names)
{
    const char *const files[] = {conversion->name, conversion->real_name};

    for (size_t i = 0; i < 2; i++)
        snprintf(names->texts[i], sizeof(names->texts[i]), "%s%s%s", files[i],
                 arch[0] == '\0' ? "" : ".", arch);
    names->list[0] = names->texts[0];
    names->list[1] =
        files[1][0] == '\0' || strcmp(files[0], files[1]) == 0 ? NULL : names->texts[1];
    names->list[2] = NULL;
}

/* True if nothing but its digest tells which sidecar is the slice's: it has no UUID of its own, and
 * its names, in whose place the UUID would be, stayed. */
static bool is_known_by_digest(const struct split_slice *slice)
{
    return slice->is_split && slice->image.uuid.size == 0;
}

/* Finds the sidecar of a slice. `slice` is its content, and only needed if is_known_by_digest.
 *
 * No thread holds two sidecars, since threads that do could wait for each other forever. */
static struct profile_sidecar *borrow(const struct conversion *conversion, size_t index,
                                      struct bytes slice, struct error *error)
{
    const struct input stripped = {.path = (char *)(uintptr_t)conversion->name,
                                   .fd = -1,
                                   .bytes = slice,
                                   .held = conversion->content};
    const struct split_slice *split = &conversion->slices->slices[index];
    struct path_names names;
    struct sidecar_wanted wanted = {.name = names.texts[0], .names = names.list};

    list_names(conversion, conversion->slices->container.slices[index].name, &names);
    if (is_known_by_digest(split))
        wanted.stripped = &stripped;
    else
        wanted.image = &split->image;
    return kept_sidecars_find(conversion->sidecars, &wanted, error);
}

/* ---- identities ---- */

/* A store_visitor, whose context is the buffer. */
static bool add_member_identity(void *known, const char *path, const struct uuid *uuid,
                                struct error *error)
{
    struct digest identity = {.bytes = {0}};
    struct stat status;

    (void)error;
    if (stat(path, &status) == 0)
        identity = kept_identity(&status);
    buffer_append(known, uuid->bytes, uuid->size);
    buffer_append(known, identity.bytes, sizeof(identity.bytes));
    return true;
}

/* Walks the directory through the descriptor if the path names another one here, as it does for
 * a program with another root. */
static bool walk_store(const struct conversion *conversion, store_visitor visit, void *context,
                       struct error *error)
{
    char directory[64];

    snprintf(directory, sizeof(directory), "/proc/self/fd/%d", conversion->fd);
    return store_walk(file_is(conversion->name, &conversion->status) ? conversion->name : directory,
                      visit, context, error);
}

bool conversion_identify(const struct conversion *conversion, struct digest *identity,
                         struct error *error)
{
    struct buffer members = {0};
    bool done = true;

    /* What an image becomes depends on its UUID and, if it is joined, on the whole image; but
     * reading all of it would cost too much. */
    *identity = conversion->kind == SUBJECT_IMAGE || conversion->kind == SUBJECT_STORE
                    ? kept_identity(&conversion->status)
                    : digest_of(buffer_view(&conversion->content));
    if (conversion->kind == SUBJECT_STORE) {
        buffer_append(&members, identity->bytes, sizeof(identity->bytes));
        done = walk_store(conversion, add_member_identity, &members, error) &&
               (!members.failed || error_out_of_memory(error, conversion->name, members.size));
        *identity = digest_of(buffer_view(&members));
        buffer_free(&members);
    }
    return done;
}

/* ---- profiles ---- */

static bool convert_profile(struct conversion *conversion, const struct profile *profile,
                            struct error *error)
{
    static const uint8_t zeros[PROFILE_ALIGNMENT];
    struct path_names names;
    const struct sidecar_wanted wanted = {
        .name = conversion->name, .names = names.list, .profile = profile};
    struct profile_sidecar *sidecar = NULL;
    bool done;

    list_names(conversion, "", &names);
    if (profile_needs_sidecar(profile)) {
        sidecar = kept_sidecars_find(conversion->sidecars, &wanted, error);
        if (sidecar == NULL)
            return false;
        allow(conversion, sidecar->sidecar->memory_limit);
    } else if (!profile_check_functions(profile, conversion->name, error)) {
        return false;
    }
    allow(conversion, profile->size);
    done =
        write_part(conversion, (struct bytes){zeros, profile_padding(conversion->size)}, error) &&
        profile_sidecar_correlate(sidecar, profile, conversion->name, write_part, conversion,
                                  error);
    if (sidecar != NULL)
        kept_sidecars_release(conversion->sidecars, sidecar);
    return done;
}

static bool convert_profiles(struct conversion *conversion, struct error *error)
{
    struct profile_reader reader = {.file = buffer_view(&conversion->content),
                                    .name = conversion->name};
    struct profile profile;
    bool found = true, done = profile_reader_first(&reader, &profile, error);

    while (done && found)
        done = convert_profile(conversion, &profile, error) &&
               profile_reader_next(&reader, &profile, &found, error);
    if (!done)
        profile_reader_explain(&reader, error);
    profile_reader_free(&reader);
    return done;
}

/* ---- sidecars and stores ---- */

static bool write_object(struct conversion *conversion, const struct sidecar *sidecar,
                         struct error *error)
{
    allow(conversion, sidecar->memory_limit);
    return export_write(sidecar, write_part, conversion, error);
}

static bool convert_sidecar(struct conversion *conversion, struct error *error)
{
    struct sidecar *sidecar =
        sidecar_open(buffer_view(&conversion->content), conversion->name, error);
    bool done;

    if (sidecar == NULL)
        return false;
    sidecar_set_up(sidecar, conversion->options);
    done = write_object(conversion, sidecar, error);
    sidecar_close(sidecar);
    return done;
}

struct store_conversion {
    struct conversion *conversion;
    struct union_writer writer;
    struct unmapped_images unmapped;
};

/* A store_visitor. Placeholders, and sidecars of images without coverage, are ignored; so is what
 * another process that cleans up the store removes meanwhile. */
static bool add_member(void *context, const char *path, const struct uuid *uuid,
                       struct error *error)
{
    struct store_conversion *store = context;
    struct sidecar *sidecar;
    struct error why;
    bool done;

    if (access(path, F_OK) != 0 && errno == ENOENT)
        return true;
    sidecar = sidecar_read(path, error);
    done = sidecar != NULL && store_check_uuid(path, &sidecar->facts.uuid, uuid, error);
    if (done && sidecar_is_real(sidecar, &why) && !sidecar_holds_nothing(sidecar) &&
        !unmapped_images_note(&store->unmapped, sidecar)) {
        sidecar_set_up(sidecar, store->conversion->options);
        allow(store->conversion, sidecar->memory_limit);
        done = union_add(&store->writer, sidecar, error);
    }
    sidecar_close(sidecar);
    return done;
}

static bool convert_store(struct conversion *conversion, struct error *error)
{
    struct store_conversion store = {
        .conversion = conversion,
        .writer = {.name = conversion->name, .sink = write_part, .context = conversion}};
    bool done = walk_store(conversion, add_member, &store, error);
    struct error text;

    if (done && unmapped_images_tell(&store.unmapped, &text))
        error_set(&conversion->left_out, "covsplit: warning: %.900s", text.message);
    if (done && store.writer.member_count == 0)
        done = error_set(error,
                         "%s: the store has no sidecar with coverage; name a directory that was "
                         "given to split --store",
                         conversion->name);
    done = done && union_finish(&store.writer, error);
    unmapped_images_free(&store.unmapped);
    union_free(&store.writer);
    return done;
}

/* ---- original images ---- */

/* Finds the sizes of the original slices. False if none of them has a sidecar; *error is about the
 * first that has none. */
static bool find_sizes(struct conversion *conversion, struct error *error)
{
    bool found = false;

    error_set(error, "%s: changed while it was read; run again", conversion->name);
    conversion->what = "the original image";
    for (size_t i = 0; conversion->slices != NULL && i < conversion->slices->container.count; i++) {
        struct split_slice *slice = &conversion->slices->slices[i];
        struct slice *place = &conversion->slices->container.slices[i];
        struct profile_sidecar *sidecar;
        struct error problem;

        if (!slice->is_split)
            continue;
        sidecar = borrow(conversion, i, place->input.bytes, found ? &problem : error);
        slice->has_sidecar = sidecar != NULL;
        if (sidecar == NULL) {
            conversion->what = "the original image, but for slices that have no sidecar";
            conversion->is_partial = true;
            continue;
        }
        place->size = sidecar->sidecar->facts.original_size;
        kept_sidecars_release(conversion->sidecars, sidecar);
        found = true;
    }
    return found;
}

/* A slice_writer. */
static bool write_slice(void *context, size_t index, struct error *error)
{
    struct conversion *conversion = context;
    struct input slice =
        input_of_bytes(conversion->slices->container.slices[index].input.bytes, conversion->name);
    struct profile_sidecar *sidecar;
    bool done;

    if (!conversion->slices->slices[index].has_sidecar)
        return write_part(conversion, slice.bytes, error);
    sidecar = borrow(conversion, index, slice.bytes, error);
    if (sidecar == NULL)
        return false;
    allow(conversion, sidecar->sidecar->memory_limit);
    done = sidecar_restore(sidecar->sidecar, &slice, write_part, conversion, error);
    kept_sidecars_release(conversion->sidecars, sidecar);
    return done;
}

/* Examines the content, as the file may have changed since it was mapped, and writes the
 * original. */
static bool join(struct conversion *conversion, struct error *error)
{
    const struct input file = input_of_bytes(buffer_view(&conversion->content), conversion->name);
    bool done;

    allow(conversion, conversion->content.size);
    done = find_slices(conversion, &file, error) && find_sizes(conversion, error) &&
           container_lay_out(&conversion->slices->container, conversion->name, error) &&
           container_write(&conversion->slices->container, conversion->name, write_part, conversion,
                           write_slice, conversion, error);
    close_views(conversion);
    return done;
}

/* ---- images of packed objects ---- */

static bool convert_packed(struct conversion *conversion, const struct input *image,
                           struct error *error)
{
    struct sidecar *sidecar =
        image_sidecar_make(image, option_number(conversion->options, OPTION_MEMORY_LIMIT), error);
    bool done = sidecar != NULL && write_object(conversion, sidecar, error);

    conversion->what = "an object with its coverage mapping";
    sidecar_close(sidecar);
    return done;
}

/* Converts an image from which a split (--sections) has not taken the packed mapping: the original
 * of the image is joined first, and replaced by what it is converted to. */
static bool convert_partly_split(struct conversion *conversion, struct error *error)
{
    struct input original;
    bool done;

    if (!join(conversion, error) ||
        !input_open_descriptor(&original, conversion->memory, conversion->name, error))
        return false;
    close(conversion->memory);
    conversion->size = 0;
    done = create_memory(conversion, error) && convert_packed(conversion, &original, error);
    input_close(&original);
    return done;
}

/* ---- all images ---- */

static bool has(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct section *section = sidecar_find(sidecar, kind);

    return section != NULL && section->stored_size != 0;
}

/* True if neither reports nor binary correlation need anything from the image itself. What was not
 * taken out (because of --sections, or because it had to stay) is only in the image. */
static bool is_complete(const struct sidecar *sidecar)
{
    bool correlates = has(sidecar, SECTION_COVNAMES);

    return has(sidecar, SECTION_COVMAP) && has(sidecar, SECTION_COVFUN) &&
           (has(sidecar, SECTION_NAMES) || correlates) &&
           (!correlates || has(sidecar, SECTION_COVDATA));
}

static bool convert_image(struct conversion *conversion, struct error *error)
{
    const struct split_slice *first = &conversion->slices->slices[0];
    bool is_universal = conversion->slices->container.is_universal;
    struct input image = {.path = (char *)(uintptr_t)conversion->name, .fd = -1};

    if (is_known_by_digest(first) && !read_content(conversion, error))
        return false;
    if (!is_universal && first->is_split) {
        struct profile_sidecar *sidecar =
            borrow(conversion, 0, buffer_view(&conversion->content), error);
        bool is_enough = sidecar != NULL && is_complete(sidecar->sidecar), done = false;

        if (is_enough)
            done = write_object(conversion, sidecar->sidecar, error);
        if (sidecar != NULL)
            kept_sidecars_release(conversion->sidecars, sidecar);
        conversion->what = "the object of its sidecar";
        if (sidecar == NULL || is_enough)
            return done;
    }
    if (!read_content(conversion, error))
        return false;
    if (is_universal || !first->image.is_packed)
        return join(conversion, error);
    if (first->is_split)
        return convert_partly_split(conversion, error);
    image.bytes = buffer_view(&conversion->content);
    image.held = conversion->content; /* which stays the conversion's */
    return convert_packed(conversion, &image, error);
}

/* ---- all files ---- */

bool conversion_run(struct conversion *conversion, struct error *error)
{
    static const struct {
        const char *what;
        bool (*convert)(struct conversion *conversion, struct error *error);
    } kinds[] = {
        [SUBJECT_IMAGE] = {NULL, convert_image}, /* which says what */
        [SUBJECT_SIDECAR] = {"its object", convert_sidecar},
        [SUBJECT_STORE] = {"the union of its sidecars", convert_store},
        [SUBJECT_PROFILE] = {"the full raw profile", convert_profiles}, /* also of a sparse one */
    };

    if (!create_memory(conversion, error))
        return false;
    allow(conversion, FRAME_SIZE_MAX);
    conversion->what = kinds[conversion->kind].what;
    if (kinds[conversion->kind].convert(conversion, error) && seal(conversion, error))
        return true;
    close(conversion->memory);
    return false;
}
