# Images for Windows.
add_suite(coff)
foreach(clang 19 22)
  if(clang IN_LIST COVSPLIT_TEST_CLANGS)
    add_run(coff-clang${clang} coff ${clang})
  endif()
endforeach()

add_suite(coff_bad)
if(22 IN_LIST COVSPLIT_TEST_CLANGS)
  add_run(coff-bad-files coff_bad files)
  add_run(coff-bad-images coff_bad images 1 ${COVSPLIT_TEST_MUTATIONS})
endif()
