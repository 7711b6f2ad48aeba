# Objects and archives without the mapping's weight.
add_suites(compile pack archives bad_archives)
foreach(clang 14 19 22)
  add_run(compile-clang${clang} compile ${clang})
endforeach()
add_run(compile-gcc compile gcc)
add_run(pack pack)
add_run(archives archives)
add_run(bad-archives bad_archives 1 2000)
