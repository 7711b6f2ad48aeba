# covsplit_enable([STORE DIRECTORY] [OPTIONS OPTION...] [TARGETS TARGET... | EXCLUDE TARGET...]
#                 [NO_PACK | NO_SPLIT] [INSTALL_SIDECAR DIRECTORY [COMPONENT NAME]])
#
# One line for a whole project: packs the objects of all targets that are defined after it, in this
# directory and below, when they are compiled, and splits the executables, shared libraries and modules
# among them when they are linked. It goes before the targets. It adds no compiler option: what is
# compiled without coverage passes unchanged.
#
#   STORE            where the sidecars go, under the UUIDs of the images. Relative to the current
#                    binary directory. Default: ${CMAKE_BINARY_DIR}/sidecars
#   OPTIONS          options for `covsplit link`, such as --fast or --level;19
#   TARGETS          these targets instead, which were defined before
#   EXCLUDE          targets that are left as they are. They may be defined later
#   NO_PACK          splits only
#   NO_SPLIT         packs only: images are split by covsplit_target, or not at all
#   INSTALL_SIDECAR  installs the store into this directory, as part of the component, if one is named
#
# It puts covsplit in front of compiler and linker, as launchers of C, C++, Objective-C and Objective-C++
# (CMAKE_C_COMPILER_LAUNCHER, CMAKE_C_LINKER_LAUNCHER and so on). A launcher that is set, as by
# -DCMAKE_C_COMPILER_LAUNCHER=ccache, is kept and runs behind it. Assembler sources and the checks of
# try_compile have no launchers.
#
# Targets of covsplit_target are packed, and split only as that says. If a directory calls
# covsplit_enable again, the later call counts for what follows it there.
#
# Launchers of linkers need CMake 3.21, and a generator for Ninja or make.

cmake_policy(PUSH)
cmake_policy(VERSION 3.19...3.31) # projects that use this may have older ones

function(covsplit_enable)
  cmake_parse_arguments(PARSE_ARGV 0 ENABLE "NO_PACK;NO_SPLIT" "STORE;INSTALL_SIDECAR;COMPONENT"
                        "OPTIONS;TARGETS;EXCLUDE")
  _covsplit_check_enable()
  if(NOT ENABLE_STORE)
    set(ENABLE_STORE "${CMAKE_BINARY_DIR}/sidecars")
  endif()
  get_filename_component(store "${ENABLE_STORE}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  _covsplit_path(command)
  set(COMPILER)
  set(LINKER)
  if(NOT ENABLE_NO_PACK)
    set(COMPILER "${command}" compile --)
  endif()
  if(NOT ENABLE_NO_SPLIT)
    set(LINKER "${command}" link ${ENABLE_OPTIONS} "--store=${store}" --)
  endif()

  foreach(tool IN ITEMS COMPILER LINKER)
    foreach(target IN LISTS ENABLE_TARGETS)
      _covsplit_change_launchers(${target} ${tool} "${${tool}}")
    endforeach()
    foreach(language IN ITEMS C CXX OBJC OBJCXX)
      if(NOT ENABLE_TARGETS)
        _covsplit_launcher(launcher "${CMAKE_${language}_${tool}_LAUNCHER}" "${${tool}}")
        set(CMAKE_${language}_${tool}_LAUNCHER "${launcher}" PARENT_SCOPE)
      endif()
    endforeach()
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY COVSPLIT_EXCLUDED ${ENABLE_EXCLUDE})
  cmake_language(DEFER CALL _covsplit_finish)
  _covsplit_install_store()
endfunction()

# Called in the scope of covsplit_enable.
macro(_covsplit_check_enable)
  list(REMOVE_ITEM ENABLE_KEYWORDS_MISSING_VALUES OPTIONS EXCLUDE) # they may be empty
  if(ENABLE_UNPARSED_ARGUMENTS OR ENABLE_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "covsplit_enable: what is "
                        "'${ENABLE_UNPARSED_ARGUMENTS}${ENABLE_KEYWORDS_MISSING_VALUES}'?")
  endif()
  if(ENABLE_NO_PACK AND ENABLE_NO_SPLIT)
    message(FATAL_ERROR "covsplit_enable: nothing is left to do with NO_PACK and NO_SPLIT")
  endif()
  if(ENABLE_TARGETS AND ENABLE_EXCLUDE)
    message(FATAL_ERROR "covsplit_enable: TARGETS and EXCLUDE exclude each other")
  endif()
  if(ENABLE_NO_SPLIT AND (ENABLE_STORE OR ENABLE_OPTIONS OR ENABLE_INSTALL_SIDECAR))
    message(FATAL_ERROR "covsplit_enable: STORE, OPTIONS and INSTALL_SIDECAR are for what is split")
  endif()
  if(ENABLE_COMPONENT AND NOT ENABLE_INSTALL_SIDECAR)
    message(FATAL_ERROR "covsplit_enable: COMPONENT is for INSTALL_SIDECAR")
  endif()
  if(CMAKE_VERSION VERSION_LESS 3.21 AND NOT ENABLE_NO_SPLIT)
    message(FATAL_ERROR "covsplit_enable: CMake ${CMAKE_VERSION} has no launchers of linkers (3.21 "
                        "has); use NO_SPLIT and covsplit_target")
  endif()
  if(NOT CMAKE_GENERATOR MATCHES "Ninja|Makefiles")
    message(FATAL_ERROR "covsplit_enable: the generator ${CMAKE_GENERATOR} does not use launchers; "
                        "use one for Ninja or make")
  endif()
endmacro()

# The path of the command, which may be built in this project.
function(_covsplit_path result)
  get_target_property(path covsplit::command COVSPLIT_PATH)
  if(NOT path)
    get_target_property(path covsplit::command LOCATION)
  endif()
  set(${result} "${path}" PARENT_SCOPE)
endfunction()

# Called at the end of the directory, when all targets are known.
function(_covsplit_finish)
  get_property(excluded DIRECTORY PROPERTY COVSPLIT_EXCLUDED)
  foreach(target IN LISTS excluded)
    _covsplit_change_launchers(${target} COMPILER "")
    _covsplit_change_launchers(${target} LINKER "")
  endforeach()
  get_target_property(imported covsplit::command IMPORTED)
  if(NOT imported)
    _covsplit_build_first("${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
endfunction()

# If the command is built in this project, it is needed before anything is compiled by its launchers.
function(_covsplit_build_first directory)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    foreach(property IN ITEMS C_COMPILER_LAUNCHER C_LINKER_LAUNCHER)
      get_target_property(launcher ${target} ${property})
      _covsplit_without(rest "${launcher}")
      if(launcher AND NOT rest STREQUAL launcher)
        add_dependencies(${target} covsplit::command)
      endif()
    endforeach()
  endforeach()
  get_property(below DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS below)
    _covsplit_build_first("${subdirectory}")
  endforeach()
endfunction()

# Changes the launchers of a target, where tool is COMPILER or LINKER.
function(_covsplit_change_launchers target tool words)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "covsplit_enable: there is no target ${target}")
  endif()
  get_target_property(aliased ${target} ALIASED_TARGET)
  if(aliased)
    set(target ${aliased})
  endif()
  get_target_property(imported ${target} IMPORTED)
  if(imported)
    message(FATAL_ERROR "covsplit_enable: ${target} is not built here")
  endif()
  foreach(language IN ITEMS C CXX OBJC OBJCXX)
    set(property ${language}_${tool}_LAUNCHER)
    get_target_property(launcher ${target} ${property})
    if(launcher OR words)
      _covsplit_launcher(launcher "${launcher}" "${words}")
      set_property(TARGET ${target} PROPERTY ${property} "${launcher}")
    endif()
  endforeach()
endfunction()

# Puts words in front of a launcher, in place of what covsplit has in it.
function(_covsplit_launcher result launcher words)
  _covsplit_without(launcher "${launcher}")
  list(APPEND words ${launcher})
  set(${result} "${words}" PARENT_SCOPE)
endfunction()

# Removes "covsplit;link;OPTION...;--" and "covsplit;compile;OPTION...;--" from a launcher, and keeps the
# rest.
function(_covsplit_without result launcher)
  set(kept)
  set(program)
  set(inside FALSE)
  if(NOT launcher) # a property that is not set
    set(launcher)
  endif()
  foreach(word IN LISTS launcher)
    if(inside)
      string(COMPARE NOTEQUAL "${word}" "--" inside)
    elseif(word MATCHES "^(link|compile)$"
           AND program MATCHES "(^|[/\\:])covsplit(\\.exe|::command>)?$")
      list(REMOVE_AT kept -1)
      set(inside TRUE)
    else()
      list(APPEND kept "${word}")
    endif()
    set(program "${word}")
  endforeach()
  set(${result} "${kept}" PARENT_SCOPE)
endfunction()

# Called in the scope of covsplit_enable. The store is there even if nothing is split.
macro(_covsplit_install_store)
  if(ENABLE_INSTALL_SIDECAR)
    set(component)
    if(ENABLE_COMPONENT)
      set(component COMPONENT "${ENABLE_COMPONENT}")
    endif()
    file(MAKE_DIRECTORY "${store}")
    install(DIRECTORY "${store}/" DESTINATION "${ENABLE_INSTALL_SIDECAR}" ${component})
  endif()
endmacro()

cmake_policy(POP)
