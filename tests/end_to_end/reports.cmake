# The suite of reports: included by CMakeLists.txt. The command's own work in it is small, and the
# suites `run` and `export` do that with sanitizers.
if(NOT COVSPLIT_SANITIZE)
  add_suite(reports)
  set(linker lld)
  foreach(clang ${COVSPLIT_TEST_CLANGS})
    foreach(program leveldb sqlite small)
      add_run(reports-${program}-clang${clang} reports ${program} ${clang} ${linker})
    endforeach()
    set_tests_properties(reports-leveldb-clang${clang} reports-sqlite-clang${clang}
                         PROPERTIES FIXTURES_REQUIRED sources)
    if(linker STREQUAL bfd)
      set(linker lld)
    else()
      set(linker bfd)
    endif()
  endforeach()
endif()
