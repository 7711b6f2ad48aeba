# What cpack makes: a .deb of all that is installed, and with --config CPackSourceConfig.cmake the
# sources, of which the same build comes.
set(CPACK_VERBATIM_VARIABLES YES)
set(CPACK_PACKAGE_NAME covsplit)
set(CPACK_PACKAGE_VENDOR "The covsplit authors")
set(COVSPLIT_MAINTAINER "The covsplit authors <covsplit@example.org>" CACHE STRING
    "Who stands in packages as their maintainer")
set(CPACK_PACKAGE_CONTACT "${COVSPLIT_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "split coverage data off instrumented images")
set(CPACK_PACKAGE_DESCRIPTION "\
covsplit takes coverage mapping, profile names and profile data out of
images that clang or rustc have instrumented, into a compressed sidecar.
The stripped image still runs and writes small profiles; merging and
reports work from the sidecars, and the original comes back byte for
byte.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/share/packagesEach.cmake)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/share/debian/triggers)
# Only .profdata files and reports need LLVM's tools, and only verify --image needs the other.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS llvm)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS liblief0)

set(CPACK_SOURCE_GENERATOR TXZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME covsplit-${PROJECT_VERSION})
# What belongs to version control, to CI and to builds is no source. The patterns are for whole paths,
# so they must not match where the sources lie themselves.
string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" source "${PROJECT_SOURCE_DIR}")
string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" binary "${PROJECT_BINARY_DIR}")
set(CPACK_SOURCE_IGNORE_FILES "^${source}/\\.git" "^${source}/\\.ci/" "^${source}/\\.cache/"
                              "^${source}/build" "^${source}/compile_commands.json$" "^${binary}/")
include(CPack)
