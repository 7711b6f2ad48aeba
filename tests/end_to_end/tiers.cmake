# Which of the end-to-end suites are run when: included last by CMakeLists.txt. The label of a suite
# is the smallest tier that it is in; run.sh takes the quick and the daily ones, campaign.sh all.
#
# What is daily has each compiler, linker, format and command at least once. Left to the campaign
# are the same suites with more compilers, and those that build and install by themselves.
set(quick_suites
  command-line command-files sidecar-safety no-exact store batch link bad-files bad-images-1
  bad-sidecars-1 bad-profiles merge-files documentation matrix-clang14-bfd matrix-clang22-lld
  export run claims coff-bad-files bad-macho-files)
set(campaign_suites
  out-of-memory-all
  readme packages
  tripwire-clang16 tripwire-clang19
  foreign-references-clang16-lld foreign-references-clang22-bfd
  own-records-clang16 own-records-clang19
  leveldb-clang16 sqlite-clang22-lld
  reports-leveldb-clang16 reports-sqlite-clang19
  portable-export portable-merge-files portable-run-llvm portable-profiles-leveldb
  portable-reports-leveldb)
set(sanitized_campaign_suites)

get_property(suites DIRECTORY PROPERTY TESTS)
foreach(suite IN LISTS suites)
  if(suite IN_LIST campaign_suites OR (COVSPLIT_SANITIZE AND suite IN_LIST sanitized_campaign_suites))
    set(tier campaign)
  elseif(suite IN_LIST quick_suites)
    set(tier quick)
  else()
    set(tier daily)
  endif()
  set_tests_properties(${suite} PROPERTIES LABELS ${tier})
endforeach()
