# What cpack makes: Debian packages, divided as Debian does; for a static build, an archive of the
# installed files; and with --config CPackSourceConfig.cmake, an archive of the sources, which gives
# the same build.
set(CPACK_VERBATIM_VARIABLES YES)
set(CPACK_PACKAGE_NAME covsplit)
set(CPACK_PACKAGE_VENDOR "The covsplit authors")
set(COVSPLIT_MAINTAINER "The covsplit authors <covsplit@example.org>" CACHE STRING
    "Who stands in packages as their maintainer")
set(CPACK_PACKAGE_CONTACT "${COVSPLIT_MAINTAINER}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/share/packagesEach.cmake)
set(CPACK_STRIP_FILES ON)

if(COVSPLIT_STATIC)
  set(CPACK_GENERATOR TXZ)
  set(CPACK_PACKAGE_FILE_NAME covsplit-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
else()
  set(CPACK_GENERATOR DEB)
endif()

# Each installation component becomes a package.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL command library development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(description "\
covsplit takes coverage mapping, profile names and profile data out of
images that clang or rustc have instrumented, into a compressed sidecar.
The stripped image still runs and writes small profiles; merging and
reports work from the sidecars, and the original comes back byte for
byte.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME covsplit)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION devel)
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "split coverage data off instrumented images
${description}")
# LLVM's tools are needed only for .profdata files and reports, libcurl for stores at URLs, and LIEF only for verify --image.
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "llvm, libcurl4")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS liblief0)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libcovsplit0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS libcurl4)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "library that reads split-off coverage data
${description}
.
This is the library for programs that read sidecars themselves.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/share/debian/triggers)

# Its CMake package is part of the command's.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcovsplit-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library command)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "library that reads split-off coverage data (development)
${description}
.
This is what it takes to compile programs that use the library, and
libcovsplit-device, with which programs on devices write profiles.")

set(CPACK_SOURCE_GENERATOR TXZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME covsplit-${PROJECT_VERSION})
# Files of version control, of CI and of builds are left out. The patterns are matched against whole
# paths, so they must not match the directory of the sources itself.
string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" source "${PROJECT_SOURCE_DIR}")
string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" binary "${PROJECT_BINARY_DIR}")
set(CPACK_SOURCE_IGNORE_FILES "^${source}/\\.git" "^${source}/\\.ci/" "^${source}/\\.cache/"
                              "^${source}/build" "^${source}/compile_commands.json$" "^${binary}/")
include(CPack)
