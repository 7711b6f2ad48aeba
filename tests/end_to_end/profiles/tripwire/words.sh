# For the scenes of the tripwire: whoever reads a lightweight profile or a stripped image without its sidecar gets an error that says so,
# never a coverage of zero; with the sidecar everything is as it was. (That the profiles have just this tripwire and no byte more
# is shown by the suites that compare images.)
source "$SUPPORT/application.sh"
clang=${CLANG:-22} number=0
export DEBUGINFOD_URLS= LLVM_PROFDATA=llvm-profdata-$clang

# refuses REASONS TOOL WORD...: LLVM's tool fails, for one of the reasons.
refuses() {
    exits 1 run $2-$clang "${@:3}" 2>/dev/null
    grep -iE "$1" "$kept/err" >"$kept/grepped" || fail "not for '$1': $(cat "$kept/err")"
}
no_zlib_stream="failed to uncompress data"

# variant PATTERN PARAMETER...: a small program that is built with both linkers, or with one where not everything is asked for, and in
# turns by compilers if it is for all; split and run. The pattern is that of the profiles' names; $sections is for --sections.
# $all_stays: it would read as zero without what was not to go. $keeps_records: %m gives other names than for the unsplit images all
# the same. $no_coverage: nothing for llvm-cov.
variant() {
    for linker in bfd lld; do
        if { [ -n "${only-}" ] || chosen $((number / 2 + (clang == 16 || clang == 22))) 2; } &&
            chosen $((number + number / 2 + number / 4)) 2; then
            echo "$linker $*"
            rm -rf "$kept/work/variant"
            mkdir "$kept/work/variant"
            cd "$kept/work/variant"
            options="--store store ${sections:+--sections $sections}" application "${@:2}" functions=40
            check_variant "$@"
        fi
        number=$((number + 1))
    done
}

takes() { # SECTION
    [ -z "${sections-}" ] || [[ $sections == *$1* ]]
}

# Which names stay in a static image can be a matter of what is in the C library.
stay_by_chance() {
    "$SUBJECT" stay-by-chance . original/program said >"$kept/chance" 2>&1
}

check_variant() { # PATTERN PARAMETER...
    local kind run original split
    if [ -n "${all_stays-}" ]; then
        grep "__llvm_covfun stays: __llvm_covmap stays" said
        grep "__llvm_prf_data stays: the names stay" said
    fi
    for kind in original split; do
        for run in 1 2 3; do
            LLVM_PROFILE_FILE=profiles-$kind/$1.profraw exits 3 $kind/program $run >/dev/null 2>&1
        done
    done
    original=$(profiles_in profiles-original)
    split=$(profiles_in profiles-split)
    # Which of the files of a pool are written is a matter of process numbers.
    [[ $1 == *2* ]] || is $(wc -w <<<"$split") $(wc -w <<<"$original")
    [ -z "${keeps_records-}" ] || [ "$(names profiles-original)" != "$(names profiles-split)" ]
    llvm-profdata-$clang merge -o expected.profdata $original
    # Names that stay are in the profiles, which merge with the others then.
    if takes names && ! { [[ $* == *kind=static* ]] && stay_by_chance; }; then
        profiles_are_refused "$original" "$split"
    fi
    if takes covmap && [ -z "${no_coverage-}" ]; then
        images_are_refused
    fi
    with_sidecars "$split"
}

profiles_are_refused() { # ORIGINAL SPLIT
    local profile
    for profile in $2; do
        refuses "$no_zlib_stream" llvm-profdata show $profile
        refuses "$no_zlib_stream" llvm-profdata merge -o x $profile
        refuses "$no_zlib_stream" llvm-profdata merge -o x $1 $profile
        strings -n 20 $profile | grep ": use covsplit merge\$"
    done
    absent x
}

images_are_refused() {
    local image words
    for image in $(ls split); do
        for words in report show export "export -format=lcov"; do
            refuses "unsupported coverage format version|no coverage data found|$no_zlib_stream" llvm-cov $words \
                -instr-profile=expected.profdata split/$image
        done
    done
}

# With the sidecars everything is what it is without a split.
with_sidecars() { # SPLIT
    local image
    covsplit merge --store store -o merged.profdata $1
    same merged.profdata expected.profdata
    [ -z "${no_coverage-}" ] || return 0
    for image in $(ls split); do
        llvm-cov-$clang export -instr-profile=expected.profdata original/$image >expected
        covsplit run --store store -- llvm-cov-$clang export -instr-profile=expected.profdata split/$image >found
        same found expected
    done
}
