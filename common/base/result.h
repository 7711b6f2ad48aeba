/*
 * How a step ends where there are no messages yet: whoever knows the file says what is wrong.
 */
#ifndef COVSPLIT_COMMON_BASE_RESULT_H
#define COVSPLIT_COMMON_BASE_RESULT_H

enum result {
    RESULT_OK,
    /* Encoding: not of the form that the step is for. Decoding: what is read is damaged. */
    RESULT_UNFIT,
    RESULT_NO_MEMORY,
    RESULT_OVER_LIMIT, /* decoding: more memory would be held than is allowed */
};

#endif
