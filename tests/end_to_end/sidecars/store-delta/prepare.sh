# Three builds of a program, in each of which another function has changed, and another program that is linked with the same
# library: original/N, their split images split/N, profiles light/N.profraw, and three places with a "store" each: whole;
# deltas by `store delta`; at-once by `split --delta`.
cat >source.py <<'END'
"""Functions of many shapes, so that sidecars are larger than what all have in common: PREFIX FUNCTIONS CHANGED."""
import sys
prefix, functions, changed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
shape_of = lambda i: (i + 1) * 2654435761 % 2**32
for i in range(functions):
    shape = shape_of(i)
    print(f"int {prefix}_{shape:x}(int a)\n{{\n    int sum = {i};")
    for bit in range(16):
        if shape >> (bit + 12) & 1:
            print("    while (sum < 9 &&" if bit % 3 == 0 else "    if (sum < 99 &&",
                  f"(a > {shape % (bit + 7)}))\n        sum += {bit + 1};")
    if i == changed:
        print("    if (sum > 99)\n        sum = 99;")
    print("    return sum;\n}")
print(f"int {prefix}_all(int a)\n{{\n    int sum = 0;")
for i in range(0, functions, 3):
    print(f"    sum += {prefix}_{shape_of(i):x}(a);")
print("    return sum;\n}")
END
mkdir original split light whole deltas at-once
python3 source.py library 200 -1 >original/library.c
for i in 0 1 2 3; do
    name=app
    [ $i != 3 ] || name=tool
    mkdir original/$i
    cd original/$i
    mv ../library.c .
    python3 ../../source.py $name 20 $i >own.c
    cat >main.c <<END
int library_all(int a);
int ${name}_all(int a);
int main(int count, char **words) { (void)words; return library_all(count) + ${name}_all(count) == 12345; }
END
    compile 19 -O1 -Wl,--build-id=sha1 -o $name main.c own.c library.c
    cp $name ../app
    mv library.c ..
    cd ../..
    mv original/$i/$name kept-$name
    rm -r original/$i
    mkdir original/$i
    mv kept-$name original/$i/$name
    rm original/app
    covsplit split --store whole/store -o split/$i original/$i/$name
    covsplit split --store at-once/store --delta -o again original/$i/$name
    same split/$i again
    LLVM_PROFILE_FILE=light/$i.profraw split/$i
done
cp -a whole/store deltas/store
covsplit store delta deltas/store
rm again original/library.c
