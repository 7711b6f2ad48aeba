# What Debian packages need besides the installed files. cpack runs this twice: when all files are in
# place, and when it has made the packages.

set(debian "${CMAKE_CURRENT_LIST_DIR}/debian")

# Adds the files that each package must have.
function(add_documents package root)
  set(documents "${root}/usr/share/doc/${package}")
  file(MAKE_DIRECTORY "${documents}")
  file(COPY_FILE "${CPACK_RESOURCE_FILE_LICENSE}" "${documents}/copyright")
  file(COPY "${debian}/changelog" DESTINATION "${documents}")
  file(GLOB pages "${root}/usr/share/man/man1/*.1")
  execute_process(COMMAND gzip -9 --no-name --force ${pages} "${documents}/changelog"
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Adds the list that says since which version the library has each symbol, for the packages of programs
# that use it. Symbols that were added or removed but are not listed are errors.
function(add_symbols package root)
  set(known "${debian}/${package}.symbols")
  if(EXISTS "${known}")
    execute_process(COMMAND dpkg-gensymbols -c4 "-p${package}" "-v${CPACK_PACKAGE_VERSION}"
                            "-I${known}" "-P${root}" "-O${root}/DEBIAN/symbols"
                    WORKING_DIRECTORY "${root}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
endfunction()

# Rebuilds a package without the scripts for ldconfig, which a trigger replaces, and with modes that do
# not depend on the user's umask, both of the files and of the parts of the package. (dpkg-deb sets
# times later than SOURCE_DATE_EPOCH back to it, but leaves earlier ones.)
function(make_again file)
  get_filename_component(package "${file}" NAME)
  string(REGEX REPLACE "_.*" "" package "${package}")
  set(root "${CPACK_TOPLEVEL_DIRECTORY}/again")
  file(REMOVE_RECURSE "${root}")
  execute_process(COMMAND dpkg-deb --raw-extract "${file}" "${root}" COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE "${root}/DEBIAN/postinst" "${root}/DEBIAN/postrm")
  add_symbols(${package} "${root}")
  execute_process(COMMAND chmod -R u=rwX,go=rX "${root}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND find "${root}" -exec touch --no-dereference
                          "--date=@$ENV{SOURCE_DATE_EPOCH}" {} + COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND dpkg-deb --root-owner-group --build "${root}" "${file}"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(NOT CPACK_PACKAGE_FILES)
  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} name)
    add_documents(${CPACK_DEBIAN_${name}_PACKAGE_NAME} "${CPACK_TEMPORARY_DIRECTORY}/${component}")
  endforeach()
else()
  foreach(file IN LISTS CPACK_PACKAGE_FILES)
    make_again("${file}")
  endforeach()
endif()
