# For the scenes of merge --into STATE --consume: what is consumed and counted, what stays and why, and programs that write at the same
# time. The counts in the state are those that the programs know; each file is either gone and counts, or exists under its own
# name and does not count. (What happens at every moment is in consume_kill.c.)
farm=${SCENE%/*/*}/consume/farm.py

# Profiles by these names, which count in the end; those that do not.
add() {
    python3 -IS $farm add sums "$@"
}

add_uncounted() {
    python3 -IS $farm add "$kept/ignored" "$@"
}

consume() {
    covsplit merge -v --into state --consume "$@"
}

# With nothing to say.
consume_well() {
    consume "$@"
    says_just ""
}

same_sums() { # [STATE]
    covsplit merge -o "$kept/sums.profraw" ${1-state}
    python3 -IS $farm check sums "$kept/sums.profraw"
}

# Of a file system without leases, as where a file of that kind is another's: covsplit WORD..., restricted as process.h says.
no_leases=4 foreign_leases=5
restricted() { # RESTRICTION WORD...
    run "$SUBJECT" --restriction=$1 "$COVSPLIT" "${@:2}"
}

# held_by STATEMENTS FILE: another process has done that to the file, which is `file`, until `release`.
held_by() {
    coproc python3 -IS -c "
import fcntl, mmap, sys
file = open(sys.argv[1], 'r+b')
$1
print('held', flush=True)
sys.stdin.read()" "$2"
    holder=$COPROC_PID holding=${COPROC[1]}
    read -r _ <&${COPROC[0]}
}

release() {
    exec {holding}>&-
    wait $holder
}

mkdir new
