/*
 * How a step of a transform ends.
 */
#ifndef COVSPLIT_COMMON_BASE_RESULT_H
#define COVSPLIT_COMMON_BASE_RESULT_H

enum compact_result {
    COMPACT_DONE,
    /* Encoding: not of the form that the transform is for. Decoding: the parts are damaged. */
    COMPACT_UNFIT,
    COMPACT_NO_MEMORY,
    COMPACT_OVER_LIMIT, /* decoding: more memory would be held than the context allows */
};

#endif
