# For the scenes of stripped images whose build ID is changed after the split, as rpm's find-debuginfo does by debugedit -i, or
# removed: every command finds the sidecar by what the split has left in the image, and reports are those of the unsplit
# one. CLANG compiles.
clang=${CLANG:-22}
note="printf '\4\0\0\0\24\0\0\0\3\0\0\0GNU\0a build ID, 20 bytes' >note"
changes=("debugedit -i -s 1-1.x86_64 app"
    "mkdir -p root build && touch build/debugfiles.list && cp app root/app && RPM_BUILD_ROOT=$PWD/root
        RPM_BUILD_DIR=$PWD/build RPM_PACKAGE_NAME=app RPM_PACKAGE_VERSION=1 RPM_PACKAGE_RELEASE=1 RPM_ARCH=x86_64
        find-debuginfo --build-id-seed 1-1 --unique-debug-suffix -1-1.x86_64 -i build && cp root/app app"
    "$note && objcopy --update-section .note.gnu.build-id=note app"
    "$note && llvm-objcopy-$clang --update-section .note.gnu.build-id=note app"
    "patchelf --set-rpath /a/directory/with/a/long/name app && debugedit -i -s 1-1 app"
    "objcopy --remove-section=.note.gnu.build-id app")

# make FUNCTIONS CHANGE: the program as linked, `original`, and `app`, which is split and then changed; and the profiles of both.
make() {
    subject program functions=$1
    cat >main.c <<'END'
#include <stdlib.h>
long first_run(long);
int main(int count, char **words)
{
    (void)words;
    first_run(count);
    if (count > 1)
        abort();
    return 0;
}
END
    clang-$clang -gdwarf-4 -w -fprofile-instr-generate -fcoverage-mapping -Wl,--build-id -o original main.c first.c
    covsplit split --store store -o app original
    eval "${2//$'\n'/ }"
    before=$(build_id original)
    after=$(build_id app) # "": it was removed
    [ "$before" != "$after" ]
    LLVM_PROFILE_FILE=full.profraw ./original
    LLVM_PROFILE_FILE=light.profraw ./app
    llvm-profdata-$clang merge -o full.profdata full.profraw
}
