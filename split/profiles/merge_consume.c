/*
 * The command line of consuming: see merge_consume.h.
 */
#include "split/profiles/merge_consume.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/stream.h"
#include "split/cli/message.h"
#include "split/cli/path_list.h"
#include "split/cli/table.h"
#include "split/profiles/watch.h"

/* How often a batch is repeated because a program writes into files that it has just closed. */
#define TRIES 5

/* Seconds until --watch names a file that is not whole: it may be being copied. */
#define WATCH_PATIENCE 3

/* ---- operands ---- */

struct collecting {
    struct path_list *operands;
    bool only_directories;
};

/* An operand_visitor. */
static bool add_operand(void *context, const char *path, struct error *error)
{
    const struct collecting *collecting = context;
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
    if (collecting->only_directories && !path_is_directory(path))
        return error_set(error, "%s: not a directory; name directories with --watch", path);
    return path_list_add(collecting->operands, path, error);
}

static bool collect(const struct parsed_options *options, struct path_list *operands,
                    struct error *error)
{
    struct collecting collecting = {operands, option_given(options, OPTION_WATCH)};

    for (size_t i = 0; i < options->operand_count; i++) {
        if (!operand_visit(options->operands[i], add_operand, &collecting, error))
            return false;
    }
    return operands->count != 0 || error_set(error, "the list of profiles: empty; name some");
}

/* ---- once ---- */

static bool consume_all(struct consumer *consumer, const struct path_list *operands,
                        struct error *error)
{
    for (size_t i = 0; i < operands->count && !stop_wanted(consumer->stop); i++) {
        const char *path = operands->paths[i];

        consumer->root = path_is_directory(path) ? path : NULL;
        if (!(path_is_directory(path) ? consume_tree : consume_file)(consumer, path, error))
            return false;
    }
    return consume_commit(consumer, error);
}

static bool consume_once(struct consumer *consumer, const struct path_list *operands,
                         struct error *error)
{
    for (unsigned i = 0; i < TRIES; i++) {
        consumer->must_repeat = false;
        consumer->open_count = consumer->empty_count = 0;
        if (!consume_all(consumer, operands, error))
            return false;
        if (!consumer->must_repeat)
            return true;
    }
    return error_set(error, "%s: changes all the time; merge again when nothing writes there",
                     operands->paths[0]);
}

/* ---- what is said ---- */

static void warn_of_open(const struct consumer *consumer)
{
    char text[COUNT_TEXT_MAX];

    if (consumer->open_count == 0)
        return;
    if (consumer->open_count == 1)
        message_warning("%s: open in another process, so it was left; merge again later",
                        consumer->first_open == NULL ? "a profile" : consumer->first_open);
    else
        message_warning("%s and %s: open in other processes, so they were left; merge again later",
                        consumer->first_open == NULL ? "a profile" : consumer->first_open,
                        count_text(consumer->open_count - 1, "other", text));
}

static void print_done(const struct consumer *consumer)
{
    char files[COUNT_TEXT_MAX], profiles[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX];
    char open[COUNT_TEXT_MAX], empty[COUNT_TEXT_MAX], bad[COUNT_TEXT_MAX];

    message_line(stdout, "%s: consumed %s with %s (%s); left %s open, %s empty, %s bad",
                 state_path(consumer->state), count_text(consumer->files, "file", files),
                 count_text(consumer->profiles, "profile", profiles),
                 count_text(consumer->bytes, "byte", bytes),
                 number_text(consumer->open_count, open), number_text(consumer->empty_count, empty),
                 number_text(consumer->left.named, bad));
}

/* Bad files have been named. */
static bool report(const struct consumer *consumer, const struct parsed_options *options,
                   struct error *error)
{
    bool goes_on = option_number(options, OPTION_FAILURE_MODE) != 0;
    char bad[COUNT_TEXT_MAX];

    warn_of_open(consumer);
    if (consumer->left.named == 0 || (goes_on && consumer->files != 0))
        return true;
    return error_set(error, "%s: %s could not be consumed; see the messages above",
                     state_path(consumer->state), count_text(consumer->left.named, "file", bad));
}

/* ---- the whole ---- */

bool merge_consume(const struct parsed_options *options, const struct test_naming *naming,
                   struct state *state, struct profile_sidecars *sidecars, int *ended_by,
                   struct error *error)
{
    bool watches = option_given(options, OPTION_WATCH), done;
    struct path_list operands = {0};
    struct consumer consumer;
    struct stop stop;

    if (!collect(options, &operands, error) || !stop_start(&stop, error)) {
        path_list_free(&operands);
        return false;
    }
    /* The kernel sends it when somebody wants to open a file that has a lease. */
    signal(SIGIO, SIG_IGN);
    consumer_start(&consumer, state);
    consumer.sidecars = sidecars;
    consumer.naming = naming;
    consumer.threads = option_threads(options);
    consumer.memory_limit = option_number(options, OPTION_MEMORY_LIMIT);
    consumer.stop = &stop;
    consumer.left.seconds = watches ? WATCH_PATIENCE : 0;
    done = (watches ? watch_directories : consume_once)(&consumer, &operands, error);
    if (option_given(options, OPTION_VERBOSE))
        print_done(&consumer);
    done = done && (watches || report(&consumer, options, error));
    *ended_by = watches ? 0 : stop.signal;
    consumer_free(&consumer);
    stop_end(&stop);
    path_list_free(&operands);
    return done;
}
