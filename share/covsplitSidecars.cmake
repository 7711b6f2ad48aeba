# The first step of a build that uses covsplit_target:
# cmake -P covsplitSidecars.cmake -- DIRECTORY CONFIGURATION [OTHER-CONFIGURATION...]
#
# A sidecar cannot be made from the stripped image: if it was deleted, the image must be linked again.
# Generators cannot know that by themselves: CMake does not accept the names of sidecars as outputs,
# since they may contain those of their images. So each link depends on a stamp file, which is touched
# here.
#
# DIRECTORY has a script for each configuration, which calls covsplit_sidecar for each image.

cmake_minimum_required(VERSION 3.19)

function(covsplit_sidecar image sidecar stamp)
  get_property(other GLOBAL PROPERTY "covsplit image of ${sidecar}")
  if(other AND NOT other STREQUAL image)
    message(FATAL_ERROR "'${sidecar}' is the SIDECAR of two images\n${other}\n${image}\n"
                        "Give each its own, with $<CONFIG> in it if they are of two configurations.")
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
