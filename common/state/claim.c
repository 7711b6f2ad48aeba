/*
 * The names of claims: see state.h.
 */
#include "common/state/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const char *claim_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

bool claim_format(const char *path, const struct digest *nonce, uint64_t number,
                  char claim[PATH_MAX], struct error *error)
{
    const char *name = claim_file_name(path);
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
