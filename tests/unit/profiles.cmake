# The suites of profiles: included by CMakeLists.txt.
foreach(name correlate names profile_reader profile_sum)
  add_unit(${name})
  target_sources(test_${name} PRIVATE profile_maker.c)
endforeach()
refuse_memory(test_profile_sum)
add_unit(store covsplit_reader_static ${CMAKE_SOURCE_DIR}/tests/support/file_system.c)
if(COVSPLIT_HAS_CURL)
  add_unit(remote covsplit_reader_static reader_fixture.c profile_maker.c
           ${CMAKE_SOURCE_DIR}/tests/support/file_system.c)
endif()
foreach(name state state_damage state_power state_records)
  add_unit(${name} state_fixture.c profile_maker.c ${CMAKE_SOURCE_DIR}/tests/support/file_system.c)
endforeach()
target_link_options(test_state_power PRIVATE
                    -Wl,--wrap=fsync,--wrap=rename,--wrap=renameat2,--wrap=linkat,--wrap=unlink,--wrap=unlinkat)
add_unit(refused_calls refused_calls.c state_fixture.c profile_maker.c
         ${CMAKE_SOURCE_DIR}/tests/support/file_system.c)
foreach(call malloc calloc realloc strdup asprintf stat64 lstat64 fstat64 fstatat64 open64 read pread64
        write lseek64 mmap64 ftruncate64 fchmod futimens fsync rename renameat2 link linkat unlink
        unlinkat mkdir mkostemp64 memfd_create dup3 fcntl64 access getrandom opendir readdir64 realpath
        syscall)
  target_link_options(test_refused_calls PRIVATE -Wl,--wrap=${call})
endforeach()
add_unit(reader_profiles covsplit_reader reader_fixture.c profile_maker.c)
foreach(name calls merger state union)
  add_unit(reader_${name} covsplit_reader_static reader_fixture.c profile_maker.c)
  refuse_memory(test_reader_${name})
endforeach()
target_sources(test_reader_state PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/file_system.c)
