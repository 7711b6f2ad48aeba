# For the scenes of covsplit merge --explain: conflicts that were made on purpose are named, and nothing else is; and LLVM's
# tools, of the version CLANG, do with them what the pages say.
clang=${CLANG:-22}
export LLVM_PROFDATA=llvm-profdata-$clang

# The compilation directory is another one for each command (compile_cache.h).
build() {
    compile $clang -O0 -fcoverage-compilation-dir=/sources -Wl,--build-id=sha1 "$@"
}

# Runs an image into NAME.profraw, and its split image into NAME.light.profraw.
run_both() { # NAME
    covsplit split --store store -o $1.split $1
    LLVM_PROFILE_FILE=$1.profraw ./$1 || true
    LLVM_PROFILE_FILE=$1.light.profraw ./$1.split || true
    present $1.profraw $1.light.profraw
}

merge() {
    covsplit merge -o all.profdata "$@"
}

# explain WORD...: what --explain --json says, as lines in the file told.
explain() {
    merge --explain --json "$@"
    python3 $SUPPORT/explanation.py <"$kept/out" >told
}

# tells_just LINES
tells_just() {
    diff <(printf '%s' "${1:+$1$'\n'}") told
}

# shows FIRST SECOND LINE...: so llvm-cov shows the program, with another one as the second object.
shows() {
    run llvm-cov-$clang show $1 -object $2 -instr-profile=all.profdata -compilation-dir=$PWD
    prints "${@:3}"
}

# One source for two programs: `changed` differs in its control flow, and `same` in its lines alone. `unused` is used in one
# of them only.
cat >library.h <<'END'
static inline int in_header(int x) {
#ifdef SECOND
  if (x > 1) return 5;
#endif
  return x;
}
inline int unused(int x) { return x > 3 ? x : 3; }
END
cat >library.c <<'END'
#include "library.h"
int changed(int x) {
#ifdef SECOND
  if (x) return 3;
#endif
  return in_header(x);
}
int same(int x) {
#ifdef SECOND
  return x + 3;
#else
  return x;
#endif
}
static int own(int x) { return x < 2 ? 7 : x; }
int equal(int x) { return own(x) ? x : 1; }
END
cat >first.c <<'END'
int changed(int), same(int), equal(int);
int main(void) { return changed(0) + same(0) + equal(0); }
END
cat >second.c <<'END'
#include "library.h"
int unused(int);
int changed(int), same(int), equal(int);
int main(void) {
  if (changed(1) == 3) return unused(2) - 3 + same(-3);
  return equal(0);
}
END
build first.c library.c -o first
build -DSECOND second.c library.c -o second
run_both first
run_both second
light="--store store first.light.profraw second.light.profraw"
full="first.profraw second.profraw"
