/*
 * The table of subcommands with their options.
 *
 * A new subcommand is a file with its function and a line in `commands` (with its table of options,
 * where it has any).
 */
#include "split/command_table.h"

#include <stdint.h>

#include "split/cli/commands.h"

#define OPTIONS(table) (table), sizeof(table) / sizeof((table)[0])
#define THREADS_MAX    256
#define OPERANDS_ANY   SIZE_MAX
#define DAYS_MAX       100000

/* A row of a table of options; more fields may follow. */
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

/* Rows that many have in common. */
#define SIDECAR(text)                                                                              \
    VALUE(OPTION_SIDECAR, TEXT, "sidecar", NO_LETTER, "FILE", text, .excludes = OPTION_STORE)
#define SIDECARS(text)                                                                             \
    VALUE(OPTION_SIDECAR, TEXT, "sidecar", NO_LETTER, "FILE", text, .excludes = OPTION_STORE,      \
          .repeats = true)
#define STORE(text) VALUE(OPTION_STORE, TEXT, "store", NO_LETTER, "DIR", text)
#define THREADS(what)                                                                              \
    VALUE(OPTION_THREADS, NUMBER, "threads", 'j', "N",                                             \
          what " N threads (default: one a processor, at most 8)", .minimum = 1,                   \
          .maximum = THREADS_MAX)
#define VERBOSE(text) FLAG(OPTION_VERBOSE, "verbose", 'v', text)
#define OUTPUT(text)  VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "OUT", text, .required = true)
#define JSON(item)                                                                                 \
    FLAG(OPTION_JSON, "json", NO_LETTER, "print a JSON array with one object for each " item)

/* Rows that split and link have in common. */
#define WHERE_THE_SIDECAR_GOES                                                                     \
    SIDECAR("write the sidecar to FILE"),                                                          \
        STORE("add the sidecar to the store DIR, under the image's UUID"),                         \
        FLAG(OPTION_REPLACE, "replace", NO_LETTER,                                                 \
             "replace what the store has under the UUID, whatever it is"),                         \
        VALUE(OPTION_SECTIONS, SECTIONS, "sections", NO_LETTER, "LIST",                            \
              "remove only these: covmap,covfun,names,data,covnames,covdata")
#define LEVEL(...)                                                                                 \
    VALUE(OPTION_LEVEL, NUMBER, "level", NO_LETTER, "N", "zstd compression level, 1 to 19",        \
          .minimum = 1, .maximum = 19, .fallback = 9, __VA_ARGS__)
#define HOW_IT_IS_COMPRESSED                                                                       \
    LEVEL(.excludes = OPTION_FAST),                                                                \
        FLAG(OPTION_FAST, "fast", NO_LETTER,                                                       \
             "write the sidecar quickly, and larger; see 'covsplit repack'"),                      \
        FLAG(OPTION_PORTABLE, "portable", NO_LETTER,                                               \
             "keep plain zstd sections, which llvm-objcopy can decompress",                        \
             .excludes = OPTION_FAST),                                                             \
        FLAG(OPTION_NO_EXACT, "no-exact", NO_LETTER,                                               \
             "a sidecar for reports alone, made faster: join will refuse it",                      \
             .excludes = OPTION_FAST)

/* How commands say where they search for sidecars. */
#define BESIDE_PROFILE                                                                             \
    "Without --sidecar, sidecars are searched for by UUID in these places, in this order:\n"       \
    "  the *.covsplit files in the directory of PROFILE\n"                                         \
    "  the *.covsplit files in the current directory\n"                                            \
    "  the stores in COVSPLIT_STORE (a list with ':' between)\n"
#define WITH_OPTIONS                                                                               \
    "\n"                                                                                           \
    "With --store, that store comes first, and COVSPLIT_STORE is not used. With --sidecar,\n"      \
    "only what it names is searched: files, or directories with *.covsplit files, which\n"         \
    "may be stores as well.\n"

/* Rows of what reads sidecars. */
#define LOOK_IN_STORE  STORE("look for the sidecar in the store DIR, by UUID")
#define LOOK_IN_STORES STORE("look for sidecars in the store DIR, by UUID")
#define MEMORY_LIMIT                                                                               \
    VALUE(OPTION_MEMORY_LIMIT, SIZE, "memory-limit", NO_LETTER, "SIZE",                            \
          "refuse what claims more memory than SIZE (1G, 512M, ...)")

static const struct option_description split_options[] = {
    VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "OUT",
          "write the stripped image to OUT, not over IMAGE"),
    WHERE_THE_SIDECAR_GOES,
    VALUE(OPTION_UUID, UUID, "uuid", NO_LETTER, "HEX",
          "the UUID of the sidecar and its profiles, not the image's own"),
    VALUE(OPTION_ARCH, TEXT, "arch", NO_LETTER, "ARCH",
          "split only this slice of a universal image (arm64, x86_64, ...)"),
    VALUE(OPTION_MAP, TEXT, "map", NO_LETTER, "FILE",
          "the map file of lld-link or MSVC, for a COFF image without symbols"),
    FLAG(OPTION_DROP_SIGNATURE, "drop-signature", NO_LETTER,
         "take off a signature made with a certificate: sign afterwards"),
    HOW_IT_IS_COMPRESSED,
    THREADS("work on"),
    FLAG(OPTION_RECURSIVE, "recursive", 'r', "split all images in a directory that have coverage"),
    JSON("image"),
    VERBOSE("print the sizes before and after"),
};

/* As of split, where they make sense for whatever a build links. */
static const struct option_description link_options[] = {
    WHERE_THE_SIDECAR_GOES,
    HOW_IT_IS_COMPRESSED,
    VALUE(OPTION_EXCLUDE, TEXT, "exclude", NO_LETTER, "GLOB", "leave such an output alone",
          .repeats = true),
    FLAG(OPTION_NO_DEFAULT_EXCLUDES, "no-default-excludes", NO_LETTER,
         "split also what configure scripts, CMake and Meson link to try things"),
    THREADS("compress with"),
    VERBOSE("print the sizes before and after, or why there was nothing to split"),
};

static const struct option_description join_options[] = {
    OUTPUT("write the original image to OUT, which may be STRIPPED itself"),
    SIDECARS("the sidecar, or a directory that has it"),
    LOOK_IN_STORE,
    MEMORY_LIMIT,
};

static const struct option_description correlate_options[] = {
    OUTPUT("write the full raw profile to OUT"),
    SIDECARS("the sidecar, or a directory that has it"),
    LOOK_IN_STORE,
    MEMORY_LIMIT,
};

static const char *const failure_modes[] = {"any", "all", NULL};
static const char *const profile_formats[] = {"profraw", "profdata", NULL};

static const struct option_description merge_options[] = {
    OUTPUT("write to OUT"),
    VALUE(OPTION_FORMAT, WORD, "format", NO_LETTER, "FORMAT",
          "write profraw or profdata (default: what the name of OUT ends in)",
          .words = profile_formats),
    SIDECARS("a sidecar, or a directory of them"),
    LOOK_IN_STORES,
    VALUE(OPTION_FAILURE_MODE, WORD, "failure-mode", NO_LETTER, "MODE",
          "fail at a bad profile: any (default), or where all are bad: all",
          .words = failure_modes),
    FLAG(OPTION_SPARSE, "sparse", NO_LETTER, "leave out functions that never ran (profdata only)"),
    VALUE(OPTION_LLVM_PROFDATA, TEXT, "llvm-profdata", NO_LETTER, "PROGRAM",
          "the llvm-profdata that writes the indexed profile"),
    MEMORY_LIMIT,
    THREADS("read with"),
    VERBOSE("print what was read and added, and with which sidecars"),
};

static const struct option_description export_options[] = {
    VALUE(OPTION_OUTPUT, TEXT, "output", 'o', "FILE", "write the object to FILE",
          .excludes = OPTION_DEBUG_DIRECTORY),
    VALUE(OPTION_DEBUG_DIRECTORY, TEXT, "debug-dir", NO_LETTER, "DIR",
          "write the objects to DIR/.build-id/ab/cdef....debug, by UUID"),
    SIDECARS("export this sidecar, or those in this directory"),
    STORE("export sidecars of the store DIR: those of the UUIDs, or all"),
    FLAG(OPTION_REPLACE, "replace", NO_LETTER, "overwrite files too that export did not make"),
    MEMORY_LIMIT,
    VERBOSE("print the paths in --debug-dir, and of what images they are"),
};

static const struct option_description run_options[] = {
    VALUE(OPTION_SIDECAR, TEXT, "sidecar", NO_LETTER, "FILE",
          "a sidecar, or a directory of them, to try first", .repeats = true),
    LOOK_IN_STORES,
    MEMORY_LIMIT,
    VERBOSE("name the files that are converted"),
};

static const struct option_description show_options[] = {
    JSON("FILE"),
};

static const struct option_description verify_options[] = {
    VALUE(OPTION_IMAGE, TEXT, "image", NO_LETTER, "STRIPPED",
          "check too that joining STRIPPED gives the original image", .excludes = OPTION_STORE),
    STORE("check all sidecars of the store DIR"),
    MEMORY_LIMIT,
    JSON("SIDECAR"),
    VERBOSE("with --store, name the sidecars that are good"),
};

static const struct option_description repack_options[] = {
    LEVEL(.required = false),
    MEMORY_LIMIT,
    THREADS("work on"),
    VERBOSE("print what was done with each sidecar"),
};

/* Of store add and store export. */
static const struct option_description store_copy_options[] = {
    FLAG(OPTION_REPLACE, "replace", NO_LETTER,
         "replace a different sidecar that has the same UUID"),
    FLAG(OPTION_VERIFY, "verify", NO_LETTER, "decompress and check everything in a sidecar first"),
    MEMORY_LIMIT,
    VERBOSE("print where each sidecar was copied to"),
};

static const struct option_description store_list_options[] = {
    JSON("sidecar"),
};

static const struct option_description store_check_options[] = {
    THREADS("check with"),
    MEMORY_LIMIT,
    VERBOSE("name the sidecars that are good"),
};

static const struct option_description store_gc_options[] = {
    VALUE(OPTION_OLDER_THAN, NUMBER, "older-than", NO_LETTER, "DAYS",
          "remove only sidecars that were added so many days ago; 0: all", .maximum = DAYS_MAX),
    VALUE(OPTION_KEEP_LIST, TEXT, "keep-list", NO_LETTER, "FILE",
          "remove only sidecars whose UUID is not in FILE ('-': standard input)"),
    FLAG(OPTION_DRY_RUN, "dry-run", 'n', "only print what would be removed"),
};

static const struct command commands[] = {
    {"split", "Take coverage data out of an image into a sidecar",
     "[-o OUT] [--sidecar FILE | --store DIR [--replace]]\n"
     "                      [--sections LIST] [--uuid HEX] [--arch ARCH] [--map FILE]\n"
     "                      [--drop-signature] [--fast | --level N] [--portable]\n"
     "                      [--no-exact] [-j N] [-r] [--json | -v] IMAGE...",
     "The stripped image runs as before and writes lightweight profiles. Without -o,\n"
     "IMAGE itself is replaced; without --sidecar and --store, the sidecar is\n"
     "IMAGE.covsplit.\n"
     "\n"
     "Any number of splits may write to one store at a time. A sidecar that is there\n"
     "stays untouched, if it gives back the original from this stripped image: the name\n"
     "of the image and the compression may differ. That of another image, or of another\n"
     "split, is an error, and only --replace puts the new sidecar in its place.\n"
     "\n"
     "With --no-exact, which is for those who never join, the sidecar holds each function's\n"
     "name once but not how the compiler had packed them, and nothing proves that it would\n"
     "give the original back: keep the image if you may need it again. In a store, a sidecar\n"
     "that does give it back stays, even with --replace.\n"
     "\n"
     "With --fast the sidecar is compressed as fast as possible (plain zstd, level 1). It\n"
     "restores the original too, but is several times larger: use it for what is built often\n"
     "and soon replaced. 'covsplit repack' makes it as small as without --fast, later.\n"
     "\n"
     "Several images, and with -r all those in directories that have coverage, are split\n"
     "in place, and a table tells what was saved. An image that cannot be split is named,\n"
     "the others are split all the same, and the exit status is 1. Links in directories\n"
     "are not followed.\n"
     "\n"
     "With --json, each image that was split or passed on has its sizes, its sections and\n"
     "the warnings, under the names that 'show --json' has for them.\n",
     OPTIONS(split_options), "IMAGE", 1, OPERANDS_ANY, command_split},
    {"merge", "Add up profiles of any images into one file",
     "[[--sidecar FILE]... | --store DIR] [--failure-mode MODE] [--sparse]\n"
     "                      [--llvm-profdata PROGRAM] [--memory-limit SIZE] [-j N] [-v]\n"
     "                      [--format FORMAT] -o OUT PROFILE...",
     "A PROFILE is a file, a directory (all files in it and below), or @FILE (a list of\n"
     "those, one a line). Lightweight and full raw profiles may be mixed. The format is\n"
     "what OUT ends in, .profraw or .profdata, or what --format says. As profraw, OUT has\n"
     "one full raw profile for each image; as profdata, it is what llvm-profdata makes of\n"
     "that: the one that is named, or that of LLVM_PROFDATA, or the first in PATH that\n"
     "reads such profiles.\n"
     "\n" BESIDE_PROFILE WITH_OPTIONS,
     OPTIONS(merge_options), "PROFILE", 1, OPERANDS_ANY, command_merge},
    {"run", "Run a command that reads sidecars and what was split as if it were not",
     "[--sidecar FILE]... [--store DIR] [--memory-limit SIZE] [-v]\n"
     "                    -- COMMAND [ARGUMENT...]",
     "In every program that COMMAND runs, opening a stripped image or a sidecar for\n"
     "reading gives an object with its coverage mapping, and opening a lightweight\n"
     "profile gives the full one. A sidecar is searched for by UUID in these places, in\n"
     "this order:\n"
     "  the files of --sidecar, and the *.covsplit files and stores of its directories\n"
     "  the store of --store\n"
     "  IMAGE.covsplit, and the *.covsplit files in the directory of the image or profile\n"
     "  the *.covsplit files in the directory in which covsplit was started\n"
     "  the stores in COVSPLIT_STORE (a list with ':' between), unless --store is given\n",
     OPTIONS(run_options), "COMMAND", 1, OPERANDS_ARE_COMMAND, command_run},
    {"link", "Run a link, and split what it writes",
     "[--sidecar FILE | --store DIR [--replace]] [--sections LIST]\n"
     "                     [--fast | --level N] [--portable] [--no-exact]\n"
     "                     [--exclude GLOB]... [--no-default-excludes] [-j N] [-v]\n"
     "                     -- COMMAND [ARGUMENT...]",
     "COMMAND is a linker or a compiler with its arguments, as a build calls it: the\n"
     "output is what its -o, /out: or --output says, also in response files. It is split\n"
     "in place; without --sidecar and --store, the sidecar is OUTPUT.covsplit. What has no\n"
     "coverage, and what is no image, is left alone, so that everything that a build\n"
     "compiles and links may go through this. An output that cannot be split is removed,\n"
     "and the exit status is 1; else it is that of COMMAND.\n"
     "\n"
     "What is linked only to try whether that works is left alone: conftest of autoconf,\n"
     "CMake's try_compile and meson-private. A GLOB without a slash is compared with the\n"
     "output's file name, others with its path and with every end of that which begins\n"
     "after a slash; their * matches slashes too.\n",
     OPTIONS(link_options), "COMMAND", 1, OPERANDS_ARE_COMMAND, command_link},
    {"join", "Bring back the original image from a stripped one and its sidecar",
     "[[--sidecar FILE]... | --store DIR] [--memory-limit SIZE] -o OUT STRIPPED",
     "STRIPPED must be as the split wrote it. Without --sidecar, the sidecar is searched\n"
     "for as STRIPPED.covsplit, and by UUID in these places, in this order:\n"
     "  the *.covsplit files in the directory of STRIPPED\n"
     "  the *.covsplit files in the current directory\n"
     "  the stores in COVSPLIT_STORE (a list with ':' between)\n" WITH_OPTIONS,
     OPTIONS(join_options), "STRIPPED", 1, 1, command_join},
    {"repack", "Make sidecars small that were written quickly",
     "[--level N] [--memory-limit SIZE] [-j N] [-v] SIDECAR...",
     "A SIDECAR is a file, a store, a directory (all *.covsplit in it and below), or @FILE\n"
     "(a list of those, one per line). The new sidecar has the bytes that a split without\n"
     "--fast and --portable would have written. A sidecar made with --portable is repacked\n"
     "too, so do not name those that are to stay plain. What is compact already is skipped,\n"
     "whatever its level; so are placeholders and what was made with --no-exact.\n"
     "\n"
     "Before a sidecar is replaced, by a rename, everything in the new one is decompressed\n"
     "and compared with the digests in the old one. The modification time stays. It is safe\n"
     "to kill this, and to run splits and 'store gc' at the same time. If a sidecar is\n"
     "damaged, an error names it, the others are repacked, and the exit status is 1.\n",
     OPTIONS(repack_options), "SIDECAR", 1, OPERANDS_ANY, command_repack},
    {"correlate", "Make a full raw profile of a lightweight one",
     "[[--sidecar FILE]... | --store DIR] [--memory-limit SIZE] -o OUT PROFILE",
     "OUT is what the unsplit image would have written, for llvm-profdata to read, but\n"
     "that it has each name once and not compressed, which is read faster. A profile that\n"
     "lacks nothing is copied.\n"
     "\n" BESIDE_PROFILE WITH_OPTIONS,
     OPTIONS(correlate_options), "PROFILE", 1, 1, command_correlate},
    {"export", "Make objects of sidecars, which llvm-cov and llvm-profdata read",
     "[[--sidecar FILE]... | --store DIR] (-o FILE | --debug-dir DIR)\n"
     "                       [--replace] [--memory-limit SIZE] [-v] [UUID...]",
     "An object takes the place of the image: llvm-cov report OBJECT, llvm-profdata merge\n"
     "--binary-file=OBJECT. With --debug-dir=DIR, 'llvm-cov -debug-file-directory=DIR'\n"
     "needs no object on its command line, and debuginfod serves it. A UUID may be the\n"
     "start of one, if no other starts with it.\n"
     "\n"
     "UUIDs are searched for in the *.covsplit files of the current directory, then in the\n"
     "stores of COVSPLIT_STORE (a list with ':' between). Without UUIDs, all sidecars of\n"
     "these stores are exported, or if COVSPLIT_STORE is not set, those of the current\n"
     "directory; -o takes just one.\n" WITH_OPTIONS,
     OPTIONS(export_options), "UUID", 0, OPERANDS_ANY, command_export},
    {"show", "Describe images, sidecars, objects and raw profiles", "[--json] FILE...",
     "The status of a section. In an image: a split would see it 'removed' or 'zeroed',\n"
     "or it 'stays', or is 'copied' since it stays and reports need it; after a split,\n"
     "what is 'left' of it. In a sidecar: it is 'stored', or only 'recorded' by place\n"
     "and size, or was 'kept' in the image, or 'copied': both kept and stored. In an\n"
     "object or a raw profile: it is 'present'.\n",
     OPTIONS(show_options), "FILE", 1, OPERANDS_ANY, command_show},
    {"verify", "Check sidecars: every digest, every note, every bound",
     "[--image STRIPPED] [--memory-limit SIZE] [--json] SIDECAR...\n"
     "       covsplit verify --store DIR [--memory-limit SIZE] [--json | -v]",
     "Prints 'SIDECAR: ok' for each that is good. With --store, all sidecars of the store\n"
     "are checked, as by 'store check'.\n",
     OPTIONS(verify_options), "SIDECAR", 0, OPERANDS_ANY, command_verify},
    {"store add", "Copy sidecars into a store, each under its UUID",
     "[--replace] [--verify] [--memory-limit SIZE] [-v]\n"
     "                          STORE SIDECAR...",
     "A SIDECAR is a file, a store, a directory (all *.covsplit in it and below), or @FILE\n"
     "(a list of those, one per line). The sources stay where they are. A sidecar that the\n"
     "store already has, compact or not, is not copied again. If it has a different one\n"
     "under that UUID, this is an error unless --replace is given. Placeholders are skipped.\n"
     "If a sidecar is damaged, an error names it, the others are copied, and the exit status\n"
     "is 1.\n",
     OPTIONS(store_copy_options), "SIDECAR", 2, OPERANDS_ANY, command_store_add},
    {"store check", "Check all sidecars of a store", "[--memory-limit SIZE] [-j N] [-v] DIR",
     "Checks every digest, that each sidecar is in the place of its UUID, and that no file\n"
     "named *.covsplit is where no search looks. Prints a line for each fault, and at the\n"
     "end how many sidecars, bytes and faults there are.\n",
     OPTIONS(store_check_options), "DIR", 1, 1, command_store_check},
    {"store export", "Copy sidecars of a store into another one",
     "[--replace] [--verify] [--memory-limit SIZE] [-v]\n"
     "                             STORE DEST [PATTERN...]",
     "Copies the sidecars that match a PATTERN, or all of them, as 'store add' does.\n"
     "\n"
     "A PATTERN is the beginning of a UUID (8 digits or more), or the file name of an image\n"
     "without its directory, in which *, ? and [...] work as in a shell.\n",
     OPTIONS(store_copy_options), "DEST", 2, OPERANDS_ANY, command_store_export},
    {"store gc", "Remove sidecars from a store that nobody needs any more",
     "[--older-than DAYS] [--keep-list FILE] [--dry-run] DIR [PATTERN...]",
     "At least one of --older-than and --keep-list must be given; with both, only what is\n"
     "older and not listed goes. FILE has a UUID on each line, or its first digits (8 or\n"
     "more); what follows a '#' is ignored. A list with a bad line, or with no UUID at\n"
     "all, is an error, and nothing is removed. With PATTERNs, only what matches one goes.\n"
     "\n"
     "The age of a sidecar is the time since it was added to the store: splitting the same\n"
     "image again does not touch it. So list the UUIDs of what is still in use. Splits may\n"
     "go on meanwhile. What a killed split has left is removed after a day.\n"
     "\n"
     "A PATTERN is the beginning of a UUID (8 digits or more), or the file name of an image\n"
     "without its directory, in which *, ? and [...] work as in a shell.\n",
     OPTIONS(store_gc_options), "DIR", 1, OPERANDS_ANY, command_store_gc},
    {"store list", "List the sidecars of a store", "[--json] DIR [PATTERN...]",
     "The date is the time when the sidecar was added, in UTC. With PATTERNs, only what\n"
     "matches one is listed.\n"
     "\n"
     "A PATTERN is the beginning of a UUID (8 digits or more), or the file name of an image\n"
     "without its directory, in which *, ? and [...] work as in a shell.\n",
     OPTIONS(store_list_options), "DIR", 1, OPERANDS_ANY, command_store_list},
};

/* What `covsplit help` says above a command, and below it. */
static const struct command_note headings[] = {
    {"split", "The three that are used most"}, {"link", "To split and join"},
    {"correlate", "For profiles and reports"}, {"show", "To look at files"},
    {"store", "For stores of sidecars"},
};

static const struct command_note examples[] = {
    {"split", "covsplit split --store sidecars -o app.stripped app"},
    {"merge", "covsplit merge --store sidecars -o app.profdata default.profraw"},
    {"run", "covsplit run --store sidecars -- llvm-cov report app.stripped "
            "-instr-profile=app.profdata"},
};

const struct command_table command_table = {
    .commands = commands,
    .count = sizeof(commands) / sizeof(commands[0]),
    .headings = headings,
    .heading_count = sizeof(headings) / sizeof(headings[0]),
    .examples = examples,
    .example_count = sizeof(examples) / sizeof(examples[0]),
};
