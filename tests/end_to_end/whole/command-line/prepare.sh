# An image "app", split, with its profiles.
subject sample 40
covsplit split -o stripped --sidecar side app
run_image app
run_image stripped
