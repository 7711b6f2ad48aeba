# Images of five kinds, split, with what the commands must make of them. In a directory of each kind:
#   app         the stripped image
#   original    before the split
#   light       its profile
#   full        correlated
#   object      exported
#   sidecar     under a name that no search looks at
make_kind() { # NAME BUILD-ID STATEMENT
    mkdir $1
    cd $1
    printf '#include <stdio.h>\nint main(int count, char **words)\n{\n%b\nreturn 0;\n}\n' "$3" >app.c
    compile 19 -Wl,--build-id$2 app.c -o original
    covsplit split -o app --sidecar sidecar original
    LLVM_PROFILE_FILE=light ./app word
    covsplit correlate --sidecar sidecar -o full light
    covsplit export --sidecar sidecar -o object
    cd ..
}
make_kind one "" 'puts(words[0]);'
make_kind two "" 'for (int i = 1; i < count; i++) puts(words[i]);'
# Three builds under one UUID: the second counts more, the third as much, elsewhere.
id==0x0123456789abcdef0123456789abcdef01234567
make_kind twin $id 'if (count > 1) words[0] = 0;'
make_kind other $id 'if (count > 1) words[0] = 0; if (count > 2) words[1] = 0;'
make_kind alike $id 'while (count-- > 1)\n\n\n words[0] = 0;'
