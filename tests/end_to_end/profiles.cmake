# The suites of profiles: included by CMakeLists.txt. leveldb.c belongs to test_support.
foreach(name profiles profiles_bad profiles_leveldb merge_files library_users)
  add_suite(${name})
endforeach()

add_run(merge-files merge_files)
add_run(library-users library_users ${CMAKE_BINARY_DIR})

math(EXPR half "(${COVSPLIT_TEST_MUTATIONS} + 1) / 2")
math(EXPR middle "${half} + 1")
add_run(bad-profiles-1 profiles_bad 1 ${half})
add_run(bad-profiles-2 profiles_bad ${middle} ${half})

foreach(clang ${COVSPLIT_TEST_CLANGS})
  foreach(linker bfd lld)
    add_run(profiles-clang${clang}-${linker} profiles ${clang} ${linker})
  endforeach()
  add_run(profiles-leveldb-clang${clang} profiles_leveldb ${clang} lld)
  set_tests_properties(profiles-leveldb-clang${clang} PROPERTIES FIXTURES_REQUIRED sources)
endforeach()
