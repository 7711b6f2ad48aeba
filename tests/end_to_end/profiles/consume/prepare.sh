# The profiles of three programs, in farm/, from which farm.py makes others.
mkdir farm
for program in 3 4 5; do
    for ((i = 0; i < program; i++)); do
        echo "int f$i(int x) { return x > $i && x < 9 ? x : $i; }"
    done >$program.c
    echo "int main(void) { return f0(1) + f1(2) + f2(3) == 77; }" >>$program.c
    compile 19 -O1 $program.c -o $program
    LLVM_PROFILE_FILE=farm/$program ./$program
done
