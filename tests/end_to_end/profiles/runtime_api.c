/*
 * What programs can do with the profile runtime, and what can be told to it: its functions, names
 * of files, files that are there already or cannot be written, processes, libraries, and what
 * compilers and linkers can make. Split images do, say and write the same as those before the
 * split; after `covsplit merge`, the indexed profile is the same to the byte, or both are refused.
 *
 * The table has the images; each row has situations in which its images are run. Other suites have
 * pools under load and their files (pools, pool_files), programs that walk their records
 * (own_records), and profiles cut everywhere (profiles_bad).
 *
 * Usage: runtime_api CLANG LINKER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define SOURCES  COVSPLIT_FIXTURE_DIRECTORY "/runtime_api"
#define IR       "-fprofile-generate"
#define CALLS    "calls.c -ldl -pthread "
#define NOTHING  "nothing.c -c -o nothing.o\nnothing.o -fprofile-instr-generate -o app"
#define RELOCATE "-mllvm -runtime-counter-relocation "
#define LOOKS    "stays: the program looks at its own records"
#define VALUES   "value profiling is on"

/* ---- the table ---- */

/* A script of sh, in an empty directory, with the images in the one above. It begins without
 * LLVM_PROFILE_FILE. */
struct situation {
    const char *what;
    const char *script;
    unsigned profiles;   /* it leaves, whose names differ in more than numbers */
    const char *refused; /* what covsplit says where llvm-profdata takes none; NULL: it does */
    bool is_shared;      /* the only profile has those of several images behind each other */
};

struct image {
    const char *what;
    const char *clangs;          /* words; NULL: all */
    const char *instrumentation; /* NULL: INSTRUMENT_COVERAGE */
    /* Lines of a compiler, each with sources and options, which make OUTPUT by "-o OUTPUT"; or of
     * sh, which begin with "$ ". */
    const char *build;
    const char *stays; /* what split says; NULL: everything goes */
    const struct situation *situations;
};

#define SITUATIONS(...)                                                                            \
    (const struct situation[])                                                                     \
    {                                                                                              \
        __VA_ARGS__, RUN(NULL, NULL, 0)                                                            \
    }

#define RUN(what, script, profiles)                                                                \
    {                                                                                              \
        (what), (script), (profiles), NULL, false                                                  \
    }
#define REFUSED(what, script, profiles, says)                                                      \
    {                                                                                              \
        (what), (script), (profiles), (says), false                                                \
    }
#define RUN_IN_ONE(what, script)                                                                   \
    {                                                                                              \
        (what), (script), 1, NULL, true                                                            \
    }

/* Into a directory of a pool, which is where profiles go. */
#define ENTER "export LLVM_PROFILE_FILE=pool/%m.profraw; "

static const struct image images[] = {
    {"functions of the runtime", NULL, NULL, CALLS "-o app", NULL,
     SITUATIONS(
         RUN("default name", "../app run=3 tell kind", 1),
         RUN("reset, written, written again, and at exit",
             "../app run=3 reset run=2 name=a.profraw write run=4 name=b.profraw write run=1", 2),
         RUN("dumped: nothing more at exit", "../app run=3 dump run=4 dump name=b.profraw", 1),
         RUN("dumped into a pool", "../app name=%m.profraw run=3 dump reset run=4 dump", 1),
         RUN("dumped, then aborted", "../app run=3 dump abort 2>&1; echo $?", 1),
         RUN("ends that write nothing",
             "../app run=3 _exit=4; ../app quick_exit=5; ../app abort 2>&1; echo $?", 0),
         RUN("name told before and after",
             "../app tell name=a/b.profraw tell name= tell initialize tell name=x%m.profraw tell",
             1),
         RUN("name of the environment again",
             "LLVM_PROFILE_FILE=e.profraw ../app name=a.profraw tell name= tell run=3", 1),
         RUN("name of the environment changed later",
             "LLVM_PROFILE_FILE=e.profraw ../app run=1 environment=f.profraw initialize tell run=3",
             1),
         RUN("to a buffer and back",
             "../app run=3 buffer=a.profraw check=a.profraw run=9 buffer=b.profraw reset "
             "merge=a.profraw merge=b.profraw name=c.profraw write check=c.profraw",
             3),
         RUN("buffers that are none",
             "../app run=3 buffer=a.profraw exit=0; head -c 50 a.profraw >cut; : >none; "
             "head -c 4000 /dev/zero >zero; ../app check=cut check=none check=zero run=1",
             2),
         RUN("a file given by the program", "../app run=3 object=o.profraw run=4 write run=2", 1),
         RUN("a file given, to be merged into",
             "for i in 1 2 3; do ../app run=$i object-merged=o.profraw; done", 1),
         RUN("another directory in between",
             "LLVM_PROFILE_FILE=r/%m.profraw ../app run=3 cd=below run=4", 1),
         RUN("directories with a mode",
             "../app mode=700 mkdir=d/e/ name=d/e/g.profraw run=2; stat -c %a d d/e", 1),
         RUN("registered twice", "../app register register run=2", 1))},
    {"names of files", NULL, NULL, CALLS "-o app", NULL,
     SITUATIONS(
         RUN("each pattern",
             "for p in %p h%h %t/t new/dir/d %%x %p%p%p %2m/a %m-b %9mc ./.d; do "
             "LLVM_PROFILE_FILE=$p.profraw ../app run=1 run=4; done; ls -R | wc -l",
             9),
         RUN("of the build", "LLVM_PROFILE_FILE=%b.profraw ../app run=1; ls", 1),
         RUN("a pattern twice",
             "for i in 1 2; do LLVM_PROFILE_FILE=%m%m-$i.profraw ../app run=1; done;"
             " LLVM_PROFILE_FILE=%2m%4m.profraw ../app run=2; true",
             1),
         RUN("unknown ones",
             "for p in %q a%0m b%10m c% %; do LLVM_PROFILE_FILE=$p.profraw ../app run=1; done", 5),
         RUN("no name", "LLVM_PROFILE_FILE= ../app run=5 tell", 1),
         RUN("blanks and others", "LLVM_PROFILE_FILE=' a  b\"$.profraw' ../app run=5 tell", 1),
         RUN("too long", "LLVM_PROFILE_FILE=$(head -c 300 /dev/zero | tr '\\0' x).profraw ../app",
             0),
         RUN("directory that cannot be", ": >f; LLVM_PROFILE_FILE=f/x.profraw ../app run=2", 0),
         RUN("a directory", "mkdir d; LLVM_PROFILE_FILE=d ../app; LLVM_PROFILE_FILE=d/ ../app", 0),
         RUN("all is said",
             "LLVM_PROFILE_VERBOSE=1 LLVM_PROFILE_FILE=v-%m.profraw ../app run=3 tell", 1),
         RUN("said twice",
             "LLVM_PROFILE_VERBOSE=1 LLVM_PROFILE_FILE=e.profraw ../app name=a.profraw "
             "initialize tell dump name=",
             1))},
    {"files that are there", NULL, NULL, CALLS "-o app", NULL,
     SITUATIONS(
         RUN("longer",
             "head -c 99999 /dev/zero >x.profraw; LLVM_PROFILE_FILE=x.profraw ../app run=2", 1),
         RUN("its own", "for i in 1 2; do LLVM_PROFILE_FILE=x.profraw ../app run=$i; done", 1),
         REFUSED("rubbish, before the name is told",
                 "echo rubbish >x.profraw; ../app name=x.profraw run=2", 1, "not a raw profile"),
         RUN("a pool that is empty",
             ENTER "../app run=1; : >$(ls pool/*); ../app run=2; ../app run=3 2>&1", 1),
         REFUSED("a pool of rubbish",
                 ENTER "../app run=1; echo rubbish >$(ls pool/*); ../app run=2", 1,
                 "not a raw profile"),
         REFUSED("a pool cut in its header",
                 ENTER "../app run=1; f=$(ls pool/*); head -c 60 $f >c; mv c $f; ../app run=2", 1,
                 "cut short in its header"),
         RUN("a link", "ln -s there.profraw x.profraw; ../app name=x.profraw run=2", 2),
         RUN("a link into nowhere", "ln -s no/x.profraw x; ../app name=x run=2; rm x", 0),
         RUN("a pipe",
             "mkfifo f; exec 5<>f; LLVM_PROFILE_FILE=f ../app run=2; exec 6<f 5>&-; "
             "cat <&6 >x; test -s x",
             0),
         RUN("devices", "LLVM_PROFILE_FILE=/dev/full ../app run=3; ../app name=/dev/null", 0),
         REFUSED("no room", "LLVM_PROFILE_FILE=x.profraw ../app limit=60 run=3", 1,
                 "cut short in its header"),
         RUN("no room at all", "LLVM_PROFILE_FILE=%m.profraw ../app limit=0 run=3", 0),
         RUN("no room in a pool", ENTER "../app; ../app limit=60 run=3", 1),
         RUN("no descriptors", "LLVM_PROFILE_FILE=x.profraw ../app close run=3", 1),
         RUN("a directory that is gone",
             "mkdir d; cd d; LLVM_PROFILE_FILE=x.profraw ../../app cd=/proc/self run=2", 0))},
    {"processes", NULL, NULL, CALLS "-fprofile-update=atomic -o app", NULL,
     SITUATIONS(
         RUN("a child", "../app run=1 fork run=2 done run=4", 1),
         RUN("a child by its number", "LLVM_PROFILE_FILE=%p.profraw ../app fork run=2 done run=4",
             1),
         RUN("into a pool", "LLVM_PROFILE_FILE=%m.profraw ../app run=1 fork run=2 done run=4", 1),
         RUN("a child that writes and ends",
             "../app run=1 fork name=c.profraw reset run=5 write _exit=6 done reset run=4", 2),
         RUN("a child that aborts", "LLVM_PROFILE_FILE=%p.profraw ../app fork run=2 abort done", 1),
         RUN("a child that becomes another",
             "LLVM_PROFILE_FILE=%m.profraw ../app run=1 fork become=run=9 done run=2", 1),
         RUN("a child before which is dumped", "../app run=1 dump fork run=2 done run=4 2>&1", 1),
         RUN("threads", "LLVM_PROFILE_FILE=%m.profraw ../app threads=4 fork threads=3 done", 1),
         RUN("two at once",
             "for i in 1 2 3 4; do LLVM_PROFILE_FILE=%m.profraw ../app run=$i & done; wait", 1))},
    {"continuously", NULL, NULL, CALLS RELOCATE "-o app", NULL,
     SITUATIONS(
         RUN("named", "LLVM_PROFILE_FILE=%cx.profraw ../app run=1 tell; ls", 1),
         RUN("ends",
             "for e in exit _exit quick_exit abort; do "
             "LLVM_PROFILE_FILE=%c$e.profraw ../app run=1 $e 2>&1; done; echo $?",
             4),
         RUN("reset and written", "LLVM_PROFILE_FILE=%cx.profraw ../app run=1 reset run=2 write",
             1),
         RUN("dumped", "LLVM_PROFILE_FILE=%cx.profraw ../app run=1 dump run=2", 1),
         RUN("to a buffer", "LLVM_PROFILE_FILE=%cx.profraw ../app run=1 buffer=b.profraw", 2),
         RUN("named later", "LLVM_PROFILE_FILE=%cx.profraw ../app name=%cy.profraw tell run=1", 1),
         RUN("begun later", "LLVM_PROFILE_FILE=x.profraw ../app name=%cy.profraw tell run=1", 1),
         RUN("by the program", "LLVM_PROFILE_FILE=x.profraw ../app continuous tell run=1", 1),
         RUN("a file given", "LLVM_PROFILE_FILE=%cx.profraw ../app object=o.profraw run=1 tell", 1),
         RUN("a file given, to be merged into",
             "for i in 1 2; do LLVM_PROFILE_FILE=%cx.profraw ../app object-merged=o.profraw "
             "run=$i; "
             "done",
             2),
         RUN("a child", "LLVM_PROFILE_FILE=%cx.profraw ../app run=1 fork run=2 done run=3", 1),
         RUN("a child, by its number",
             "LLVM_PROFILE_FILE=%c%p.profraw ../app run=1 fork run=2 abort done run=3", 1),
         RUN("a child, in a pool",
             "LLVM_PROFILE_FILE=%c%m.profraw ../app run=1 fork run=2 _exit=1 done run=3", 1),
         RUN("a pool of other names",
             "for i in 1 2 3; do "
             "LLVM_PROFILE_FILE=%m%c.profraw ../app run=$i; done",
             1),
         REFUSED("no room", "../app limit=60 name=%cy.profraw run=3 2>&1", 1,
                 "cut short in its header"),
         RUN("not so", "LLVM_PROFILE_FILE=x.profraw ../app run=1 tell", 1))},
    {"bitmaps", "19 22", NULL, CALLS RELOCATE "-fcoverage-mcdc -o app", NULL,
     SITUATIONS(
         RUN("run, reset, run", "../app run=3 kind reset run=8 run=9", 1),
         RUN("in a pool", "for i in 3 4 8; do LLVM_PROFILE_FILE=%m.profraw ../app run=$i; done", 1),
         RUN("to a buffer and back", "../app run=3 buffer=a.profraw reset run=8 merge=a.profraw",
             2),
         RUN("continuously", "LLVM_PROFILE_FILE=%c%m.profraw ../app run=3 abort 2>&1; true", 1))},
    {"three libraries", NULL, NULL,
     "library.c -shared -fPIC -DFUNCTIONS=1 -o liba.so\n"
     "library.c -shared -fPIC -DFUNCTIONS=2 -o libb.so\n"
     "library.c -shared -fPIC -DFUNCTIONS=3 -o libc.so\n" CALLS "-rdynamic -o app",
     NULL,
     SITUATIONS(RUN("a pool", ENTER "../app load=../liba.so load=../libb.so load=../libc.so", 1),
                RUN("global",
                    ENTER "../app load-global=../liba.so load-global=../libb.so "
                          "load-global=../libc.so",
                    1),
                RUN("unloaded",
                    ENTER
                    "../app load=../liba.so load=../libb.so unload=0 load=../libc.so unload=1 "
                    "load=../liba.so unload=3 unload=2",
                    1),
                RUN_IN_ONE("one name for all",
                           "../app load=../liba.so load=../libb.so load=../libc.so run=5 tell"),
                RUN("one name, unloaded", "../app load=../liba.so unload=0 _exit=0", 1),
                RUN("children",
                    ENTER "../app load=../liba.so fork load=../libb.so unload=0 done "
                          "load=../libc.so",
                    1),
                RUN("all is said",
                    ENTER "LLVM_PROFILE_VERBOSE=1 ../app load=../liba.so load=../libb.so", 1))},
    {"libraries of a program without coverage", NULL, "",
     "library.c -shared -fPIC -DFUNCTIONS=2 -DNAME=left_run " INSTRUMENT_COVERAGE " -o libleft.so\n"
     "library.c -shared -fPIC -DFUNCTIONS=2 -DNAME=right_run " INSTRUMENT_COVERAGE
     " -o libright.so\n"
     "plain_main.c libleft.so libright.so -o app",
     "no coverage",
     SITUATIONS(RUN("a pool", ENTER "../app; ../app 2", 1),
                RUN_IN_ONE("one name for all", "../app"))},
    {"libraries with names of files", NULL, "-fcoverage-mapping",
     "library.c -shared -fPIC -DFUNCTIONS=1 -fprofile-instr-generate=a.profraw -o liba.so\n"
     "library.c -shared -fPIC -DFUNCTIONS=2 -fprofile-instr-generate=b%m.profraw -o libb.so\n" CALLS
     "-fprofile-instr-generate=in/c.profraw -o app",
     NULL,
     SITUATIONS(RUN("all", "../app load=../liba.so load=../libb.so run=3 tell", 3),
                RUN("the environment's", ENTER "../app load=../liba.so load=../libb.so run=3", 1))},
    {"a name in the program", NULL, NULL, CALLS "own_name.c -o app", NULL,
     SITUATIONS(
         RUN("its own", "../app run=3 tell; ../app run=4", 1),
         RUN("the environment's", "LLVM_PROFILE_FILE=x.profraw ../app run=3 tell name=", 1))},
    {"a hook of the program's", NULL, NULL, "own_hook.c -o app\nown_hook.c -DWITHOUT_FILES -o bare",
     NULL, SITUATIONS(RUN("its own file", "../app; ../bare b.profraw", 2))},
    {"bounds passed by the program", "14 16", NULL, "own_bounds.c -o app", LOOKS,
     SITUATIONS(RUN("written", "../app a.profraw", 2))},
    {"bounds passed by the program, with a bitmap", "19 22", NULL,
     "own_bounds.c -DWITH_BITMAP -fcoverage-mcdc -o app", LOOKS,
     SITUATIONS(RUN("written", "../app a.profraw", 2))},
    {"no function, and then no profile", "14", "", NOTHING, "no coverage",
     SITUATIONS(RUN("run", "../app", 0))},
    {"no function", "16 19 22", "", NOTHING, "no coverage", SITUATIONS(RUN("run", "../app", 1))},
    {"functions that are left out", "16 19 22", NULL, CALLS "-fprofile-list=some.list -o app", NULL,
     SITUATIONS(RUN("run", "../app run=1 run=4", 1))},
    {"functions that are left out, by an older list", "14", NULL,
     CALLS "-fprofile-list=some14.list -o app", NULL,
     SITUATIONS(RUN("run", "../app run=1 run=4", 1))},
    {"promoted counters", NULL, NULL, "loops.c -O2 -mllvm -do-counter-promotion=true -o app", NULL,
     SITUATIONS(RUN("run", "../app; ../app 'a b c'; echo $?; ../app 'a !'", 1),
                RUN("in a pool", ENTER "../app; ../app 'a b c'; ../app 'a !'", 1))},
    {"promoted counters, relocated and atomic", NULL, NULL,
     "loops.c -O2 -mllvm -do-counter-promotion=true -fprofile-update=atomic " RELOCATE "-o app",
     NULL, SITUATIONS(RUN("continuously", "LLVM_PROFILE_FILE=%cx.profraw ../app 'a b'", 1))},
    {"IR PGO", NULL, IR, CALLS "-mllvm -disable-vp=true -o app", NULL,
     SITUATIONS(RUN("default name", "../app run=3 tell kind; ../app run=1", 1),
                RUN("functions",
                    "../app run=3 buffer=a.profraw reset merge=a.profraw run=4 "
                    "name=b.profraw dump",
                    2))},
    {"IR PGO with values", NULL, IR, CALLS "-o app", VALUES,
     SITUATIONS(
         RUN("default name", "../app run=3 tell; ../app run=1", 1),
         RUN("functions", "../app run=3 reset run=4 name=b.profraw dump", 1),
         REFUSED("to a buffer, which lacks the values",
                 "../app run=3 buffer=a.profraw check=a.profraw _exit=3", 1,
                 "__llvm_profile_write_buffer; let it write a file"),
         RUN("an object", "for i in 1 2; do ../app run=$i object-merged=o.profraw; done", 1))},
    {"CS PGO", NULL, "",
     "loops.c -O2 -fprofile-generate -o first\n"
     "$ LLVM_PROFILE_FILE=a.profraw ./first 1 >out; llvm-profdata-$clang merge -o a.data "
     "a.profraw\n"
     "loops.c -O2 -mllvm -disable-vp=true -fprofile-use=a.data -fcs-profile-generate -o app",
     NULL, SITUATIONS(RUN("run", "../app 'a b'; ../app c", 1))},
    {"timestamps", "19 22", IR,
     "loops.c -mllvm -disable-vp=true -mllvm -pgo-temporal-instrumentation -o app", NULL,
     SITUATIONS(RUN("run", "../app 'a b'; ../app c", 1),
                RUN("runs", "for i in 1 2; do LLVM_PROFILE_FILE=%p.profraw ../app c; done", 1))},
    {"entries covered", NULL, IR, CALLS "-mllvm -pgo-function-entry-coverage -o app", NULL,
     SITUATIONS(RUN("reset", "../app run=3 reset run=1 kind", 1),
                RUN("in a pool", ENTER "../app run=1; ../app run=4", 1))},
    {"blocks covered", "19 22", IR, "loops.c -mllvm -pgo-block-coverage -o app", NULL,
     SITUATIONS(RUN("in a pool", ENTER "../app 'a b'; ../app 'c !'", 1))},
    {"regions covered", "19 22", NULL, CALLS "-mllvm -enable-single-byte-coverage=true -o app",
     NULL,
     SITUATIONS(RUN("reset", "../app run=3 reset run=1 kind", 1),
                RUN("to a buffer and back",
                    "../app run=3 buffer=a.profraw reset run=8 merge=a.profraw", 2))},
    {"samples", "22", IR,
     "loops.c -O2 -mllvm -disable-vp=true -mllvm -sampled-instrumentation "
     "-mllvm -sampled-instr-period=100 -mllvm -sampled-instr-burst-duration=10 -o app",
     NULL, SITUATIONS(RUN("run", "../app 'a b'", 1))},
    {"order of functions", "14 16 19", NULL, "loops.c -DORDER -forder-file-instrumentation -o app",
     NULL,
     SITUATIONS(RUN("run", "LLVM_PROFILE_FILE=x.profraw ../app 'a b'; cksum x.profraw.order", 1))},
    {"groups of functions", "16 19 22", NULL,
     CALLS "-fprofile-function-groups=3 -fprofile-selected-function-group=1 -o app", NULL,
     SITUATIONS(RUN("run", "../app run=1 run=4", 1))},
    {"C++ in two units", NULL, NULL, "shapes_one.cc shapes_two.cc -O0 -o app", NULL,
     SITUATIONS(RUN("run", "../app; ../app 1 2 3", 1))},
    {"before main and after it", NULL, NULL, "early.cc -std=c++17 -o app", NULL,
     SITUATIONS(RUN("default name", "../app", 1), RUN("written before the end", ENTER "../app", 1),
                RUN("an exception that nobody catches", "../app 1 2>&1; echo $?", 0))},
    {"one unit of two", NULL, "",
     "shapes_two.cc -c -o two.o\n"
     "shapes_one.cc two.o " INSTRUMENT_COVERAGE " -o app",
     NULL, SITUATIONS(RUN("run", "../app; ../app 1 2 3", 1))},
    /* Not in a pool: functions in both have two records and one array of counters, to which LLVM's
     * merging then adds twice; with the record of a split image it adds once. */
    {"units of coverage and of IR PGO", NULL, "",
     "shapes_two.cc -c " IR " -mllvm -disable-vp=true -o two.o\n"
     "shapes_one.cc two.o " INSTRUMENT_COVERAGE " -o app",
     NULL, SITUATIONS(RUN("run", "LLVM_PROFILE_FILE=x.profraw ../app", 1))},
    {"classes profiled", "19 22", IR,
     "shapes_one.cc shapes_two.cc -O2 -mllvm -enable-vtable-value-profiling=true -o app", VALUES,
     SITUATIONS(RUN("run", "../app; ../app 1 2 3", 1),
                RUN("in a pool", ENTER "../app; ../app 1", 1))},
    {"LTO", "14 19 22", NULL,
     "shapes_one.cc shapes_two.cc unused.c -O2 -flto -o app\n"
     "shapes_one.cc shapes_two.cc -O2 -flto=thin -Wl,--gc-sections -o thin\n"
     "shapes_one.cc shapes_two.cc -O2 -flto -static -o static",
     NULL,
     SITUATIONS(
         RUN("run", "for i in app thin static; do LLVM_PROFILE_FILE=$i.profraw ../$i; done", 3))},
    {"LTO of a program that refers to its records", "14 19 22", NULL,
     "shapes_one.cc shapes_two.cc -DREFERS -O2 -flto -o app", "refers to",
     SITUATIONS(RUN("run", "../app", 1))},
    {"static", NULL, NULL, "shapes_one.cc shapes_two.cc -static -o app", NULL,
     SITUATIONS(RUN("run", ENTER "../app 1", 1))},
    {"unused functions", NULL, NULL,
     "loops.c unused.c -ffunction-sections -fdata-sections -Wl,--gc-sections -o app", NULL,
     SITUATIONS(RUN("run", "../app 1; ../app '1 !'", 1))},
    {"linked in two steps", NULL, NULL,
     "loops.c unused.c -r -nostdlib -o part.o\npart.o -fprofile-generate -o app", NULL,
     SITUATIONS(RUN("run", "../app 1; ../app '1 !'", 1))},
};

/* ---- a row ---- */

static const char *clang_version, *linker_name;
static char *place; /* with a directory for each kind */

static const char *const kinds[] = {"original", "split"};

#define KINDS 2

/* Copies the sources that the line names. */
static void copy_sources(const char *line)
{
    struct text_list names = directory_list(SOURCES);
    for (size_t i = 0; i < names.count; i++) {
        if (strstr(line, names.items[i]) != NULL) {
            file_copy(path_join(SOURCES, names.items[i]),
                      text_format("%s/original/%s", place, names.items[i]));
        }
    }
    if (strstr(line, ".cc") != NULL) {
        file_copy(SOURCES "/shapes.h", text_format("%s/original/shapes.h", place));
    }
}

static void build_line(const struct image *image, const char *line)
{
    const char *directory = path_join(place, "original");
    const char *compiler = strstr(line, ".cc ") != NULL ? "clang++" : "clang";
    if (strncmp(line, "$ ", 2) == 0) {
        run_or_abort(directory, "sh", "-c",
                     text_format("clang=%s; %s; true", clang_version, line + 2), NULL);
        return;
    }
    copy_sources(line);
    struct command command = command_words(
        directory, "%s -O1 -w -fuse-ld=%s -Wl,--build-id=sha1 -Wl,-rpath,$ORIGIN %s %s",
        versioned_tool(compiler, clang_version), linker_name,
        image->instrumentation != NULL ? image->instrumentation : INSTRUMENT_COVERAGE, line);
    command_run_or_abort(&command);
}

/* What the line makes; NULL: no image. */
static const char *image_of(const char *line)
{
    struct text_list words = {0};
    text_list_add_words(&words, line);
    for (size_t i = 0; i + 1 < words.count && strcmp(words.items[0], "$") != 0; i++) {
        if (strcmp(words.items[i], "-o") == 0 && strstr(words.items[i + 1], ".o") == NULL) {
            return words.items[i + 1];
        }
    }
    return NULL;
}

static void build_and_split(const struct image *image)
{
    struct text_list lines = text_list_of_lines(image->build);
    const char *errors = "";
    for (size_t i = 0; i < lines.count; i++) {
        const char *name = image_of(lines.items[i]);
        build_line(image, lines.items[i]);
        if (name != NULL) {
            struct outcome outcome = covsplit_run_words(
                place, 0, text_format("split --store store -o split/%s original/%s", name, name));
            errors = text_format("%s%s", errors, outcome.errors);
        }
    }
    ck_assert_msg(image->stays != NULL ? strstr(errors, image->stays) != NULL
                                       : strstr(errors, "covsplit: ") == NULL,
                  "%s: %s", image->what, errors);
}

/* ---- a situation ---- */

/* Numbers of so many digits are of processes, or of a build: "%m" has them. */
#define ACCIDENTAL_DIGITS 5

static char *without_digits(const char *text, size_t least)
{
    char *result = text_format("%s", text), *to = result;
    while (*text != '\0') {
        size_t digits = strspn(text, "0123456789");
        if (digits >= least) {
            *to++ = '#';
        } else {
            digits = digits != 0 ? digits : 1;
            memcpy(to, text, digits);
            to += digits;
        }
        text += digits;
    }
    *to = '\0';
    return result;
}

static char *directory_of(const char *kind, const char *number)
{
    return text_format("%s/%s/%s", place, kind, number);
}

/* What the script says, and how it ends. */
static const char *run_script(const char *kind, const char *number, const char *script)
{
    struct command command = {.directory = directory_of(kind, number)};
    directory_create(command.directory);
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add_format(&command.arguments, "unset LLVM_PROFILE_FILE; TMPDIR=.; export TMPDIR; %s",
                         script);
    struct outcome outcome = command_run(&command);
    ck_assert(!outcome.timed_out);
    return without_digits(text_format("%s---\n%s---\n%d %d", outcome.output, outcome.errors,
                                      outcome.exit_code, outcome.signal),
                          ACCIDENTAL_DIGITS);
}

/* The files below place/KIND/NUMBER, by names in it. */
static void add_files(const char *kind, const char *number, const char *below,
                      struct text_list *files)
{
    const char *directory = directory_of(kind, number);
    struct text_list names = directory_list(path_join(directory, below));
    for (size_t i = 0; i < names.count; i++) {
        const char *name = path_join(below, names.items[i]);
        if (S_ISDIR(file_status(path_join(directory, name)).st_mode)) {
            add_files(kind, number, name, files);
        } else {
            text_list_add(files, name);
        }
    }
}

/* Those that are named alike, but for numbers, in the order of their sizes: what LLVM 14 makes of
 * profiles depends on their order. */
static struct text_list group_of(const struct text_list *files, const char *directory,
                                 const char *group)
{
    struct text_list found = {0};
    for (size_t i = 0; i < files->count; i++) {
        if (strcmp(without_digits(files->items[i], 1), group) == 0) {
            text_list_add_format(&found, "%s/%s", directory, files->items[i]);
        }
    }
    for (size_t i = 1; i < found.count; i++) {
        for (size_t j = i; j > 0 && file_size(found.items[j]) < file_size(found.items[j - 1]);
             j--) {
            char *name = found.items[j];
            found.items[j] = found.items[j - 1];
            found.items[j - 1] = name;
        }
    }
    return found;
}

/* Merges the profiles with llvm-profdata or covsplit. What LLVM 14 makes of several files also
 * depends on the number of its threads; covsplit gives it one file. */
static struct outcome merge(const char *kind, const struct text_list *profiles)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    struct command command = strcmp(kind, "split") == 0
                                 ? covsplit_words(place, "merge --store store --llvm-profdata")
                                 : command_words(place, "%s merge -num-threads=1", profdata);
    if (strcmp(kind, "split") == 0) {
        text_list_add(&command.arguments, profdata);
    }
    text_list_add(&command.arguments, "-o");
    text_list_add_format(&command.arguments, "%s.profdata", kind);
    for (size_t i = 0; i < profiles->count; i++) {
        text_list_add(&command.arguments, profiles->items[i]);
    }
    return command_run(&command);
}

/* Of several profiles in one file, LLVM 16 keeps the build ID of one. */
static void forget_build_ids(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        const char *file = text_format("%s.profdata", kinds[i]);
        run_or_abort(place, versioned_tool("llvm-profdata", clang_version), "merge", "-text", "-o",
                     "text", file, NULL);
        ck_assert_int_eq(rename(path_join(place, "text"), path_join(place, file)), 0);
    }
}

/* Those of the original images and those of the split ones: both make the same indexed profile, or
 * are refused, by covsplit with that text. */
static void check_profiles(const struct text_list profiles[KINDS],
                           const struct situation *situation, const char *label)
{
    struct outcome outcomes[KINDS];
    for (size_t i = 0; i < KINDS; i++) {
        remove(text_format("%s/%s.profdata", place, kinds[i]));
        outcomes[i] = merge(kinds[i], &profiles[i]);
    }
    if (situation != NULL && situation->refused != NULL) {
        ck_assert_msg(!outcome_exited(&outcomes[0], 0), "%s: is taken", label);
        ck_assert_msg(outcome_exited(&outcomes[1], 1) &&
                          strstr(outcomes[1].errors, situation->refused) != NULL,
                      "%s: %s", label, outcomes[1].errors);
        return;
    }
    for (size_t i = 0; i < KINDS; i++) {
        ck_assert_msg(outcome_exited(&outcomes[i], 0), "%s: %s", label, outcomes[i].errors);
    }
    if (situation != NULL && situation->is_shared && strcmp(clang_version, "16") == 0) {
        forget_build_ids();
    }
    files_assert_equal(path_join(place, "original.profdata"), path_join(place, "split.profdata"),
                       label);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the files, a line each, without numbers, and whether they are empty. Those of
 * profiles, which are not, are added to the groups. */
static const char *describe_files(const struct text_list *files, const char *directory,
                                  struct text_list *groups)
{
    struct text_list names = {0};
    const char *text = "";
    for (size_t i = 0; i < files->count; i++) {
        const char *name = without_digits(files->items[i], 1);
        bool is_empty = file_size(path_join(directory, files->items[i])) == 0;
        text_list_add_format(&names, "%s%s\n", name, is_empty ? " (empty)" : "");
        if (!is_empty && strcmp(strrchr(name, '.'), ".profraw") == 0 &&
            !text_list_contains(groups, name)) {
            text_list_add(groups, name);
        }
    }
    if (names.count != 0) {
        qsort(names.items, names.count, sizeof *names.items, compare_names);
    }
    for (size_t i = 0; i < names.count; i++) {
        text = text_format("%s%s", text, names.items[i]);
    }
    return text;
}

/* Merging takes longer than all else: where not everything is asked for, the profiles of an image
 * are collected, and merged together in the end. */
static void check_situation(const struct situation *situation, const char *number,
                            struct text_list collected[KINDS], const char *label)
{
    const char *found[KINDS];
    struct text_list files[KINDS] = {{0}}, groups = {0};
    label = text_format("%s, %s", label, situation->what);
    for (size_t i = 0; i < KINDS; i++) {
        const char *said = run_script(kinds[i], number, situation->script);
        add_files(kinds[i], number, ".", &files[i]);
        found[i] = text_format("%s\n%s", text_replace(said, kinds[i], "KIND"),
                               describe_files(&files[i], directory_of(kinds[i], number), &groups));
    }
    ck_assert_msg(strcmp(found[0], found[1]) == 0, "%s:\n%s\nafter the split:\n%s", label, found[0],
                  found[1]);
    ck_assert_msg(groups.count == situation->profiles, "%s: %zu profiles:\n%s", label, groups.count,
                  found[0]);
    for (size_t i = 0; i < groups.count; i++) {
        struct text_list group[KINDS];
        for (size_t j = 0; j < KINDS; j++) {
            group[j] = group_of(&files[j], directory_of(kinds[j], number), groups.items[i]);
        }
        if (situation->refused != NULL || rounds_are_all()) {
            check_profiles(group, situation, text_format("%s, %s", label, groups.items[i]));
            continue;
        }
        for (size_t j = 0; j < KINDS; j++) {
            text_list_add_all(&collected[j], (const char *const *)group[j].items);
        }
    }
}

static bool is_for_clang(const struct image *image)
{
    struct text_list words = {0};
    text_list_add_words(&words, image->clangs != NULL ? image->clangs : clang_version);
    return text_list_contains(&words, clang_version);
}

START_TEST(test_image)
{
    const struct image *image = &images[_i];
    struct text_list collected[KINDS] = {{0}};
    if (!is_for_clang(image)) {
        return;
    }
    place = scratch_create("runtime-api");
    for (size_t i = 0; i < KINDS; i++) {
        directory_create(path_join(place, kinds[i]));
    }
    build_and_split(image);
    for (size_t i = 0; image->situations[i].what != NULL; i++) {
        check_situation(&image->situations[i], text_format("%zu", i), collected, image->what);
    }
    if (collected[0].count != 0) {
        check_profiles(collected, NULL, image->what);
    }
}
END_TEST

#define COUNT (int)(sizeof images / sizeof *images)

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *test_case = suite_case("images", 300, NULL);
    for (int i = 0; i < COUNT; i++) {
        if (rounds_are_all() || (i % 2 == 0) == (strcmp(clang_version, "22") == 0)) {
            tcase_add_loop_test(test_case, test_image, i, i + 1);
        }
    }
    return suite_main(text_format("runtime API clang-%s %s", clang_version, linker_name),
                      test_case);
}
