# For the scenes of reports: each says something about all that it was given. What is reported is compared with llvm-cov and
# the unsplit images of one build.
flags="-O1 -fprofile-instr-generate -fcoverage-mapping"
tools="--llvm-cov llvm-cov-19 --llvm-profdata llvm-profdata-19"

build() {
    clang-19 $flags -Wl,--build-id "$@"
}

# split IMAGE [OUT]: into the store
split() {
    covsplit split --store store -o "${2:-$1}" $1 2>/dev/null
}

# build_split SOURCE... NAME: the unsplit image is NAME.un.
build_split() {
    local name=${*: -1}
    build "${@:1:$#-1}" -o $name
    cp $name ${name##*/}.un
    split $name
}

# run_to DIRECTORY PROGRAM: which writes its profile there; play PROGRAM for profiles/, play_full for full/
run_to() {
    LLVM_PROFILE_FILE=$1/%m.profraw ./$2
}

play() {
    run_to profiles $1
}

play_full() {
    run_to full $1
}

report() {
    covsplit report --store store $tools "$@"
}

# counts FILE: lines and counts of each source in a tracefile, by file names alone, in one order.
counts() {
    sed -n 's|^SF:.*/|SF:|; /^SF:/{h}; /^DA:/{G; s/\n/ /; p}' $1 | sort
}

# is_truth IMAGES WORD...: the report has the counts that llvm-cov has for the profiles in full/ and these unsplit images.
is_truth() {
    llvm-profdata-19 merge -o truth.profdata full/*
    llvm-cov-19 export -format=lcov -instr-profile=truth.profdata $1 >truth
    report --format lcov "${@:2}" >found
    counts truth >truth.counts
    grep -q DA: truth.counts
    diff truth.counts <(counts found)
}

# is_kind WORD WHAT SAYS OPERANDS [IMAGES]: what is left out for this reason (SAYS) is named in each form of the report that
# has a place for it, and is an error in verdicts unless --ignore has the word. The table of statuses in docs/guide.md is
# made here.
is_kind() {
    local word=$1 what=$2 says=$3 operands=$4 images=${5-} ignored=() other=empty form number
    local row="| \`$word\` | $what |"
    for verdict in "" "--fail-under lines=1"; do
        for ignore in "" "--ignore $word"; do
            status=0
            report $verdict $ignore $operands || status=$?
            row+=" $status |"
        done
    done
    grep -F -e "$row" $SHARE/../docs/guide.md || fail "docs/guide.md lacks this row of its table: $row"
    # They take turns with the kinds, unless everything is asked for.
    [ $word != missing ] || ignored=(--ignore missing)
    number=${#word}
    for form in "" --summary --show-missing-lines "--format json" "--format summary" "--format cobertura" \
        "--format markdown" "--format lcov" "--format text" "--html pages"; do
        number=$((number + 1))
        [ "${COVSPLIT_TEST_PERCENT:-100}" -ge 100 ] || [ $((number % 3)) = 0 ] || continue
        report $form "${ignored[@]}" $operands
        is "$(grep -cF -e "$says" "$kept/err")" 1
        case $form in
            *lcov | *text) ;;
            --html*) grep -rh "left out" pages ;;
            *) prints "left out" ;;
        esac
    done
    [ -z "$images" ] || is_truth "$images" --ignore $word $operands
    # So does a verdict by a baseline, of what is in either of the two.
    exits 1 report --baseline $operands $operands
    says "error: "
    report --baseline $operands --ignore $word $operands
    # Other words do not help.
    [ $word != empty ] || other=missing
    exits 1 report --fail-under lines=1 --ignore $other $operands
}
