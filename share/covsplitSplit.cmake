# The command that covsplit_target runs after a link:
# cmake -P covsplitSplit.cmake -- IMAGE PLACE COMMAND WORD...
# PLACE is --sidecar=FILE or --store=DIRECTORY.
#
# Runs COMMAND WORD... PLACE IMAGE. If it fails, removes the image, so that no later build takes it for
# finished: some generators keep the output of a failed link step.

cmake_minimum_required(VERSION 3.19)

set(image "${CMAKE_ARGV4}")
string(REGEX REPLACE "^--[a-z]+=" "" place "${CMAKE_ARGV5}")
if(NOT IS_ABSOLUTE "${place}")
  file(REMOVE "${image}")
  message(FATAL_ERROR "${image} was not split\n'${place}' is not an absolute path; if a SIDECAR or "
                      "STORE begins with a generator expression, that must make it absolute")
endif()

# Makes the directory, as build tools do for any output. If that fails, covsplit will report it. A store
# is made too: covsplit makes none for an image that has nothing to take out, but install() needs it.
if(CMAKE_ARGV5 MATCHES "^--store=")
  set(directory "${place}")
else()
  get_filename_component(directory "${place}" DIRECTORY)
endif()
if(NOT IS_DIRECTORY "${directory}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E make_directory "${directory}" ERROR_QUIET)
endif()

# The words are not put into a list, where a bracket would join the words that follow it.
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
