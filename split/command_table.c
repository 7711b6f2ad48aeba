/*
 * The table of subcommands with their options.
 *
 * A new subcommand needs a file with its function and an entry in `commands`, with a table of its
 * options if it has any.
 */
#include <stdint.h>

#include "common/codec/zstd.h"
#include "split/cli/commands.h"

#define OPTIONS(table) (table), sizeof(table) / sizeof((table)[0])
#define THREADS_MAX    256
#define OPERANDS_ANY   SIZE_MAX
#define DAYS_MAX       100000

/* A row of a table of options. Further fields may follow. */
#define FLAG(option, name, letter, text, ...)                                                      \
    {                                                                                              \
        .id = option, .type = OPTION_TYPE_FLAG, .long_name = name, .short_name = letter,           \
        .help = text, __VA_ARGS__                                                                  \
    }
#define VALUE(option, kind, name, letter, value, text, ...)                                        \
    {                                                                                              \
        .id = option, .type = OPTION_TYPE_##kind, .long_name = name, .short_name = letter,         \
        .argument = value, .help = text, __VA_ARGS__                                               \
    }
#define NO_LETTER '\0'

/* Rows that many subcommands share. */
#define SIDECAR(text)                                                                              \
    VALUE(OPTION_SIDECAR, TEXT, "sidecar", NO_LETTER, "FILE", text, .excludes = OPTION_STORE)
#define SIDECARS(text)                                                                             \
    VALUE(OPTION_SIDECAR, TEXT, "sidecar", NO_LETTER, "FILE", text, .excludes = OPTION_STORE,      \
          .repeats = true)
#define STORE(text) VALUE(OPTION_STORE, TEXT, "store", NO_LETTER, "DIR", text)
#define THREADS(what)                                                                              \
    VALUE(OPTION_THREADS, NUMBER, "threads", 'j', "N",                                             \
          what " N threads (default: one per processor, at most 8)", .minimum = 1,                 \
          .maximum = THREADS_MAX)
#define VERBOSE(text) FLAG(OPTION_VERBOSE, "verbose", 'v', text)
#define OUTPUT(text)  VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "OUT", text, .required = true)
#define JSON(item)                                                                                 \
    FLAG(OPTION_JSON, "json", NO_LETTER, "print a JSON array with one object for each " item)

/* Rows that split and link share. */
#define WHERE_THE_SIDECAR_GOES                                                                     \
    SIDECAR("write the sidecar to FILE"),                                                          \
        STORE("add the sidecar to the store DIR, under the image's UUID"),                         \
        FLAG(OPTION_REPLACE, "replace", NO_LETTER,                                                 \
             "replace what the store has under the UUID, whatever it is"),                         \
        FLAG(OPTION_DELTA, "delta", NO_LETTER,                                                     \
             "add only what other sidecars of the store lack, as 'store delta' does"),             \
        VALUE(OPTION_SECTIONS, SECTIONS, "sections", NO_LETTER, "LIST",                            \
              "remove only these: covmap,covfun,names,data,covnames,covdata,zeros"),               \
        FLAG(OPTION_ASSUME_UNREFERENCED, "assume-unreferenced", NO_LETTER,                         \
             "remove names and data where something only seems to refer to them")
#define LEVEL(...)                                                                                 \
    VALUE(OPTION_LEVEL, NUMBER, "level", NO_LETTER, "N", "zstd compression level, 1 to 19",        \
          .minimum = 1, .maximum = 19, .fallback = CODEC_LEVEL_DEFAULT, __VA_ARGS__)
#define HOW_IT_IS_COMPRESSED                                                                       \
    LEVEL(.excludes = OPTION_FAST),                                                                \
        FLAG(OPTION_FAST, "fast", NO_LETTER,                                                       \
             "write a larger sidecar, but quickly; see 'covsplit repack'"),                        \
        FLAG(OPTION_PORTABLE, "portable", NO_LETTER,                                               \
             "use plain zstd sections, which llvm-objcopy can decompress",                         \
             .excludes = OPTION_FAST)

/* Texts that say where sidecars are searched for. */
#define BESIDE_PROFILE                                                                             \
    "Without --sidecar, sidecars are searched for by UUID in these places, in this order:\n"       \
    "  the *.covsplit files in the directory of PROFILE\n"                                         \
    "  the *.covsplit files in the current directory\n"                                            \
    "  the stores in COVSPLIT_STORE (separated by ':')\n"
#define WITH_OPTIONS                                                                               \
    "\n"                                                                                           \
    "With --store, that store comes first, and COVSPLIT_STORE is not used. With --sidecar,\n"      \
    "only what it names is searched: files, or directories with *.covsplit files, which\n"         \
    "may be stores as well. In place of a store's DIR, a URL can be given (https://HOST/PATH).\n"

#define WHAT_A_PATTERN_IS                                                                          \
    "A PATTERN is the beginning of a UUID (8 digits or more), or the file name of an image\n"      \
    "without its directory, in which *, ? and [...] work as in a shell.\n"

/* Rows of subcommands that read sidecars. */
#define LOOK_IN_STORE  STORE("look for the sidecar in the store DIR, by UUID")
#define LOOK_IN_STORES STORE("look for sidecars in the store DIR, by UUID")
#define MEMORY_LIMIT                                                                               \
    VALUE(OPTION_MEMORY_LIMIT, SIZE, "memory-limit", NO_LETTER, "SIZE",                            \
          "refuse files that need more memory than SIZE (1G, 512M, ...)")

static const struct option_description split_options[] = {
    VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "OUT",
          "write the stripped image to OUT instead of replacing IMAGE"),
    WHERE_THE_SIDECAR_GOES,
    VALUE(OPTION_UUID, UUID, "uuid", NO_LETTER, "HEX",
          "the UUID for the sidecar and its profiles, instead of the image's own"),
    VALUE(OPTION_ARCH, TEXT, "arch", NO_LETTER, "ARCH",
          "split only this slice of a universal image (arm64, x86_64, ...)"),
    VALUE(OPTION_MAP, TEXT, "map", NO_LETTER, "FILE",
          "the map file of lld-link or MSVC, for a COFF image without symbols"),
    FLAG(OPTION_DROP_SIGNATURE, "drop-signature", NO_LETTER,
         "remove a signature made with a certificate; sign again afterwards"),
    HOW_IT_IS_COMPRESSED,
    MEMORY_LIMIT,
    THREADS("work on"),
    FLAG(OPTION_RECURSIVE, "recursive", 'r', "split all images in a directory that have coverage"),
    JSON("image"),
    VERBOSE("print the sizes before and after"),
};

/* Those options of split that make sense for any link of a build. */
static const struct option_description link_options[] = {
    WHERE_THE_SIDECAR_GOES,
    HOW_IT_IS_COMPRESSED,
    VALUE(OPTION_EXCLUDE, TEXT, "exclude", NO_LETTER, "GLOB",
          "do not split outputs that match GLOB", .repeats = true),
    FLAG(OPTION_NO_DEFAULT_EXCLUDES, "no-default-excludes", NO_LETTER,
         "also split what configure scripts, CMake and Meson link as a test"),
    MEMORY_LIMIT,
    THREADS("compress with"),
    VERBOSE("print the sizes before and after, or why there was nothing to split"),
};

static const struct option_description join_options[] = {
    OUTPUT("write the original image to OUT, which may be STRIPPED itself"),
    FLAG(OPTION_MAPPING, "mapping", NO_LETTER,
         "if objects were packed, give the image ordinary coverage mapping"),
    SIDECARS("the sidecar, or a directory that has it"),
    LOOK_IN_STORE,
    MEMORY_LIMIT,
};

static const struct option_description correlate_options[] = {
    OUTPUT("write the full raw profile to OUT"),
    VALUE(OPTION_COUNTERS, TEXT, "counters", NO_LETTER, "DUMP",
          "make the profile from DUMP, a copy of the counters in memory"),
    VALUE(OPTION_BITMAP, TEXT, "bitmap", NO_LETTER, "DUMP",
          "with --counters: a copy of the bitmap, if the image has one (MC/DC)"),
    VALUE(OPTION_UUID, UUID, "uuid", NO_LETTER, "HEX",
          "with --counters: the UUID of the image, or its beginning"),
    SIDECARS("the sidecar, or a directory that has it"),
    LOOK_IN_STORE,
    MEMORY_LIMIT,
};

static const char *const failure_modes[] = {"any", "all", NULL};
static const char *const profile_formats[] = {"profraw", "profdata", NULL};

static const struct option_description merge_options[] = {
    VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "OUT", "write to OUT", .excludes = OPTION_INTO),
    VALUE(OPTION_INTO, TEXT, "into", NO_LETTER, "STATE",
          "add to the sums in the directory STATE, which is made if needed"),
    FLAG(OPTION_CONSUME, "consume", NO_LETTER,
         "with --into: delete each profile as soon as its counts are safe in STATE"),
    FLAG(OPTION_WATCH, "watch", NO_LETTER,
         "with --into: consume profiles as they appear, until SIGINT or SIGTERM"),
    VALUE(OPTION_FORMAT, WORD, "format", NO_LETTER, "FORMAT",
          "write profraw or profdata (default: what the name of OUT ends in)",
          .words = profile_formats, .excludes = OPTION_INTO),
    SIDECARS("a sidecar, or a directory of them"),
    LOOK_IN_STORES,
    VALUE(OPTION_FAILURE_MODE, WORD, "failure-mode", NO_LETTER, "MODE",
          "fail if a profile is bad (any; default), or only if all are (all)",
          .words = failure_modes, .one_dash = true),
    FLAG(OPTION_SPARSE, "sparse", NO_LETTER, "leave out functions that never ran (profdata only)",
         .excludes = OPTION_INTO, .one_dash = true),
    VALUE(OPTION_WEIGHTED_INPUT, TEXT, "weighted-input", NO_LETTER, "N,FILE",
          "multiply the counts of the profiles in FILE by N (profdata only)",
          .excludes = OPTION_INTO, .repeats = true, .one_dash = true),
    VALUE(OPTION_PER_IMAGE, TEXT, "per-image", NO_LETTER, "DIR",
          "also write the profiles of each image to DIR/UUID.profdata", .excludes = OPTION_INTO),
    FLAG(OPTION_EXPLAIN, "explain", NO_LETTER,
         "list the functions about which the images disagree, and what was left out",
         .excludes = OPTION_INTO),
    FLAG(OPTION_JSON, "json", NO_LETTER, "with --explain: print a JSON object",
         .excludes = OPTION_VERBOSE),
    VALUE(OPTION_LLVM_PROFDATA, TEXT, "llvm-profdata", NO_LETTER, "PROGRAM",
          "the llvm-profdata that writes the indexed profile", .excludes = OPTION_INTO),
    MEMORY_LIMIT,
    THREADS("read with"),
    VERBOSE("print what was read and added, and with which sidecars"),
};

static const char *const report_formats[] = {"lcov", "json",     "summary", "cobertura",
                                             "text", "markdown", NULL};

/* Rows that report and test share. */
#define HOW_IT_IS_REPORTED                                                                         \
    VALUE(OPTION_HTML, TEXT, "html", NO_LETTER, "DIR", "write pages to DIR, with an index",        \
          .excludes = OPTION_FORMAT),                                                              \
        FLAG(OPTION_OPEN, "open", NO_LETTER, "with --html: show the index in a browser"),          \
        FLAG(OPTION_SUMMARY, "summary", NO_LETTER, "print one line for each source file",          \
             .excludes = OPTION_FORMAT),                                                           \
        FLAG(OPTION_MISSING_LINES, "show-missing-lines", NO_LETTER,                                \
             "also print the lines of each file that were not executed, as FILE:3,7-9"),           \
        VALUE(OPTION_FORMAT, WORD, "format", NO_LETTER, "FORMAT",                                  \
              "write lcov, json, summary (JSON without lines), cobertura, text (the sources "      \
              "with their counts) or markdown",                                                    \
              .words = report_formats),                                                            \
        FLAG(OPTION_INSTANTIATIONS, "show-instantiations", NO_LETTER,                              \
             "with pages and text: show templates once more for each instantiation"),              \
        VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "FILE", "write the report to FILE"),             \
        VALUE(OPTION_BASELINE, TEXT, "baseline", NO_LETTER, "OTHER",                               \
              "report what went up and down since these profiles, perhaps of another build"),      \
        VALUE(                                                                                     \
            OPTION_FAIL_UNDER, TEXT, "fail-under", NO_LETTER, "LIMIT",                             \
            "exit with 1 if less is covered: lines=80, functions=..., regions=..., branches=...",  \
            .repeats = true),                                                                      \
        VALUE(OPTION_IGNORE, TEXT, "ignore", NO_LETTER, "KIND",                                    \
              "go on without what cannot be in the report: missing, empty, unmapped, earlier, "    \
              "foreign or mismatched",                                                             \
              .repeats = true),                                                                    \
        VALUE(OPTION_ROOT, TEXT, "root", NO_LETTER, "DIR",                                         \
              "the root of the source tree (default: the top of the git work tree, or else the "   \
              "current directory)"),                                                               \
        VALUE(OPTION_INCLUDE, TEXT, "include", NO_LETTER, "DIR",                                   \
              "report the source files below DIR (default: the root, if any is there)",            \
              .repeats = true, .takes_rest = true),                                                \
        VALUE(OPTION_IGNORE_FILES, TEXT, "ignore-filename-regex", NO_LETTER, "REGEX",              \
              "leave out source files whose path matches", .repeats = true, .one_dash = true),     \
        VALUE(OPTION_PATH_MAP, TEXT, "path-map", NO_LETTER, "MAP",                                 \
              "FROM=TO: source files below FROM are below TO here", .repeats = true),              \
        FLAG(OPTION_ALL, "all", NO_LETTER, "also images in the store that no profile is of"),      \
        FLAG(OPTION_ALL_BUILDS, "all-builds", NO_LETTER,                                           \
             "of several builds of one image report all, not only the newest"),                    \
        SIDECARS("a sidecar, or a directory of them"), LOOK_IN_STORES,                             \
        VALUE(OPTION_LLVM_COV, TEXT, "llvm-cov", NO_LETTER, "PROGRAM",                             \
              "the llvm-cov that is run"),                                                         \
        VALUE(OPTION_LLVM_PROFDATA, TEXT, "llvm-profdata", NO_LETTER, "PROGRAM",                   \
              "the llvm-profdata that is run"),                                                    \
        MEMORY_LIMIT, THREADS("read with")

static const struct option_description report_options[] = {
    HOW_IT_IS_REPORTED,
};

static const struct option_description test_options[] = {
    VALUE(OPTION_PROFILES, TEXT, "profiles", NO_LETTER, "DIR",
          "keep the profiles in DIR, with those that are there"),
    VALUE(OPTION_INTO, TEXT, "into", NO_LETTER, "STATE",
          "add to the sums in the directory STATE, and report all that is in it",
          .excludes = OPTION_PROFILES),
    HOW_IT_IS_REPORTED,
};

static const struct option_description export_options[] = {
    VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "FILE", "write the object to FILE",
          .excludes = OPTION_DEBUG_DIRECTORY),
    VALUE(OPTION_DEBUG_DIRECTORY, TEXT, "debug-dir", NO_LETTER, "DIR",
          "write the objects to DIR/.build-id/ab/cdef....debug, by UUID"),
    FLAG(OPTION_UNION, "union", NO_LETTER, "write one file for any number of images",
         .excludes = OPTION_DEBUG_DIRECTORY),
    VALUE(OPTION_PATH_MAP, TEXT, "path-map", NO_LETTER, "MAP",
          "FROM=TO: with --union, give source files below FROM paths below TO", .repeats = true),
    SIDECARS("export this sidecar, or those in this directory"),
    STORE("export sidecars of the store DIR: those of the UUIDs, or all"),
    FLAG(OPTION_REPLACE, "replace", NO_LETTER, "also overwrite files that export did not make"),
    MEMORY_LIMIT,
    VERBOSE("print the paths in --debug-dir, or what is in the union"),
};

static const struct option_description snapshot_options[] = {
    VALUE(OPTION_PROCESS, NUMBER, "pid", NO_LETTER, "PID",
          "take the profiles out of this running process", .minimum = 1, .maximum = INT32_MAX,
          .repeats = true, .takes_operands = true, .excludes = OPTION_CORE),
    VALUE(OPTION_CORE, TEXT, "core", NO_LETTER, "FILE", "take the profiles out of this core",
          .repeats = true, .takes_operands = true),
    VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "DIR", "write the profiles to the directory DIR",
          .required = true),
    SIDECARS("a sidecar, or a directory of them"),
    LOOK_IN_STORES,
    MEMORY_LIMIT,
    JSON("module"),
    VERBOSE("print what was done with each module"),
};

static const struct option_description run_options[] = {
    VALUE(OPTION_SIDECAR, TEXT, "sidecar", NO_LETTER, "FILE",
          "a sidecar, or a directory of them, to try first", .repeats = true),
    LOOK_IN_STORES,
    MEMORY_LIMIT,
    VERBOSE("name the files that are converted"),
};

static const struct option_description show_options[] = {
    FLAG(OPTION_MAP, "map", NO_LETTER,
         "show where the counters are in memory, and how to copy them with gdb"),
    SIDECARS("of a STATE: a sidecar, or a directory of them"),
    STORE("of a STATE: look for sidecars in the store DIR"),
    MEMORY_LIMIT,
    JSON("FILE"),
};

static const struct option_description verify_options[] = {
    VALUE(OPTION_IMAGE, TEXT, "image", NO_LETTER, "STRIPPED",
          "also check that joining STRIPPED gives the original image"),
    MEMORY_LIMIT,
    JSON("SIDECAR"),
};

static const struct option_description repack_options[] = {
    LEVEL(.required = false),
    MEMORY_LIMIT,
    THREADS("work on"),
    VERBOSE("print what was done with each sidecar"),
};

#define STORE_ADD_OPTIONS                                                                          \
    FLAG(OPTION_REPLACE, "replace", NO_LETTER,                                                     \
         "replace a different sidecar that has the same UUID"),                                    \
        FLAG(OPTION_VERIFY, "verify", NO_LETTER,                                                   \
             "decompress and check everything in a sidecar first"),                                \
        MEMORY_LIMIT, VERBOSE("print where each sidecar was copied to")

static const struct option_description store_add_options[] = {STORE_ADD_OPTIONS};

static const struct option_description store_copy_options[] = {
    VALUE(OPTION_FOR, TEXT, "for", NO_LETTER, "PROFILE",
          "copy the sidecars of the images that PROFILE is of", .repeats = true),
    STORE_ADD_OPTIONS,
};

static const struct option_description store_delta_options[] = {
    VALUE(OPTION_KEEP_WHOLE, TEXT, "keep-whole", NO_LETTER, "PATTERN",
          "make no deltas of sidecars that match PATTERN", .repeats = true),
    VALUE(OPTION_LEVEL, NUMBER, "level", NO_LETTER, "N", "zstd compression level, 1 to 19",
          .minimum = 1, .maximum = 19, .fallback = 19),
    MEMORY_LIMIT,
    VERBOSE("print what was done with each sidecar"),
};

static const struct option_description store_list_options[] = {
    JSON("sidecar"),
};

static const struct option_description store_check_options[] = {
    THREADS("check with"),
    MEMORY_LIMIT,
    JSON("sidecar"),
    VERBOSE("name the sidecars that are good"),
};

static const struct option_description store_gc_options[] = {
    VALUE(OPTION_OLDER_THAN, NUMBER, "older-than", NO_LETTER, "DAYS",
          "remove only sidecars added at least DAYS days ago; 0: all", .maximum = DAYS_MAX),
    VALUE(OPTION_KEEP_LIST, TEXT, "keep-list", NO_LETTER, "FILE",
          "remove only sidecars whose UUID is not in FILE ('-': standard input)"),
    FLAG(OPTION_DRY_RUN, "dry-run", 'n', "only print what would be removed"),
};

static const struct option_description store_undelta_options[] = {
    LEVEL(.required = false),
    MEMORY_LIMIT,
    VERBOSE("print the sizes before and after"),
};

static const struct option_description compile_options[] = {
    VERBOSE("print the sizes before and after"),
};

static const struct option_description pack_options[] = {
    VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "OUT", "write to OUT instead of replacing the file"),
    THREADS("work on"),
    JSON("file"),
    VERBOSE("print the sizes before and after"),
};

const struct command commands[] = {
    {"split", "Take coverage data out of an image into a sidecar",
     "[-o OUT] [--sidecar FILE | --store DIR [--replace] [--delta]]\n"
     "                      [--sections LIST] [--uuid HEX] [--arch ARCH] [--map FILE]\n"
     "                      [--drop-signature] [--assume-unreferenced]\n"
     "                      [--fast | --level N] [--portable]\n"
     "                      [--memory-limit SIZE] [-j N] [-r]\n"
     "                      [--json | -v] IMAGE...",
     "The stripped image runs as before and writes lightweight profiles. Without -o,\n"
     "IMAGE itself is replaced; without --sidecar and --store, the sidecar is\n"
     "IMAGE.covsplit.\n"
     "\n"
     "Any number of splits may write to one store at the same time. A sidecar that is\n"
     "already there is kept if it restores the original from this stripped image; the name\n"
     "of the image and the compression may differ. A sidecar of another image, or of\n"
     "another split of it, is an error, unless --replace is given: then it is replaced.\n"
     "\n"
     "Names and data stay where code, a pointer or a distance in data may refer to them, as in\n"
     "programs that read their own. If a warning says so and nothing does, give\n"
     "--assume-unreferenced: then they go. A program that does read them finds other bytes\n"
     "there and may crash.\n"
     "\n"
     "With --fast the sidecar is compressed as fast as possible (plain zstd, level 1). It\n"
     "restores the original too, but is several times larger: use it for images that are built\n"
     "often and soon replaced. Later, 'covsplit repack' makes it as small as without --fast.\n"
     "\n"
     "Several images, and with -r all images in directories that have coverage, are split\n"
     "in place, and a table shows what was saved. If an image cannot be split, an error names\n"
     "it, the others are split, and the exit status is 1; so it is if nothing in the\n"
     "directories has coverage, or had before a split. Links in them are not followed.\n"
     "\n"
     "With --json, each image that was split or passed on has an object with its sizes, its\n"
     "sections and the warnings, under the same keys as in 'show --json'.\n",
     OPTIONS(split_options), "IMAGE", 1, OPERANDS_ANY, .run = command_split, .heading = "Most used",
     .example = "covsplit split --store sidecars -o app.stripped app"},
    {"report", "Make a coverage report of profiles",
     "[[--sidecar FILE]... | --store DIR] [--html DIR | --format FORMAT]\n"
     "                       [-o FILE] [--fail-under LIMIT]... [--ignore KIND]...\n"
     "                       [--root DIR] [--include DIR]... [--path-map MAP]... [--all]\n"
     "                       PROFILE_OR_IMAGE... [-- SOURCE...]\n"
     "       covsplit report [OPTION]... --baseline OTHER PROFILE_OR_IMAGE...",
     "Merges profiles, as 'covsplit merge' does, and reports the coverage of all images that\n"
     "they are of. The report is llvm-cov's: a table, or with --html what 'llvm-cov show'\n"
     "writes, with lcov and json what 'llvm-cov export' does. Nothing is left but the report.\n"
     "\n"
     "An image needs to be named only if no profile is of it, or if it was not split. PROFILE is\n"
     "a raw profile, a directory, a state, or a .profdata file that says which images it is of\n"
     "(LLVM 16 or later). A SOURCE is a file or directory, as with --include.\n"
     "\n"
     "With --baseline, the report is of what the other profiles cover: file by file, and which\n"
     "functions, by their names.\n"
     "\n"
     "What cannot be in the report is named in a warning: profiles whose sidecar is missing or\n"
     "that are empty, images that are unmapped (built without -fcoverage-mapping), profiles of\n"
     "an earlier build of an image, functions that are foreign to all images, and functions\n"
     "whose counts are mismatched with the mapping. A missing sidecar is an error, and all are\n"
     "with --fail-under and --baseline, which are about all that is given, unless --ignore\n"
     "names the kind.\n"
     "\n"
     "llvm-cov is the program that --llvm-cov or else LLVM_COV names, or the first one that fits\n"
     "the profiles, in COVSPLIT_LLVM_BIN, in PATH, or where distributions and rustup put it.\n"
     "\n" BESIDE_PROFILE WITH_OPTIONS,
     OPTIONS(report_options), "PROFILE", 1, OPERANDS_ANY, command_report,
     .example = "covsplit report --store sidecars default.profraw"},
    {"test", "Run a command, and report what it covered",
     "[--profiles DIR] [OPTION]... -- COMMAND [ARGUMENT...]",
     "COMMAND is a test suite, for example: ctest, make check, cargo test. The programs that it\n"
     "runs write their profiles to a directory that is removed in the end, or to that of\n"
     "--profiles. The report and its options are those of 'covsplit report'. It is made even\n"
     "if COMMAND fails; the exit status is then that of COMMAND.\n"
     "\n"
     "The programs get LLVM_PROFILE_FILE, so they must not set it, nor clear the environment,\n"
     "and they write profiles only if they end by exit or a return from main.\n"
     "\n" BESIDE_PROFILE WITH_OPTIONS,
     OPTIONS(test_options), "COMMAND", 1, OPERANDS_ARE_COMMAND, command_test,
     .example = "covsplit test --store sidecars -- make check"},
    {"run", "Run a command that reads split images and their profiles like unsplit ones",
     "[--sidecar FILE]... [--store DIR] [--memory-limit SIZE] [-v]\n"
     "                    -- COMMAND [ARGUMENT...]",
     "In every program that COMMAND runs, opening a stripped image or a sidecar for\n"
     "reading gives an object with its coverage mapping, and opening a lightweight\n"
     "profile gives the full one. llvm-cov reads the directory of a store as the union of\n"
     "all sidecars in it. A sidecar is searched for by UUID in these places, in this\n"
     "order:\n"
     "  the files of --sidecar, and the *.covsplit files and stores of its directories\n"
     "  the store of --store\n"
     "  IMAGE.covsplit, and the *.covsplit files in the directory of the image or profile\n"
     "  the *.covsplit files in the directory in which covsplit was started\n"
     "  the stores in COVSPLIT_STORE (separated by ':'), unless --store is given\n",
     OPTIONS(run_options), "COMMAND", 1, OPERANDS_ARE_COMMAND, command_run,
     .example = "covsplit run --store sidecars -- llvm-cov report app.stripped "
                "-instr-profile=app.profdata"},
    {"link", "Run a link command and split its output",
     "[--sidecar FILE | --store DIR [--replace] [--delta]] [--sections LIST]\n"
     "                     [--assume-unreferenced] [--fast | --level N] [--portable]\n"
     "                     [--exclude GLOB]... [--no-default-excludes]\n"
     "                     [--memory-limit SIZE] [-j N] [-v] -- COMMAND [ARGUMENT...]",
     "COMMAND is a linker or a compiler with its arguments, as a build calls it. The output\n"
     "is the file that its -o, /out: or --output names, also behind -Wl, or in a response file;\n"
     "if none was written where a link should write, a warning says so. It is split in place;\n"
     "without --sidecar and --store, the sidecar is OUTPUT.covsplit. Outputs without\n"
     "coverage, and files that are not images, are left alone, so a build may use this for\n"
     "everything that it compiles and links. If the output cannot be split, it is removed and\n"
     "the exit status is 1; otherwise the exit status is that of COMMAND.\n"
     "\n"
     "Outputs that are linked only as a test are left alone: conftest of autoconf, CMake's\n"
     "try_compile and meson-private. A GLOB without a slash is compared with the file name\n"
     "of the output, any other with its path and with every part of that which follows a\n"
     "slash; its * matches slashes too.\n",
     OPTIONS(link_options), "COMMAND", 1, OPERANDS_ARE_COMMAND, command_link,
     .heading = "In builds"},
    {"compile", "Run a compiler and pack the objects that it writes",
     "[-v] -- COMMAND [ARGUMENT...]",
     "COMMAND is a compiler with its arguments, as a build calls it, or a launcher like ccache\n"
     "with one. The objects are those that its arguments name (-o, -c with any number of\n"
     "sources, -save-temps, rustc's --crate-name and --out-dir), also in a\n"
     "response file. Those that COMMAND has written are packed, as by 'covsplit pack'.\n"
     "Everything else is left alone, also an image that COMMAND links, so a build may use this\n"
     "for all that it compiles and links.\n"
     "\n"
     "The exit status is that of COMMAND; if that fails, nothing is packed. If memory or room on\n"
     "the disk is lacking, the object stays as COMMAND has written it, and the exit status is 1.\n"
     "If an object must stay as it is for another reason, a warning says why.\n",
     OPTIONS(compile_options), "COMMAND", 1, OPERANDS_ARE_COMMAND, .run = command_compile},
    {"pack", "Pack the coverage mapping in objects and archives",
     "[-o OUT] [-j N] [--json | -v] OBJECT_OR_ARCHIVE...",
     "Packed objects are smaller, and link faster: their many sections with coverage mapping\n"
     "become one. They can be linked like others, and together with them. Reports on the linked\n"
     "image are the same, once it is split. llvm-cov refuses an image that was not split, except\n"
     "under 'covsplit run'. For such an image, 'covsplit export' makes an object that llvm-cov\n"
     "reads, and 'covsplit join --mapping' an ordinary image.\n"
     "\n"
     "A file is replaced by a rename, and keeps its mode and modification time. Files that have\n"
     "nothing to pack are not touched. The objects of a thin archive are packed where they are.\n"
     "If an object must stay as it is, a warning says why. If a file is damaged, an error names\n"
     "it, the others are packed, and the exit status is 1.\n",
     OPTIONS(pack_options), "OBJECT_OR_ARCHIVE", 1, OPERANDS_ANY, .run = command_pack},
    {"merge", "Add up profiles of any images into one file",
     "[[--sidecar FILE]... | --store DIR] [--failure-mode MODE] [--sparse]\n"
     "                      [--llvm-profdata PROGRAM] [--memory-limit SIZE] [-j N] [-v]\n"
     "                      [--per-image DIR] [--explain [--json]] [--format FORMAT]\n"
     "                      -o OUT [--weighted-input N,FILE]... PROFILE...\n"
     "       covsplit merge [[--sidecar FILE]... | --store DIR] [--failure-mode MODE]\n"
     "                      [--memory-limit SIZE] [-j N] [-v]\n"
     "                      --into STATE [--consume] PROFILE...\n"
     "       covsplit merge [OPTION]... --into STATE --watch DIR...",
     "A PROFILE is a file, a FIFO, '-' for standard input, a directory (all files in it and\n"
     "below), a STATE, or @FILE (a list of those, one per line; '@-' is a list on standard\n"
     "input).\n"
     "\n"
     "Lightweight, full and sparse raw profiles may be mixed. The format is given by the end\n"
     "of OUT, .profraw or .profdata, or by --format. A profraw file has one full raw profile\n"
     "for each image. A profdata file is made from these by llvm-profdata: the one that\n"
     "--llvm-profdata or else LLVM_PROFDATA names, or the first one in COVSPLIT_LLVM_BIN, in\n"
     "PATH, or where distributions and rustup put it, that reads such profiles. Profiles of\n"
     "several LLVM versions are read by one each.\n"
     "\n"
     "With --per-image, DIR also gets a file for each image, in OUT's format and named by the\n"
     "UUID (without one: no-uuid- and a digest). Other files in DIR are left alone.\n"
     "\n"
     "Reports show one function for each name and file. If images have different ones, because\n"
     "they were built from different sources or with different macros, a warning says how many.\n"
     "--explain lists them with their hashes and images, and also functions that differ only in\n"
     "their lines, and functions of different files that LLVM's tools take for one.\n"
     "\n"
     "A STATE is a directory with the sum of each image's profiles. --into adds all profiles to\n"
     "it or, if the command fails, none; with --failure-mode=all, those that are not bad. Any\n"
     "number of commands may add to one STATE at a time. To make the output, use\n"
     "covsplit merge STATE -o OUT.\n"
     "\n"
     "--consume deletes each profile as soon as its counts are safe in STATE. Each is counted\n"
     "exactly once, even if covsplit or a program is killed. A profile has a hidden name while\n"
     "it is read. Left alone are profiles that a process has open (merge again later), empty\n"
     "files, links and bad files. Links and bad files make the exit status 1, or with\n"
     "--failure-mode=all only if nothing was consumed.\n"
     "\n"
     "--watch consumes profiles in and below each DIR as they appear, until SIGINT, SIGTERM or\n"
     "SIGHUP; it then finishes what it has begun, and exits with 0.\n"
     "\n" BESIDE_PROFILE WITH_OPTIONS,
     OPTIONS(merge_options), "PROFILE", 0, OPERANDS_ANY, .run = command_merge,
     .heading = "Profiles",
     .example = "covsplit merge --store sidecars -o app.profdata default.profraw"},
    {"correlate", "Make a full raw profile from a lightweight one",
     "[[--sidecar FILE]... | --store DIR] [--memory-limit SIZE] -o OUT PROFILE\n"
     "       covsplit correlate --counters DUMP [--bitmap DUMP] [--uuid HEX]\n"
     "                          [--sidecar FILE | --store DIR] -o OUT",
     "OUT is the profile that the unsplit image would have written, except that it has each\n"
     "name once and uncompressed, which llvm-profdata reads faster. A profile that lacks\n"
     "nothing is copied. PROFILE may be sparse, a FIFO, or '-' for standard input.\n"
     "\n"
     "With --counters, OUT is made from DUMP, a plain copy of the image's counters section that\n"
     "a debugger, for example, made of the memory of the program; 'covsplit show --map' prints\n"
     "the commands for it. Nothing in DUMP says which image it is of: give --uuid, or the\n"
     "sidecar by --sidecar.\n"
     "\n" BESIDE_PROFILE WITH_OPTIONS,
     OPTIONS(correlate_options), "PROFILE", 0, 1, .run = command_correlate},
    {"snapshot", "Take the profiles out of a running process, or a core",
     "(--pid PID... | --core FILE...) [[--sidecar FILE]... | --store DIR]\n"
     "                         [--memory-limit SIZE] [--json | -v] -o DIR",
     "For each module (the program or a shared library) with coverage, split or not, this\n"
     "writes the profile that the program itself would write at that moment. The process is\n"
     "not stopped, and need not cooperate. DIR is created if it does not exist; 'covsplit merge'\n"
     "can read it. Profiles are named IMAGE.UUID.PID.profraw, with the first 8 digits of the\n"
     "UUID. A core may be compressed by zstd; '-' is a core on standard input. More PIDs or\n"
     "cores may follow the first: --pid $(pidof daemon), --core cores/*.\n"
     "\n"
     "The module's file says where the counters are, if it is still the build that was loaded;\n"
     "otherwise its sidecar does, which is searched for by UUID in these places:\n"
     "  IMAGE.covsplit, and the *.covsplit files in the directory of IMAGE\n"
     "  the *.covsplit files in the current directory\n"
     "  the stores in COVSPLIT_STORE (separated by ':')\n" WITH_OPTIONS,
     OPTIONS(snapshot_options), "PID or FILE", 0, OPERANDS_ANY, .run = command_snapshot},
    {"export", "Make objects of sidecars and images, for llvm-cov and llvm-profdata",
     "[[--sidecar FILE]... | --store DIR] (-o FILE | --debug-dir DIR)\n"
     "                       [--replace] [--memory-limit SIZE] [-v] [UUID or IMAGE]...\n"
     "       covsplit export --union -o FILE [[--sidecar FILE]... | --store DIR]\n"
     "                       [--path-map MAP]... [--replace] [--memory-limit SIZE] [-v]\n"
     "                       [UUID or FILE]...",
     "An object takes the place of the image: llvm-cov report OBJECT, llvm-profdata merge\n"
     "--binary-file=OBJECT. With --debug-dir=DIR, 'llvm-cov -debug-file-directory=DIR'\n"
     "needs no object on its command line, and debuginfod serves it. A UUID may be the\n"
     "start of one, if no other starts with it. An IMAGE that was split stands for its sidecar;\n"
     "of one that was not, the object is made, as is useful for packed objects (covsplit pack),\n"
     "which llvm-cov alone refuses. Objects get the time of the sidecar or image.\n"
     "\n"
     "With --union, FILE takes the place of all images: llvm-cov report FILE. It has one copy\n"
     "of what they share, and reports are those of '-object A -object B ...'. Each operand is a\n"
     "UUID, a sidecar, or an image. The images are in the order of the operands; those of a\n"
     "store or --sidecar in the order of their UUIDs. Sidecars of images without coverage are\n"
     "ignored. If a sidecar is bad, no FILE is written.\n"
     "\n"
     "Images without coverage mapping (compiled without -fcoverage-mapping) are left out with a\n"
     "warning, with --debug-dir too; it is an error if no others are there.\n"
     "\n"
     "UUIDs are searched for in the *.covsplit files of the current directory (of an IMAGE,\n"
     "first in those beside it), then in the stores of COVSPLIT_STORE (separated by ':').\n"
     "Without operands, all sidecars of these stores are exported, or if COVSPLIT_STORE is not\n"
     "set, those of the current directory; -o takes just one, unless --union is "
     "given.\n" WITH_OPTIONS,
     OPTIONS(export_options), "UUID or IMAGE", 0, OPERANDS_ANY, .run = command_export},
    {"join", "Restore the original image from a stripped one and its sidecar",
     "[[--sidecar FILE]... | --store DIR] [--mapping] [--memory-limit SIZE]\n"
     "                     -o OUT STRIPPED",
     "STRIPPED must be as the split wrote it. Without --sidecar, the sidecar is searched\n"
     "for as STRIPPED.covsplit, and by UUID in these places, in this order:\n"
     "  the *.covsplit files in the directory of STRIPPED\n"
     "  the *.covsplit files in the current directory\n"
     "  the stores in COVSPLIT_STORE (separated by ':')\n" WITH_OPTIONS "\n"
     "With --mapping, and if objects of the image were packed, OUT has the coverage mapping of\n"
     "ordinary objects, which llvm-cov reads; otherwise it is the original image. STRIPPED may\n"
     "then also be an image that was not split, which needs no sidecar.\n",
     OPTIONS(join_options), "STRIPPED", 1, 1, .run = command_join, .heading = "Files"},
    {"show", "Describe images, sidecars, objects, unions, raw profiles and states",
     "[--memory-limit SIZE] [--json] FILE...\n"
     "       covsplit show --map [--json] SIDECAR...\n"
     "       covsplit show [[--sidecar FILE]... | --store DIR] [--memory-limit SIZE] [--json]\n"
     "                     STATE...",
     "The status of a section in an image says what a split would do: it is 'removed', or\n"
     "is 'zeroed', or it 'stays', or is 'copied' since it stays and reports need it. In a\n"
     "split image, it is 'left'. In a sidecar, a section is 'stored', or only 'recorded' by\n"
     "place and size, or was 'kept' in the image, or 'copied': both kept and stored; or it\n"
     "was 'made' of what packed objects have in its place. In an object or a raw profile, it\n"
     "is 'present'. In a union, each image is described. FILE may be a FIFO, or '-' for\n"
     "standard input.\n"
     "\n"
     "With --map, the printed commands copy counters and bitmap in gdb, and make a profile from\n"
     "the copies.\n"
     "\n"
     "A STATE is made by 'merge --into'. The sidecars of its images, which give their names, are\n"
     "searched for as those of profiles (see 'covsplit merge').\n",
     OPTIONS(show_options), "FILE", 1, OPERANDS_ANY, .run = command_show},
    {"verify", "Check sidecars: every digest, every note, every bound",
     "[--image STRIPPED] [--memory-limit SIZE] [--json] SIDECAR...",
     "Prints 'SIDECAR: ok' for each good sidecar. 'covsplit store check' checks a store.\n",
     OPTIONS(verify_options), "SIDECAR", 1, OPERANDS_ANY, .run = command_verify},
    {"repack", "Make quickly written sidecars compact",
     "[--level N] [--memory-limit SIZE] [-j N] [-v] SIDECAR...",
     "A SIDECAR is a file, a store, a directory (all *.covsplit in it and below), or @FILE\n"
     "(a list of those, one per line). The new sidecar has the bytes that a split without\n"
     "--fast and --portable would have written. A sidecar made with --portable is repacked\n"
     "too, so do not name those that should stay plain. Sidecars that are already compact are\n"
     "skipped, whatever their level, and so are placeholders and deltas ('covsplit store\n"
     "delta').\n"
     "\n"
     "Before a sidecar is replaced, by a rename, everything in the new one is decompressed\n"
     "and compared with the digests in the old one. The modification time is kept. It is safe\n"
     "to kill repack, and to run splits and 'store gc' at the same time. If a sidecar is\n"
     "damaged, an error names it, the others are repacked, and the exit status is 1.\n",
     OPTIONS(repack_options), "SIDECAR", 1, OPERANDS_ANY, .run = command_repack},
    {"store add", "Copy sidecars into a store, each under its UUID",
     "[--replace] [--verify] [--memory-limit SIZE] [-v]\n"
     "                          STORE SIDECAR...",
     "A SIDECAR is a file, a store, a directory (all *.covsplit in it and below), or @FILE\n"
     "(a list of those, one per line). The sources stay where they are. A sidecar that the\n"
     "store already has, compact or not, is not copied again. If it has a different one\n"
     "under that UUID, this is an error unless --replace is given. Placeholders are skipped.\n"
     "If a sidecar is damaged, an error names it, the others are copied, and the exit status\n"
     "is 1.\n",
     OPTIONS(store_add_options), "SIDECAR", 2, OPERANDS_ANY, .run = command_store_add},
    {"store check", "Check all sidecars of a store",
     "[--memory-limit SIZE] [-j N] [--json | -v] DIR",
     "Checks every digest, that each sidecar is in the place of its UUID, and that no file\n"
     "named *.covsplit is where no search would find it. Prints a line for each fault, and at\n"
     "the end the numbers of sidecars, bytes and faults.\n",
     OPTIONS(store_check_options), "DIR", 1, 1, .run = command_store_check},
    {"store copy", "Copy sidecars of a store into another one",
     "[--for PROFILE]... [--replace] [--verify] [--memory-limit SIZE] [-v]\n"
     "                           STORE DEST [PATTERN...]",
     "Copies the sidecars that match a PATTERN, or all of them, as 'store add' does.\n"
     "Deltas ('store delta') are made whole in DEST. PROFILE is a raw or an indexed profile,\n"
     "a directory of such, or @FILE with a list.\n"
     "\n"
     "STORE may be at a URL (http://HOST/PATH, https://...), which takes whole UUIDs as\n"
     "PATTERNs, or --for.\n"
     "\n" WHAT_A_PATTERN_IS,
     OPTIONS(store_copy_options), "DEST", 2, OPERANDS_ANY, .run = command_store_copy},
    {"store delta", "Keep only what sidecars of a store do not have in common",
     "[--keep-whole PATTERN]... [--level N] [--memory-limit SIZE] [-v]\n"
     "                           DIR",
     "A sidecar that is like another one of the store becomes a delta to that: sidecars\n"
     "of ten builds of a large program take little more room than that of one. Reports and\n"
     "all other commands read deltas in the store as they read whole sidecars; they are\n"
     "made whole by 'store copy' and 'store undelta'.\n"
     "\n"
     "Of a sidecar that is unlike all others, a copy becomes a base: it and others are deltas\n"
     "to that from then on. Bases are kept beside the sidecars as long as they are needed,\n"
     "whatever becomes of the sidecar itself.\n"
     "\n"
     "Before a sidecar is replaced, by a rename, the delta is decompressed and compared\n"
     "with it. It is safe to kill the command and run it again, and to run splits, reports\n"
     "and 'store gc' at the same time.\n"
     "\n" WHAT_A_PATTERN_IS,
     OPTIONS(store_delta_options), "DIR", 1, 1, .run = command_store_delta},
    {"store gc", "Remove unneeded sidecars from a store",
     "[--older-than DAYS] [--keep-list FILE] [--dry-run] DIR [PATTERN...]",
     "At least one of --older-than and --keep-list must be given; with both, only sidecars\n"
     "that are older and not listed are removed. FILE has a UUID on each line, or its first\n"
     "digits (8 or more); what follows a '#' is ignored. A list with a bad line, or with no\n"
     "UUID at all, is an error, and nothing is removed. With PATTERNs, only sidecars that\n"
     "match one are removed.\n"
     "\n"
     "The age of a sidecar is the time since it was added to the store: splitting the same\n"
     "image again does not touch it. So list the UUIDs of images that are still in use. Splits\n"
     "may run at the same time. Files left by a killed split are removed after a day, and so\n"
     "are bases ('covsplit store delta') that no sidecar has needed since.\n"
     "\n" WHAT_A_PATTERN_IS,
     OPTIONS(store_gc_options), "DIR", 1, OPERANDS_ANY, .run = command_store_gc},
    {"store list", "List the sidecars of a store", "[--json] DIR [PATTERN...]",
     "The date is the time when the sidecar was added, in UTC. With PATTERNs, only sidecars\n"
     "that match one are listed. Of deltas, the last columns tell what they would take\n"
     "if they were whole, and the digest of the base.\n"
     "\n" WHAT_A_PATTERN_IS,
     OPTIONS(store_list_options), "DIR", 1, OPERANDS_ANY, .run = command_store_list},
    {"store undelta", "Make the deltas of a store whole sidecars again",
     "[--level N] [--memory-limit SIZE] [-v] DIR [PATTERN...]",
     "Undoes 'store delta', for all sidecars or those that match a PATTERN. They have the same\n"
     "bytes as before, if --level is that of the split.\n"
     "\n" WHAT_A_PATTERN_IS,
     OPTIONS(store_undelta_options), "DIR", 1, OPERANDS_ANY, .run = command_store_undelta},
    {.name = NULL},
};
