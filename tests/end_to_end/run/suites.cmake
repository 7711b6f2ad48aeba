# `covsplit run`, and reports by it.
add_suites(claims)
target_compile_definitions(suite_claims PRIVATE COVSPLIT_PRELOAD="$<TARGET_FILE:covsplit_preload>")
add_run(claims claims)
add_scenes(run run)
add_scenes(run-sidecars run-sidecars)
add_scenes(run-store run-store)
add_scenes(run-process run-process)

# A command with the preload module in itself, as a static one is, from what the command is made of.
if(NOT COVSPLIT_SANITIZE)
  add_executable(covsplit_inside ${PROJECT_SOURCE_DIR}/split/main.c)
  target_link_libraries(covsplit_inside PRIVATE covsplit_command covsplit_module_inside
                                                covsplit_formats covsplit_common covsplit_build)
  add_suites(c_libraries)
  add_run(c-libraries c_libraries $<TARGET_FILE:covsplit_inside>
          $<TARGET_FILE:covsplit_preload_anywhere>)
  add_scenes(run-inside run)
  set_tests_properties(run-inside PROPERTIES ENVIRONMENT "COVSPLIT=$<TARGET_FILE:covsplit_inside>")
endif()

set(linker lld)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_scenes(run-clang${clang}-${linker} run-llvm)
  set_tests_properties(run-clang${clang}-${linker} PROPERTIES
    ENVIRONMENT "CLANG=${clang};LINKER=${linker}")
  # The command's own work in reports is small, and the suites `run` and `export` do that with
  # sanitizers.
  if(NOT COVSPLIT_SANITIZE)
    foreach(name leveldb packed sqlite small)
      add_scenes(reports-${name}-clang${clang} reports/${name})
      set_tests_properties(reports-${name}-clang${clang} PROPERTIES FIXTURES_REQUIRED sources
        ENVIRONMENT "CLANG=${clang};LINKER=${linker}")
    endforeach()
  endif()
  change_linker()
endforeach()
