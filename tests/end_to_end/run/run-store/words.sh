source "${SCENE%/*}/../words.sh"
cov=./my-llvm-cov-19

# Two images are in the store; "all.a" is its union.
two_images() {
    mkdir other
    (cd other && subject sample 31)
    covsplit split --store store -o other/stripped other/app
    cp opener $cov
    covsplit export --union --store store -o all.a
}

# stays_directory TEXT: the store is read twice as llvm-cov would, which gets the directory, and one line says why.
stays_directory() {
    cp "$(command -v cat)" cat-cov
    exits 1 covsplit run -- sh -c 'for i in 1 2; do ./cat-cov store; done'
    is "$(grep -c "covsplit: warning: .*; read as it is$" "$kept/err")" 1
    says "$1"
    is "$(grep -c "Is a directory" "$kept/err")" 2
    prints_just ""
}
