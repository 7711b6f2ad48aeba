# Images of each format, and one of which a section stays ("values"). "app" is split to "out": "plain" by --fast, "compact"
# without.
subject windows functions=60
mv program.exe coff
subject darwin functions=60
subject program functions=60 "instrumentation=-fprofile-instr-generate -fcoverage-mapping -mllvm -enable-value-profiling=true"
mv program values
subject sample 60
rm -f *.o *.c *.map first* second*
covsplit split --fast -o out --sidecar plain app
covsplit split -o out --sidecar compact app
