# Run by hand: bench_merge [CLANG [COUNT...]]. It needs what the test "fetch" has fetched.
add_executable(bench_merge EXCLUDE_FROM_ALL merge.c)
target_link_libraries(bench_merge PRIVATE test_support)
