# For the scenes of unions: llvm-cov's reports from a union are those from all its images, to the byte, in any order of the images,
# whatever they share, wherever they disagree, and whichever of them have run. The version CLANG compiles; its llvm-cov and
# the later ones read.
clang=${CLANG:-22}
all_rounds=$((${COVSPLIT_TEST_PERCENT:-100} >= 100))
images=() # each has its sidecar IMAGE.covsplit

# build WORD...: compiles and links as if in another directory, build_in PLACE WORD...
build() {
    build_in /src "$@"
}

build_in() {
    compile++ $clang -fcoverage-compilation-dir=$1 -Wl,--build-id=sha1 "${@:2}"
}

# add_image NAME: splits an image, which stays as it is, for the union.
add_image() {
    covsplit split -o out --sidecar $1.covsplit $1
    images+=($1)
}

# profile NAME COUNT: runs it with so many arguments; the profile is NAME.profraw.
profile() {
    LLVM_PROFILE_FILE=$1.profraw LD_LIBRARY_PATH=. ./$1 $(yes x | head -$2)
}

# merge PROFILE RAW-PROFILE...
merge() {
    llvm-profdata-$clang merge -o $1.profdata "${@:2}"
}

# Of all images; sets the numbers of records in the union, and before.
export_union() {
    covsplit export --union -v -o all.a ${images[@]/%/.covsplit}
    [[ $(cat "$kept/out") =~ functions:\ +([0-9]+)\ of\ ([0-9]+) ]]
    records_after=${BASH_REMATCH[1]} records_before=${BASH_REMATCH[2]}
}

# With the first version that has them. The first one has all regions and functions, in their order. With -check-binary-ids, each
# build ID in the profile must be that of an image.
reports=("14 export" "14 report"
    "14 show -show-branches=count -show-expansions -show-instantiations -path-equivalence=/src,."
    "14 export -format=lcov" "17 report -check-binary-ids" "17 export -summary-only -check-binary-ids")

# compare_reports VERSION PROFILE COUNT: by so many of them.
compare_reports() {
    local report since words objects
    printf -v objects " -object %s" "${images[@]}"
    for report in "${reports[@]:0:$3}"; do
        read -r since words <<<"$report -instr-profile=$2.profdata"
        [ $1 -ge $since ] || continue
        llvm-cov-$1 $words all.a >found
        llvm-cov-$1 $words ${objects# -object} >expected
        [ $(stat -c %s expected) -gt 100 ]
        diff found expected | head -20
    done
}

# compare_unions SHARED PROFILE...: the reports of the images and of their union, in both orders, with each profile. The union
# must have fewer records than the images by that number at least.
compare_unions() {
    local order version profile count
    for order in forwards backwards; do
        [ $order = forwards ] || images=($(printf '%s\n' "${images[@]}" | tac))
        export_union
        [ $((records_after + $1)) -le $records_before ]
        for version in 14 16 19 22; do
            [ $version -ge $clang ] || continue
            [ $all_rounds = 1 ] || [ $version = $clang ] || [ $version = 22 ] || continue
            for profile in "${@:2}"; do
                count=1
                if [ $all_rounds = 1 ] || [ $version-$profile-$order = $clang-$2-forwards ]; then
                    count=${#reports[@]}
                fi
                compare_reports $version $profile $count
            done
        done
    done
}

# ---- programs of shared sources ----

# write_shared DIRECTORY
write_shared() {
    mkdir -p $1
    cat >$1/shared.h <<'END'
#pragma once
#define PICK(x) ((x) > 2 && (x) < 9 ? (x) : 0)
inline int clamp(int v, int low, int high) {
  if (v < low) return low;
  if (v > high) return high;
  return PICK(v);
}
template <class T> T twice(T x) { return x > T(10) ? x : x + x; }
inline int sometimes(int x) { return x ? 1 : PICK(x); }
inline void nothing() {}
static inline int local(int x) { return x > 3 ? x : -x; }
int shared(int n);
int other(int n);
END
    cat >$1/shared.cc <<'END'
#include "shared.h"
int shared(int n) {
  int s = 0;
  for (int i = 0; i < n; i++)
    s += clamp(i, 2, 5);
  return s;
}
int other(int n) { return n > 1 ? twice(n) : 0; }
END
}

# write_main FILE EXPRESSION
write_main() {
    cat >$1 <<END
#include "shared.h"
int main(int n, char **) {
  return ($2) == 12345;
}
END
}

# build_three OPTION...: what one of them does not call is a dummy there, and a function of another: `sometimes`; and
# `nothing`, whose hash is 0 like that of a dummy.
build_three() {
    local name count=0
    write_shared .
    write_main a.cc "shared(n) + twice(n)"
    write_main b.cc "sometimes(n) + (nothing(), n) + (int)twice(2.5) + local(n)"
    write_main c.cc "n > 1 ? (nothing(), sometimes(n)) : other(n) + local(n)"
    for name in a b c; do
        build "$@" -o $name $name.cc shared.cc
        add_image $name
        profile $name $((count++))
    done
    merge all a.profraw b.profraw c.profraw
    merge one a.profraw
    merge other b.profraw
}
