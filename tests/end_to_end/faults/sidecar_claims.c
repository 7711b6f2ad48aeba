/*
 * Sidecars of a few kilobytes or megabytes that claim to hold up to 200 GiB, in every form, with a
 * seal that is right: they are refused before anything is decoded, however little memory decoding
 * would take.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

/* Decoding one of them would take from five seconds up. */
#define PROCESSOR_SECONDS 4

static struct run_files files;

static void prepare(void)
{
    files = run_files_create("sidecar-claims");
}

/* Forges one in `directory`/forged. */
static void forge(const char *directory, const char *kind, const char *sidecar)
{
    run_or_abort(directory, "python3", COVSPLIT_FIXTURE_DIRECTORY "/../support/sidecar_forger.py",
                 sidecar, kind, "forged", NULL);
}

/* Runs a command that has to refuse what is claimed, before anything is written. */
static void assert_refused(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    struct verdict verdict = {0};
    struct outcome outcome;

    covsplit_limit_allocations(&command, 512);
    outcome = command_run(&command);
    if (!covsplit_refused(&command, &outcome, &verdict)) {
        verdict_assert(&verdict, words);
    }
    ck_assert_msg(strstr(outcome.errors, "--memory-limit") != NULL, "%s: %s", words,
                  outcome.errors);
    if (!covsplit_is_sanitized()) {
        ck_assert_msg(outcome.processor_seconds < PROCESSOR_SECONDS, "%s: %.1f s", words,
                      outcome.processor_seconds);
        ck_assert_msg(outcome.peak_resident_kib < 256 << 10, "%s: %ld KiB", words,
                      outcome.peak_resident_kib);
    }
}

/* What each kind has too much of is in tests/support/sidecar_forger.py; to export a sidecar, names
 * and mapping are read, and to report from it, data as well. */
static const struct {
    const char *kind;
    bool is_of_object; /* it is in what is exported */
} kinds[] = {{"zstd", true},   {"names-zstd", true}, {"inverse", true},  {"data", true},
             {"blocks", true}, {"names", true},      {"filenames", true}};

#define KINDS (sizeof kinds / sizeof *kinds)

START_TEST(test_claims)
{
    const char *directory = sample_directory(&files.sample);

    forge(directory, kinds[_i].kind, files.sample.sidecar);
    assert_refused(directory, "verify forged");
    assert_refused(directory,
                   text_format("join --sidecar forged -o joined %s", files.sample.stripped));
    if (kinds[_i].is_of_object) {
        assert_refused(directory, "export --sidecar forged -o object");
        assert_refused(directory, text_format("report --sidecar forged %s", files.light));
    }
}
END_TEST

/* All sections of a delta, whose frames have a base before them. */
START_TEST(test_delta)
{
    const char *directory = sample_directory(&files.sample);
    struct variant other = variant_create(files.sample.image, directory, "other", 1, 1);
    const char *entry = store_entry(path_join(directory, "store"), other.uuid);

    covsplit_run_words(directory, 0,
                       text_format("split --store store --delta -o first %s", files.sample.image));
    covsplit_run_words(directory, 0, "split --store store --delta -o second other");
    forge(directory, "delta", entry);
    file_copy(path_join(directory, "forged"), entry);
    assert_refused(directory, text_format("verify %s", entry));
    assert_refused(directory, text_format("export --sidecar %s -o object", entry));
}
END_TEST

/* Whoever trusts the file can have it decoded. */
START_TEST(test_trusted)
{
    const char *directory = sample_directory(&files.sample), *errors;

    forge(directory, "names-zstd", files.sample.sidecar);
    errors = covsplit_assert(1, directory, "verify", "--memory-limit=30G", "forged", NULL);
    ck_assert_msg(strstr(errors, "its digest is not the one recorded") != NULL, "%s", errors);
}
END_TEST

int main(void)
{
    TCase *claims = suite_case("claims", 300, prepare);

    suite_loops(claims, KINDS, test_claims);
    suite_tests(claims, test_delta, test_trusted);
    return suite_main("claims of sidecars", claims);
}
