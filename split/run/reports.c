/*
 * Remembering reports: see run/reports.h.
 */
#include "split/run/reports.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"

/* Limits the memory to some 6 MB. */
#define REPORTS_MAX 65536

struct run_reports {
    pthread_mutex_t lock;
    void *tree; /* a tsearch tree of the reports' digests */
    size_t count;
};

struct run_reports *run_reports_new(void)
{
    struct run_reports *reports = calloc(1, sizeof(*reports));

    if (reports != NULL)
        pthread_mutex_init(&reports->lock, NULL);
    return reports;
}

void run_reports_free(struct run_reports *reports)
{
    if (reports == NULL)
        return;
    tdestroy(reports->tree, free);
    pthread_mutex_destroy(&reports->lock);
    free(reports);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct digest));
}

/* The digest of a report: of the file's identity and the message. */
static bool report_digest(const struct stat *file, const char *message, struct digest *digest)
{
    struct buffer text = {0};
    bool done = buffer_append(&text, &file->st_dev, sizeof(file->st_dev)) &&
                buffer_append(&text, &file->st_ino, sizeof(file->st_ino)) &&
                buffer_append(&text, message, strlen(message));

    *digest = digest_of(buffer_view(&text));
    buffer_free(&text);
    return done;
}

bool run_reports_is_new(struct run_reports *reports, const struct stat *file, const char *message)
{
    struct digest *digest = malloc(sizeof(*digest));
    struct digest **found = NULL;
    bool is_new;

    if (digest == NULL || !report_digest(file, message, digest)) {
        free(digest);
        return true;
    }
    pthread_mutex_lock(&reports->lock);
    if (reports->count < REPORTS_MAX)
        found = tsearch(digest, &reports->tree, compare);
    is_new = found == NULL || *found == digest;
    if (found != NULL && is_new)
        reports->count++;
    pthread_mutex_unlock(&reports->lock);
    if (found == NULL || !is_new)
        free(digest);
    return is_new;
}
