# The suites of `covsplit run`: included by CMakeLists.txt.
foreach(name claims run run_sidecars run_process run_llvm)
  add_suite(${name})
  target_compile_definitions(suite_${name} PRIVATE
    COVSPLIT_PRELOAD="$<TARGET_FILE:covsplit_preload>")
endforeach()

add_run(claims claims)
add_run(run run)
add_run(run-sidecars run_sidecars)
add_run(run-process run_process)

set(linker lld)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(run-clang${clang}-${linker} run_llvm ${clang} ${linker})
  if(linker STREQUAL bfd)
    set(linker lld)
  else()
    set(linker bfd)
  endif()
endforeach()
