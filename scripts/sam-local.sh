#!/bin/sh
# Runs the functions in the containers of `sam local`. It needs Docker on Linux, because the containers share the host's network.
#
#   scripts/sam-local.sh              checks that each route reaches its function, that the walkthrough holds, and that each sample
#                                     event is answered; then it ends
#   scripts/sam-local.sh serve        serves the API at http://127.0.0.1:3001 until Ctrl-C, for trying by hand
#   scripts/sam-local.sh invoke NAME  sends events/NAME.json to its function, while the other one serves
#
# The first two start a local stack of their own for the stores.
set -eu

cd "$(dirname "$0")/.."
mode=${1:-check}
case $(uname -m) in aarch64 | arm64) arch=arm64 ;; *) arch=x86_64 ;; esac
image=public.ecr.aws/lambda/provided:al2023-$arch

missing() {
    cat >&2 <<END
sam-local: $1

What it needs:
  Docker    Debian: apt-get install docker.io, then start dockerd (systemctl start docker, or dockerd as root). Without
            rights over the network this is enough: dockerd --bridge=none --iptables=false
  the image docker pull $image
            If nothing can be pulled, Debian's packages make an image that can try the wiring:
              debootstrap --variant=minbase --include=ca-certificates bookworm rootfs
              tar -C rootfs -c . | docker import - $image
            Its glibc is newer than the runtime's; make size checks the glibc.
Without Docker: make test runs the same programs under Lambda's runtime interface emulator.
END
    exit 1
}

[ "$(uname -s)" = Linux ] || missing "the containers reach this machine's stores only on Linux"
docker info >/dev/null 2>&1 || missing "there is no Docker engine that this user may use"
docker image inspect "$image" >/dev/null 2>&1 || docker pull --quiet "$image" >/dev/null || missing "there is no image $image"

work=target/sam-local
python=.tools/sam/bin/python

# sam_local [--signed-in] COMMAND ...
sam_local() {
    signed_in=
    if [ "$1" = --signed-in ]; then signed_in=$1; shift; fi
    # shellcheck disable=SC2086 # No word if it is empty.
    exec $python tests/aws/sam_local.py sam $signed_in local "$@" \
        --template-file "$work/build/template.yaml" --skip-pull-image
}

# invoke NAME: the function's answer to its sample event, on a line of its own.
invoke() {
    function=$(printf '%s' "$1" | cut -c1 | tr a-z A-Z)$(printf '%s' "$1" | cut -c2-)
    # Of this program's two functions, the one that reads.
    [ "$1" != operate ] || function=OperateRead
    sam_local invoke "$function" --event "events/$1.json"
}

if [ "$mode" = invoke ]; then
    [ -f "events/${2:?usage: scripts/sam-local.sh invoke NAME}.json" ] || { echo "sam-local: there is no events/$2.json" >&2; exit 1; }
    [ -f "$work/data/stores.env" ] || { echo "sam-local: there are no stores; make sam-local SERVE=1 starts them" >&2; exit 1; }
    invoke "$2"
fi

rm -rf "$work/data"
mkdir -p "$work"
cargo build -p hongbao --bin hongbao -p tests --bin walk-through
target/debug/hongbao dev --port 0 --data-dir "$work/data" --settle-every 0s >"$work/stack.log" 2>&1 &
stack=$!
api=
end() {
    # SAM removes its containers before it exits.
    # shellcheck disable=SC2086 # One word for each process.
    kill $api $stack 2>/dev/null || true
    wait
}
trap end EXIT
# Without it, dash would end at Ctrl-C and leave the others behind.
trap 'exit 130' INT TERM
fail() { cat "$1" >&2; exit 1; }

# wait_for PROCESS LOG COMMAND: waits until the command succeeds, for at most two minutes.
wait_for() {
    process=$1 log=$2 tries=0
    shift 2
    until "$@"; do
        kill -0 "$process" 2>/dev/null && [ "$tries" -lt 600 ] || fail "$log"
        tries=$((tries + 1))
        sleep 0.2
    done
}

wait_for "$stack" "$work/stack.log" [ -f "$work/data/stores.env" ]
set -a
# shellcheck disable=SC1091 # Written by the stack.
. "./$work/data/stores.env"
set +a

$python tests/aws/sam_local.py template "$work/template.yaml"
.tools/sam/bin/sam build --template-file "$work/template.yaml" --build-dir "$work/build"

# with_api LOG [--signed-in] COMMAND ...: runs the command while the API is there.
url=http://127.0.0.1:3001
with_api() {
    log=$work/$1 signed_in=
    shift
    if [ "$1" = --signed-in ]; then signed_in=$1; shift; fi
    # shellcheck disable=SC2086 # No word if it is empty.
    sam_local $signed_in start-api --port 3001 --warm-containers EAGER >"$log" 2>&1 &
    api=$!
    wait_for "$api" "$log" curl -s -o /dev/null --noproxy '*' "$url/me/wallet"
    "$@" || fail "$log"
    kill "$api"
    wait "$api" || true
    api=
}

serve() {
    # Ctrl-C is how this ends.
    trap 'exit 0' INT TERM
    cat <<END
SAM's containers serve the API at $url, on this machine only. Ctrl-C ends it.

The callers are put where API Gateway puts them: X-User-Id names the user, and requests to /wallets/ are the operator's.

  curl -X PUT "$url/wallets/alice/deposits/first" -d '{"amount": 10000}'
  PACKET=\$(curl -s $url/packets -H 'X-User-Id: alice' -H 'Idempotency-Key: first' -d '{"split": "random", "total_amount": 1000, "count": 10}' | sed 's/.*"packet_id":"\([^"]*\)".*/\1/'); echo "\$PACKET"
  curl -X POST "$url/packets/\$PACKET/grab" -H 'X-User-Id: bob'
  curl -X POST "$url/_local/settle"

From a second terminal: each sample event of events/ in a container of its own, and the proof of a deployment.

  make sam-local EVENT=wallet     or send, grab, view, settle, audit, operate
  make smoke URL=$url STORES=$work/data/stores.env

The log of the containers is $log.
END
    wait "$api"
}
if [ "$mode" = serve ]; then
    with_api serve.log --signed-in serve
    exit
fi

with_api routes.log $python tests/aws/sam_local.py routes "$url"
with_api walk.log --signed-in target/debug/walk-through docs/INTEGRATE.md "$url"

for name in wallet send grab view settle audit operate; do
    answer=$(invoke "$name" 2>"$work/$name.log") || fail "$work/$name.log"
    echo "$name: $answer"
    case $answer in *errorType* | '') fail "$work/$name.log" ;; esac
done
