/*
 * The broker of `covsplit run`: answers the questions of the preload modules in the programs that
 * the command runs (run/preload_protocol.h).
 *
 * It expects hostile clients. Processes of other users are rejected when they connect. A client
 * that never reads its answer delays nobody, and so does one that never asks; only if hundreds of
 * the same user's clients do so, others may wait for some seconds. A question has a bounded size.
 * Memory is bounded by the open sidecars and the converted files that are kept (kept.c), and the
 * files being converted, of which there are at most SLOTS_MAX, and all of these are limited
 * (base/memory_limit.h).
 *
 * A thread accepts a connection, waits for its question, and answers it. There is one thread at
 * first; whenever the last one that waits for connections has got one, another is started, up to a
 * maximum, and the other clients wait in the socket's queue. Few threads at a time examine and
 * convert files: the others wait for a slot. A thread that finds another converting the same file
 * waits for that one, so no file is converted twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/run/preload_protocol.h"
#include "split/run/run.h"

/* The seconds that a client may take to ask: normally, and while others wait because of it.
 * Clients ask right after connecting, but may not get a processor at once. */
#define PATIENCE      10
#define PATIENCE_BUSY 1

/* The wait for descriptors to be closed, when there are none left. */
#define PAUSE_MILLISECONDS 10

#define THREADS_MAX        256
#define SLOTS_MIN          2
#define SLOTS_MAX          8

/* Used if the hard limit allows it. */
#define DESCRIPTORS_WANTED 4096
#define DESCRIPTORS_MIN    24

/* Descriptors of the broker itself; of a thread, for its connection and its file; and of a slot,
 * for what a thread opens during a conversion. */
#define DESCRIPTORS_OWN       16
#define DESCRIPTORS_OF_THREAD 2
#define DESCRIPTORS_OF_SLOT   6

/* Limits the memory to some 2 MB. */
#define REPORTS_MAX 65536

struct broker {
    char address[PRELOAD_NAME_MAX + 16];
    const struct parsed_options *options;
    int listener;
    struct kept_sidecars sidecars;
    struct kept_files files;
    size_t threads_max;
    sem_t slots;
    atomic_bool ends;

    pthread_mutex_t lock; /* protects the members below */
    pthread_t threads[THREADS_MAX];
    size_t thread_count;
    size_t idle_count; /* threads that wait for a connection */

    /* The reports so far: each message once for each file, in the whole process tree. */
    struct digest_set reports;
};

/* A question of a preload module. */
struct question {
    int connection;
    pid_t process;            /* the process that asks */
    int file;                 /* the file that the program has opened */
    char path[PATH_MAX];      /* as the program named it, made absolute if possible */
    char real_path[PATH_MAX]; /* with all links resolved; "" if there is none */
};

/* ---- receiving ---- */

/* Room for the descriptors of a message. Only one is valid; others are received to be closed. */
union ancillary {
    struct cmsghdr header;
    char space[CMSG_SPACE(8 * sizeof(int))];
};

/* Takes the single descriptor of a message. If there is another number of them, closes them and
 * returns -1. */
static int take_descriptor(struct msghdr *message)
{
    int taken = -1;
    size_t count = 0;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        size_t size = header->cmsg_len - CMSG_LEN(0);

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < size / sizeof(int); i++, count++) {
            if (taken >= 0)
                close(taken);
            memcpy(&taken, CMSG_DATA(header) + i * sizeof(int), sizeof(taken));
        }
    }
    if (count == 1)
        return taken;
    if (taken >= 0)
        close(taken);
    return -1;
}

/* The target of a symbolic link; "" if it cannot be read or is too long. */
static void read_link(const char *link, char target[PATH_MAX])
{
    ssize_t size = readlink(link, target, PATH_MAX);

    target[size < 0 || size >= PATH_MAX ? 0 : size] = '\0';
}

/* Finds the real path, and makes the client's path valid in this process. The client waits
 * meanwhile, so its directories are still those of its call. If they cannot be read, the real path
 * stands for the other. */
static void find_paths(struct question *question, int directory)
{
    char link[64], start[PATH_MAX], absolute[PATH_MAX];
    int length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", question->file);
    read_link(link, question->real_path);
    if (question->path[0] == '/')
        return;
    if (directory == AT_FDCWD)
        snprintf(link, sizeof(link), "/proc/%d/cwd", (int)question->process);
    else
        snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)question->process, directory);
    read_link(link, start);
    length = snprintf(absolute, sizeof(absolute), "%s/%s", start, question->path);
    if (start[0] == '/' && length > 0 && length < PATH_MAX)
        memcpy(question->path, absolute, (size_t)length + 1);
    else
        memcpy(question->path, question->real_path, sizeof(question->path));
}

/* Reads the question, which arrives whole or not at all (SOCK_SEQPACKET). False if it is invalid.
 * Never waits. */
static bool receive(struct question *question)
{
    struct preload_question start;
    struct iovec parts[] = {{&start, sizeof(start)}, {question->path, sizeof(question->path) - 1}};
    union ancillary ancillary;
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = &ancillary,
                             .msg_controllen = sizeof(ancillary)};
    ssize_t size = recvmsg(question->connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (size < 0)
        return false;
    question->file = take_descriptor(&message);
    if (question->file < 0 || size < (ssize_t)sizeof(start) ||
        (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        return false;
    question->path[(size_t)size - sizeof(start)] = '\0';
    find_paths(question, start.directory);
    return true;
}

/* ---- answering ---- */

/* Answers: `content` is the descriptor to read instead, or -1 for the file as it is. The text is
 * for the program's standard error; it may be "". */
static void answer(const struct question *question, int content, const char *text)
{
    struct preload_answer start = {0};
    char line[PRELOAD_TEXT_MAX];
    struct iovec parts[] = {{&start, sizeof(start)}, {line, 0}};
    union ancillary ancillary = {.header = {.cmsg_level = SOL_SOCKET,
                                            .cmsg_type = SCM_RIGHTS,
                                            .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    if (text[0] != '\0')
        start.text_size =
            (uint32_t)snprintf(line, sizeof(line), "%.*s\n", (int)sizeof(line) - 2, text);
    parts[1].iov_len = start.text_size;
    if (content >= 0) {
        memcpy(CMSG_DATA(&ancillary.header), &content, sizeof(content));
        message.msg_control = &ancillary;
        message.msg_controllen = CMSG_SPACE(sizeof(int));
    }
    /* Nothing has been written to this socket before, so it has room. A client that has gone needs
     * no answer. */
    (void)!sendmsg(question->connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* True the first time that this is to be said of this file, as far as there is memory to know. */
static bool is_new_report(struct broker *broker, const struct stat *file, const char *message)
{
    struct buffer text = {0};
    struct digest digest;
    bool is_new;

    buffer_append(&text, &file->st_dev, sizeof(file->st_dev));
    buffer_append(&text, &file->st_ino, sizeof(file->st_ino));
    buffer_append(&text, message, strlen(message));
    digest = digest_of(buffer_view(&text));
    pthread_mutex_lock(&broker->lock);
    is_new = text.failed || !digest_set_has(&broker->reports, &digest);
    if (is_new && !text.failed && broker->reports.count < REPORTS_MAX)
        digest_set_add(&broker->reports, &digest);
    pthread_mutex_unlock(&broker->lock);
    buffer_free(&text);
    return is_new;
}

/* Answers with the file as it is, and with the reason. An error may be about the file's sidecar and
 * not name the file. */
static void answer_failed(struct broker *broker, const struct question *question,
                          const struct stat *file, const struct error *error)
{
    struct error text = {0};

    if (!is_new_report(broker, file, error->message))
        text.message[0] = '\0';
    else if (strstr(error->message, question->path) != NULL)
        error_set(&text, "covsplit: warning: %.900s; read as it is", error->message);
    else
        error_set(&text, "covsplit: warning: %.400s: %.500s; read as it is", question->path,
                  error->message);
    answer(question, -1, text.message);
}

/* What is to be said to an llvm-cov that opens the file; false if it is nothing new. */
static bool advise(struct broker *broker, const struct question *question,
                   const struct conversion *conversion, struct error *text)
{
    static const char *const names[] = {"instr-profile"};
    const char *store = option_text(broker->options, OPTION_STORE);
    const char *place = store == NULL ? option_text(broker->options, OPTION_SIDECAR) : store;
    const char *option = store != NULL ? " --store " : place != NULL ? " --sidecar " : "";
    char given[PATH_MAX], path[PATH_MAX + 32];
    struct stat status;

    if (conversion->is_raw_profile)
        error_set(text,
                  "covsplit: warning: %.500s: a raw profile, which llvm-cov does not read; merge "
                  "it first: covsplit merge%s%.200s -o app.profdata %.500s",
                  question->path, option, place == NULL ? "" : place, question->path);
    else if (conversion->kind != SUBJECT_IMAGE ||
             !program_find_option(question->process, names, 1, given) ||
             strncmp(given, "/dev/", 5) == 0 || strncmp(given, "/proc/", 6) == 0)
        return false;
    else {
        snprintf(path, sizeof(path), "/proc/%d/cwd/%s", (int)question->process, given);
        if (stat(given[0] == '/' ? given : path, &status) != 0 || !S_ISREG(status.st_mode) ||
            conversion_check_profile(conversion, given[0] == '/' ? given : path, given, text))
            return false;
    }
    return is_new_report(broker, &conversion->status, text->message);
}

/* ---- converting ---- */

static void convert_and_answer(struct broker *broker, const struct question *question,
                               const char *role)
{
    struct conversion conversion = {.fd = question->file,
                                    .name = question->path,
                                    .real_name = question->real_path,
                                    .options = broker->options,
                                    .sidecars = &broker->sidecars,
                                    .stop = &broker->ends};
    struct digest identity;
    struct error error, advice = {0};
    int fd = -1;
    bool done = conversion_examine(&conversion, &error), is_cov = strcmp(role, "cov") == 0;

    if ((conversion.has_no_data_by_design && program_correlates(question->process)) ||
        (conversion.kind == SUBJECT_STORE && !is_cov) || (conversion.is_raw_profile && is_cov))
        conversion.kind = SUBJECT_OTHER;
    if (done && conversion.kind != SUBJECT_OTHER) {
        done = conversion_identify(&conversion, &identity, &error);
        if (done && kept_files_find(&broker->files, &identity, &fd)) {
            done = conversion_run(&conversion, &error);
            if (done && option_given(broker->options, OPTION_VERBOSE))
                message_line(stderr, "covsplit: %s: converted to %s", question->path,
                             conversion.what);
            fd = kept_files_add(&broker->files, &identity, done ? &conversion : NULL);
        }
        if (done && fd < 0)
            done =
                error_set_errno(&error, errno, "%s: cannot be converted in memory", question->path);
    }
    if (!done)
        answer_failed(broker, question, &conversion.status, &error);
    else
        answer(question, fd,
               is_cov && advise(broker, question, &conversion, &advice)
                   ? advice.message
                   : conversion.left_out.message);
    if (fd >= 0)
        close(fd);
    conversion_end(&conversion);
}

/* ---- connections ---- */

/* Waits until the client asks. False if it takes too long, or if the broker ends. */
static bool asks_in_time(struct broker *broker, int connection)
{
    /* The listener hangs up at the end. */
    struct pollfd events[] = {{.fd = connection, .events = POLLIN}, {.fd = broker->listener}};
    int64_t patience = PATIENCE;

    for (int waited = 0; waited < patience; waited += PATIENCE_BUSY) {
        if (poll(events, 2, PATIENCE_BUSY * 1000) != 0)
            return events[0].revents != 0;
        pthread_mutex_lock(&broker->lock);
        if (broker->idle_count == 0)
            patience = PATIENCE_BUSY;
        pthread_mutex_unlock(&broker->lock);
    }
    return false;
}

static void serve_connection(struct broker *broker, int connection)
{
    struct question question = {.connection = connection, .file = -1};
    struct ucred peer;
    socklen_t size = sizeof(peer);
    char program[PATH_MAX];
    const char *role;

    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid() || !asks_in_time(broker, connection))
        return;
    question.process = peer.pid;
    while (sem_wait(&broker->slots) != 0)
        continue; /* a signal */
    if (!broker->ends && receive(&question)) {
        role = program_role(question.process, program);
        if (program_must_see_the_file_itself(role))
            answer(&question, -1, "");
        else
            convert_and_answer(broker, &question, role);
    }
    if (question.file >= 0)
        close(question.file);
    sem_post(&broker->slots);
}

static void *serve(void *context);

/* Starts a thread, which counts as idle. The lock must be held. Returns an errno value. */
static int start_thread(struct broker *broker)
{
    int number = pthread_create(&broker->threads[broker->thread_count], NULL, serve, broker);

    if (number == 0) {
        broker->thread_count++;
        broker->idle_count++;
    }
    return number;
}

static void *serve(void *context)
{
    struct broker *broker = context;

    while (!broker->ends) {
        int connection = accept4(broker->listener, NULL, NULL, SOCK_CLOEXEC);

        if (connection < 0) {
            if (!broker->ends)
                poll(NULL, 0, PAUSE_MILLISECONDS);
            continue;
        }
        pthread_mutex_lock(&broker->lock);
        broker->idle_count--;
        if (broker->idle_count == 0 && broker->thread_count < broker->threads_max && !broker->ends)
            start_thread(broker); /* if that fails, the others do the work */
        pthread_mutex_unlock(&broker->lock);
        serve_connection(broker, connection);
        close(connection);
        pthread_mutex_lock(&broker->lock);
        broker->idle_count++;
        pthread_mutex_unlock(&broker->lock);
    }
    return NULL;
}

/* ---- opening, starting and ending ---- */

static bool open_listener(struct broker *broker, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[PRELOAD_NAME_MAX] = "covsplit-";
    uint8_t random[16];
    size_t size;

    broker->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (broker->listener < 0 || getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return error_set_errno(error, errno, "cannot create the broker socket");
    for (size_t i = 0; i < sizeof(random); i++)
        sprintf(name + strlen(name), "%02x", random[i]);
    size = strlen(name);
    memcpy(address.sun_path + 1, name, size);
    if (bind(broker->listener, (const struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size)) != 0 ||
        listen(broker->listener, SOMAXCONN) != 0)
        return error_set_errno(error, errno, "cannot create the broker socket");
    snprintf(broker->address, sizeof(broker->address), PRELOAD_PREFIX "%s", name);
    return true;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The limit of descriptors that the started broker will have. */
static rlim_t descriptor_limit(const struct rlimit *limit)
{
    if (limit->rlim_cur >= DESCRIPTORS_WANTED)
        return limit->rlim_cur;
    return limit->rlim_max < DESCRIPTORS_WANTED ? limit->rlim_max : DESCRIPTORS_WANTED;
}

/* Shares the descriptors: half of those that are left beside the slots go to threads, the rest to
 * the cache. No client is rejected for lack of them. */
static bool share_descriptors(struct broker *broker, struct error *error)
{
    struct rlimit limit = {DESCRIPTORS_WANTED, DESCRIPTORS_WANTED};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t have, most, slots;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (descriptor_limit(&limit) < DESCRIPTORS_MIN)
        return error_set(error,
                         "the command: it may have only %u open files; allow %u or more "
                         "(ulimit -n)",
                         (unsigned)descriptor_limit(&limit), DESCRIPTORS_MIN);
    have = smaller((size_t)descriptor_limit(&limit), DESCRIPTORS_WANTED) - DESCRIPTORS_OWN;
    most = have / 2 / (DESCRIPTORS_OF_SLOT + DESCRIPTORS_OF_THREAD);
    slots = processors < SLOTS_MIN ? SLOTS_MIN : smaller((size_t)processors, SLOTS_MAX);
    slots = smaller(slots, most == 0 ? 1 : most);
    sem_init(&broker->slots, 0, (unsigned)slots);
    have -= slots * DESCRIPTORS_OF_SLOT;
    broker->threads_max = smaller(have / 2 / DESCRIPTORS_OF_THREAD, THREADS_MAX);
    if (broker->threads_max < slots)
        broker->threads_max = slots;
    broker->files.room = have - broker->threads_max * DESCRIPTORS_OF_THREAD;
    return true;
}

struct broker *broker_open(const struct parsed_options *options, struct error *error)
{
    /* No program waits for it yet. */
    struct broker *broker = command_array(1, sizeof(*broker));

    broker->options = options;
    broker->listener = -1;
    pthread_mutex_init(&broker->lock, NULL);
    kept_files_open(&broker->files);
    kept_sidecars_open(&broker->sidecars, options);
    if (!share_descriptors(broker, error) || !open_listener(broker, error)) {
        broker_close(broker);
        return NULL;
    }
    conversion_prepare();
    return broker;
}

const char *broker_address(const struct broker *broker)
{
    return broker->address;
}

bool broker_start(struct broker *broker, struct error *error)
{
    struct rlimit limit;
    int number;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = descriptor_limit(&limit);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    signal(SIGPIPE, SIG_IGN); /* when nobody reads the output of -v */
    pthread_mutex_lock(&broker->lock);
    number = start_thread(broker);
    pthread_mutex_unlock(&broker->lock);
    return number == 0 || error_set_errno(error, number, "cannot start the broker's thread");
}

void broker_close(struct broker *broker)
{
    if (broker == NULL)
        return;
    pthread_mutex_lock(&broker->lock);
    broker->ends = true;
    pthread_mutex_unlock(&broker->lock);
    if (broker->listener >= 0)
        shutdown(broker->listener, SHUT_RDWR);
    for (size_t i = 0; i < broker->thread_count; i++)
        pthread_join(broker->threads[i], NULL);
    if (broker->listener >= 0)
        close(broker->listener);
    kept_sidecars_close(&broker->sidecars);
    kept_files_close(&broker->files);
    digest_set_free(&broker->reports);
    pthread_mutex_destroy(&broker->lock);
    free(broker);
}
