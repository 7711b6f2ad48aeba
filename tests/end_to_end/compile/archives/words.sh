# For the scenes of archives: the packed one is, byte for byte, the one that the same writer makes of packed objects. So
# whatever reads those reads ours.
objects="unit0.o unit1.o a-unit-with-a-long-name.o plain.o"

# in_place DIRECTORY SCRIPT
in_place() {
    (cd $1 && bash -ec "$2")
}
