# The module that `covsplit run` loads into other programs (run/preload.c): as a file that is installed
# beside the command, and as a part of the command itself (run/module_inside.c).

function(add_preload_module name)
  add_library(${name} MODULE run/preload.c)
  target_link_libraries(${name} PRIVATE covsplit_guest)
  target_link_options(${name} PRIVATE -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack ${ARGN})
endfunction()

add_preload_module(covsplit_preload -Wl,--as-needed)
target_link_libraries(covsplit_preload PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(covsplit_preload PROPERTIES OUTPUT_NAME covsplit-preload)
if(NOT COVSPLIT_STATIC)
  # Nothing is linked with it, so it is not installed among the libraries.
  install(TARGETS covsplit_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/covsplit)
endif()
# Its path relative to the command's directory.
file(RELATIVE_PATH preload_installed "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/covsplit")
set_property(SOURCE run/run.c APPEND PROPERTY COMPILE_DEFINITIONS
  COVSPLIT_PRELOAD_INSTALLED="${preload_installed}/libcovsplit-preload.so"
  COVSPLIT_PRELOAD_BUILT="libcovsplit-preload.so")

# The module in the command is for programs with any C library, so it is not linked with one and refers
# to no symbol versions: its functions are found in the program. If dlsym is not in the C library itself
# (glibc before 2.34), it is in libdl.so.2, which a program may not have loaded, so the module needs
# that library. All versions of glibc have it, and musl treats the name as its own; an empty library
# is linked in its place here.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/nothing.c "")
add_library(covsplit_libdl SHARED ${CMAKE_CURRENT_BINARY_DIR}/nothing.c)
target_link_options(covsplit_libdl PRIVATE -nostdlib)
set_target_properties(covsplit_libdl PROPERTIES OUTPUT_NAME dl SOVERSION 2
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/empty)
add_preload_module(covsplit_preload_anywhere -Wl,--no-as-needed -Wl,-s -nostdlib)
target_link_libraries(covsplit_preload_anywhere PRIVATE covsplit_libdl gcc)
set_target_properties(covsplit_preload_anywhere PROPERTIES SKIP_BUILD_RPATH ON)

set(module ${CMAKE_CURRENT_BINARY_DIR}/libcovsplit_preload_anywhere.so)
add_library(covsplit_module_inside OBJECT run/module_inside.c)
target_link_libraries(covsplit_module_inside PRIVATE covsplit_build)
target_compile_definitions(covsplit_module_inside PRIVATE COVSPLIT_PRELOAD_FILE="${module}")
set_source_files_properties(run/module_inside.c PROPERTIES OBJECT_DEPENDS ${module})
add_dependencies(covsplit_module_inside covsplit_preload_anywhere)
