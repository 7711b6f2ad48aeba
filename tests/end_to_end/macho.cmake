# Mach-O images, by the compilers that build for Darwin.
add_suite(macho)
foreach(clang 19 22)
  if(clang IN_LIST COVSPLIT_TEST_CLANGS)
    foreach(architecture arm64 x86_64)
      add_run(macho-clang${clang}-${architecture} macho ${clang} ${architecture})
    endforeach()
  endif()
endforeach()
