# Runs elfutils' debuginfod. It has no port 0 and no word for "ready", so a free port is looked for, and its own counters (/metrics)
# are asked until the work is done.

# ask PORT PATH: the answer; "" where nobody answers yet.
ask() {
    (exec 9<>"/dev/tcp/127.0.0.1/$1" && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&9 && cat <&9) 2>/dev/null || true
}

is_ready() { # PORT FILES
    local sign answer
    answer=$(ask $1 /metrics)
    [ -n "$answer" ] || return
    for sign in 'thread_work_total{role="traverse"} 1' 'thread_work_pending{role="scan"} 0' 'thread_busy{role="scan"} 0'; do
        [ -z "$2" ] || [[ $answer$'\n' == *"$sign"$'\n'* ]] || return
    done
}

# serve NAME FILES UPSTREAM: a server of the files in a directory, with another one behind it, which may both be ""; its log is in
# NAME/log. Sets `port`. It ends with the scene, as do all of them.
serve() {
    local try ready polls
    unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
    mkdir -p $1
    # Somebody else may take the port in between.
    for try in {1..5}; do
        port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        DEBUGINFOD_CACHE_PATH=$PWD/$1/cache DEBUGINFOD_URLS=$3 setpriv --pdeathsig KILL debuginfod -v --concurrency=1 \
            --database=$1/database.sqlite --port=$port ${2:+--scan-file-dir "$2"} >$1/log 2>&1 &
        # Twice: between two counters the scanner may have taken up the next file.
        ready=0
        for polls in {1..3000}; do
            sleep 0.02
            kill -0 $! 2>/dev/null || break
            is_ready $port "$2" && ready=$((ready + 1)) || ready=0
            [ $ready != 2 ] || return 0
        done
    done
    fail "debuginfod does not stay, or is not ready" "$(tail $1/log)"
}
