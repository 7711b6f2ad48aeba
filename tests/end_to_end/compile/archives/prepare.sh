# The same objects in ordinary/ and packed/: one has a name that does not fit a header, one ("plain.o") has nothing to pack. All
# have the same time, so that archives with times in them can be compared.
mkdir ordinary
cd ordinary
subject units-sources
for i in 0 1 2 3 4 5 6 7; do
    compile++ 19 -c unit$i.cc -o part$i.o
done
cp part0.o unit0.o
cp part1.o unit1.o
cp part2.o a-unit-with-a-long-name.o
compile++ 19 -c main.cc -o main.o
clang++-19 -O1 -c unit3.cc -o plain.o
touch -d @1000000000 *
cd ..
cp -a ordinary packed
cd packed
covsplit pack unit0.o unit1.o a-unit-with-a-long-name.o plain.o
for object in unit0 unit1 a-unit-with-a-long-name; do
    [ "$(stat -c %s $object.o)" -lt "$(stat -c %s ../ordinary/$object.o)" ]
done
cd ..
