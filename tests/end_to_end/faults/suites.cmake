# What goes wrong: files that are damaged or changed meanwhile, kills, disks, memory.
add_suites(bad_input kill races sidecar_claims state_faults)
add_run(kill kill)
add_run(races races)
add_run(sidecar-claims sidecar_claims)
add_run(bad-files bad_input files)
foreach(kind images sidecars unions)
  add_run(bad-${kind}-1 bad_input ${kind} 1 ${half})
  add_run(bad-${kind}-2 bad_input ${kind} ${middle} ${half})
endforeach()
foreach(machine ${emulated_machines})
  add_run(bad-images-${machine} bad_input images 1 2000 ${machine})
  set_tests_properties(bad-images-${machine} PROPERTIES FIXTURES_REQUIRED runtimes)
endforeach()
add_suites(bad_objects)
add_run(bad-objects-1 bad_objects 1 ${half})
add_run(bad-objects-2 bad_objects ${middle} ${half})
add_suites(bad_deltas)
target_link_libraries(suite_bad_deltas PRIVATE PkgConfig::libxxhash)
add_run(bad-deltas-1 bad_deltas 1 ${half})
add_run(bad-deltas-2 bad_deltas ${middle} ${half})
add_run(bad-profiles bad_input profiles 1 ${half})
if(NOT COVSPLIT_SANITIZE) # they are about what comes of it, not about the command
  add_run(bad-runs bad_input runs 1 5000)
  add_run(state-faults state_faults)
  # Every call fails once: with functions in place of libc's, which sanitizers have, too.
  add_suites(fault_sweep)
  target_sources(suite_fault_sweep PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/faults/fault_commands.c
    ${CMAKE_CURRENT_SOURCE_DIR}/faults/fault_inputs.c
    ${CMAKE_CURRENT_SOURCE_DIR}/../support/failing_calls.c)
  # The libraries find those functions in it, and `covsplit run` its module beside it.
  set_target_properties(suite_fault_sweep PROPERTIES C_VISIBILITY_PRESET default
    RUNTIME_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:covsplit>)
  add_run(fault-sweep fault_sweep)
  add_run(fault-sweep-all-1 fault_sweep all 0 48)
  add_run(fault-sweep-all-2 fault_sweep all 48 1000)
endif()
