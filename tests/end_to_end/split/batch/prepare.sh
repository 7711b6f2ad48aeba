# In originals/: six images, none of them split, and what is no image or has no coverage. tree/ has all of it, with files of
# more names than one.
mkdir -p originals tree/below
cd originals
cat >program.c <<'END'
int twice(int x) { return x > NUMBER ? 2 * x : x; }
int main(int count, char **words) { (void)words; return twice(count); }
END
for i in 0 1 2 3 4 5; do
    compile 22 -Wl,--build-id -DNUMBER=$i program.c -o image$i
done
clang-22 -Wl,--build-id -DNUMBER=0 program.c -o plain
compile 22 -c -DNUMBER=0 program.c -o object.o
compile 22 -r -nostdlib -DNUMBER=0 program.c -o partial
ar rcs archive.a object.o
: >empty
printf '\177ELF\2\1\1' >damaged
cd ..
cp originals/image[012] originals/{plain,object.o,partial,archive.a,empty} tree
cp originals/image[345] tree/below
cp originals/image0 outside
ln tree/image1 tree/below/hard
ln -s ../image2 tree/below/soft
ln -s ../outside tree/leads-out
ln -s .. tree/below/around
