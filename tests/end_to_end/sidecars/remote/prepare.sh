# Eighteen images split/N, their profiles light/N.profraw, and "web", which has their sidecars in two stores: web/store, and
# web/deltas, where they are deltas.
subject variants 40 $(seq 0 17)
mkdir split light original
for i in $(seq 0 17); do
    mv app-$i original/$i
    covsplit split --store web/store -o split/$i original/$i
    LLVM_PROFILE_FILE=light/$i.profraw exits 3 split/$i
done
cp -a web/store web/deltas
covsplit store delta web/deltas
covsplit correlate --store web/store -o full.profraw light/0.profraw
rm -rf web/store/README web/deltas/README
