# What images on devices write by libcovsplit-device: beside compiler-rt, and without it.
add_suites(device)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(device-clang${clang} device ${clang})
  # For i386, whose runtime is fetched.
  set_tests_properties(device-clang${clang} PROPERTIES FIXTURES_REQUIRED runtimes)
endforeach()

add_suites(device_bare)
foreach(machine x86-64 aarch64 arm riscv32 riscv64)
  add_run(device-bare-${machine} device_bare ${machine})
endforeach()
