# What covsplit_target runs behind a link: cmake -P covsplitSplit.cmake -- IMAGE COMMAND WORD...
#
# Runs the command. Where it fails, the image goes, so that no later build takes it for done: some
# generators leave what a failed link step has made.

cmake_minimum_required(VERSION 3.19)

# The words are not made a list, in which a bracket takes what follows with it.
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE 5 ${last})
  string(APPEND words " \"\${CMAKE_ARGV${index}}\"")
endforeach()
cmake_language(EVAL CODE "execute_process(COMMAND ${words} RESULT_VARIABLE result)")
if(NOT result EQUAL 0)
  file(REMOVE "${CMAKE_ARGV4}")
  message(FATAL_ERROR "${CMAKE_ARGV4} was not split")
endif()
