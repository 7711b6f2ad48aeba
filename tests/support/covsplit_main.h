/*
 * The covsplit command's main function, in a library (CMakeLists.txt). The process must end after
 * calling it.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_COVSPLIT_MAIN_H
#define COVSPLIT_TESTS_SUPPORT_COVSPLIT_MAIN_H

__attribute__((visibility("default"))) int covsplit_main(int argument_count, char **arguments);

#endif
