# An app with mapping, whose profile is app.profdata, and two libraries without.
build() {
    "$SUBJECT" compile . clang-19 -fprofile-instr-generate -Wl,--build-id=sha1 "$@"
}
echo 'int one(int x) { return x > 2 ? x : 3; }' >one.c
echo 'int two(int x) { return x > 1 ? x : 4; }' >two.c
echo 'int one(int); int two(int);
int main(int c, char **v) { return v[0] && one(c) + two(c) > 100; }' >app.c
build -fPIC -shared one.c -o libone.so
build -fPIC -shared two.c -o libtwo.so
build -fcoverage-mapping app.c libone.so libtwo.so '-Wl,-rpath,$ORIGIN' -o app
LLVM_PROFILE_FILE=%m.profraw ./app
llvm-profdata-19 merge -o app.profdata *.profraw
