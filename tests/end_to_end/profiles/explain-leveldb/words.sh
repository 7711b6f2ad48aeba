# For the scenes of covsplit merge --explain with a real program: it names the functions that were changed, and nothing else of
# LevelDB's thousands.

# explain PROGRAM OTHER: what --explain --json says of their profiles, as lines in the file told.
explain() {
    silent merge --explain --json --store store -o all.profraw $1.profraw $2.profraw >told.json
    python3 $SUPPORT/explanation.py <told.json >told
}
