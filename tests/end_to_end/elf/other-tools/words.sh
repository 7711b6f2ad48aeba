# For the scenes of what packagers do to images: tools that strip, shrink or change them, on the image before the split and on the
# stripped one after it. Either way the program does the same as one that was only treated with the tool, and so do reports;
# the tool has nothing more to say; and nothing is joined that the split has not written. Nor do tools that only read images
# find anything wrong with a stripped one that is not wrong with the image as it was linked. CLANG makes the images.
clang=${CLANG:-22}

# What linkers make for different purposes, and of different sizes: LINKER KIND FUNCTIONS COMPILER'S-OPTION LINKER'S-OPTIONS,
# "-" for none.
kinds=(
    "bfd shared 0 -gdwarf-4 -g"
    "lld shared 0 -gdwarf-4 -g"
    "gold shared 0 -gdwarf-4 -g"
    "mold shared 0 -gdwarf-4 -g"
    "lld pie 0 - "
    "lld no-pie 300 - "
    "bfd pie 20 - "
    "bfd pie 0 -gdwarf-4 -g -Wl,--emit-relocs"
    "lld static 0 - "
    "bfd static 300 -gdwarf-4 -g"
    "mold static-pie 0 - "
    "lld pie 1000 - -Wl,-z,now"
    "rustc pie 400 - "
)
pie_kind=4 retained_kind=7 rust_kind=12

# ---- images ----

# A program in Rust that does what those in C do: calls functions, and ends with 3.
make_rust() { # FUNCTIONS
    for ((i = 0; i < $1; i++)); do
        printf '#[inline(never)]\nfn function_%u_with_a_name_that_is_%u_long(n: usize) -> usize {\n' $i $((i * 7919))
        printf '    if n > %u { n / 2 } else { n + %u }\n}\n' $((i % 5)) $i
    done >main.rs
    (
        printf 'fn main() {\n    let n = std::env::args().len();\n    let mut sum = 0;\n'
        for ((i = 0; i < $1; i++)); do
            printf '    sum += function_%u_with_a_name_that_is_%u_long(n);\n' $i $((i * 7919))
        done
        printf '    println!("{}", sum.to_string().to_uppercase());\n    std::process::exit(3);\n}\n'
    ) >>main.rs
    rustc -O -g -C instrument-coverage -C link-arg=-Wl,--build-id=sha1 -o program main.rs
}

# Whether rustc is there, and of the same LLVM as clang: its images have the profiles of its own.
has_rust() {
    [[ $(rustc -vV 2>/dev/null) == *"LLVM version: $clang."* ]]
}

# place KIND: goes to a new directory with the images of a kind in plain/, and again in treated/, for the tool alone. What covsplit
# makes will be in split/. Sets $images, $emulator and, of a static image, what may stay in it.
place() {
    local linker kind functions compile link
    read -r linker kind functions compile link <<<"$1"
    [ $compile != - ] || compile=
    rm -rf "$kept/work/place"
    mkdir -p "$kept/work/place/"{plain,treated,split}
    cd "$kept/work/place/plain"
    if [ $linker = rustc ]; then
        once "rust-$(version_of "$(command -v rustc)")$functions" make_rust $functions
    else
        subject program clang=$clang linker=$linker kind=$kind functions=$functions "compile=$compile" "link=$link"
    fi
    cd ..
    images=program emulator=
    [ $kind != shared ] || images="program libsecond.so"
    # There may be what looks like a reference in the C library's code.
    [[ $kind == static* ]] && may_stay=1 || may_stay=0
    copy plain treated
}

copy() { # FROM TO
    local image
    mkdir -p $2
    for image in $images; do
        cp $1/$image $2
    done
}

# split FROM: into split/; what is said is in `errors`.
split() {
    local image
    : >errors
    for image in $images; do
        covsplit split --store sidecars -o split/$image $1/$image 2>>errors
    done
}

# treat DIRECTORY COMMANDS: says what the tools say; false if one of them takes no such image.
treat() {
    local image
    for image in $images; do
        (cd $1 && bash -ec "${2//IMAGE/$image}" 2>&1) || return
    done
}

# no_new_line EXPECTED FOUND: no line is among those found and not among those expected.
no_new_line() {
    not grep -vxFf $1 $2
}

# ---- runs ----

# The program of a directory, whose profiles go to PROFILES there, or nowhere for "none".
play() { # DIRECTORY PROFILES
    local profile=$1/$2/%m.profraw
    [ $2 != none ] || profile=/dev/null/none
    LLVM_PROFILE_FILE=$profile $emulator $1/program >$1.out 2>$1.err
}

same_runs() { # PROFILES
    exits 3 play treated $1
    exits 3 play split $1
    same treated.out split.out
    same treated.err split.err
}

# Whether notes are not as far from the ELF header in memory as in the file.
has_lost_notes() { # DIRECTORY
    local image type offset address rest start distances distance
    for image in $images; do
        start=-1 distances=
        while read -r type offset address rest; do
            case $type in
                LOAD) ((start >= 0 && start <= address)) || start=$((address)) ;;
                NOTE) distances+=" $((address - offset))" ;;
            esac
        done <<<"$(readelf -lW $1/$image)"
        for distance in $distances; do
            [ $distance = $start ] || return 0
        done
    done
    return 1
}

crashes() { # DIRECTORY
    local status=0
    play $1 tried || status=$?
    [ $status = 135 ] || [ $status = 139 ] # SIGBUS, SIGSEGV
}

# Sets has_profiles, if they can be had. When it writes one, LLVM's runtime looks for the notes where they are in the file; where
# patchelf has moved them, it reads what is there in memory, and crashes or not, with and without a split. Then the program
# runs without a profile.
check_runs() {
    has_profiles=1
    if has_lost_notes treated || has_lost_notes split; then
        same_runs none
        if crashes treated || crashes split; then
            has_profiles=0
            return
        fi
    fi
    same_runs profiles
}

# What the profiles of the images that the tool alone has treated give, and those of the split ones by their sidecars. Where the
# runtime does not find the notes, its profiles have no binary ID; and those of split images get the one that the image had
# when it was split, also if the tool changes it.
check_profiles() {
    llvm-profdata-$clang merge -o expected.profdata treated/profiles
    covsplit merge --store sidecars --llvm-profdata llvm-profdata-$clang -o found.profdata split/profiles
    if [ ${changes_id-0} = 1 ] || { has_lost_notes split && not has_lost_notes treated 2>/dev/null; }; then
        return
    fi
    same found.profdata expected.profdata
}

report() { # DIRECTORY PROFILE
    local library=
    [ "$images" = program ] || library="-object $1/libsecond.so"
    echo llvm-cov-$clang report $1/program $library -instr-profile=$2
}

# The report on the images as they were linked, and that on the split ones under `covsplit run`.
check_reports() {
    $(report plain expected.profdata) >expected
    covsplit run --store sidecars -- $(report split found.profdata) >found
    same found expected
}

# ---- tools ----

no_symbols="no symbol table: run covsplit before strip"
moved="BOLT has moved the image's code; run covsplit before BOLT"
long=/a/directory/with/a/name/that/takes/more/than/what/is/there

# By a library, which the command may be built without.
lief=
if [ "${WITH_LIEF-1}" = 1 ]; then
    cp $FIXTURES/lief_write.cc .
    "$SUBJECT" compile . clang++-19 lief_write.cc -o lief_write -lLIEF >"$kept/subject"
    PATH=$PWD:$PATH lief="$pie_kind||lief_write IMAGE"
fi

take_step() {
    echo "$1: $commands: ${kinds[number]}"
    place "${kinds[number]}"
    # Whether the tool takes images of this kind at all, and they still run.
    if treat treated "$commands" >treated.said && exits 3 play treated none 2>/dev/null; then
        $1
    else
        echo "not taken"
    fi
}

# each_tool STEP OF: takes the step with each of the tools, or each day with every few of them. A line tells a tool:
# WHEN|WARNING|COMMANDS, where the warning is that of a split after it, and WHEN says which kind of image it meets each day: that
# of this number, one in turns without a number, or none for "-", as another tool shows most of what it does; "!" if it changes
# the image's build ID, which then is that of its profiles.
each_tool() {
    local number tool=-1 when warning commands changes_id kind failures=0
    while IFS='|' read -r when warning commands <&3; do
        tool=$((tool + 1))
        [ -n "$commands" ] || continue
        kind=${when//[^0-9]/}
        kind=${kind:-$(((5 * tool + clang) % ${#kinds[@]}))}
        [[ $when == *!* ]] && changes_id=1 || changes_id=0
        commands=${commands//VERSION/$clang}
        chosen $tool $2 || continue
        for ((number = 0; number < ${#kinds[@]}; number++)); do
            all_rounds || { [ $number = $kind ] && [ "$when" != - ]; } || continue
            [ $number != $rust_kind ] || has_rust || continue
            # One that fails does not keep others from being tried.
            set +e
            (
                set -e
                take_step $1
            )
            [ $? = 0 ] || failures=$((failures + 1))
            set -e
        done
    done 3<<EOF
-|$no_symbols|strip IMAGE
$rust_kind||strip -g IMAGE
|$no_symbols|llvm-strip-VERSION IMAGE
-||llvm-strip-VERSION -g IMAGE
|$no_symbols|eu-strip -f IMAGE.debug IMAGE
||objcopy --only-keep-debug IMAGE IMAGE.debug; objcopy --strip-debug IMAGE; objcopy --add-gnu-debuglink=IMAGE.debug IMAGE
-||llvm-objcopy-VERSION --only-keep-debug IMAGE IMAGE.debug; llvm-objcopy-VERSION --strip-debug --add-gnu-debuglink=IMAGE.debug IMAGE
-||objcopy --compress-debug-sections IMAGE
||dwz IMAGE
||patchelf --set-rpath '\$ORIGIN:$long' IMAGE
||patchelf --add-needed libm.so.6 IMAGE
-||patchelf --set-interpreter /lib64/../lib64/ld-linux-x86-64.so.2 IMAGE
-||patchelf --set-rpath '\$ORIGIN' IMAGE; patchelf --remove-rpath IMAGE
-||patchelf --print-interpreter --print-needed IMAGE
|$no_symbols|sh $FIXTURES/dh_strip.sh IMAGE
||debugedit -b /usr -d /opt -l IMAGE.list IMAGE
-||patchelf --set-rpath '\$ORIGIN:$long' IMAGE; strip -g IMAGE
$retained_kind!|$moved|llvm-bolt-19 IMAGE -o IMAGE.bolted --reorder-functions=hfsort; mv IMAGE.bolted IMAGE
$lief
EOF
    is $failures 0
}
