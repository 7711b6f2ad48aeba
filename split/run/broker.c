/*
 * The broker: see broker.h.
 *
 * One thread owns the connections and waits for questions on all of them. A question arrives whole
 * or not at all (SOCK_SEQPACKET), and is put into a queue, from which several worker threads take
 * questions and answer them. No thread ever waits for a client. A question for a file that is just
 * being converted is parked until some conversion ends, so that no file is converted twice.
 */
#include "split/run/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "split/cli/message.h"
#include "split/run/broker_question.h"
#include "split/run/conversion_cache.h"
#include "split/run/convert.h"
#include "split/run/preload_protocol.h"
#include "split/run/reports.h"
#include "split/run/sidecars.h"

/* Connections that have not asked yet. */
#define CONNECTIONS_MAX 256
/* How long a client may take to ask, in milliseconds: normally, and while others wait because of
 * it. Clients ask right after connecting, but may not get a processor at once. */
#define PATIENCE         10000
#define PATIENCE_PRESSED 1000

/* Used if the hard limit allows it. */
#define DESCRIPTORS_WANTED 4096

#define WORKERS_MIN        2
#define WORKERS_MAX        8

/* Descriptors that belong neither to a question nor to the cache: those of the broker itself, and
 * those that a worker opens during a conversion. */
#define DESCRIPTORS_OWN       16
#define DESCRIPTORS_OF_WORKER 6
#define DESCRIPTORS_OF_ASKING 2 /* a connection and a file */
#define DESCRIPTORS_MIN       24

struct waiting_connection {
    int fd;
    int64_t since; /* milliseconds */
};

struct broker {
    char address[PRELOAD_NAME_MAX + 16];
    bool verbose;
    int listener;
    int wake_up; /* an eventfd, for when the broker must end or is no longer full */
    struct run_sidecars *sidecars;
    struct conversion_cache *cache;
    struct run_reports *reports;

    /* The limit of connections and questions together. When it is reached, no more connections are
     * accepted until a question is answered. New clients wait then, and none is rejected for lack
     * of descriptors. */
    size_t asking_max;
    atomic_size_t question_count;
    atomic_bool is_full; /* the listener waits until a question is answered */

    /* The thread that listens. */
    struct waiting_connection connections[CONNECTIONS_MAX];
    size_t connection_count;

    pthread_t threads[WORKERS_MAX + 1];
    size_t thread_count;
    atomic_bool ends;
    pthread_mutex_t lock;
    pthread_cond_t has_questions;
    struct question *queue, **queue_end;
    struct question *parked;
};

/* ---- opening ---- */

static bool make_name(char name[PRELOAD_NAME_MAX])
{
    uint8_t random[16];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    strcpy(name, "covsplit-");
    for (size_t i = 0; i < sizeof(random); i++)
        sprintf(name + strlen(name), "%02x", random[i]);
    return true;
}

static bool open_listener(struct broker *broker, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[PRELOAD_NAME_MAX];
    size_t size;

    broker->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    broker->wake_up = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (broker->listener < 0 || broker->wake_up < 0 || !make_name(name))
        return error_set_errno(error, errno, "the command: no socket for it");
    size = strlen(name);
    memcpy(address.sun_path + 1, name, size);
    if (bind(broker->listener, (const struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size)) != 0 ||
        listen(broker->listener, SOMAXCONN) != 0)
        return error_set_errno(error, errno, "the command: no socket for it");
    snprintf(broker->address, sizeof(broker->address), PRELOAD_PREFIX "%s", name);
    return true;
}

static size_t worker_count(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (processors < WORKERS_MIN)
        return WORKERS_MIN;
    return processors > WORKERS_MAX ? WORKERS_MAX : (size_t)processors;
}

/* The limit of descriptors that the started broker will have. */
static rlim_t descriptor_limit(const struct rlimit *limit)
{
    if (limit->rlim_cur >= DESCRIPTORS_WANTED)
        return limit->rlim_cur;
    return limit->rlim_max < DESCRIPTORS_WANTED ? limit->rlim_max : DESCRIPTORS_WANTED;
}

/* Half of the descriptors are for questions, the other half for the two classes of the cache.
 * *cached: how many files each class may keep. */
static bool share_descriptors(struct broker *broker, size_t *cached, struct error *error)
{
    struct rlimit limit = {DESCRIPTORS_WANTED, DESCRIPTORS_WANTED};
    rlim_t own = DESCRIPTORS_OWN + DESCRIPTORS_OF_WORKER * worker_count(), have;

    getrlimit(RLIMIT_NOFILE, &limit);
    have = descriptor_limit(&limit);
    if (have < DESCRIPTORS_MIN)
        return error_set(error,
                         "the command: it may have only %u open files; allow %u or more "
                         "(ulimit -n)",
                         (unsigned)have, DESCRIPTORS_MIN);
    have = have > own ? have - own : 0;
    have = have < DESCRIPTORS_WANTED ? have : DESCRIPTORS_WANTED;
    broker->asking_max = 1 + (size_t)have / 2 / DESCRIPTORS_OF_ASKING;
    *cached = (size_t)have / 2 / CACHE_CLASS_COUNT;
    return true;
}

struct broker *broker_open(const struct parsed_options *options, struct error *error)
{
    struct broker *broker = calloc(1, sizeof(*broker));
    size_t cached = 0;

    if (broker == NULL) {
        error_out_of_memory(error, "the command", sizeof(*broker));
        return NULL;
    }
    broker->listener = broker->wake_up = -1;
    broker->queue_end = &broker->queue;
    broker->verbose = option_given(options, OPTION_VERBOSE);
    pthread_mutex_init(&broker->lock, NULL);
    pthread_cond_init(&broker->has_questions, NULL);
    if (!share_descriptors(broker, &cached, error)) {
        broker_close(broker);
        return NULL;
    }
    broker->cache = cache_new(cached);
    broker->reports = run_reports_new();
    broker->sidecars = run_sidecars_open(options, error);
    if (broker->cache == NULL || broker->reports == NULL)
        error_out_of_memory(error, "the command", sizeof(*broker));
    if (broker->cache == NULL || broker->reports == NULL || broker->sidecars == NULL ||
        !open_listener(broker, error)) {
        broker_close(broker);
        return NULL;
    }
    convert_prepare();
    return broker;
}

const char *broker_address(const struct broker *broker)
{
    return broker->address;
}

/* ---- the queue ---- */

static void enqueue(struct broker *broker, struct question *question)
{
    pthread_mutex_lock(&broker->lock);
    question->next = NULL;
    *broker->queue_end = question;
    broker->queue_end = &question->next;
    pthread_cond_signal(&broker->has_questions);
    pthread_mutex_unlock(&broker->lock);
}

/* Waits for a question; NULL if the broker must end. */
static struct question *dequeue(struct broker *broker)
{
    struct question *question = NULL;

    pthread_mutex_lock(&broker->lock);
    while (broker->queue == NULL && !broker->ends)
        pthread_cond_wait(&broker->has_questions, &broker->lock);
    if (!broker->ends) {
        question = broker->queue;
        broker->queue = question->next;
        if (broker->queue == NULL)
            broker->queue_end = &broker->queue;
    }
    pthread_mutex_unlock(&broker->lock);
    return question;
}

static void park(struct broker *broker, struct question *question)
{
    question->next = broker->parked;
    broker->parked = question;
}

/* Queues all parked questions: it does not pay to remember which of them waited for the conversion
 * that has ended. */
static void enqueue_parked(struct broker *broker)
{
    struct question *parked;

    pthread_mutex_lock(&broker->lock);
    parked = broker->parked;
    broker->parked = NULL;
    pthread_mutex_unlock(&broker->lock);
    while (parked != NULL) {
        struct question *question = parked;

        parked = parked->next;
        enqueue(broker, question);
    }
}

/* ---- answering ---- */

static void wake_listener(const struct broker *broker)
{
    static const uint64_t one = 1;

    while (write(broker->wake_up, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

/* Frees a question that was answered. */
static void end_question(struct broker *broker, struct question *question)
{
    question_free(question);
    atomic_fetch_sub(&broker->question_count, 1);
    if (atomic_exchange(&broker->is_full, false))
        wake_listener(broker);
}

/* Tells the program, on its standard error, why it gets the file unconverted, once for each
 * file. An error may be about its sidecar and not name it. */
static void answer_as_it_is(struct broker *broker, struct question *question,
                            const struct error *error)
{
    struct error text = {0};

    if (error != NULL && run_reports_is_new(broker->reports, &question->status, error->message)) {
        if (strstr(error->message, question->path) != NULL)
            error_set(&text, "covsplit: warning: %.900s; read as it is", error->message);
        else
            error_set(&text, "covsplit: warning: %.400s: %.500s; read as it is", question->path,
                      error->message);
    }
    question_answer(question, -1, text.message);
}

/* Takes ownership of the descriptor. */
static void answer_converted(struct broker *broker, struct question *question, int content)
{
    struct error error;

    if (content < 0) {
        error_set_errno(&error, errno, "%s: cannot be converted in memory", question->path);
        answer_as_it_is(broker, question, &error);
        return;
    }
    question_answer(question, content, "");
    close(content);
}

static void report_conversion(const struct broker *broker, const struct question *question,
                              const struct converted *converted)
{
    if (broker->verbose)
        message_line(stderr, "covsplit: %s: converted to %s", question->path, converted->what);
}

/* Converts a subject for all who wait for it. */
static void convert_and_answer(struct broker *broker, struct question *question,
                               struct subject *subject, enum cache_class class)
{
    struct converted converted;
    struct error error = {0};

    if (convert(subject, broker->sidecars, &broker->ends, &converted, &error)) {
        report_conversion(broker, question, &converted);
        answer_converted(
            broker, question,
            cache_add(broker->cache, class, &subject->identity, converted.fd, converted.size));
    } else {
        cache_give_up(broker->cache, class, &subject->identity);
        answer_as_it_is(broker, question, &error);
    }
    enqueue_parked(broker);
}

/* Looks the conversion up, or parks the question. Both happen under one lock, so that the end of
 * the other conversion is not missed. */
static enum cache_answer look_or_park(struct broker *broker, struct question *question,
                                      const struct subject *subject, enum cache_class class,
                                      int *content)
{
    enum cache_answer answer;

    pthread_mutex_lock(&broker->lock);
    answer = cache_look(broker->cache, class, &subject->identity, content);
    if (answer == CACHE_BUSY)
        park(broker, question);
    pthread_mutex_unlock(&broker->lock);
    return answer;
}

static void answer_subject(struct broker *broker, struct question *question,
                           struct subject *subject)
{
    enum cache_class class = subject->kind == SUBJECT_PROFILE ? CACHE_PROFILES : CACHE_OBJECTS;
    int content = -1;

    switch (look_or_park(broker, question, subject, class, &content)) {
    case CACHE_FOUND:
    case CACHE_FAILED:
        answer_converted(broker, question, content);
        break;
    case CACHE_MISSING:
        convert_and_answer(broker, question, subject, class);
        break;
    case CACHE_BUSY:
        return; /* the question is parked */
    }
    end_question(broker, question);
}

static void answer(struct broker *broker, struct question *question)
{
    struct subject subject;
    struct error error;
    bool known;

    if (question_is_for_files(question)) {
        question_answer(question, -1, "");
        end_question(broker, question);
        return;
    }
    known = subject_read(&subject, question->file, question->path, question->real_path, &error);
    question->status = subject.status;
    if (subject.is_for_correlator && question_correlates(question))
        subject.kind = SUBJECT_OTHER;
    if (subject.kind == SUBJECT_STORE && !question_is_for_reports(question))
        subject.kind = SUBJECT_OTHER;
    if (known && subject.kind != SUBJECT_OTHER)
        known = subject_identify(&subject, broker->sidecars, &error);
    if (known && subject.kind != SUBJECT_OTHER) {
        answer_subject(broker, question, &subject);
    } else {
        answer_as_it_is(broker, question, known ? NULL : &error);
        end_question(broker, question);
    }
    subject_free(&subject);
}

static void *work(void *context)
{
    struct broker *broker = context;
    struct question *question;

    while ((question = dequeue(broker)) != NULL)
        answer(broker, question);
    return NULL;
}

/* ---- listening ---- */

/* In milliseconds. */
static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void forget_connection(struct broker *broker, size_t index)
{
    broker->connection_count--;
    memmove(&broker->connections[index], &broker->connections[index + 1],
            (broker->connection_count - index) * sizeof(broker->connections[0]));
}

/* How long to wait, when there are no descriptors left, for some to be closed. */
#define PAUSE_MILLISECONDS 10

/* Whether another connection can be accepted. If not, a worker that answers a question will wake
 * the listener; or some connection asks, or is given up. */
static bool has_room(struct broker *broker)
{
    if (broker->connection_count == CONNECTIONS_MAX)
        return false;
    atomic_store(&broker->is_full, true);
    if (broker->connection_count + broker->question_count >= broker->asking_max)
        return false;
    atomic_store(&broker->is_full, false);
    return true;
}

static void accept_connections(struct broker *broker)
{
    while (has_room(broker)) {
        int fd = accept4(broker->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        pid_t process;

        if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            poll(NULL, 0, PAUSE_MILLISECONDS);
        if (fd < 0)
            return;
        if (connection_is_of_same_user(fd, &process))
            broker->connections[broker->connection_count++] =
                (struct waiting_connection){.fd = fd, .since = now()};
        else
            close(fd);
    }
}

/* Whether no more can be accepted while some of the connections have not asked. */
static bool is_pressed(const struct broker *broker)
{
    return broker->connection_count == CONNECTIONS_MAX ||
           broker->connection_count + broker->question_count >= broker->asking_max;
}

static int patience(const struct broker *broker)
{
    return is_pressed(broker) ? PATIENCE_PRESSED : PATIENCE;
}

/* Closes connections that have taken too long to ask. When the time of one is up, those of the same
 * age go too, or a waiting client would wait for each of them in turn. Connections are sorted by
 * age. */
static void give_up_silent_connections(struct broker *broker)
{
    int64_t oldest = now() - patience(broker);

    while (broker->connection_count != 0 && broker->connections[0].since <= oldest) {
        close(broker->connections[0].fd);
        forget_connection(broker, 0);
    }
}

static void receive_question(struct broker *broker, size_t index)
{
    struct question *question = question_receive(broker->connections[index].fd);

    forget_connection(broker, index);
    if (question == NULL)
        return;
    atomic_fetch_add(&broker->question_count, 1);
    enqueue(broker, question);
}

static void *listen_to_clients(void *context)
{
    struct broker *broker = context;
    struct pollfd events[CONNECTIONS_MAX + 2];
    uint64_t ignored;

    while (!broker->ends) {
        size_t count = broker->connection_count;
        int listener = has_room(broker) ? broker->listener : -1;

        for (size_t i = 0; i < count; i++)
            events[i] = (struct pollfd){.fd = broker->connections[i].fd, .events = POLLIN};
        events[count] = (struct pollfd){.fd = listener, .events = POLLIN};
        events[count + 1] = (struct pollfd){.fd = broker->wake_up, .events = POLLIN};
        if (poll(events, count + 2, count == 0 ? -1 : patience(broker)) < 0)
            continue;
        (void)!read(broker->wake_up, &ignored, sizeof(ignored));
        for (size_t i = count; i-- != 0;) {
            if (events[i].revents != 0)
                receive_question(broker, i);
        }
        give_up_silent_connections(broker);
        accept_connections(broker);
    }
    return NULL;
}

/* ---- starting and ending ---- */

static bool start_thread(struct broker *broker, void *(*function)(void *), struct error *error)
{
    int number = pthread_create(&broker->threads[broker->thread_count], NULL, function, broker);

    if (number != 0)
        return error_set_errno(error, number, "the command: no thread for it");
    broker->thread_count++;
    return true;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = descriptor_limit(&limit);
    setrlimit(RLIMIT_NOFILE, &limit);
}

bool broker_start(struct broker *broker, struct error *error)
{
    size_t workers = worker_count();

    raise_descriptor_limit();
    signal(SIGPIPE, SIG_IGN); /* when nobody reads the output of -v */
    if (!start_thread(broker, listen_to_clients, error))
        return false;
    for (size_t i = 0; i < workers; i++) {
        /* One worker is enough. */
        if (!start_thread(broker, work, error) && i == 0)
            return false;
    }
    return true;
}

static void free_questions(struct question *questions)
{
    while (questions != NULL) {
        struct question *question = questions;

        questions = questions->next;
        question_free(question);
    }
}

static void end_threads(struct broker *broker)
{
    pthread_mutex_lock(&broker->lock);
    broker->ends = true;
    pthread_cond_broadcast(&broker->has_questions);
    pthread_mutex_unlock(&broker->lock);
    wake_listener(broker);
    for (size_t i = 0; i < broker->thread_count; i++)
        pthread_join(broker->threads[i], NULL);
}

void broker_close(struct broker *broker)
{
    if (broker == NULL)
        return;
    end_threads(broker);
    for (size_t i = 0; i < broker->connection_count; i++)
        close(broker->connections[i].fd);
    free_questions(broker->queue);
    free_questions(broker->parked);
    if (broker->listener >= 0)
        close(broker->listener);
    if (broker->wake_up >= 0)
        close(broker->wake_up);
    run_sidecars_close(broker->sidecars);
    cache_free(broker->cache);
    run_reports_free(broker->reports);
    pthread_cond_destroy(&broker->has_questions);
    pthread_mutex_destroy(&broker->lock);
    free(broker);
}
