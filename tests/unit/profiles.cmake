# The suites of profiles: included by CMakeLists.txt.
foreach(name names profile_sum)
  add_unit(${name})
  target_sources(test_${name} PRIVATE profile_maker.c)
endforeach()
