# The main suites once more, with sidecars that have no compact forms: included by CMakeLists.txt.
set(portable_environment "COVSPLIT=${PROJECT_SOURCE_DIR}/tests/support/covsplit-portable.sh"
                         "COVSPLIT_PORTABLE=$<TARGET_FILE:covsplit>")

# add_portable_run(TEST CLANG SUITE ARGUMENT...)
function(add_portable_run test clang suite)
  if(clang IN_LIST COVSPLIT_TEST_CLANGS)
    add_fetched_run(portable-${test} ${suite} ${ARGN})
    set_tests_properties(portable-${test} PROPERTIES ENVIRONMENT "${portable_environment}")
  endif()
endfunction()

# add_portable_scenes(TEST FOLDER)
function(add_portable_scenes test folder)
  add_scenes(portable-${test} ${folder})
  set_tests_properties(portable-${test} PROPERTIES ENVIRONMENT "${portable_environment}")
endfunction()

if(NOT COVSPLIT_SANITIZE)
  add_portable_run(matrix 19 matrix 19 bfd)
  add_portable_scenes(export sidecars/export)
  add_portable_scenes(merge-files profiles/merge-files)
  add_portable_scenes(run run/run)
  if(22 IN_LIST COVSPLIT_TEST_CLANGS)
    add_portable_scenes(run-llvm run/run-llvm)
  endif()
  add_portable_run(profiles-leveldb 22 profiles_leveldb 22 lld)
  add_portable_run(reports-leveldb 19 reports leveldb 19 lld)
endif()
