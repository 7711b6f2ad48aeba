#!/bin/bash
# From what size on a split pays: programs of so many small functions, before a split and after it. Prints
# a table for docs/benchmarks.md.
#
# Usage: small.sh COVSPLIT
set -euo pipefail

covsplit=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# program COUNT: each function has a loop and three branches.
program() {
    local i
    for i in $(seq "$1"); do
        cat <<END
int function_$i(int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++) {
        if (i % $((i + 1)) == 0)
            sum += i;
        else if (sum > $i && i > 3)
            sum--;
    }
    return sum;
}
END
    done
    echo "int main(int count, char **words)"
    echo "{"
    echo "    int sum = words[0][0];"
    for i in $(seq "$1"); do
        echo "    sum += function_$i(count);"
    done
    echo "    return sum == 1234567;"
    echo "}"
}

echo "| functions | image | stripped image | sidecar | saved | profile | lightweight profile |"
echo "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
for count in 1 5 10 15 20 50 100 1000; do
    program "$count" >app.c
    clang-19 -O1 -fprofile-instr-generate -fcoverage-mapping -fuse-ld=lld -Wl,--build-id app.c -o app
    "$covsplit" split -o app.stripped --sidecar app.covsplit app
    LLVM_PROFILE_FILE=full.profraw ./app
    LLVM_PROFILE_FILE=light.profraw ./app.stripped
    mapfile -t sizes < <(stat --format=%s app app.stripped app.covsplit full.profraw light.profraw)
    python3 -c 'import sys
count, image, stripped, sidecar, full, light = map(int, sys.argv[1:])
row = (count, image, stripped, sidecar, image - stripped - sidecar, full, light)
print("| " + " | ".join(f"{number:,}" for number in row) + " |")' "$count" "${sizes[@]}"
done
