/*
 * Merging profiles into a state and deleting them: `covsplit merge --into STATE --consume`, and
 * --watch, which does so again and again.
 *
 * Profiles are claimed (claim.c) as they are found, and read some hundred at a time; their sums are
 * held in memory. From time to time all that was read is committed as one batch, and the profiles
 * are deleted when the batch is folded. Memory is bounded by the images, and by the paths of one
 * batch.
 *
 * What cannot be consumed stays where it is. However this process ends, each profile either counts
 * once or still exists, under its own name or a hidden one, by which the next run finds it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/stream.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/merge.h"

/* The number of files that are claimed, and then read, at a time. */
#define READ_MAX 256

/* A batch is committed when it has this many files; and its sums are written to the disk when they
 * have this many bytes, with the sidecars of their images, or are of this many images. */
#define BATCH_MOST_FILES  8192
#define BATCH_MOST_BYTES  (UINT64_C(256) << 20)
#define BATCH_MOST_IMAGES 4096

/* A batch is repeated so often because a program writes into files that it has just closed. */
#define TRIES 5

/* Milliseconds from one look of --watch to the next one, and how many times as long as it looked it
 * waits beside that, unless there was something to consume. */
#define WATCH_PAUSE    1000
#define WATCH_IDLENESS 9

/* So many files are remembered that were left. If there are more, all are forgotten: they are
 * tried, and named, once more. */
#define LEFT_MAX 65536

struct consumed {
    uint64_t files, profiles, bytes;
};

struct consumer {
    struct state *state;
    const struct merge_request *request;
    struct merge_request reading; /* the same, but bad files stop nothing */
    struct path_list roots;       /* what the operands stand for */

    /* Signals that end a long run in an orderly way: what was begun is finished first. */
    int signal_fd;    /* readable when one has come */
    int signal;       /* which one; 0: none yet */
    sigset_t blocked; /* those that were blocked before */

    /* The work done so far. */
    struct consumed consumed;
    size_t empty_count; /* files without bytes, which stay */
    size_t open_count;  /* files that others have open */
    char *first_open;   /* one of them */
    size_t named_count; /* files that were left, and named */
    bool must_repeat;   /* a program wrote into a claim: its batch was given back */

    /* --watch tries a file that it has left once more at the next look, as it may be being copied.
     * If it is the same by then, it is named, and left alone as long as it does not change. */
    struct digest_set left, named;

    /* The batch. */
    struct merge merge; /* the groups are those since sums were written */
    struct claims claims;
    size_t unread; /* the first claim that was not read yet */
    uint64_t batch_profiles, batch_bytes;
};

/* ---- signals and time ---- */

/* From now on, SIGINT, SIGTERM and SIGHUP are only noted, unless they are ignored. Before threads
 * are started. */
static bool hold_signals(struct consumer *consumer, struct error *error)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    sigset_t wanted;

    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&wanted, numbers[i]);
    }
    pthread_sigmask(SIG_BLOCK, &wanted, &consumer->blocked);
    consumer->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (consumer->signal_fd >= 0)
        return true;
    error_set_errno(error, errno, "signals cannot be waited for");
    pthread_sigmask(SIG_SETMASK, &consumer->blocked, NULL);
    return false;
}

static bool stop_wanted(struct consumer *consumer)
{
    struct signalfd_siginfo received;

    if (consumer->signal == 0 &&
        read(consumer->signal_fd, &received, sizeof(received)) == (ssize_t)sizeof(received))
        consumer->signal = (int)received.ssi_signo;
    return consumer->signal != 0;
}

static int64_t milliseconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* ---- files that are left ---- */

/* Tells whether it is the same file, and as it was. False if it is gone. */
static bool identify(const char *path, struct digest *identity)
{
    struct stat status;
    uint64_t numbers[5];

    if (lstat(path, &status) != 0)
        return false;
    numbers[0] = status.st_dev;
    numbers[1] = status.st_ino;
    numbers[2] = (uint64_t)status.st_size;
    numbers[3] = (uint64_t)status.st_mtim.tv_sec;
    numbers[4] = (uint64_t)status.st_mtim.tv_nsec;
    *identity = digest_of((struct bytes){(const uint8_t *)numbers, sizeof(numbers)});
    return true;
}

static void forget_left(struct consumer *consumer)
{
    digest_set_free(&consumer->left);
    digest_set_free(&consumer->named);
}

static void note_left(struct consumer *consumer, const char *path, const struct error *why)
{
    struct digest identity;

    if (consumer->request->watches) {
        bool is_again;

        if (!identify(path, &identity))
            return;
        if (consumer->left.count >= LEFT_MAX)
            forget_left(consumer);
        is_again = digest_set_has(&consumer->left, &identity);
        exit_unless_allocated(
            digest_set_add(is_again ? &consumer->named : &consumer->left, &identity),
            LEFT_MAX * sizeof(identity));
        if (!is_again)
            return;
    }
    message_warning("%s (left where it is)", why->message);
    consumer->named_count++;
}

static bool is_left(const struct consumer *consumer, const char *path)
{
    struct digest identity;

    return consumer->named.count != 0 && identify(path, &identity) &&
           digest_set_has(&consumer->named, &identity);
}

/* ---- reading ---- */

static void drop_sums(struct consumer *consumer)
{
    profile_groups_free(&consumer->merge.groups);
    profile_groups_start(&consumer->merge.groups, &consumer->merge.source);
}

/* Adds the sums to the batch, which writes them to the disk. */
static bool write_sums(struct consumer *consumer, struct error *error)
{
    const struct profile_groups *groups = &consumer->merge.groups;

    for (size_t i = 0; i < groups->count; i++) {
        const struct profile_group *group = groups->list[i];

        if (group->sum->profile_count != 0 &&
            !state_batch_add(consumer->claims.batch, group->sum, error))
            return false;
        consumer->batch_profiles += group->sum->profile_count;
    }
    drop_sums(consumer);
    return true;
}

/* Failures are in the order of the claims. Those that are given back come last, so that the numbers
 * of the others stay the same. */
static void give_bad_back(struct consumer *consumer)
{
    const struct merge *merge = &consumer->merge;

    for (size_t i = merge->failure_count; i-- > 0;) {
        const struct merge_failure *failure = &merge->failures[i];
        size_t index = consumer->unread + failure->input;
        char *name = command_copy(consumer->claims.items[index].name);

        claims_give_back(&consumer->claims, index);
        note_left(consumer, name, &failure->error);
        free(name);
    }
}

/* Reads the claims that were not read yet. */
static bool read_claims(struct consumer *consumer, struct error *error)
{
    struct claims *claims = &consumer->claims;
    struct merge *merge = &consumer->merge;
    struct path_list *paths = &merge->inputs, *names = &merge->names;
    uint64_t held = 0;
    bool done;

    consumer->open_count += claims_settle(claims, consumer->unread);
    if (consumer->unread == claims->count)
        return true;
    /* The lists point to what the claims have. */
    paths->count = names->count = claims->count - consumer->unread;
    paths->paths = command_array(paths->count, sizeof(*paths->paths));
    names->paths = command_array(names->count, sizeof(*names->paths));
    for (size_t i = 0; i < paths->count; i++) {
        paths->paths[i] = claims->items[consumer->unread + i].path;
        names->paths[i] = claims->items[consumer->unread + i].name;
    }
    done = merge_read(merge, error);
    if (done) {
        give_bad_back(consumer);
        consumer->batch_bytes += merge->bytes_read;
        consumer->unread = claims->count;
    }
    free(paths->paths);
    free(names->paths);
    *paths = *names = (struct path_list){0};
    for (size_t i = 0; i < merge->groups.count; i++) {
        struct profile_sidecar *sidecar = merge->groups.list[i]->sidecar;

        profile_sidecar_unload(sidecar);
        held += merge->groups.list[i]->sum->size;
        held += sidecar == NULL ? 0 : sidecar->sidecar->input.bytes.size;
    }
    if (done && (held >= BATCH_MOST_BYTES || merge->groups.count >= BATCH_MOST_IMAGES))
        done = write_sums(consumer, error);
    return done;
}

/* ---- batches ---- */

static void end_batch(struct consumer *consumer)
{
    drop_sums(consumer);
    claims_free(&consumer->claims);
    consumer->unread = 0;
    consumer->batch_profiles = consumer->batch_bytes = 0;
}

/* After a commit that failed, it may be that only the state can tell if the claims count. */
static void end_failed_batch(struct consumer *consumer)
{
    struct claims *claims = &consumer->claims;
    bool may_count = state_batch_may_count(claims->batch);
    enum state_claim what;
    struct error ignored;

    state_batch_free(claims->batch);
    claims->batch = NULL;
    if (!may_count || (state_claim_find(consumer->state, claims->items[0].path, &what, &ignored) &&
                       what == STATE_CLAIM_UNCOUNTED))
        claims_give_all_back(claims);
    end_batch(consumer);
}

/* Commits what was read, and folds it. */
static bool commit(struct consumer *consumer, struct error *error)
{
    struct claims *claims = &consumer->claims;
    bool has_changed = false;

    if (!read_claims(consumer, error))
        return false;
    if (claims->count == 0) {
        end_batch(consumer);
        return true;
    }
    if (!write_sums(consumer, error))
        return false;
    for (size_t i = 0; i < claims->count; i++) {
        if (!state_batch_consume(claims->batch, claims->items[i].path, error))
            return false;
    }
    if (!claims_sync(claims, error)) {
        /* Removing a directory has taken claims away, which is like any change of them. */
        if (error->number != ENOENT)
            return false;
        has_changed = true;
    }
    for (size_t i = 0; !has_changed && i < claims->count; i++)
        has_changed = !claim_is_quiet(&claims->items[i]);
    if (has_changed) {
        consumer->must_repeat = true;
        claims_give_all_back(claims);
        end_batch(consumer);
        return true;
    }
    if (!state_batch_commit(claims->batch, error)) {
        end_failed_batch(consumer);
        return false;
    }
    /* From here on they count, even if they cannot be folded now. */
    consumer->consumed.files += claims->count;
    consumer->consumed.profiles += consumer->batch_profiles;
    consumer->consumed.bytes += consumer->batch_bytes;
    end_batch(consumer);
    return state_fold(consumer->state, error);
}

/* ---- the lock of a directory ---- */

/* While two processes look at one profile, each takes the other for a program that has it open: so
 * claims are taken from a directory under its lock. It is waited for a second at most, in case a
 * program locks the directory for reasons of its own. */

/* The number of times to wait for the lock, and the time of each. */
#define LOCK_TRIES       200
#define LOCK_NANOSECONDS 5000000

/* -1: it is not locked. */
static int lock_directory(const char *path)
{
    struct timespec moment = {.tv_nsec = LOCK_NANOSECONDS};
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (unsigned i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || i == LOCK_TRIES) {
            close(fd);
            return -1;
        }
        nanosleep(&moment, NULL);
    }
    return fd;
}

/* ---- files and directories ---- */

/* Claims a file. It is no failure if that must stay, which is noted or named. */
static bool take(struct consumer *consumer, const char *path, struct error *error)
{
    enum claim_result result;
    struct error why = {0};

    if (is_left(consumer, path))
        return true;
    result = claims_take(&consumer->claims, path, &why);
    switch (result) {
    case CLAIM_TAKEN:
    case CLAIM_NOT:
        break;
    case CLAIM_EMPTY:
        consumer->empty_count++;
        break;
    case CLAIM_OPEN:
        if (consumer->open_count++ == 0 && consumer->first_open == NULL)
            consumer->first_open = command_copy(path);
        break;
    case CLAIM_LEFT:
        note_left(consumer, path, &why);
        break;
    case CLAIM_FAILED:
        *error = why;
        break;
    }
    return result != CLAIM_FAILED;
}

/* Takes the files while their directory is locked, and forgets their paths; then reads, or commits,
 * if there is enough. */
static bool take_files(struct consumer *consumer, const char *directory, struct path_list *files,
                       struct error *error)
{
    struct claims *claims = &consumer->claims;
    int lock = files->count == 0 ? -1 : lock_directory(directory);
    bool done = true;

    for (size_t i = 0; done && i < files->count && !stop_wanted(consumer); i++)
        done = take(consumer, files->paths[i], error);
    if (lock >= 0)
        close(lock);
    path_list_free(files);
    if (done && claims->count - consumer->unread >= READ_MAX)
        done = read_claims(consumer, error);
    return done && (claims->count < BATCH_MOST_FILES || commit(consumer, error));
}

static bool is_directory(const char *path, const struct dirent *entry)
{
    struct stat status;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Takes the files of a directory, and adds the paths of the directories in it to the list, except
 * for states. If the directory is gone, nothing is done; if it cannot be read, it is left like a
 * file. */
static bool take_directory(struct consumer *consumer, const char *directory,
                           struct path_list *directories, struct error *error)
{
    bool has_slash = directory[strlen(directory) - 1] == '/', done = true;
    struct path_list files = {0};
    const struct dirent *entry = NULL;
    DIR *stream = opendir(directory);
    struct error why = {0};

    if (stream == NULL) {
        if (errno == ENOENT || errno == ENOTDIR)
            return true;
        error_set_errno(&why, errno, "%s: cannot be read", directory);
        if (!is_left(consumer, directory))
            note_left(consumer, directory, &why);
        return true;
    }
    do {
        errno = 0;
        entry = readdir(stream);
        if (entry == NULL && errno != 0)
            done = error_set_errno(error, errno, "%s: cannot be read", directory);
        if (entry != NULL && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char *path = command_text("%s%s%s", directory, has_slash ? "" : "/", entry->d_name);

            if (!is_directory(path, entry))
                path_list_add(&files, path);
            else if (!state_is(path))
                path_list_add(directories, path);
            free(path);
        }
        if (done && (entry == NULL || files.count == READ_MAX))
            done = take_files(consumer, directory, &files, error);
    } while (done && entry != NULL && !stop_wanted(consumer));
    path_list_free(&files);
    closedir(stream);
    return done;
}

/* Consumes a file, or all that is in and below a directory. */
static bool consume_operand(struct consumer *consumer, const char *path, struct error *error)
{
    struct path_list files = {0}, directories = {0};
    char directory[PATH_MAX];
    bool done = true;

    if (!path_is_directory(path)) {
        path_list_add(&files, path);
        return take_files(consumer, path_directory(path, directory) ? directory : "", &files,
                          error);
    }
    path_list_add(&directories, path);
    while (done && directories.count != 0 && !stop_wanted(consumer)) {
        char *next = directories.paths[--directories.count];

        done = take_directory(consumer, next, &directories, error);
        free(next);
    }
    path_list_free(&directories);
    return done;
}

/* ---- messages ---- */

/* Prints what was consumed since `since`. */
static void print_consumed(const struct consumer *consumer, struct consumed since, const char *end)
{
    const struct consumed *all = &consumer->consumed;
    char files[COUNT_TEXT_MAX], profiles[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX];

    message_line(stdout, "%s: consumed %s with %s (%s)%s", state_path(consumer->state),
                 count_text(all->files - since.files, "file", files),
                 count_text(all->profiles - since.profiles, "profile", profiles),
                 count_text(all->bytes - since.bytes, "byte", bytes), end);
    fflush(stdout);
}

static void print_done(const struct consumer *consumer)
{
    char open[COUNT_TEXT_MAX], empty[COUNT_TEXT_MAX], bad[COUNT_TEXT_MAX];
    char *end = command_text(
        "; left %s open, %s empty, %s bad", number_text(consumer->open_count, open),
        number_text(consumer->empty_count, empty), number_text(consumer->named_count, bad));

    print_consumed(consumer, (struct consumed){0}, end);
    free(end);
}

/* Bad files have been named. */
static bool report(const struct consumer *consumer, struct error *error)
{
    const char *first = consumer->first_open == NULL ? "a profile" : consumer->first_open;
    char count[COUNT_TEXT_MAX];

    if (consumer->open_count == 1)
        message_warning("%s: open in another process, so it was left; merge again later", first);
    else if (consumer->open_count > 1)
        message_warning("%s and %s: open in other processes, so they were left; merge again later",
                        first, count_text(consumer->open_count - 1, "other", count));
    if (consumer->named_count == 0 || (consumer->request->goes_on && consumer->consumed.files != 0))
        return true;
    return error_set(error, "%s: %s could not be consumed; see the messages above",
                     state_path(consumer->state), count_text(consumer->named_count, "file", count));
}

/* ---- once, and again and again ---- */

/* Looks through all once. With --watch, directories may be gone. */
static bool consume_all(struct consumer *consumer, bool *is_warned, struct error *error)
{
    consumer->must_repeat = false;
    consumer->open_count = consumer->empty_count = 0;
    for (size_t i = 0; i < consumer->roots.count && !stop_wanted(consumer); i++) {
        const char *path = consumer->roots.paths[i];

        if (consumer->request->watches && !path_is_directory(path)) {
            if (!*is_warned)
                message_warning("%s: no directory any more; waiting until it is there again", path);
            *is_warned = true;
        } else if (!consume_operand(consumer, path, error)) {
            return false;
        }
    }
    return commit(consumer, error);
}

static bool consume_once(struct consumer *consumer, struct error *error)
{
    for (unsigned i = 0; i < TRIES; i++) {
        if (!consume_all(consumer, NULL, error))
            return false;
        if (!consumer->must_repeat)
            return true;
    }
    return error_set(error, "%s: changes all the time; merge again when nothing writes there",
                     consumer->roots.paths[0]);
}

/* Looks through the directories again and again, until a signal ends it: profiles that come between
 * two looks are one batch. What others have open, and what is not whole yet, is tried again. */
static bool consume_forever(struct consumer *consumer, struct error *error)
{
    struct pollfd wanted = {.fd = consumer->signal_fd, .events = POLLIN};
    bool is_warned = false;

    for (;;) {
        int64_t start = milliseconds(), pause = WATCH_PAUSE;
        const struct consumed before = consumer->consumed;
        size_t empty_before = consumer->empty_count, open_before = consumer->open_count;

        /* Sidecars may have come, too. */
        sidecar_index_forget(&consumer->request->sidecars->places);
        if (!consume_all(consumer, &is_warned, error))
            return false;
        if (consumer->request->is_verbose && consumer->consumed.files != before.files)
            print_consumed(consumer, before, "");
        if (stop_wanted(consumer)) {
            /* If this look was cut short, the one before tells more. */
            if (consumer->empty_count < empty_before)
                consumer->empty_count = empty_before;
            if (consumer->open_count < open_before)
                consumer->open_count = open_before;
            return true;
        }
        /* However much comes, it must not come faster than it is consumed. */
        if (consumer->consumed.files == before.files && !consumer->must_repeat)
            pause += WATCH_IDLENESS * (milliseconds() - start);
        poll(&wanted, 1, pause > INT_MAX ? INT_MAX : (int)pause);
    }
}

/* ---- the whole ---- */

/* An operand_visitor: adds to the consumer's roots. */
static bool add_operand(void *context, const char *path, struct error *error)
{
    struct consumer *consumer = context;
    struct stat status;

    if (stream_is(path))
        return error_set(error,
                         "%s: a stream, which cannot be consumed; merge it without --consume",
                         stream_name(path));
    if (lstat(path, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    if (state_is(path))
        return error_set(error, "%s: a state, which cannot be consumed; merge it without --consume",
                         path);
    if (consumer->request->watches && !path_is_directory(path))
        return error_set(error, "%s: not a directory; name directories with --watch", path);
    path_list_add(&consumer->roots, path);
    return true;
}

bool merge_consume(const struct merge_request *request, struct state *state, int *ended_by,
                   struct error *error)
{
    struct consumer consumer = {
        .state = state, .claims.state = state, .request = request, .reading = *request};
    bool done = true;

    for (size_t i = 0; done && i < request->operand_count; i++)
        done = operand_visit(request->operands[i].path, add_operand, &consumer, error);
    if (done && consumer.roots.count == 0)
        done = error_set(error, "the list of profiles: empty; name some");
    if (!done || !hold_signals(&consumer, error)) {
        path_list_free(&consumer.roots);
        return false;
    }
    /* The kernel sends it when somebody wants to open a file that has a lease. */
    signal(SIGIO, SIG_IGN);
    consumer.reading.goes_on = true;
    merge_start(&consumer.merge, &consumer.reading);
    done = (request->watches ? consume_forever : consume_once)(&consumer, error);
    if (request->is_verbose)
        print_done(&consumer);
    done = done && (request->watches || report(&consumer, error));
    *ended_by = request->watches ? 0 : consumer.signal;
    /* Claims that were not committed are given back. */
    claims_give_all_back(&consumer.claims);
    claims_free(&consumer.claims);
    merge_free(&consumer.merge);
    forget_left(&consumer);
    free(consumer.first_open);
    path_list_free(&consumer.roots);
    close(consumer.signal_fd);
    pthread_sigmask(SIG_SETMASK, &consumer.blocked, NULL);
    return done;
}
