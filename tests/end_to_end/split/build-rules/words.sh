# For the scenes of the rules for ninja and make in share/, in builds as users have them: what is made again and what is not, what
# a clean removes, and what a failure leaves.
clang=clang-22
coverage="-fprofile-instr-generate -fcoverage-mapping"
programs=$((${COVSPLIT_TEST_PERCENT:-100} >= 100 ? 24 : 8))

# project TOOL [COMMAND]: in a directory of the tool's name. A library and programs that use it, each with a copy, which
# shows whether what depends on a stripped image was made again: every copying is written down.
project() {
    mkdir $1
    echo 'int twice(int x) { return x > 3 ? 2 * x : x + x; }' >$1/library.c
    for ((i = 0; i < programs; i++)); do
        write_program $1 $i "twice($i) == $((2 * i)) ? 0 : 1"
    done
    write_rules_for_$1 "${2-$COVSPLIT}"
}

# write_program TOOL NUMBER EXPRESSION [COMMENT]
write_program() {
    printf 'int twice(int x);\nint main(void) { return %s; }\n%s' "$3" "${4-}" >$1/program$2.c
}

# for_each_program: standard input, with its number for #
for_each_program() {
    local text i
    text=$(cat)
    for ((i = 0; i < programs; i++)); do
        echo "${text//#/$i}"
    done
}

write_rules_for_ninja() {
    {
        cat <<END
include $SHARE/covsplit.ninja
covsplit = $1
rule cc
  command = $clang -O1 $coverage -fPIC -c \$in -o \$out
rule link
  command = $clang $coverage -Wl,--build-id,-rpath,. \$flags -o \$out \$in
rule copy
  command = cp \$in \$out && echo \$in >> copied
build library.o: cc library.c
build library.unsplit: link library.o
  flags = -shared -Wl,-soname,library.so
build library.so | library.so.covsplit: covsplit_split library.unsplit
END
        for_each_program <<'END'
build program#.o: cc program#.c
build program#.unsplit: link program#.o library.so
build program# | program#.covsplit: covsplit_split program#.unsplit
build copy#: copy program#
END
    } >ninja/build.ninja
}

write_rules_for_make() {
    {
        cat <<END
all:
COVSPLIT = $1
LINK = $clang $coverage -Wl,--build-id
include $SHARE/covsplit.mk
%.o: %.c
	$clang -O1 $coverage -fPIC -c \$< -o \$@
END
        cat <<'END'
library.unsplit: library.o
	$(LINK) -shared -Wl,-soname,library.so -o $@ $<
$(eval $(call covsplit_split,library.so,library.unsplit))
clean:
	rm -f *.o *.unsplit copy* copied $(COVSPLIT_CLEAN)
.PHONY: all clean
.PRECIOUS: %.o
END
        for_each_program <<'END'
all: copy# program#.covsplit
program#.unsplit: program#.o library.so
	$(LINK) -Wl,-rpath,. -o $@ $^
$(eval $(call covsplit_split,program#,program#.unsplit))
copy#: program#
	cp $< $@ && echo $< >> copied
END
    } >make/Makefile
}

# build TOOL WORD...: in its directory
build() {
    (cd $1 && run "$@")
}

copies() { # TOOL
    wc -l <$1/copied
}

# The last build has split so often; that is in the output with its command line (make), or as what ninja calls it.
splits() { # NUMBER
    is "$(grep -oE ' split |\] SPLIT ' "$kept/out" | wc -l)" $1
}
