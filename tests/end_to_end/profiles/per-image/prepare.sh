# Three programs, of which "bare" has no build ID, with three profiles each of the unsplit image, NAME-N.profraw, and of the split
# one, light/NAME-N.profraw; NAME.profdata is what llvm-profdata makes of the unsplit one alone.
mkdir light
echo "int shared(int x) { return x > 2 ? x : 2; }" >library.c
for name in one two bare; do
    cat >$name.c <<END
int shared(int);
int $name(int x) { return x ? x : 4; }
int main(int count, char **words) {
  for (int i = 0; i < words[1][0]; i++) count += $name(i);
  return shared(count) == 0;
}
END
    id=sha1
    [ $name != bare ] || id=none
    compile 19 -Wl,--build-id=$id $name.c library.c -o $name
    covsplit split --store store -o $name.split $name
    for i in 1 2 3; do
        LLVM_PROFILE_FILE=$name-$i.profraw ./$name $i
        LLVM_PROFILE_FILE=light/$name-$i.profraw ./$name.split $i
    done
    llvm-profdata-19 merge -num-threads=1 -o $name.profdata $name-*.profraw
done
