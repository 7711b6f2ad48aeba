# For the scenes of stores at URLs, which the web server of the tests (tests/support/web_server.py) has. They begin where
# prepare.sh has made "split", "light" and "web".
top=$PWD
export HOME=$top/home COVSPLIT_CACHE=$top/cache
for i in $(seq 0 17); do
    uuid[i]=$(build_id original/$i)
done

# serve DIRECTORY [OPTION...]: a server, which ends with the scene: its URL is $url, and what it is told and tells is in the
# directory $server, for the words below.
serve() {
    local made=$top/servers
    mkdir -p $made
    server=$made/$(ls $made | wc -l)
    mkdir $server
    setpriv --pdeathsig KILL python3 -B $SUPPORT/web_server.py "$1" $server "${@:2}" >$server/errors 2>&1 &
    until [ -e $server/port ]; do
        kill -0 $! || fail "$(cat $server/errors)"
        sleep 0.02
    done
    url=http://127.0.0.1:$(cat $server/port)
    : >$server/log
}

# faults [ROW...]: these from now on, and no others.
faults_changed=0
faults() {
    { echo "# $((faults_changed += 1))"; [ $# = 0 ] || printf '%s\n' "$@"; } >$server/faults.new
    mv $server/faults.new $server/faults
}

# asked [REGEX]: how many requests there were, for paths like that; forget_requests
asked() {
    cut -f3 $server/log | grep -cE -- "${1-}" || true
}

forget_requests() {
    : >$server/log
}

# connections: how many; most_at_once: of all requests
connections() {
    cut -f1 $server/log | sort -u | wc -l
}

most_at_once() {
    cut -f2 $server/log | sort -n | tail -1
}

# sent HEADER: the values that came with requests, each once
sent() {
    tr '\t' '\n' <$server/log | sed -n "s/^$1: //p" | sort -u
}

# cache_of URL: its store in the cache
cache_of() {
    python3 -c 'import sys, urllib.parse; print(sys.argv[1] + "/" + urllib.parse.quote(sys.argv[2], safe=""))' \
        "$COVSPLIT_CACHE" "$1"
}

# merges URL [NUMBER]: the profile of this image becomes what it must be, without a word.
merges() {
    rm -f out.profraw
    silent merge --store $1 -o out.profraw $top/light/${2-0}.profraw
    [ "${2-0}" != 0 ] || same out.profraw $top/full.profraw
}

# faulty URL TEXT...: the profile of the first image is refused, since this failed: a missing sidecar is another thing.
faulty() {
    rm -f out.profraw
    refused merge --memory-limit 64M --store $1 -o out.profraw $top/light/0.profraw
    says "$(entry $1 ${uuid[0]}): " "${@:2}"
    not grep -F "no sidecar for" "$kept/err"
    absent out.profraw
}
