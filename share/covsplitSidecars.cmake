# What a build begins with where covsplit_target was used:
# cmake -P covsplitSidecars.cmake -- DIRECTORY CONFIGURATION [OTHER-CONFIGURATION...]
#
# A sidecar cannot be made of the stripped image: where one was deleted, its image is linked again. No
# generator knows of that by itself, since sidecars may be named after their images, and such names are
# no outputs for CMake. So each link depends on a file, a stamp, that is touched here.
#
# DIRECTORY has code for each configuration, which calls covsplit_sidecar for each image.

cmake_minimum_required(VERSION 3.19)

function(covsplit_sidecar image sidecar stamp)
  get_property(other GLOBAL PROPERTY "covsplit image of ${sidecar}")
  if(other AND NOT other STREQUAL image)
    message(FATAL_ERROR "'${sidecar}' is the SIDECAR of two images\n${other}\n${image}\n"
                        "Give each its own, with $<CONFIG> in it where that makes the difference.")
  endif()
  set_property(GLOBAL PROPERTY "covsplit image of ${sidecar}" "${image}")

  if(index GREATER 5) # of another configuration
    return()
  endif()
  if(EXISTS "${image}" AND NOT EXISTS "${sidecar}")
    message(STATUS "${sidecar} is lost: linking ${image} again")
    file(TOUCH "${stamp}")
  elseif(NOT EXISTS "${stamp}")
    file(TOUCH "${stamp}")
  endif()
endfunction()

math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE 5 ${last})
  include("${CMAKE_ARGV4}/${CMAKE_ARGV${index}}.cmake")
endforeach()
