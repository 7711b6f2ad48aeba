# An image and a profile in all their forms, and a program that reads files in every way (tests/fixtures/opener.c). The full
# profile is what `covsplit correlate` makes, the object what `export` makes.
subject sample 30
covsplit split -o stripped --sidecar stripped.covsplit app
covsplit split --store store -o stripped app
LLVM_PROFILE_FILE=light.profraw exits 3 ./stripped
covsplit correlate --sidecar stripped.covsplit -o full.profraw light.profraw
covsplit export --sidecar stripped.covsplit -o object
gcc -O2 -D_GNU_SOURCE -D_FORTIFY_SOURCE=2 -pthread $FIXTURES/opener.c -o opener
