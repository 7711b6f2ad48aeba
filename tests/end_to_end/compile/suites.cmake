# Objects and archives without the mapping's weight.
add_suites(compile)
foreach(clang 14 19 22)
  add_run(compile-clang${clang} compile ${clang})
endforeach()
add_run(compile-gcc compile gcc)
add_suites(archives)
add_run(archives archives)
