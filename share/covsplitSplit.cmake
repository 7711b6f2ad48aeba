# What covsplit_target runs behind a link: cmake -P covsplitSplit.cmake -- IMAGE PLACE COMMAND WORD...
# PLACE is --sidecar=FILE or --store=DIRECTORY.
#
# Runs COMMAND WORD... PLACE IMAGE. Where it fails, the image goes, so that no later build takes it for
# done: some generators leave what a failed link step has made.

cmake_minimum_required(VERSION 3.19)

set(image "${CMAKE_ARGV4}")
string(REGEX REPLACE "^--[a-z]+=" "" place "${CMAKE_ARGV5}")
if(NOT IS_ABSOLUTE "${place}")
  file(REMOVE "${image}")
  message(FATAL_ERROR "${image} was not split\n'${place}' is no absolute path; where a SIDECAR or "
                      "STORE begins with a generator expression, that must make it one")
endif()

# As for any other output of a build. Where it cannot be made, covsplit tells. A store is made here:
# covsplit itself makes none for an image that has nothing to take out, and install() wants one.
if(CMAKE_ARGV5 MATCHES "^--store=")
  set(directory "${place}")
else()
  get_filename_component(directory "${place}" DIRECTORY)
endif()
if(NOT IS_DIRECTORY "${directory}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E make_directory "${directory}" ERROR_QUIET)
endif()

# The words are not made a list, in which a bracket takes what follows with it.
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE 6 ${last})
  string(APPEND words " \"\${CMAKE_ARGV${index}}\"")
endforeach()
cmake_language(EVAL CODE "execute_process(
  COMMAND ${words} \"\${CMAKE_ARGV5}\" \"\${image}\" RESULT_VARIABLE result)")
if(NOT result EQUAL 0)
  file(REMOVE "${image}")
  message(FATAL_ERROR "${image} was not split")
endif()
