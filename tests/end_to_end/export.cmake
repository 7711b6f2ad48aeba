# The suites of exported objects: included by CMakeLists.txt.
add_suite(export)
add_run(export export)
add_suite(debuginfod)
add_run(debuginfod debuginfod)
