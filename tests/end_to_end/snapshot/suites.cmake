# Profiles that are taken from processes and cores.
add_suites(snapshot)
set(linker bfd)
foreach(clang ${COVSPLIT_TEST_CLANGS})
  add_run(snapshot-clang${clang} snapshot ${clang} ${linker})
  change_linker()
endforeach()
