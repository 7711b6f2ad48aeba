# covsplit_target(TARGET [SIDECAR FILE | STORE DIRECTORY] [OPTIONS OPTION...]
#                 [INSTALL_SIDECAR DIRECTORY [COMPONENT NAME]])
#
# Splits TARGET, an executable, a shared library or a module, as the last step of its link: other
# targets that depend on TARGET, and install(TARGETS), get the stripped image.
#
#   SIDECAR          where the sidecar goes. Default: beside the image, as IMAGE.covsplit
#   STORE            the sidecar goes to this store instead, under the image's UUID
#   OPTIONS          more options for `covsplit split`, such as --level;19
#   INSTALL_SIDECAR  installs the sidecar, or the whole store, into this directory, as part of the
#                    component, if one is named
#
# Generator expressions are allowed in the first three. Relative paths are relative to the current
# binary directory; if a path begins with an expression other than $<CONFIG>, that must make it
# absolute. Directories are created. An empty SIDECAR or STORE is ignored.
#
# Each image needs a SIDECAR of its own, also those of different configurations.
#
# If a split fails, the build fails, and TARGET is removed. The clean target removes sidecars, except
# those in stores. Each build begins by checking for sidecars: if one was deleted, its image is linked
# again (with ninja and make). A sidecar deleted from a store is made again only when TARGET is linked
# again for another reason.
#
# It may be used together with `covsplit link` as the launcher of the linker (CMAKE_C_LINKER_LAUNCHER
# and the like): the launcher is then not used for TARGET, which is split only here, as the arguments
# say.
#
# The step comes after the commands that were added to TARGET with add_custom_command(POST_BUILD)
# before this call, and before those added later: strip later.

cmake_policy(PUSH)
cmake_policy(VERSION 3.19...3.31) # projects that use this may have older ones

function(covsplit_target target)
  cmake_parse_arguments(PARSE_ARGV 1 SPLIT "" "SIDECAR;STORE;INSTALL_SIDECAR;COMPONENT" "OPTIONS")
  if(TARGET ${target})
    get_target_property(aliased ${target} ALIASED_TARGET)
    if(aliased)
      set(target ${aliased})
    endif()
  endif()
  _covsplit_check_target(${target})
  list(REMOVE_ITEM SPLIT_KEYWORDS_MISSING_VALUES OPTIONS) # it may be empty
  if(SPLIT_UNPARSED_ARGUMENTS OR SPLIT_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "covsplit_target(${target}): what is "
                        "'${SPLIT_UNPARSED_ARGUMENTS}${SPLIT_KEYWORDS_MISSING_VALUES}'?")
  endif()
  if(SPLIT_SIDECAR AND SPLIT_STORE)
    message(FATAL_ERROR "covsplit_target(${target}): SIDECAR and STORE exclude each other")
  endif()
  if(SPLIT_COMPONENT AND NOT SPLIT_INSTALL_SIDECAR)
    message(FATAL_ERROR "covsplit_target(${target}): COMPONENT is for INSTALL_SIDECAR")
  endif()

  # A quoted list stands for its elements, also inside generator expressions.
  string(REPLACE "\\;" ";" options "${SPLIT_OPTIONS}")

  if(SPLIT_STORE)
    _covsplit_absolute(store "${SPLIT_STORE}")
    set(place "--store=${store}")
  else()
    if(SPLIT_SIDECAR)
      _covsplit_absolute(sidecar "${SPLIT_SIDECAR}")
      list(LENGTH CMAKE_CONFIGURATION_TYPES configurations)
      if(configurations GREATER 1 AND NOT sidecar MATCHES "\\$<")
        message(FATAL_ERROR "covsplit_target(${target}): all configurations would have one SIDECAR; "
                            "put $<CONFIG> into its name")
      endif()
    else()
      set(sidecar "$<TARGET_FILE:${target}>.covsplit")
    endif()
    set(place "--sidecar=${sidecar}")
    set_property(TARGET ${target} APPEND PROPERTY ADDITIONAL_CLEAN_FILES "${sidecar}")
    _covsplit_watch(${target} "${sidecar}")
  endif()

  set_property(TARGET ${target} PROPERTY COVSPLIT_IS_SPLIT TRUE)
  _covsplit_change_launchers(${target} LINKER "") # it would split first, and put the sidecar elsewhere
  add_custom_command(
    TARGET ${target} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -P "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/covsplitSplit.cmake" --
            "$<TARGET_FILE:${target}>" "${place}"
            "$<TARGET_FILE:covsplit::command>" split "${options}"
    COMMENT "Splitting ${target}"
    COMMAND_EXPAND_LISTS VERBATIM)
  _covsplit_install_sidecar()
endfunction()

# Makes a path absolute. A path that begins with a generator expression other than $<CONFIG> is left as
# it is: whether it is absolute is known only during the build.
function(_covsplit_absolute result path)
  if(path MATCHES "^\\$<" AND NOT path MATCHES "^\\$<CONFIG>")
    set(${result} "${path}" PARENT_SCOPE)
  else()
    get_filename_component(path "${path}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    set(${result} "${path}" PARENT_SCOPE)
  endif()
endfunction()

# Adds a target that checks for all sidecars before anything is linked; covsplitSidecars.cmake says why.
# A single target does this for all, so that a build runs only one more process. It is added at the
# end, when all sidecars are known.
function(_covsplit_watch target sidecar)
  get_property(watched GLOBAL PROPERTY COVSPLIT_WATCHED)
  if(NOT watched)
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL _covsplit_add_watch)
  endif()
  set_property(GLOBAL APPEND PROPERTY COVSPLIT_WATCHED ${target})
  set_property(TARGET ${target} PROPERTY COVSPLIT_SIDECAR "${sidecar}")
  _covsplit_stamp(stamp ${target})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${CMAKE_BINARY_DIR}/${stamp}")
  add_dependencies(${target} covsplit_sidecars)
endfunction()

# The path is relative, so that it can be in lists whatever characters the build directory's path has.
function(_covsplit_stamp result target)
  get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(several)
    set(target "$<CONFIG>/${target}")
  endif()
  set(${result} "CMakeFiles/covsplit/${target}.stamp" PARENT_SCOPE)
endfunction()

# Called in the scope of the topmost directory.
function(_covsplit_add_watch)
  set(directory "${CMAKE_BINARY_DIR}/CMakeFiles/covsplit")
  file(MAKE_DIRECTORY "${directory}")
  get_property(targets GLOBAL PROPERTY COVSPLIT_WATCHED)
  set(code)
  set(stamps) # ninja must know which target makes them
  foreach(target IN LISTS targets)
    _covsplit_stamp(stamp ${target})
    if(CMAKE_GENERATOR MATCHES "Ninja")
      list(APPEND stamps "${stamp}")
    elseif(NOT EXISTS "${CMAKE_BINARY_DIR}/${stamp}")
      file(TOUCH "${CMAKE_BINARY_DIR}/${stamp}") # make TARGET/fast does not make dependencies
    endif()
    string(APPEND code "covsplit_sidecar([==[$<TARGET_FILE:${target}>]==] "
           "[==[$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},COVSPLIT_SIDECAR>>]==] "
           "[==[${CMAKE_BINARY_DIR}/${stamp}]==])\n")
  endforeach()
  file(GENERATE OUTPUT "${directory}/$<CONFIG>.cmake" CONTENT "${code}")
  add_custom_target(
    covsplit_sidecars
    COMMAND "${CMAKE_COMMAND}" -P "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/covsplitSidecars.cmake" --
            "${directory}" "$<CONFIG>" ${CMAKE_CONFIGURATION_TYPES}
    BYPRODUCTS ${stamps}
    COMMENT "Looking for lost sidecars"
    VERBATIM)
endfunction()

function(_covsplit_check_target target)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "covsplit_target(${target}): there is no such target")
  endif()
  get_target_property(type ${target} TYPE)
  get_target_property(imported ${target} IMPORTED)
  get_target_property(split ${target} COVSPLIT_IS_SPLIT)
  if(imported OR NOT type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$")
    message(FATAL_ERROR "covsplit_target(${target}): only executables, shared libraries and "
                        "modules that are built here can be split")
  endif()
  if(split)
    message(FATAL_ERROR "covsplit_target(${target}): it is already split")
  endif()
endfunction()

# Called in the scope of covsplit_target.
macro(_covsplit_install_sidecar)
  if(SPLIT_INSTALL_SIDECAR)
    set(component)
    if(SPLIT_COMPONENT)
      set(component COMPONENT "${SPLIT_COMPONENT}")
    endif()
    if(SPLIT_STORE)
      install(DIRECTORY "${store}/" DESTINATION "${SPLIT_INSTALL_SIDECAR}" ${component})
    else()
      install(FILES "${sidecar}" DESTINATION "${SPLIT_INSTALL_SIDECAR}" ${component})
    endif()
  endif()
endmacro()

cmake_policy(POP)
