# Images for Windows.
add_suite(coff)
foreach(clang 19 22)
  if(clang IN_LIST COVSPLIT_TEST_CLANGS)
    add_run(coff-clang${clang} coff ${clang})
  endif()
endforeach()
