/*
 * Conversions: see convert.h.
 *
 * A few pages show what a file is, so it is mapped for that. If another process truncates the file
 * meanwhile, reading it raises SIGBUS, which must not end the broker of a whole process tree: the
 * handler maps a page of zeros there, and the file is not converted. A file that is to be converted
 * is read into memory, except for images, of which usually only the UUID is needed.
 */
#include "split/run/convert.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/llvm/profile_reader.h"
#include "split/cli/message.h"
#include "split/run/convert_image.h"
#include "split/run/convert_store.h"
#include "split/run/memory_file.h"

/* The maximum size of a file that is read into memory. */
#define CONTENT_SIZE_MAX (UINT64_C(1) << 30)

/* The allowance for a conversion beyond the contents of sidecars and of the file: headers,
 * padding. */
#define FRAME_SIZE_MAX (UINT64_C(1) << 20)

/* ---- files that become shorter ---- */

/* The mapped file that a thread is examining. */
struct watched {
    struct bytes bytes;
    bool is_cut_short;
};

static _Thread_local struct watched watched;
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

void convert_prepare(void)
{
    struct sigaction action = {.sa_sigaction = lost_page, .sa_flags = SA_SIGINFO};

    sigaction(SIGBUS, &action, &action_before);
}

/* ---- what a file is ---- */

static struct profile_reader reader_of(const struct subject *subject, struct bytes file)
{
    return (struct profile_reader){.file = file, .name = subject->name};
}

/* Looks for profiles that are sparse or need their sidecar. Nothing is known of what follows a
 * damaged one. If the file is too large to convert, one such profile is enough, since the rest may
 * be a hole of any size. */
static bool find_profiles(struct subject *subject, const struct input *input, struct error *error)
{
    struct profile_reader reader = reader_of(subject, input->bytes);
    bool is_too_large = input->bytes.size > CONTENT_SIZE_MAX, found = true, done = true;
    struct profile profile;

    while (found && reader.offset < CONTENT_SIZE_MAX &&
           !(is_too_large && subject->kind == SUBJECT_PROFILE)) {
        done = profile_reader_next(&reader, &profile, &found, error);
        if (!done)
            break;
        if (found && (reader.is_sparse || profile_needs_sidecar(&profile))) {
            subject->kind = SUBJECT_PROFILE;
            subject->is_for_correlator |= !reader.is_sparse && profile.header.num_data == 0;
        }
    }
    profile_reader_free(&reader);
    return done || !error_is_of_memory(error);
}

/* False with an error if out of memory. */
static bool find_kind(struct subject *subject, const struct input *input, struct error *error)
{
    bool done = true;

    watched = (struct watched){.bytes = input->bytes};
    if (!split_slices_find(subject, input, error))
        done = false;
    else if (subject->kind == SUBJECT_IMAGE)
        done = true;
    else if (sidecar_recognize(input->bytes))
        subject->kind = SUBJECT_SIDECAR;
    else
        done = find_profiles(subject, input, error);
    if (watched.is_cut_short)
        subject->kind = SUBJECT_OTHER;
    watched = (struct watched){.is_cut_short = false};
    return done;
}

/* The file position belongs to the program and is not moved. */
static bool read_content(struct subject *subject, struct error *error)
{
    struct buffer *content = &subject->content;
    size_t size = (size_t)subject->status.st_size;

    if ((uint64_t)subject->status.st_size > CONTENT_SIZE_MAX)
        return error_set(error,
                         "%s: too large to convert in memory; use 'covsplit merge' or "
                         "'covsplit export'",
                         subject->name);
    if (!buffer_reserve(content, size))
        return error_out_of_memory(error, subject->name, size);
    while (content->size < size) {
        ssize_t have = pread(subject->fd, content->data + content->size, size - content->size,
                             (off_t)content->size);

        if (have < 0 && errno == EINTR)
            continue;
        if (have < 0)
            return error_set_errno(error, errno, "%s: cannot be read", subject->name);
        if (have == 0)
            break;
        content->size += (size_t)have;
    }
    return true;
}

/* The identity of the file, without sidecars. The result for an image depends on its UUID and, if
 * it is joined, on the whole image; but reading all of it would cost too much. */
static struct digest own_identity(const struct subject *subject)
{
    return subject->kind == SUBJECT_IMAGE || subject->kind == SUBJECT_STORE
               ? run_sidecars_file_identity(&subject->status)
               : digest_of(buffer_view(&subject->content));
}

/* False for a descriptor that is write-only or was opened with O_PATH. */
static bool is_readable(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_WRONLY;
}

bool subject_read(struct subject *subject, int fd, const char *name, const char *real_name,
                  struct error *error)
{
    struct input input;
    bool done;

    *subject = (struct subject){.fd = fd, .name = name, .real_name = real_name};
    if (fstat(fd, &subject->status) != 0 || !is_readable(fd))
        return true;
    if (S_ISDIR(subject->status.st_mode) && store_is_subject(subject))
        subject->kind = SUBJECT_STORE;
    if (!S_ISREG(subject->status.st_mode))
        return true;
    if (!input_open_descriptor(&input, fd, name, error))
        return false;
    subject->status = input.status;
    done = find_kind(subject, &input, error);
    input_close(&input);
    return done && (subject->kind == SUBJECT_OTHER || subject->kind == SUBJECT_IMAGE ||
                    read_content(subject, error));
}

void subject_free(struct subject *subject)
{
    buffer_free(&subject->content);
    free(subject->slices);
}

/* ---- profiles ---- */

static bool convert_profile(const struct subject *subject, const struct profile *profile,
                            struct run_sidecars *sidecars, struct memory_file *file,
                            struct error *error)
{
    const char *const names[] = {subject->name, subject->real_name, NULL};
    const struct sidecar_wanted wanted = {
        .name = subject->name, .names = names, .profile = profile};
    struct profile_sidecar *sidecar = NULL;
    bool done;

    if (profile_needs_sidecar(profile)) {
        sidecar = run_sidecars_find(sidecars, &wanted, error);
        if (sidecar == NULL)
            return false;
    }
    memory_file_allow(file, profile->size);
    if (sidecar != NULL)
        memory_file_allow(file, sidecar_memory_limit(sidecar->sidecar));
    done =
        memory_file_pad(file, file->size + profile_padding(file->size), error) &&
        profile_sidecar_correlate(sidecar, profile, subject->name, memory_file_write, file, error);
    if (sidecar != NULL)
        run_sidecars_release(sidecars, sidecar);
    return done;
}

/* Adds the sidecars that there are for the profiles. Consecutive profiles of one image have the
 * same sidecars, which are added once. Damage is left for the conversion to report. */
static bool identify_profiles(const struct subject *subject, const struct run_sidecars *sidecars,
                              struct digest_stream *digest, struct error *error)
{
    struct profile_reader reader = reader_of(subject, buffer_view(&subject->content));
    const char *const names[] = {subject->name, subject->real_name, NULL};
    struct uuid uuid, last = {.size = 0};
    enum profile_uuid_source source;
    struct profile profile;
    const struct sidecar_wanted wanted = {
        .name = subject->name, .names = names, .profile = &profile};
    bool found = true, done = true;

    while (done && profile_reader_next(&reader, &profile, &found, error) && found) {
        uuid = profile_uuid(&profile, &source);
        if (profile_needs_sidecar(&profile) && (uuid.size == 0 || !uuid_equal(&uuid, &last)))
            done = run_sidecars_identify(sidecars, &wanted, digest, error);
        last = uuid;
    }
    profile_reader_free(&reader);
    return done && (!found || !error_is_of_memory(error));
}

static bool convert_profiles(const struct subject *subject, struct run_sidecars *sidecars,
                             struct memory_file *file, struct error *error)
{
    struct profile_reader reader = reader_of(subject, buffer_view(&subject->content));
    struct profile profile;
    bool found = true, done = profile_reader_first(&reader, &profile, error);

    while (done && found)
        done = convert_profile(subject, &profile, sidecars, file, error) &&
               profile_reader_next(&reader, &profile, &found, error);
    profile_reader_free(&reader);
    return done;
}

/* ---- sidecars ---- */

static bool convert_sidecar(const struct subject *subject, const struct run_sidecars *sidecars,
                            struct memory_file *file, struct error *error)
{
    struct sidecar *sidecar = sidecar_open(buffer_view(&subject->content), subject->name, error);
    bool done;

    if (sidecar == NULL)
        return false;
    run_sidecars_set_up(sidecars, sidecar);
    done = convert_to_object(sidecar, file, error);
    sidecar_close(sidecar);
    return done;
}

/* ---- the whole ---- */

static bool identify_sidecars(const struct subject *subject, const struct run_sidecars *sidecars,
                              struct digest_stream *digest, struct error *error)
{
    switch (subject->kind) {
    case SUBJECT_PROFILE:
        return identify_profiles(subject, sidecars, digest, error);
    case SUBJECT_IMAGE:
        return split_slices_identify(subject, sidecars, digest, error);
    case SUBJECT_STORE:
        return store_identify(subject, digest, error);
    default:
        return true;
    }
}

bool subject_identify(struct subject *subject, const struct run_sidecars *sidecars,
                      struct error *error)
{
    struct digest_stream *digest = digest_stream_new();
    struct digest own = own_identity(subject);
    bool done;

    if (digest == NULL)
        return error_out_of_memory(error, subject->name, sizeof(own));
    digest_stream_add(digest, (struct bytes){own.bytes, sizeof(own.bytes)});
    done = identify_sidecars(subject, sidecars, digest, error);
    subject->identity = digest_stream_finish(digest);
    digest_stream_free(digest);
    return done;
}

static bool convert_into(struct subject *subject, struct run_sidecars *sidecars,
                         struct memory_file *file, const char **what, struct error *error)
{
    switch (subject->kind) {
    case SUBJECT_PROFILE:
        *what = "the full raw profile"; /* also of a sparse one */
        return convert_profiles(subject, sidecars, file, error);
    case SUBJECT_IMAGE:
        return convert_image(subject, sidecars, file, read_content, what, error);
    case SUBJECT_SIDECAR:
        *what = "its object";
        return convert_sidecar(subject, sidecars, file, error);
    case SUBJECT_STORE:
        *what = "the union of its sidecars";
        return convert_store(subject, sidecars, file, error);
    default:
        return error_set(error, "%s: nothing to convert", subject->name);
    }
}

bool convert(struct subject *subject, struct run_sidecars *sidecars, const atomic_bool *stop,
             struct converted *converted, struct error *error)
{
    struct memory_file file;
    bool done;

    if (!memory_file_create(&file, subject->name, subject->real_name, stop, error))
        return false;
    memory_file_allow(&file, FRAME_SIZE_MAX);
    done = convert_into(subject, sidecars, &file, &converted->what, error) &&
           memory_file_seal(&file, &subject->status, error);
    if (!done) {
        close(file.fd);
        return false;
    }
    converted->fd = file.fd;
    converted->size = file.size;
    return true;
}
