# Read by cpack for each kind of package; CPackConfig.cmake is the same for all.
#
# A package is the same whenever and wherever it is made: all times in it are SOURCE_DATE_EPOCH or, if
# that is not set, the time of the last change in the changelog.

if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/debian/changelog" signature REGEX "^ -- " LIMIT_COUNT 1)
  string(REGEX REPLACE ".*>  " "" date "${signature}")
  execute_process(COMMAND date --utc "--date=${date}" +%s OUTPUT_VARIABLE epoch
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(ENV{SOURCE_DATE_EPOCH} "${epoch}")
endif()

if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr) # only packages that are installed have a prefix
  set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/packagesDebian.cmake")
  set(CPACK_POST_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/packagesDebian.cmake")
else()
  set(CPACK_POST_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/packagesSources.cmake")
endif()
