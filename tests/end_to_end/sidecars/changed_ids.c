/*
 * Stripped images whose build ID is changed after the split, as rpm's find-debuginfo does by
 * debugedit -i, or removed: every command finds the sidecar by what the split has left in the
 * image, and reports are those of the unsplit one.
 *
 * Usage: changed_ids CLANG
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

/* The names of few functions leave no room for the whole UUID in the tripwire. */
static const unsigned functions[] = {1, 200};

struct change {
    const char *commands; /* of the shell, for IMAGE; VERSION is that of LLVM */
    bool is_removed;
};

static const struct change changes[] = {
    {"debugedit -i -s 1-1.x86_64 IMAGE", false},
    {"mkdir -p root build && touch build/debugfiles.list && cp IMAGE root/app && "
     "RPM_BUILD_ROOT=$PWD/root RPM_BUILD_DIR=$PWD/build RPM_PACKAGE_NAME=app "
     "RPM_PACKAGE_VERSION=1 RPM_PACKAGE_RELEASE=1 RPM_ARCH=x86_64 find-debuginfo "
     "--build-id-seed 1-1 --unique-debug-suffix -1-1.x86_64 -i build && cp root/app IMAGE",
     false},
    {"printf '\\4\\0\\0\\0\\24\\0\\0\\0\\3\\0\\0\\0GNU\\0a build ID, 20 bytes' > note && "
     "objcopy --update-section .note.gnu.build-id=note IMAGE",
     false},
    {"printf '\\4\\0\\0\\0\\24\\0\\0\\0\\3\\0\\0\\0GNU\\0a build ID, 20 bytes' > note && "
     "llvm-objcopy-VERSION --update-section .note.gnu.build-id=note IMAGE",
     false},
    {"patchelf --set-rpath /a/directory/with/a/long/name IMAGE && debugedit -i -s 1-1 IMAGE",
     false},
    {"objcopy --remove-section=.note.gnu.build-id IMAGE", true},
};

#define CHANGE_COUNT (sizeof changes / sizeof *changes)

static const char *clang_version;
static char *place;

static const char *sh(const char *text)
{
    struct command command = command_words(place, "sh -c");
    text_list_add(&command.arguments, text);
    return command_run_or_abort(&command);
}

static struct outcome run(int exit_code, const char *words)
{
    return covsplit_run_words(place, exit_code, words);
}

static const char *build_id(const char *image)
{
    return sh(text_format("readelf -n %s | sed -n 's/.*Build ID: //p' | tr -d '\\n'", image));
}

/* The program as linked, `original`, and `app`, which is split and then changed; and the profiles
 * of both. */
static void make(const struct change *change, unsigned count)
{
    place = scratch_create("changed-ids");
    file_write_text(path_join(place, "main.c"),
                    "#include <stdlib.h>\nlong first_run(long);\n"
                    "int main(int count, char **words)\n{\n    (void)words;\n"
                    "    first_run(count);\n    if (count > 1)\n        abort();\n"
                    "    return 0;\n}\n");
    source_generate(path_join(place, "first.c"), LANGUAGE_C, "first", count);
    sh(text_format("clang-%s -gdwarf-4 -w %s -Wl,--build-id -o original main.c first.c",
                   clang_version, INSTRUMENT_COVERAGE));
    run(0, "split --store store -o app original");
    sh(text_replace(text_replace(change->commands, "IMAGE", "app"), "VERSION", clang_version));
    ck_assert_str_ne(build_id("app"), build_id("original"));
    sh("LLVM_PROFILE_FILE=full.profraw ./original && LLVM_PROFILE_FILE=light.profraw ./app");
    sh(text_format("llvm-profdata-%s merge -o full.profdata full.profraw", clang_version));
}

static const char *cover(const char *words)
{
    return sh(text_format("llvm-cov-%s report %s", clang_version, words));
}

static void assert_report(const char *words, const char *expected)
{
    struct outcome found =
        run(0, text_format("report --store store --include / --llvm-cov %s --llvm-profdata %s %s",
                           versioned_tool("llvm-cov", clang_version),
                           versioned_tool("llvm-profdata", clang_version), words));
    ck_assert_msg(strcmp(found.output, expected) == 0, "%s: %s is not %s", words, found.output,
                  expected);
}

static void check_reports(const struct change *change, const char *label)
{
    const char *expected = cover("original -instr-profile=full.profdata");
    /* After patchelf, the runtime does not always find the note, in an unsplit image neither. */
    bool has_ids = atoi(clang_version) >= 16 &&
                   strstr(run(0, "show light.profraw").output, build_id("app")) != NULL &&
                   !change->is_removed;
    assert_report("light.profraw", expected);
    run(0, text_format("merge --store store --llvm-profdata %s -o light.profdata light.profraw",
                       versioned_tool("llvm-profdata", clang_version)));
    ck_assert_str_eq(cover("original -instr-profile=light.profdata"), expected);
    if (has_ids) {
        assert_report("light.profdata", expected);
        files_assert_equal(path_join(place, "light.profdata"), path_join(place, "full.profdata"),
                           label);
    }
    assert_report("light.profdata app", expected);
    ck_assert_str_eq(run(0, text_format("run --store store -- llvm-cov-%s report app "
                                        "-instr-profile=light.profdata",
                                        clang_version))
                         .output,
                     expected);
    run(0, "export --store store -o app.object app");
    ck_assert_str_eq(cover("app.object -instr-profile=light.profdata"), expected);
    run(0, "export --store store --debug-dir objects app");
    if (has_ids)
        ck_assert_str_eq(cover("-instr-profile=light.profdata -debug-file-directory=objects"),
                         expected);
    /* A profile with the build ID of now, as llvm-profdata makes it of a profile in which only the
     * ID differs. */
    if (has_ids && strlen(build_id("app")) == strlen(build_id("original"))) {
        sh(text_format("python3 -c 'import sys; bytes_of = bytes.fromhex; "
                       "open(\"new.profdata\", \"wb\").write(open(\"full.profdata\", \"rb\").read()"
                       ".replace(bytes_of(\"%s\"), bytes_of(\"%s\")))'",
                       build_id("original"), build_id("app")));
        assert_report("new.profdata app", expected);
        assert_contains(run(1, "report --store store new.profdata").errors, build_id("app"));
    }
}

static void check_others(const struct change *change)
{
    const char *id = build_id("original");
    const char *shown = run(0, "show app").output;
    if (strstr(shown, "tripwire") != NULL) {
        assert_contains(shown, id);
    } else {
        assert_contains(shown, text_format("%.16s", id));
    }
    if (!change->is_removed) {
        assert_contains(shown, build_id("app"));
    }
    assert_contains(run(1, "join --store store -o joined app").errors, "changed after the split");
    assert_contains(run(0, "split --store store -o again app").errors, "split already");
    run(0, "correlate --store store -o correlated.profraw light.profraw");
    bool has_id =
        !change->is_removed && strstr(run(0, "show light.profraw").output, build_id("app")) != NULL;
    assert_contains(run(0, "show correlated.profraw").output, has_id ? id : "UUID");
}

START_TEST(test_changes)
{
    const struct change *change = &changes[_i % (int)CHANGE_COUNT];
    unsigned count = functions[_i / (int)CHANGE_COUNT];
    const char *label = text_format("%u functions, %s", count, change->commands);
    if (!rounds_have((unsigned)_i, 5)) {
        return;
    }
    make(change, count);
    check_reports(change, label);
    check_others(change);
}
END_TEST

/* Snapshots of a core with the pages of the file in it, as the build ID in the first of them does
 * not lead to the sidecar; with the image in place and gone. */
START_TEST(test_cores)
{
    make(&changes[_i], 200);
    sh("echo 0x3f > /proc/self/coredump_filter; gdb -q -batch -ex run -ex 'gcore core' --args "
       "./app abort >/dev/null 2>&1");
    run(0, "snapshot --core core --store store -o by-file");
    ck_assert_int_eq(unlink(path_join(place, "app")), 0);
    run(0, "snapshot --core core --store store -o by-sidecar");
    run(0, "merge --store store -o by-file.profraw by-file");
    run(0, "merge --store store -o by-sidecar.profraw by-sidecar");
    files_assert_equal(path_join(place, "by-file.profraw"), path_join(place, "by-sidecar.profraw"),
                       changes[_i].commands);
}
END_TEST

int main(int argc, char **argv)
{
    suite_arguments(argc, argv, "CLANG", &clang_version);
    TCase *all = suite_case("all", 300, NULL);
    suite_loops(all, 2 * CHANGE_COUNT, test_changes);
    suite_loops(all, 2, test_cores);
    return suite_main("changed build IDs", all);
}
