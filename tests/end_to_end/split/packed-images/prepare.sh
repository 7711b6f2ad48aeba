# plain/ and packed/ with the objects of a program in C++, and images of them: plain-image, packed-image, and those with some
# of the objects packed. `ordinary` is the sidecar of plain-image, split to ordinary.out. Profiles have addresses, so these
# are fixed.
clang=${CLANG:-22}
linker=$([ $clang = 14 ] && echo bfd || echo lld)
cat >shared.h <<'EOF'
inline int halved(int value) { return value % 3 == 0 ? value / 3 : value + 1; }
template <typename T> T total(T first, T last) {
  T all = 0;
  for (T i = first; i < last; i++)
    all += i & 1 ? i : halved(static_cast<int>(i));
  return all;
}
inline int never_called(int value) { return value * 2; }
inline int called_once(int value) { return value > 3 ? value * 2 : 1; }
EOF
cat >one.cc <<'EOF'
#include "shared.h"
static int local(int value) { return value > 1 ? 1 : 2; }
int one(int value) { return local(value) + total(0, value) + called_once(value); }
EOF
cat >two.cc <<'EOF'
#include "shared.h"
static int local(int value) { return value > 2 ? 1 : 2; }
int two(int value) { return local(value) + total(0, value) + (int)total(1L, (long)value); }
EOF
cat >main.cc <<'EOF'
int one(int); int two(int);
int main(int count, char **) { return one(count) + two(count) == 77; }
EOF
mkdir plain
for unit in one two main; do
    compile++ $clang -O1 -c $unit.cc -o plain/$unit.o
done
cp -r plain packed
covsplit pack packed/*.o
while read -r image main one two; do
    compile++ $clang -fuse-ld=$linker $main/main.o $one/one.o $two/two.o -o $image -no-pie -Wl,--build-id=none
done <<'EOF'
plain-image plain plain plain
packed-image packed packed packed
first packed plain plain
middle plain packed plain
last plain plain packed
ends packed plain packed
EOF
covsplit split --uuid 00112233445566778899aabbccddeeff -o ordinary.out --sidecar ordinary plain-image
covsplit export --sidecar ordinary -o ordinary-object
