# The suites of profiles: included by CMakeLists.txt, which has set `half` and `middle`.
foreach(name profiles profiles_bad profiles_leveldb merge_files)
  add_suite(${name})
endforeach()

add_run(merge-files merge_files)
add_run(bad-profile-sums-1 profiles_bad 1 ${half})
add_run(bad-profile-sums-2 profiles_bad ${middle} ${half})

# What is in a profile does not depend on the linker: each compiler comes with one.
set(linker bfd)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(profiles-clang${clang}-${linker} profiles ${clang} ${linker})
  add_run(profiles-leveldb-clang${clang} profiles_leveldb ${clang} lld)
  set_tests_properties(profiles-leveldb-clang${clang} PROPERTIES FIXTURES_REQUIRED sources)
  if(linker STREQUAL bfd)
    set(linker lld)
  else()
    set(linker bfd)
  endif()
endforeach()

# What is installed from a sanitized build is not what others link with.
if(NOT COVSPLIT_SANITIZE)
  add_suite(library_users)
  add_run(library-users library_users ${CMAKE_BINARY_DIR})
endif()
