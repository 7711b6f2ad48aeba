# For the scenes of covsplit compile: what it packs, what it leaves alone, and that it is like the compiler otherwise. The
# compiler is CLANG, "gcc" or a version; what it does not matter for is played with 22 alone.
version=${CLANG:-22}
coverage="-fprofile-instr-generate -fcoverage-mapping"
[[ $version = 22 || ${SCENE##*/} = forms.test ]] || exit 77

# With times that do not differ, since PCHs and modules have those of headers in them.
write_sources() { # DIRECTORY
    mkdir -p $1/out
    cd $1
    cat >a.c <<'END'
static inline int twice(int x) { return x > 5 ? 2 * x : x; }
int b(int);
int main(int count, char **words) { (void)words; return twice(count) + b(1); }
END
    printf '#include "h.h"\nint b(int x) { return half(x); }\n' >b.c
    cat >c.cpp <<'END'
#include "h.h"
template <class T> T more(T x) { return x + 1; }
int c(int x) { return more(half(x)) + more(2L); }
END
    printf '#pragma once\nstatic inline int half(int x) { return x > 1 ? x / 2 : x; }\n' >h.h
    echo 'int odd(void) { return 1; }' >odd.txt
    echo 'int broken( { return 1; }' >broken.c
    printf '.globl plain\nplain: ret\n' >plain.s
    printf 'export module m;\nexport int m(int x) { return x ? x : 1; }\n' >m.cppm
    printf -- "-c \"a.c\"\n-o 'out/an object.o' @nested" >response
    printf -- '-g -DX="1 2"' >nested
    echo >out/note
    touch -d @1000000000 *.* response nested out/note
    cd - >/dev/null
}

# Sources; the object "ordinary", and "packed"; and the script cc, which does what a compiler with -o does, without a
# compiler's time.
write_objects() {
    write_sources .
    compile 22 -c b.c -o ordinary
    cp ordinary packed
    covsplit pack packed
    printf 'ulimit -S -f unlimited\ncp ordinary b.o\n' >cc
}

# signalled SIGNAL START COMMAND...: the command ends by the signal. It is sent to it when there is the file START, if that is
# not "".
signalled() {
    python3 -c '
import os, signal, subprocess, sys, time
signal, start = int(sys.argv[1]), sys.argv[2]
process = subprocess.Popen(sys.argv[3:])
while start and not os.path.exists(start) and process.poll() is None:
    time.sleep(0.02)
if start:
    process.send_signal(signal)
sys.exit(process.wait() != -signal)' "$@"
}
