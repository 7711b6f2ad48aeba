/*
 * `covsplit run`: llvm-cov reads the directory of a store as the union of its sidecars; for other
 * programs it stays a directory.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/sample.h"

static struct run_files files;
/* opener, as a program that makes reports; the broker goes by names. */
static char *cov;
static char *all; /* the union of the store, exported */

static void export_union(const char *output)
{
    covsplit_assert(0, files.sample.scratch, "export", "--union", "--store", files.store, "-o",
                    output, NULL);
}

/* Two images are in the store. */
static void prepare(void)
{
    files = run_files_create("run-store");
    struct sample other = sample_create("run-store-other", RUN_FILES_FUNCTIONS + 1);
    covsplit_assert(0, NULL, "split", "--store", files.store, "-o",
                    path_join(files.sample.scratch, "other"), other.image, NULL);
    cov = path_join(files.sample.scratch, "my-llvm-cov-19");
    file_copy(files.opener, cov);
    all = path_join(files.sample.scratch, "all.a");
    export_union(all);
}

/* ---- the union ---- */

START_TEST(test_union)
{
    run_expect_silence(&files, cov, "read", files.store, all, NULL);
    run_expect_silence(&files, cov, "children", files.store, all, NULL);
    /* Under a name of its own, and without --store. */
    char *link = path_join(files.sample.scratch, "link");
    ck_assert_int_eq(symlink("store", link), 0);
    struct command command =
        covsplit_command(files.sample.scratch, "run", "--", cov, "read", "./link", all, NULL);
    run_expect(&command, 0, NULL);
    /* A union is a file like any other. */
    run_expect_silence(&files, cov, "same", all, NULL);
}
END_TEST

/* Made once for all that read it, and anew when the store has changed. */
START_TEST(test_cache)
{
    char *directory = sample_directory(&files.sample);
    char *before = path_join(directory, "before");
    run_or_abort(directory, "cp", "-a", files.store, "store", NULL);
    struct command command = covsplit_command(directory, "run", "-v", "--", "sh", "-c",
                                              "set -e\n"
                                              "$COV read ./store $ALL; $COV read ./store $ALL\n"
                                              "mv store/.build-id/$UUID kept\n"
                                              "$COV read ./store before\n"
                                              "mv kept store/.build-id/$UUID\n"
                                              "$COV read ./store $ALL\n",
                                              NULL);
    struct elf_file elf = elf_file_read(files.sample.image);
    const char *uuid = elf_file_build_id(&elf);
    const char *name = text_format("%.2s/%s.covsplit", uuid, uuid + 2);
    run_or_abort(directory, "sh", "-c",
                 "cp -a store other && rm other/.build-id/$0 && "
                 "\"$1\" export --union --store other -o \"$2\"",
                 name, covsplit_path(), before, NULL);
    text_list_add_format(&command.environment, "COV=%s", cov);
    text_list_add_format(&command.environment, "ALL=%s", all);
    text_list_add_format(&command.environment, "UUID=%s", name);
    struct outcome outcome = command_expect(&command, 0);
    /* Renaming changes the times of the sidecar's status, and so it counts as another. */
    ck_assert_uint_eq(text_count(outcome.errors, "/store: converted to the union of its sidecars"),
                      3);
}
END_TEST

/* ---- what stays a directory ---- */

START_TEST(test_directory)
{
    run_expect_silence(&files, "sh", "-c",
                       "test -d store && ls store/.build-id >ls && test -s ls &&"
                       "find store -name '*.covsplit' >found && test $(wc -l <found) = 2 &&"
                       "cp -r store copied && diff -r store copied && cd store && cd ..",
                       NULL);
    /* Opened like a file, to reach what is in it. */
    run_expect_silence(&files, "python3", "-c",
                       "import os\n"
                       "fd = os.open('store', os.O_RDONLY)\n"
                       "assert sorted(os.listdir(fd)) == ['.build-id', 'README'], os.listdir(fd)\n"
                       "os.fsync(fd)\n"
                       "os.close(os.open('.build-id', os.O_RDONLY, dir_fd=os.open('store', 0)))\n",
                       NULL);
    /* Also for those who get a union otherwise. */
    run_expect_silence(&files, "sh", "-c",
                       "cp $(command -v cat) cat-cov && ./cat-cov store >read && cmp read \"$0\" &&"
                       "cp $(command -v find) find-cov && ./find-cov store -name '*.covsplit' "
                       ">found-cov && cmp found found-cov",
                       all, NULL);
    /* No store. */
    run_expect_silence(&files, "sh", "-c",
                       "mkdir plain && cp $(command -v cat) cat-cov && ! ./cat-cov plain 2>text &&"
                       "grep -q 'Is a directory' text",
                       NULL);
    covsplit_assert(0, files.sample.scratch, "run", "--", covsplit_path(), "store", "check",
                    files.store, NULL);
}
END_TEST

/* ---- errors ---- */

/* Reads a directory twice as llvm-cov would, which must get the directory, and one line on standard
 * error. */
static void expect_warning(const char *directory, const char *part)
{
    struct command command = covsplit_command(
        files.sample.scratch, "run", "--", "sh", "-c",
        "cp $(command -v cat) cat-cov; for i in 1 2; do ./cat-cov \"$0\"; done", directory, NULL);
    struct outcome outcome = command_expect(&command, 1);
    ck_assert_msg(text_count(outcome.errors, "covsplit: warning: ") == 1 &&
                      strstr(outcome.errors, "; read as it is\n") != NULL &&
                      strstr(outcome.errors, part) != NULL &&
                      text_count(outcome.errors, "Is a directory") == 2 && outcome.output_size == 0,
                  "%s", outcome_describe(&command, &outcome));
}

static char *copy_store(void)
{
    char *directory = sample_directory(&files.sample);
    run_or_abort(directory, "cp", "-r", files.store, "store", NULL);
    return path_join(directory, "store");
}

static char *sidecar_in(const char *store)
{
    struct elf_file elf = elf_file_read(files.sample.image);
    const char *uuid = elf_file_build_id(&elf);
    return text_format("%s/.build-id/%.2s/%s.covsplit", store, uuid, uuid + 2);
}

/* One bad sidecar among good ones: no half union. */
START_TEST(test_bad_sidecar)
{
    char *store = copy_store(), *sidecar = sidecar_in(store);
    struct contents contents = file_read(sidecar);
    struct elf_file elf = elf_file_read(sidecar);
    const Elf64_Shdr *section = elf_file_section(&elf, "__llvm_covfun");
    contents.data[section->sh_offset + section->sh_size - 2] ^= 0x55;
    file_write(sidecar, contents.data, contents.size);
    expect_warning(store, "damaged");
    file_write(sidecar, contents.data, contents.size / 2);
    expect_warning(store, sidecar);
    file_write_text(sidecar, "no sidecar");
    expect_warning(store, sidecar);
    ck_assert_int_eq(unlink(sidecar), 0);
    ck_assert_int_eq(mkdir(sidecar, 0755), 0);
    expect_warning(store, sidecar);
}
END_TEST

START_TEST(test_no_sidecar)
{
    char *store = path_join(sample_directory(&files.sample), "store");
    directory_create(store);
    directory_create(path_join(store, ".build-id"));
    expect_warning(store, "has no sidecar with coverage");
    /* A sidecar that holds nothing is no error, but no member either. */
    file_write_text(path_join(store, "nothing.c"), "int main(void) { return 0; }\n");
    run_or_abort(store, "gcc", "-Wl,--build-id=sha1", "nothing.c", "-o", "nothing", NULL);
    covsplit_assert(0, store, "split", "--store", store, "-o", "nothing.stripped", "nothing", NULL);
    expect_warning(store, "has no sidecar with coverage");
    covsplit_assert(0, store, "split", "--store", store, "-o", "image.stripped", files.sample.image,
                    NULL);
    covsplit_assert(0, store, "export", "--union", "--sidecar", sidecar_in(store), "-o", "one.a",
                    NULL);
    run_expect_silence(&files, cov, "read", store, path_join(store, "one.a"), NULL);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("stores", 120, prepare);
    suite_tests(test_case, test_union, test_cache, test_directory, test_bad_sidecar,
                test_no_sidecar);
    return suite_main("run stores", test_case);
}
