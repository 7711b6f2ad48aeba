# Six images app-N of one program with their sidecars side-N, which are in "store", too, and the stripped images
# stripped-N beside it. uuid is an array of their UUIDs.
subject variants 40 0 1 2 3 4 5
for i in 0 1 2 3 4 5; do
    covsplit split -o stripped-$i --sidecar side-$i app-$i
    covsplit store add store side-$i
    echo "uuid[$i]=$(build_id app-$i)" >>uuids
done
rm store/README
