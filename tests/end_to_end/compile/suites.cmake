# Packed objects and archives: covsplit compile and covsplit pack.
add_suites(compile pack archives bad_archives)
foreach(clang 14 19 22)
  add_run(compile-clang${clang} compile ${clang})
endforeach()
add_run(compile-gcc compile gcc)
add_run(pack pack)
add_run(archives archives)
add_run(bad-archives bad_archives 1 2000)

# Packed ELF objects: what they are like, and what linkers make of them.
add_suites(packed_objects)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(packed-objects-clang${clang} packed_objects ${clang})
endforeach()
add_run(packed-objects-machines packed_objects machines)

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
