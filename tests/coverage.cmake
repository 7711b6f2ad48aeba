# The build that coverage.sh measures, by clang: all images of ours write their profiles by
# support/own_profile.c. What is linked into programs for devices has no coverage: tests compile it with
# options of their own.
#
# Static functions get unique names, since many have the same name in files of the same name
# (read_section in the read.c of each format), which is all that a profile knows of them.
add_library(own_profile OBJECT tests/support/own_profile.c)
target_compile_definitions(own_profile PRIVATE _GNU_SOURCE OWN_PROFILES="${CMAKE_BINARY_DIR}/profiles")
target_compile_options(own_profile PRIVATE -Wall -Wextra -Wconversion)
target_compile_options(covsplit_guest INTERFACE -fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc
                                                -funique-internal-linkage-names)
target_link_libraries(covsplit_guest INTERFACE $<TARGET_OBJECTS:own_profile>)
target_link_options(covsplit_guest INTERFACE
  -fprofile-instr-generate -fuse-ld=lld -Wl,--build-id=sha1
  -Wl,--wrap=_exit,--export-dynamic-symbol=own_images)
