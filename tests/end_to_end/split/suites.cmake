# The files of split and join, many images at once, and builds that split.
add_suites(sidecar_safety)
add_scenes(command-files command-files)
add_run(sidecar-safety sidecar_safety)
add_scenes_by(22 packed-images packed-images)
add_scenes_by(14 packed-images-clang14 packed-images)
add_scenes(batch batch)
add_scenes(link link)
add_scenes(build-rules build-rules)
set_tests_properties(build-rules PROPERTIES FIXTURES_REQUIRED sources)

if(NOT COVSPLIT_SANITIZE) # what is built like this is not what others link with
  add_scenes(cmake-package cmake/package)
  add_scenes(cmake-enable cmake/enable)
  add_scenes(cmake-enable-make cmake/enable)
  add_scenes(cmake-enable-multi cmake/enable)
  set_tests_properties(cmake-enable-make PROPERTIES ENVIRONMENT "GENERATOR=Unix Makefiles")
  set_tests_properties(cmake-enable-multi PROPERTIES
    ENVIRONMENT "GENERATOR=Ninja Multi-Config;CONFIGURATION=Release")
  set_tests_properties(cmake-package cmake-enable cmake-enable-make cmake-enable-multi
                       PROPERTIES RESOURCE_LOCK installation)
endif()
