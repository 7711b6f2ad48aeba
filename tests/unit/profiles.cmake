# The suites of profiles: included by CMakeLists.txt.
foreach(name correlate names profile_reader profile_sum state)
  add_unit(${name})
  target_sources(test_${name} PRIVATE profile_maker.c)
endforeach()
add_unit(store covsplit_reader)
add_unit(reader_profiles covsplit_reader)
target_sources(test_reader_profiles PRIVATE profile_maker.c)
target_sources(test_state PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/file_system.c
                                  ${CMAKE_SOURCE_DIR}/tests/support/text.c)
