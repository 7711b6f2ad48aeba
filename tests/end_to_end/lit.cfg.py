"""Scenes: tests as text, run by lit (LLVM's test runner, of Debian's package llvm-19-tools).

A file NAME.test is a script for bash with the words of scene.sh; FileCheck compares longer output with its
comments. It runs in an empty directory of its own, and any command that fails without being expected to makes
the scene fail. The folder of a scene is one test for ctest: see add_scenes in CMakeLists.txt. By hand:

    ctest --test-dir build/release -R '^store$' --output-on-failure
    /usr/lib/llvm-19/build/utils/lit/lit.py -v build/release/tests/end_to_end/sidecars/store/gc.test

COVSPLIT_TEST_KEEP=1 keeps the directories, as for the suites; those of scenes that fail are always kept.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import scene

config.name = "covsplit"
config.test_format = scene.Scene()
config.suffixes = [".test"]
config.test_source_root = os.path.dirname(__file__)

# Nothing of what a developer has set for covsplit, for profiles or for proxies reaches a scene.
config.environment = {name: value for name, value in os.environ.items()
                      if not name.startswith(("COVSPLIT_STORE", "COVSPLIT_CACHE", "COVSPLIT_HTTP", "LLVM_PROFILE"))
                      and not name.lower().endswith("_proxy")}
config.environment["PATH"] = "/usr/bin:/bin:" + config.environment["PATH"]
config.environment.setdefault("COVSPLIT", config.covsplit)
config.environment.update(SUBJECT=config.subject, SUBJECTS=config.subjects, FIXTURES=config.fixtures,
                          SUPPORT=config.support, PRELOAD=config.preload, SHARE=config.share,
                          SOURCES=config.sources, IS_SANITIZED=config.is_sanitized)
# As tests/support/covsplit_tool.c has them for the suites.
for name in ("ASAN", "LSAN", "MSAN", "UBSAN"):
    config.environment[name + "_OPTIONS"] = "exitcode=99"
config.environment["UBSAN_OPTIONS"] += ":print_stacktrace=1"
