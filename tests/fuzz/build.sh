#!/bin/bash
# Builds the fuzz targets, with dictionaries, options and seed corpora, as OSS-Fuzz wants it:
#
#   $SRC/covsplit              the sources
#   $WORK                      for intermediate files, which the next run of the script uses again
#   $OUT                       gets fuzz_NAME, and fuzz_NAME.dict, .options and _seed_corpus.zip
#   $CC $CFLAGS $CXX $CXXFLAGS compilers, with the options of sanitizers and instrumentation
#   $LIB_FUZZING_ENGINE        what targets are linked with, by $CXX
#
# The seeds are made by the compilers and linkers that are installed, from sources of this project;
# a compiler that is missing only makes the corpus smaller. They are also in $WORK/seeds/NAME.
#
# Usage: build.sh
set -euo pipefail

source=$SRC/covsplit
fuzz=$source/tests/fuzz

cmake -S "$source" -B "$WORK/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCOVSPLIT_TESTS=OFF \
    -DCOVSPLIT_WITH_LIEF=OFF -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="$CFLAGS" \
    -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_FLAGS="$CXXFLAGS" \
    -DCOVSPLIT_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" >"$WORK/configure.log" ||
    { cat "$WORK/configure.log"; exit 1; }
cmake --build "$WORK/build" --target fuzz covsplit >"$WORK/build.log" ||
    { cat "$WORK/build.log"; exit 1; }

# What compilers make changes with the compilers alone, so it is kept.
if [ ! -e "$WORK/seeds/complete" ] || [ -n "$(find "$fuzz/seeds" -newer "$WORK/seeds/complete")" ]; then
    rm -rf "$WORK/seeds"
    mkdir -p "$WORK/seeds"
    for script in "$fuzz"/seeds/*_seeds.sh; do
        COVSPLIT=$WORK/build/split/covsplit "$script" "$WORK/seeds"
    done
    touch "$WORK/seeds/complete"
fi

grep '^[a-z]' "$fuzz/targets.txt" | while read -r name length dictionaries options; do
    # Another run may be running the old one.
    cp --remove-destination "$WORK/build/tests/fuzz/fuzz_$name" "$OUT"
    if [ "$dictionaries" != - ]; then
        for dictionary in ${dictionaries//,/ }; do
            cat "$fuzz/dictionaries/$dictionary.dict"
        done >"$OUT/fuzz_$name.dict"
    fi
    # No input justifies more memory: see common/base/memory_limit.h.
    {
        echo "[libfuzzer]"
        printf '%s = %s\n' max_len "$length" timeout 10 rss_limit_mb 1024 malloc_limit_mb 256
        for option in $options; do
            echo "${option%%=*} = ${option#*=}"
        done
    } >"$OUT/fuzz_$name.options"
    mkdir -p "$WORK/seeds/$name"
    rm -f "$OUT/fuzz_${name}_seed_corpus.zip"
    (cd "$WORK/seeds/$name" && cmake -E tar cf "$OUT/fuzz_${name}_seed_corpus.zip" --format=zip .)
done
