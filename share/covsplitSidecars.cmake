# What a build begins with where covsplit_target was used:
# cmake -P covsplitSidecars.cmake -- DIRECTORY CONFIGURATION
#
# A sidecar cannot be made of the stripped image: where one was deleted, its image is linked again. No
# generator knows of that by itself, since sidecars may be named after their images, and such names are
# no outputs for CMake. So each link depends on a file, a stamp, that is touched here.
#
# DIRECTORY has code for each configuration, which calls covsplit_sidecar for each image.

cmake_minimum_required(VERSION 3.19)

function(covsplit_sidecar image sidecar stamp)
  if(EXISTS "${image}" AND NOT EXISTS "${sidecar}")
    message(STATUS "${sidecar} is lost: linking ${image} again")
    file(TOUCH "${stamp}")
  elseif(NOT EXISTS "${stamp}")
    file(TOUCH "${stamp}")
  endif()
endfunction()

include("${CMAKE_ARGV4}/${CMAKE_ARGV5}.cmake")
