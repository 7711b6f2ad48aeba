# Which of the end-to-end suites are run when: included last by CMakeLists.txt. The label of a suite
# is the smallest tier that it is in; run.sh takes the quick and the daily ones, campaign.sh all.
#
# What is daily has each compiler, linker, format and command at least once. Left to the campaign
# are the same suites with more compilers, and those that build and install by themselves. The target
# daily_tests builds what is not left to it.
set(quick_suites
  command-line command-files sidecar-safety store batch link bad-files bad-images-1
  bad-sidecars-1 bad-profiles merge-files documentation links benchmark-numbers
  matrix-clang14-bfd matrix-clang22-lld export run claims coff-bad-files bad-macho-files)
set(campaign_suites
  fault-sweep-all-1 fault-sweep-all-2 packed-images-clang14
  readme packages run-inside cmake-package cmake-enable-make cmake-enable-multi recipes-slow
  compile-clang14 compile-clang19
  packed-objects-clang14 packed-objects-clang16 packed-objects-clang19
  tripwire-clang16 tripwire-clang19
  foreign-references-clang16-bfd foreign-references-clang16-lld foreign-references-clang22-bfd
  # each compiler and each linker once a day: clang 14 with bfd, 16 with mold, 19 with gold, 22 with lld
  matrix-clang14-lld matrix-clang16-lld matrix-clang19-bfd matrix-clang22-bfd
  matrix-clang16-bfd matrix-clang19-lld matrix-clang14-gold matrix-clang16-gold matrix-clang22-gold
  matrix-clang14-mold matrix-clang19-mold matrix-clang22-mold
  zeros-clang14-lld zeros-clang16-lld zeros-clang19-bfd zeros-clang22-bfd
  zeros-clang16-bfd zeros-clang19-lld zeros-clang14-gold zeros-clang16-gold zeros-clang22-gold
  zeros-clang14-mold zeros-clang19-mold zeros-clang22-mold zeros-clang16-mold zeros-clang19-gold
  zeros-aarch64-bfd
  # clang 22's profiles have all that others have, and version 11 too; those of clang 14 and 19 are
  # merged by pools-clang14 and merge-files each day
  profiles-clang14-bfd profiles-clang16-lld profiles-clang19-bfd
  own-records-clang14 own-records-clang16 own-records-clang19
  other-tools-clang14 other-tools-clang16 other-tools-clang19
  run-modes-clang16 run-modes-clang19 runtime-api-clang14-lld runtime-api-clang16-bfd
  runtime-api-clang16-lld runtime-api-clang19-bfd runtime-api-clang19-lld
  runtime-api-clang22-bfd explain-clang14 explain-clang16 explain-clang19
  explain-leveldb-clang14 explain-leveldb-clang16 explain-leveldb-clang19
  pairs-clang14 pairs-clang16 pairs-clang19 changed-ids-clang14 changed-ids-clang16 changed-ids-clang19
  pools-clang16 pools-clang19 pool-files-clang16 pool-files-clang19
  pools-aarch64-clang14 pools-aarch64-clang16 pools-aarch64-clang19
  pools-arm-clang14 pools-arm-clang19 pools-i386-clang14 pools-i386-clang19
  pools-ppc64le-clang14 pools-ppc64le-clang19 pools-s390x-clang14 pools-s390x-clang19
  pools-mips64el-clang14 pools-mips64el-clang19
  snapshot-clang14 snapshot-clang16 snapshot-clang19 snapshot-i386 bad-dumps-2
  # SQLite is one source, which a compiler needs 20 seconds for; each day LevelDB, of whose objects
  # other suites need the same, is the real program
  leveldb-clang16 leveldb-clang19 sqlite-clang14-bfd sqlite-clang22-lld sqlite-aarch64 sqlite-arm
  sqlite-s390x raw-versions-bfd
  # each day the two machines of which code was misread
  interpreter-x86-64 interpreter-aarch64 interpreter-i386 interpreter-ppc64le interpreter-s390x
  interpreter-mips64el
  macho-clang19-arm64 macho-clang19-x86_64 macho-tools-clang19 coff-clang19
  coff-tools-clang19
  profiles-leveldb-clang14 profiles-leveldb-clang16 profiles-leveldb-clang19
  reports-leveldb-clang14 reports-leveldb-clang16 reports-leveldb-clang19
  reports-packed-clang14 reports-packed-clang16 reports-packed-clang19 reports-packed-clang22
  reports-sqlite-clang14 reports-sqlite-clang16 reports-sqlite-clang19 reports-sqlite-clang22
  reports-small-clang16 reports-small-clang19
  packed-ordinary-clang14 packed-ordinary-clang16 packed-ordinary-clang19 packed-ordinary-i386
  device-clang16 device-clang19 union-clang14 union-clang16 union-clang19
  union-few-clang14 union-few-clang16 union-few-clang19
  union-all-clang14 union-all-clang16 union-all-clang19 union-all-clang22
  portable-export portable-merge-files portable-run-llvm portable-profiles-leveldb
  portable-reports-leveldb ${packed_reports_runs}
  deltas-store-writers deltas-finding deltas-export deltas-run
  deltas-merge-state deltas-report deltas-link deltas-batch
  deltas-per-image deltas-union-few-clang22
  # what another daily suite tests as well, in a smaller program or for a like machine
  machines-riscv32 packed-ordinary-s390x runtime-api-clang14-bfd reports-small-clang22
  union-few-clang22 explain-leveldb-clang22 portable-run reports-small-clang14
  pool-files-clang14 run-modes-clang14 pools-aarch64-clang22 snapshot-arm device-clang14
  device-bare-aarch64 device-bare-riscv32 device-bare-x86-64 unusual-bfd
  # llvm-cov and llvm-profdata of LLVM 16 and 19 run under covsplit in coff-readers, too
  run-clang16-bfd run-clang19-lld
  # damaged images of one machine of 32 bits and of one of the other byte order are daily
  bad-images-aarch64 bad-images-i386 bad-images-ppc64le bad-images-riscv64
  bad-images-riscv32 bad-images-mips64el bad-images-loongarch64
  # the second half of the damaged files, of which the fuzz targets see more
  bad-images-2 coff-bad-images-2 bad-macho-2 bad-objects-2 bad-sidecars-2 bad-unions-2
  bad-deltas-2
  bad-profile-sums-2)
# With sanitizers the command itself is looked at, not what others make of its images, nor moments.
set(sanitized_campaign_suites
  # LLVM's tools take most of the time
  pairs-clang22
  packed-objects-clang22 packed-objects-machines
  harness documentation dumps races kill consume-kill store-writers repack build-rules debuginfod claims
  macho-clang22-arm64
  coff-clang22 macho-alone profiles-clang22-lld raw-versions-lld
  leveldb-clang22 foreign-references-clang22-lld
  chance-references profiles-leveldb-clang14 profiles-leveldb-clang22
  macho-clang22-x86_64 macho-real coff-readers coff-runtime
  run-clang14-lld run-clang22-bfd run-process other-tools-clang14 other-tools-clang22
  run-modes-clang14 run-modes-clang22 runtime-api-clang14-bfd runtime-api-clang22-lld
  pools-clang14 pools-clang22 pools-aarch64-clang22
  pool-files-clang14 unusual-bfd unusual-lld matrix-clang14-gold
  matrix-clang16-gold matrix-clang19-gold matrix-clang22-gold matrix-clang14-mold
  matrix-clang16-mold matrix-clang19-mold
  machines-aarch64 machines-i386 machines-ppc64le machines-mips64el machines-riscv64
  interpreter-arm interpreter-riscv64
  device-clang14 device-clang22 device-bare-aarch64 device-bare-arm
  device-bare-riscv32 device-bare-riscv64
  packed-ordinary-s390x
  machines-riscv32 machines-loongarch64 snapshot-arm
  packed-reports-clang22-lld zeros-clang14-bfd)

# With sanitizers, one suite walks each of the command's ways; others do that again on other images.
if(COVSPLIT_SANITIZE)
  list(APPEND campaign_suites
    links benchmark-numbers compile-gcc consume-watch firmware machines-arm
    matrix-clang22-mold own-records-clang22 pool-files-clang22 snapshot-aarch64
    packed-ordinary-clang22
    # Damaged images of each format, sidecars and profiles are daily; the fuzz targets have sanitizers
    # too, and see far more of all kinds.
    bad-images-arm bad-images-s390x bad-archives bad-objects-1 bad-unions-1
    bad-dumps-1 bad-profile-sums-1 packed-images machines-s390x snapshot-s390x
    # a kill at every system call; merge-state and streams walk the same ways
    consume
    # store and batch
    store-copy
    # unit-union and the fuzz target of states and unions have sanitizers, too
    union-clang22
    # snapshot-dumps reads images of memory the same way
    snapshot-clang22)
endif()

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
  get_property(program GLOBAL PROPERTY program_of_${suite})
  if(program AND NOT tier STREQUAL campaign)
    add_dependencies(daily_tests ${program})
  endif()
endforeach()

# The longest ones start first, so that none of them is left to the end alone: seconds of a processor, or of
# waiting, with an empty cache.
set(costs
  fetch 50 fetch-runtimes 50 kill 30 consume-watch 30 pairs-clang22 30 verdict 27 llvm-versions 15
  profiles-clang22-lld 25 reports-leveldb-clang22 22 coff-clang22 22 raw-versions-lld 17 matrix-clang16-bfd 15
  union-clang22 15 macho-clang22-arm64 15 firmware 14 races 13 bad-runs 13 store-writers 13 matrix-clang22-lld 13
  diff-cover 13 export 12 zeros-aarch64-lld 12 zeros-clang22-lld 12 zeros-clang14-bfd 12 macho-alone 12 fault-sweep 12
  snapshot-clang22 11 report 11 build-rules 11 packed-objects-clang22 11 portable-matrix 10
  runtime-api-clang22-lld 9 device-clang22 9 sidecar-format 9 remote 20 machines-riscv64 9 compile-clang22 9 state-faults 9
  dumps 8 repack 8 coff-readers 8 consume-kill 8 store-copy 8 pools-clang22 7 tripwire-clang22 6)
while(costs)
  list(POP_FRONT costs suite cost)
  if(TEST ${suite})
    set_tests_properties(${suite} PROPERTIES COST ${cost})
  endif()
endwhile()
