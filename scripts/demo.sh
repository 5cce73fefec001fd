#!/bin/sh
# Starts the local stack and opens its page at the rush once it answers. Arguments go to the stack.
set -eu
cd "$(dirname "$0")/.."

port=3000
previous=
for argument in "$@"; do
    case $argument in --port=*) port=${argument#--port=} ;; esac
    [ "$previous" != --port ] || port=$argument
    previous=$argument
done
url="http://127.0.0.1:$port"

# Runs in the background: the stack keeps the terminal, where Ctrl-C stops it.
(
    tries=0
    until curl -sf --noproxy '*' "$url/_local/health" >/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 150 ] || exit 0
        sleep 0.2
    done
    # Also prints the address: on a machine without a screen xdg-open opens nothing.
    echo "Opening $url/#/rush"
    for opener in xdg-open open; do
        if command -v "$opener" >/dev/null 2>&1; then exec "$opener" "$url/#/rush" >/dev/null 2>&1; fi
    done
) &

exec "${CARGO_TARGET_DIR:-target}/local/hongbao" dev "$@"
