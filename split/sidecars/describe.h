/*
 * Descriptions of each kind of file, for show.c, whose opening comment lists the keys.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_DESCRIBE_H
#define COVSPLIT_SPLIT_SIDECARS_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/profile_reader.h"
#include "split/cli/json.h"

/* The output of `show`, and its state. */
struct showing {
    struct json_writer *json; /* NULL: text */
    bool is_first;            /* nothing was printed yet */
    bool is_map;              /* --map: tell where the counters are */
    uint64_t limit;           /* --memory-limit */
    int status;
};

/* Prints the description of a file; nothing if it is damaged. */
bool describe_file(const struct input *input, struct showing *showing, struct error *error);

/* False, with an error, if no file that begins like this can be described. */
bool check_described(struct profile_stream *stream, const char *name, struct bytes so_far,
                     struct error *error);

#endif
