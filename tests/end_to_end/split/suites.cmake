# The files of split and join, many images at once, and builds that split.
add_suites(sidecar_safety packed_images)
add_scenes(command-files command-files)
add_run(sidecar-safety sidecar_safety)
add_run(packed-images packed_images 22 lld)
add_run(packed-images-clang14 packed_images 14 bfd)
add_scenes(batch batch)
add_scenes(link link)
add_scenes(build-rules build-rules)
set_tests_properties(build-rules PROPERTIES FIXTURES_REQUIRED sources)

if(NOT COVSPLIT_SANITIZE) # what is built like this is not what others link with
  add_suites(cmake_package cmake_enable)
  foreach(suite IN ITEMS cmake_package cmake_enable)
    target_compile_definitions(suite_${suite} PRIVATE
      COVSPLIT_BUILD_DIRECTORY="${CMAKE_BINARY_DIR}")
  endforeach()
  add_run(cmake-package cmake_package)
  add_run(cmake-enable cmake_enable Ninja -)
  add_run(cmake-enable-make cmake_enable "Unix Makefiles" -)
  add_run(cmake-enable-multi cmake_enable "Ninja Multi-Config" Release)
  set_tests_properties(cmake-package cmake-enable cmake-enable-make cmake-enable-multi
                       PROPERTIES RESOURCE_LOCK installation)
endif()
