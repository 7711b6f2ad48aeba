# Profiles of split images, with their sidecars and without.
add_suites(profiles profiles_bad raw_versions
           run_modes runtime_api pools pool_files)
add_suites(consume_kill pairs llvm_versions)
add_scenes(merge-files merge-files)
add_scenes(per-image per-image)
add_scenes(report report)
add_scenes(verdict verdict)
add_run(llvm-versions llvm_versions)
# What diff-cover makes of reports; it is a module of the system's Python.
if(NOT COVSPLIT_SANITIZE)
  add_test(NAME diff-cover COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/changes.py
           $<TARGET_FILE:covsplit>)
endif()
add_scenes(merge-state merge-state)
add_scenes(streams streams)
add_scenes(consume consume)
add_run(consume-kill consume_kill)
add_scenes(consume-watch consume-watch)
if(NOT COVSPLIT_SANITIZE) # its module cannot be loaded before theirs
  add_run(consume-power consume_kill power)
endif()
add_scenes(dumps dumps)
set_tests_properties(dumps PROPERTIES FIXTURES_REQUIRED runtimes)
add_run(bad-profile-sums-1 profiles_bad 1 ${half})
add_run(bad-profile-sums-2 profiles_bad ${middle} ${half})

# Versions that no packaged compiler writes: of the records in one's LLVM IR, the tests make them.
if(22 IN_LIST COVSPLIT_TEST_CLANGS)
  add_run(raw-versions-bfd raw_versions 22 bfd)
  add_run(raw-versions-lld raw_versions 22 lld)
  set_tests_properties(raw-versions-bfd raw-versions-lld PROPERTIES FIXTURES_REQUIRED runtimes)
endif()

# What is in a profile does not depend on the linker: each compiler comes with one.
set(linker bfd)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(profiles-clang${clang}-${linker} profiles ${clang} ${linker})
  add_scenes_by(${clang} explain-clang${clang} explain)
  add_scenes(explain-leveldb-clang${clang} explain-leveldb)
  add_run(run-modes-clang${clang} run_modes ${clang} ${linker})
  add_run(runtime-api-clang${clang}-bfd runtime_api ${clang} bfd)
  add_run(runtime-api-clang${clang}-lld runtime_api ${clang} lld)
  add_run(pairs-clang${clang} pairs ${clang})
  add_run(pools-clang${clang} pools ${clang} ${linker})
  add_run(pool-files-clang${clang} pool_files ${clang} ${linker})
  add_scenes(profiles-leveldb-clang${clang} profiles-leveldb)
  set_tests_properties(explain-leveldb-clang${clang} profiles-leveldb-clang${clang} PROPERTIES
    ENVIRONMENT "CLANG=${clang}" FIXTURES_REQUIRED sources)
  if(NOT COVSPLIT_SANITIZE) # it is about what LLVM's tools say; the same images are in the matrix
    add_scenes_by(${clang} tripwire-clang${clang} tripwire)
  endif()
  change_linker()
endforeach()

# Other machines' runtimes, with lld where that can link them.
foreach(machine aarch64 arm i386 ppc64le s390x mips64el)
  foreach(clang ${COVSPLIT_TEST_CLANGS})
    set(linker lld)
    if(machine STREQUAL s390x AND clang EQUAL 14)
      set(linker bfd)
    endif()
    if(machine STREQUAL aarch64 OR clang MATCHES "14|19")
      add_run(pools-${machine}-clang${clang} pools ${clang} ${linker} ${machine})
      set_tests_properties(pools-${machine}-clang${clang} PROPERTIES FIXTURES_REQUIRED runtimes)
    endif()
  endforeach()
endforeach()
