# What Debian wants of packages beyond what is installed elsewhere. cpack runs this twice: when all
# files are in place, and when it has made the packages.

set(debian "${CMAKE_CURRENT_LIST_DIR}/debian")

# Adds to the files of a package what each has.
function(add_documents package root)
  set(documents "${root}/usr/share/doc/${package}")
  file(MAKE_DIRECTORY "${documents}")
  file(COPY_FILE "${CPACK_RESOURCE_FILE_LICENSE}" "${documents}/copyright")
  file(COPY "${debian}/changelog" DESTINATION "${documents}")
  file(GLOB pages "${root}/usr/share/man/man1/*.1")
  execute_process(COMMAND gzip -9 --no-name --force ${pages} "${documents}/changelog"
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Says since which version of the package each symbol of the library is there, for packages of programs
# that use it. Symbols that went or came without being written down are errors.
function(add_symbols package root)
  set(known "${debian}/${package}.symbols")
  if(EXISTS "${known}")
    execute_process(COMMAND dpkg-gensymbols -c4 "-p${package}" "-v${CPACK_PACKAGE_VERSION}"
                            "-I${known}" "-P${root}" "-O${root}/DEBIAN/symbols"
                    WORKING_DIRECTORY "${root}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
endfunction()

# Makes a package again, without the scripts for ldconfig, which a trigger does for, and with modes
# that are not those of the user's umask, neither of the files nor of the parts of the package.
# (dpkg-deb sets later times back to SOURCE_DATE_EPOCH, but leaves earlier ones.)
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
