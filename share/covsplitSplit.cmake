# What covsplit_target runs behind a link: cmake -P covsplitSplit.cmake -- IMAGE COMMAND...
#
# Runs the command. Where it fails, the image goes, so that no later build takes it for done: some
# generators leave what a failed link step has made.

set(command)
set(is_command FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE ${last})
  if(is_command)
    list(APPEND command "${CMAKE_ARGV${index}}")
  elseif("${CMAKE_ARGV${index}}" STREQUAL "--")
    set(is_command TRUE)
  endif()
endforeach()
list(POP_FRONT command image)

execute_process(COMMAND ${command} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  file(REMOVE "${image}")
  message(FATAL_ERROR "${image} was not split")
endif()
