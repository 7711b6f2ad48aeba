/*
 * The packages that cpack makes, and a release of them: each .deb has what Debian wants in it and
 * works where nothing but what it depends on is there, the static command where nothing is, and all
 * are the same to the byte whoever makes them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 20

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("packages", SAMPLE_FUNCTIONS);
}

/* The path of the only file there whose name begins and ends so. */
static const char *find_package(const char *place, const char *beginning, const char *ending)
{
    struct text_list files = directory_list(place);
    const char *found = NULL;
    for (size_t i = 0; i < files.count; i++) {
        const char *name = files.items[i];
        size_t length = strlen(name);
        if (strncmp(name, beginning, strlen(beginning)) == 0 && length > strlen(ending) &&
            strcmp(name + length - strlen(ending), ending) == 0) {
            ck_assert_ptr_null(found);
            found = path_join(place, name);
        }
    }
    ck_assert_msg(found != NULL, "no %s…%s in %s", beginning, ending, place);
    return found;
}

static const char *make_packages(const char *name, const char *config)
{
    char *place = path_join(sample.scratch, name);
    directory_create(place);
    run_or_abort(COVSPLIT_BUILD_DIRECTORY, "cpack", "--config", config, "-B", place, NULL);
    return place;
}

/* Puts the libraries that the program needs into the root, as the dynamic linker finds them. */
static void add_libraries(const char *root, const char *program)
{
    struct text_list lines = text_list_of_lines(run_or_abort(NULL, "ldd", program, NULL));
    for (size_t i = 0; i < lines.count; i++) {
        const char *path = strchr(lines.items[i], '/');
        if (path == NULL || strstr(lines.items[i], "libcovsplit") != NULL) {
            continue;
        }
        run_or_abort("/", "cp", "--parents", "-L",
                     text_format("%.*s", (int)strcspn(path, " "), path), root, NULL);
    }
}

/* The packages of Debian. */
static const struct package {
    const char *name;
    const char *depends[8];
    const char *parts[10]; /* files that no other has */
} packages[] = {
    {"covsplit",
     {"libc6", "libdeflate0", "libnettle", "libxxhash0", "libzstd1"},
     {"usr/bin/covsplit", "usr/share/man/man1/covsplit-split.1.gz",
      "usr/share/bash-completion/completions/covsplit", "usr/share/covsplit/covsplit.ninja",
      "usr/lib/cmake/covsplit/covsplitConfig.cmake"}},
    {"libcovsplit0", {"libc6", "libdeflate0", "libzstd1"}, {"usr/lib/libcovsplit.so.0"}},
    {"libcovsplit-dev",
     {"libcovsplit0 (= ", "covsplit (= "},
     {"usr/include/covsplit.h", "usr/lib/libcovsplit.so", "usr/lib/pkgconfig/covsplit.pc",
      "usr/lib/cmake/covsplit/covsplitLibrary.cmake", "usr/include/covsplit-device.h",
      "usr/lib/libcovsplit-device.a", "usr/lib/libcovsplit-device-runtime.a",
      "usr/share/covsplit/device/stream.c", "usr/share/covsplit/device/runtime.c"}},
};

#define PACKAGE_COUNT (sizeof packages / sizeof *packages)

static const char *field_of(const char *package, const char *field)
{
    const char *text = run_or_abort(NULL, "dpkg-deb", "--field", package, field, NULL);
    return text_format("%.*s", (int)strcspn(text, "\n"), text);
}

/* The root has nothing but this package. */
static void assert_is_as_debian_wants(const struct package *package, const char *file,
                                      const char *root)
{
    const char *information = run_or_abort(NULL, "dpkg-deb", "--info", file, NULL);
    const char *depends = field_of(file, "Depends");
    ck_assert_msg(strstr(information, "postinst") == NULL, "%s", information);
    for (size_t i = 0; package->depends[i] != NULL; i++) {
        ck_assert_msg(strstr(text_format(" %s", depends), text_format(" %s", package->depends[i])),
                      "%s has no %s", information, package->depends[i]);
    }
    for (size_t i = 0; package->parts[i] != NULL; i++) {
        for (size_t j = 0; j < PACKAGE_COUNT; j++) {
            struct stat status; /* of a link, too, whose file is in another package */
            bool is_there =
                lstat(text_format("%s/../%s/%s", root, packages[j].name, package->parts[i]),
                      &status) == 0;
            ck_assert_msg(is_there == (&packages[j] == package), "%s in %s", package->parts[i],
                          packages[j].name);
        }
    }
    const char *documents = path_join(path_join(root, "usr/share/doc"), package->name);
    ck_assert(file_exists(path_join(documents, "copyright")));
    const char *changes =
        run_or_abort(NULL, "gzip", "-dc", path_join(documents, "changelog.gz"), NULL);
    const char *version = text_format("covsplit (%s) ", field_of(file, "Version"));
    ck_assert_msg(strncmp(changes, version, strlen(version)) == 0, "%s", changes);
}

/* Extracts each package into a root of its own. Returns the directory of these, which have the
 * packages' names. */
static const char *extract_packages(const char *place)
{
    const char *roots = path_join(sample.scratch, "roots");
    directory_create(roots);
    for (size_t i = 0; i < PACKAGE_COUNT; i++) {
        run_or_abort(NULL, "dpkg-deb", "--extract",
                     find_package(place, text_format("%s_", packages[i].name), ".deb"),
                     path_join(roots, packages[i].name), NULL);
    }
    return roots;
}

/* Each has its own files, needs what it uses, and the library says what it promises. */
START_TEST(test_debs)
{
    const char *place = make_packages("debs", "CPackConfig.cmake");
    const char *roots = extract_packages(place);
    for (size_t i = 0; i < PACKAGE_COUNT; i++) {
        assert_is_as_debian_wants(&packages[i],
                                  find_package(place, text_format("%s_", packages[i].name), ".deb"),
                                  path_join(roots, packages[i].name));
    }
    struct text_list pages = directory_list(path_join(roots, "covsplit/usr/share/man/man1"));
    for (size_t i = 0; i < pages.count; i++) {
        ck_assert_msg(strstr(pages.items[i], ".1.gz") != NULL, "%s", pages.items[i]);
    }
    const char *library = find_package(place, "libcovsplit0_", ".deb");
    ck_assert_str_eq(run_or_abort(NULL, "dpkg-deb", "--info", library, "triggers", NULL),
                     "activate-noawait ldconfig\n");
    ck_assert_str_eq(
        run_or_abort(NULL, "dpkg-deb", "--info", library, "shlibs", NULL),
        text_format("libcovsplit 0 libcovsplit0 (>= %s)\n", field_of(library, "Version")));
    const char *symbols = run_or_abort(NULL, "dpkg-deb", "--info", library, "symbols", NULL);
    ck_assert_msg(strstr(symbols, "\n covsplit_sidecar_open@COVSPLIT_0 0.1.0\n") != NULL, "%s",
                  symbols);
    /* What apt would have to install is there to be had. */
    run_or_abort(place, "sh", "-c", "apt-get --simulate install ./*.deb", NULL);
}
END_TEST

/* A project that uses the command alone needs no more than its package; another one needs the
 * library's too, and is told so. */
START_TEST(test_find_package)
{
    const char *roots = extract_packages(make_packages("debs", "CPackConfig.cmake"));
    char *project = path_join(sample.scratch, "project"), *root = path_join(roots, "covsplit");
    directory_create(project);
    file_write_text(path_join(project, "CMakeLists.txt"),
                    "cmake_minimum_required(VERSION 3.25)\n"
                    "project(user LANGUAGES C)\n"
                    "find_package(covsplit REQUIRED COMPONENTS ${WANTED})\n"
                    "if(NOT COMMAND covsplit_target OR NOT TARGET covsplit::command)\n"
                    "  message(FATAL_ERROR \"no command\")\n"
                    "endif()\n"
                    "if(TARGET covsplit::covsplit)\n"
                    "  message(FATAL_ERROR \"a library\")\n"
                    "endif()\n");
    struct command command = command_words(
        project, "cmake -S . -B build -DWANTED=command -DCMAKE_PREFIX_PATH=%s/usr", root);
    command_expect(&command, 0);
    command = command_words(project, "cmake -S . -B build -DWANTED=library");
    struct outcome outcome = command_expect(&command, 1);
    ck_assert_msg(strstr(outcome.errors, "libcovsplit-dev") != NULL, "%s", outcome.errors);

    run_or_abort(roots, "sh", "-c", "cp -a libcovsplit-dev/. libcovsplit0/. covsplit", NULL);
    char *build = path_join(sample.scratch, "build");
    run_or_abort(NULL, "cmake", "-S", COVSPLIT_FIXTURE_DIRECTORY "/install", "-B", build,
                 text_format("-DCMAKE_PREFIX_PATH=%s/usr", root), NULL);
    run_or_abort(NULL, "cmake", "--build", build, NULL);
}
END_TEST

/* An image is split and joined in an empty root, with the package and the libraries of its
 * dependencies. */
START_TEST(test_command)
{
    const char *roots = extract_packages(make_packages("debs", "CPackConfig.cmake"));
    const char *root = path_join(roots, "covsplit");
    struct verdict verdict = {0};
    /* From its own place it finds the module for `run`. */
    const char *module = run_or_abort(NULL, path_join(root, "usr/bin/covsplit"), "run", "--", "sh",
                                      "-c", "echo $LD_PRELOAD", NULL);
    ck_assert_msg(strstr(module, "/usr/lib/covsplit/libcovsplit-preload.so") != NULL, "%s", module);
    if (geteuid() != 0) {
        printf("not root: not run in a root of its own\n");
        return;
    }
    add_libraries(root, path_join(root, "usr/bin/covsplit"));
    file_copy(sample.image, path_join(root, "image"));
    run_or_abort(NULL, "chroot", root, "/usr/bin/covsplit", "split", "-o", "/stripped", "/image",
                 NULL);
    run_or_abort(NULL, "chroot", root, "/usr/bin/covsplit", "join", "--sidecar", "/image.covsplit",
                 "-o", "/joined", "/stripped", NULL);
    files_assert_equal(path_join(root, "joined"), sample.image, "joined");
    ck_assert(!files_equal(path_join(root, "stripped"), sample.image, &verdict));
}
END_TEST

/* Unpacks the sources and makes a release of them, as somebody else would: in another place, at
 * another time, with another umask. Returns its directory. */
static const char *make_release(const char *package, const char *name, const char *mask,
                                const char *mode)
{
    struct command command = {.timeout_seconds = 600};
    char *place = path_join(sample.scratch, name);
    text_list_add_words(&command.arguments, "sh -ec");
    text_list_add(
        &command.arguments,
        "umask $3; mkdir \"$1\"; cd \"$1\"; tar -xf \"$2\" --strip-components=1\n"
        "chmod -R $4 .; share/release.sh --also aarch64 made -DCMAKE_C_FLAGS_RELEASE=-O0");
    text_list_add(&command.arguments, "sh");
    text_list_add(&command.arguments, place);
    text_list_add(&command.arguments, package);
    text_list_add(&command.arguments, mask);
    text_list_add(&command.arguments, mode);
    command_run_or_abort(&command);
    return path_join(place, "made");
}

/* The command of the archive does all that it can where nothing is there but itself. */
static void assert_runs_alone(const char *release)
{
    struct utsname name;
    const char *root = path_join(sample.scratch, "nothing");
    const char *unpacked = path_join(sample.scratch, "static");
    ck_assert_int_eq(uname(&name), 0);
    directory_create(root);
    directory_create(unpacked);
    run_or_abort(unpacked, "tar", "-xf",
                 find_package(release, "covsplit-", text_format("-linux-%s.tar.xz", name.machine)),
                 "--strip-components=1", NULL);
    ck_assert(file_exists(path_join(unpacked, "share/man/man1/covsplit.1")));
    ck_assert(file_exists(path_join(unpacked, "share/doc/covsplit/copyright")));
    ck_assert(file_exists(path_join(unpacked, "lib/cmake/covsplit/covsplitConfig.cmake")));
    file_copy(path_join(unpacked, "bin/covsplit"), path_join(root, "covsplit"));
    const char *headers = run_or_abort(root, "readelf", "-ldW", "covsplit", NULL);
    ck_assert_msg(strstr(headers, "INTERP") == NULL && strstr(headers, "(NEEDED)") == NULL, "%s",
                  headers);
    if (geteuid() != 0) {
        printf("not root: not run in a root of its own\n");
        return;
    }
    file_copy(sample.image, path_join(root, "image"));
    file_copy(sample.image, path_join(root, "split"));
    static const char *const lines[] = {
        "split --store /store /split",
        "store check /store",
        "store list /store",
        "show /split",
        "join --store /store -o /joined /split",
        "export --store /store --debug-dir /objects",
        "run --store /store -- /covsplit --version",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct command command = command_words(root, "chroot . /covsplit %s", lines[i]);
        command_run_or_abort(&command);
    }
    files_assert_equal(path_join(root, "joined"), sample.image, "joined");
    /* What was split there runs here. */
    struct command command = command_words(root, "./split");
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=light.profraw");
    command_run(&command);
    struct command merge = command_words(
        root, "chroot . /covsplit merge --store /store -o /merged.profraw /light.profraw");
    command_run_or_abort(&merge);
    struct command correlate = command_words(
        root, "%s correlate --store store -o here.profraw light.profraw", covsplit_path());
    command_run_or_abort(&correlate);
    files_assert_equal(path_join(root, "merged.profraw"), path_join(root, "here.profraw"),
                       "merged");
}

/* The command for aarch64 gives what this one gives. */
static void assert_runs_on_aarch64(const char *release)
{
    const char *place = path_join(sample.scratch, "aarch64");
    directory_create(place);
    run_or_abort(place, "tar", "-xf", find_package(release, "covsplit-", "-linux-aarch64.tar.xz"),
                 "--strip-components=1", NULL);
    ck_assert(file_exists(path_join(place, "share/man/man1/covsplit.1")));
    run_or_abort(place, "qemu-aarch64", "bin/covsplit", "split", "-o", "stripped", "--sidecar",
                 "sidecar", sample.image, NULL);
    covsplit_assert(0, place, "split", "-o", "here", "--sidecar", "here.covsplit", sample.image,
                    NULL);
    files_assert_equal(path_join(place, "stripped"), path_join(place, "here"), "stripped");
    files_assert_equal(path_join(place, "sidecar"), path_join(place, "here.covsplit"), "sidecar");
    run_or_abort(place, "qemu-aarch64", "bin/covsplit", "join", "--sidecar", "sidecar", "-o",
                 "joined", "stripped", NULL);
    files_assert_equal(path_join(place, "joined"), sample.image, "joined");
}

/* Nothing but sources, all of them, and the release made of them is the same each time. */
START_TEST(test_release)
{
    const char *package =
        find_package(make_packages("sources", "CPackSourceConfig.cmake"), "covsplit-", ".tar.xz");
    const char *release = make_release(package, "unpacked", "022", "go=rX");
    const char *place = path_join(sample.scratch, "unpacked");
    struct text_list files = directory_list(place);
    for (size_t i = 0; i < files.count; i++) {
        ck_assert_msg(strncmp(files.items[i], "build", 5) != 0 &&
                          strcmp(files.items[i], ".git") != 0,
                      "%s is no source", files.items[i]);
    }
    ck_assert(file_exists(path_join(place, "README.md")));
    ck_assert(file_exists(path_join(place, "tests/run.sh")));
    ck_assert_uint_eq(directory_list(release).count, 7);
    run_or_abort(release, "sha256sum", "--check", "--strict", "SHA256SUMS", NULL);
    files_assert_equal(path_join(release, strrchr(package, '/') + 1), package, "unpacked");
    /* For /usr, packages are as Debian's own are. */
    run_or_abort(release, "sh", "-c", "lintian --fail-on error,warning ./*.deb", NULL);
    assert_runs_alone(release);
    assert_runs_on_aarch64(release);

    const char *other = make_release(package, "unpacked elsewhere", "077", "go=");
    files_assert_equal(path_join(other, "SHA256SUMS"), path_join(release, "SHA256SUMS"),
                       "made elsewhere");
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("packages", 1500, prepare);
    suite_tests(test_case, test_debs, test_find_package, test_command, test_release);
    return suite_main("packages", test_case);
}
