# What Debian wants of a package beyond what is installed elsewhere. cpack runs this twice: when all
# files are in place, and when it has made the package.

set(debian "${CMAKE_CURRENT_LIST_DIR}/debian")

if(NOT CPACK_PACKAGE_FILES)
  set(share "${CPACK_TEMPORARY_DIRECTORY}/usr/share")
  file(COPY "${debian}/changelog" DESTINATION "${share}/doc/covsplit")
  file(MAKE_DIRECTORY "${share}/lintian/overrides")
  file(COPY_FILE "${debian}/lintian-overrides" "${share}/lintian/overrides/covsplit")
  file(GLOB pages "${share}/man/man1/*.1")
  execute_process(COMMAND gzip -9 --no-name --force ${pages} "${share}/doc/covsplit/changelog"
                  COMMAND_ERROR_IS_FATAL ANY)
else()
  # Makes the package again, without the scripts for ldconfig, which a trigger does for, and with modes
  # that are not those of the user's umask, neither of the files nor of the parts of the package.
  # (dpkg-deb sets later times back to SOURCE_DATE_EPOCH, but leaves earlier ones.)
  set(place "${CPACK_TOPLEVEL_DIRECTORY}/again")
  file(REMOVE_RECURSE "${place}")
  execute_process(COMMAND dpkg-deb --raw-extract "${CPACK_PACKAGE_FILES}" "${place}"
                  COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE "${place}/DEBIAN/postinst" "${place}/DEBIAN/postrm")
  execute_process(COMMAND chmod -R u=rwX,go=rX "${place}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND find "${place}" -exec touch --no-dereference
                          "--date=@$ENV{SOURCE_DATE_EPOCH}" {} + COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND dpkg-deb --root-owner-group --build "${place}" "${CPACK_PACKAGE_FILES}"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
