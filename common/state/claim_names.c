/*
 * The names of claims: see claim_names.h.
 */
#include "common/state/claim_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"

#define MARK ".covsplit-claim-"

/* The hexadecimal digits of a nonce, a hyphen, and a number. */
#define NONCE_LENGTH     (2 * DIGEST_SIZE)
#define NUMBER_MAX       20
#define CLAIMED_NAME_MAX (NAME_MAX - 1 - sizeof(MARK) - NONCE_LENGTH - 1 - NUMBER_MAX)

size_t claim_parse(const char *name, struct digest *nonce)
{
    const char *dash = strrchr(name, '-'), *mark;

    if (name[0] != '.' || dash == NULL || strlen(dash + 1) > NUMBER_MAX || dash[1] == '\0' ||
        dash[1 + strspn(dash + 1, "0123456789")] != '\0' ||
        (size_t)(dash - name) < 2 + strlen(MARK) + NONCE_LENGTH)
        return 0;
    mark = dash - NONCE_LENGTH - strlen(MARK);
    if (memcmp(mark, MARK, strlen(MARK)) != 0 ||
        !state_parse_name(dash - NONCE_LENGTH, NONCE_LENGTH, nonce))
        return 0;
    return (size_t)(mark - name) - 1;
}

size_t state_claim_name_length(const char *name)
{
    struct digest nonce;

    return claim_parse(name, &nonce);
}

bool claim_format(const char *path, const struct digest *nonce, uint64_t number,
                  char claim[PATH_MAX], struct error *error)
{
    const char *name = path_file_name(path);
    int directory = (int)(name - path);
    size_t claimed = state_claim_name_length(name);
    size_t length = claimed != 0 ? claimed : strlen(name);
    char text[DIGEST_HEX_MAX];

    if (length > CLAIMED_NAME_MAX)
        length = CLAIMED_NAME_MAX;
    if (snprintf(claim, PATH_MAX, "%.*s.%.*s" MARK "%s-%llu", directory, path, (int)length,
                 claimed != 0 ? name + 1 : name, digest_format(nonce, text),
                 (unsigned long long)number) < PATH_MAX)
        return true;
    return error_set(error, "%s: the path is too long to consume the file; use a shorter one",
                     path);
}

/* ---- records of batches ---- */

/* Device and inode of the directory, before the path. */
#define PLACE_SIZE (2 * sizeof(uint64_t))

static bool put_record(struct state_writer *writer, const char *directory, const char *claim,
                       struct error *error)
{
    uint8_t record[PLACE_SIZE + PATH_MAX];
    struct stat status;
    int length = snprintf((char *)record + PLACE_SIZE, PATH_MAX, "%s/%s",
                          strcmp(directory, "/") == 0 ? "" : directory, path_file_name(claim));

    if (length >= PATH_MAX)
        return error_set(error, "%.700s: its whole path is too long to consume the file", claim);
    if (stat(directory, &status) != 0)
        return error_set_errno(error, errno, "%s: its directory cannot be found", claim);
    store_u64(record, status.st_dev, false);
    store_u64(record + sizeof(uint64_t), status.st_ino, false);
    return state_writer_put(writer, STATE_RECORD_CLAIM,
                            (struct bytes){record, PLACE_SIZE + (uint64_t)length}, error);
}

bool claim_put(struct state_writer *writer, const char *claim, struct error *error)
{
    char directory[PATH_MAX];
    char *real = path_directory(claim, directory) ? realpath(directory, NULL) : NULL;
    bool done = real != NULL
                    ? put_record(writer, real, claim, error)
                    : error_set_errno(error, errno, "%s: its directory cannot be found", claim);

    free(real);
    return done;
}

bool claim_read(const struct state_file *batch, size_t record, struct listed_claim *claim,
                struct error *error)
{
    struct buffer content = {0};
    bool done = state_file_read(batch, record, PLACE_SIZE + PATH_MAX, &content, error);

    *claim = (struct listed_claim){0};
    if (done && content.size <= PLACE_SIZE)
        done = state_file_damaged(batch->path, "a record is not what it should be", error);
    if (done) {
        claim->device = load_u64(content.data, false);
        claim->inode = load_u64(content.data + sizeof(uint64_t), false);
        claim->path = strndup((const char *)content.data + PLACE_SIZE, content.size - PLACE_SIZE);
        done = claim->path != NULL || error_out_of_memory(error, batch->path, content.size);
    }
    buffer_free(&content);
    return done;
}
