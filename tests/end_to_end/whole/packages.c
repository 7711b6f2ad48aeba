/*
 * The packages that cpack makes: the .deb works where nothing but what it depends on is there, the
 * sources build, and both are the same to the byte whoever makes them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"
#include "tests/support/sample.h"
#include "tests/support/suite.h"

#define SAMPLE_FUNCTIONS 20

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("packages", SAMPLE_FUNCTIONS);
}

/* The path of the only file there that ends so. */
static const char *find_package(const char *place, const char *ending)
{
    struct text_list files = directory_list(place);
    const char *found = NULL;
    for (size_t i = 0; i < files.count; i++) {
        const char *part = strstr(files.items[i], ending);
        if (part != NULL && part[strlen(ending)] == '\0') {
            ck_assert_ptr_null(found);
            found = path_join(place, files.items[i]);
        }
    }
    ck_assert_msg(found != NULL, "no %s in %s", ending, place);
    return found;
}

static const char *make_package(const char *name, const char *config, const char *ending)
{
    char *place = path_join(sample.scratch, name);
    directory_create(place);
    run_or_abort(COVSPLIT_BUILD_DIRECTORY, "cpack", "--config", config, "-B", place, NULL);
    return find_package(place, ending);
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

/* What a package of Debian has of its own. */
static void assert_is_as_debian_wants(const char *package, const char *root)
{
    const char *information = run_or_abort(NULL, "dpkg-deb", "--info", package, NULL);
    ck_assert_msg(strstr(information, " triggers ") != NULL &&
                      strstr(information, " shlibs ") != NULL &&
                      strstr(information, "postinst") == NULL,
                  "%s", information);
    ck_assert_str_eq(run_or_abort(NULL, "dpkg-deb", "--info", package, "triggers", NULL),
                     "activate-noawait ldconfig\n");
    struct text_list pages = directory_list(path_join(root, "usr/share/man/man1"));
    for (size_t i = 0; i < pages.count; i++) {
        ck_assert_msg(strstr(pages.items[i], ".1.gz") != NULL, "%s", pages.items[i]);
    }
    const char *version = run_or_abort(NULL, "dpkg-deb", "--field", package, "Version", NULL);
    const char *changes = run_or_abort(
        NULL, "gzip", "-dc", path_join(root, "usr/share/doc/covsplit/changelog.gz"), NULL);
    ck_assert_msg(strncmp(changes,
                          text_format("covsplit (%.*s) ", (int)strcspn(version, "\n"), version),
                          strlen(version) + strlen("covsplit () ") - 1) == 0,
                  "%s", changes);
}

/* An image is split and joined in an empty root, with the package and the libraries of its
 * dependencies. */
START_TEST(test_deb)
{
    const char *package = make_package("deb", "CPackConfig.cmake", ".deb");
    char *root = path_join(sample.scratch, "root");
    struct verdict verdict = {0};
    directory_create(root);
    run_or_abort(NULL, "dpkg-deb", "--extract", package, root, NULL);
    /* What apt would have to install is there to be had. */
    run_or_abort(NULL, "apt-get", "--simulate", "install", package, NULL);
    const char *fields = run_or_abort(NULL, "dpkg-deb", "--field", package, NULL);
    static const char *const libraries[] = {"libc6",     "libdeflate0", "libelf1",
                                            "libnettle", "libxxhash0",  "libzstd1"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        ck_assert_msg(strstr(fields, text_format(" %s", libraries[i])) != NULL, "%s", fields);
    }
    static const char *const parts[] = {
        "usr/share/man/man1/covsplit-split.1.gz", "usr/share/bash-completion/completions/covsplit",
        "usr/share/covsplit/covsplit.ninja", "usr/share/doc/covsplit/copyright",
        "usr/include/covsplit.h"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        ck_assert_msg(file_exists(path_join(root, parts[i])), "no %s", parts[i]);
    }
    assert_is_as_debian_wants(package, root);
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

/* Builds the sources and makes both packages again, as somebody else would: in another place, at
 * another time, with another umask. */
static const char *build_sources(const char *package, const char *name, const char *mask,
                                 const char *mode)
{
    struct command command = {.timeout_seconds = 300};
    char *place = path_join(sample.scratch, name);
    text_list_add_words(&command.arguments, "sh -ec");
    text_list_add(&command.arguments,
                  "umask $3; mkdir \"$1\"; cd \"$1\"; tar -xf \"$2\" --strip-components=1\n"
                  "chmod -R $4 .\n"
                  "cmake -S . -B made -G Ninja -DCOVSPLIT_TESTS=OFF -DCMAKE_C_FLAGS_RELEASE=-O0\n"
                  "cmake --build made; cd made; cpack; cpack --config CPackSourceConfig.cmake");
    text_list_add(&command.arguments, "sh");
    text_list_add(&command.arguments, place);
    text_list_add(&command.arguments, package);
    text_list_add(&command.arguments, mask);
    text_list_add(&command.arguments, mode);
    command_run_or_abort(&command);
    return place;
}

/* Nothing but sources, all of them, what they make runs, and is the same each time. */
START_TEST(test_sources)
{
    const char *package = make_package("sources", "CPackSourceConfig.cmake", ".tar.xz");
    const char *place = build_sources(package, "unpacked", "022", "go=rX");
    struct text_list files = directory_list(place);
    for (size_t i = 0; i < files.count; i++) {
        ck_assert_msg(strncmp(files.items[i], "build", 5) != 0 &&
                          strcmp(files.items[i], ".git") != 0,
                      "%s is no source", files.items[i]);
    }
    ck_assert(file_exists(path_join(place, "README.md")));
    ck_assert(file_exists(path_join(place, "tests/run.sh")));
    const char *version = run_or_abort(place, "made/split/covsplit", "--version", NULL);
    ck_assert_msg(strncmp(version, "covsplit ", 9) == 0, "%s", version);

    const char *other = build_sources(package, "unpacked elsewhere", "077", "go=");
    const char *made = path_join(place, "made");
    const char *made_elsewhere = path_join(other, "made");
    files_assert_equal(find_package(made, ".deb"), find_package(made_elsewhere, ".deb"),
                       "made elsewhere");
    files_assert_equal(find_package(made, ".tar.xz"), package, "unpacked");
    files_assert_equal(find_package(made_elsewhere, ".tar.xz"), package, "made again");
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("packages", 600, prepare);
    suite_tests(test_case, test_deb, test_sources);
    return suite_main("packages", test_case);
}
