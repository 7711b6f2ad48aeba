# Objects and archives without the mapping's weight.
add_suites(compile)
foreach(clang 14 19 22)
  add_run(compile-clang${clang} compile ${clang})
endforeach()
add_run(compile-gcc compile gcc)
add_suites(archives)
add_run(archives archives)

add_suites(packed_objects)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(packed-objects-clang${clang} packed_objects ${clang})
endforeach()
add_run(packed-objects-machines packed_objects machines)
