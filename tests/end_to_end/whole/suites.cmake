# The command as its users find it, and the tests' own tests.
add_suites(harness messages documentation)
add_run(harness harness)
add_scenes(command-line command-line)
add_run(messages messages)
target_compile_definitions(suite_documentation PRIVATE
  COVSPLIT_GENERATED_DIRECTORY="${CMAKE_BINARY_DIR}/share")
add_run(documentation documentation)

# What the README and docs/ say of each other: their links, and the numbers of the large benchmark.
add_test(NAME links COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/../links.py ${PROJECT_SOURCE_DIR})
add_test(NAME benchmark-numbers
         COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/../bench/shown.py --check ${PROJECT_SOURCE_DIR})

# What is installed from a sanitized build is not what others link with.
if(NOT COVSPLIT_SANITIZE)
  add_suites(packages)
  target_compile_definitions(suite_packages PRIVATE COVSPLIT_BUILD_DIRECTORY="${CMAKE_BINARY_DIR}")
  add_scenes(install install)
  add_run(packages packages)
  set_tests_properties(install packages PROPERTIES RESOURCE_LOCK installation)
  # docs/recipes.md: what takes a few seconds each, and what takes longer.
  foreach(kind quick slow)
    add_test(NAME recipes-${kind} COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/../recipes.py
             ${CMAKE_BINARY_DIR} ${kind})
    set_tests_properties(recipes-${kind} PROPERTIES TIMEOUT 900 RESOURCE_LOCK installation FIXTURES_REQUIRED sources
                         ENVIRONMENT COVSPLIT_TEST_CACHE=${COVSPLIT_TEST_CACHE})
  endforeach()
  # The pages in docs/ with this build; the README builds by itself, and needs the tests' packages.
  add_test(NAME docs COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/../readme.sh --docs ${CMAKE_BINARY_DIR})
  add_test(NAME readme COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/../readme.sh)
  set_tests_properties(readme PROPERTIES TIMEOUT 1500 SKIP_REGULAR_EXPRESSION "^not walked")
endif()
