/*
 * Results of functions that have no file name for an error message; their callers write the
 * message.
 */
#ifndef COVSPLIT_COMMON_BASE_RESULT_H
#define COVSPLIT_COMMON_BASE_RESULT_H

enum result {
    RESULT_OK,
    /* Encoding: the data is not of the expected form. Decoding: the data is damaged. */
    RESULT_UNFIT,
    RESULT_NO_MEMORY,
    RESULT_OVER_LIMIT, /* decoding: would need more memory than is allowed */
};

#endif
