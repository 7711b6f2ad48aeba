# Objects and archives without the mapping's weight.
add_suites(archives)
add_run(archives archives)

# Packed images that were not split.
add_suites(packed_ordinary)
set(linker bfd)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(packed-ordinary-clang${clang} packed_ordinary ${clang} ${linker} x86-64)
  change_linker()
endforeach()
foreach(machine s390x i386)
  add_run(packed-ordinary-${machine} packed_ordinary 19 lld ${machine})
  set_tests_properties(packed-ordinary-${machine} PROPERTIES FIXTURES_REQUIRED runtimes)
endforeach()
