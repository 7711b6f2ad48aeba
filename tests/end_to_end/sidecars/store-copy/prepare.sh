# Four images of one program, in side/ stripped, with their sidecars NAME.covsplit.
subject variants 40 0 1 2 3
mv app-2 libfoo.so
mv app-3 libbar.so
mkdir side
for image in app-0 app-1 libfoo.so libbar.so; do
    covsplit split -o side/$image --sidecar side/$image.covsplit $image
    build_id $image >>uuids
done
