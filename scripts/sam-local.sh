#!/bin/sh
# Runs the functions in the containers of `sam local` and checks that each route reaches its function, that the walkthrough
# holds, and that each sample event is answered. It starts its own local stack for the stores. It needs Docker on Linux,
# because the containers share the host's network.
set -eu

cd "$(dirname "$0")/.."
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
            Its glibc is newer than the runtime's; make arm64 checks the glibc.
Without Docker: make test runs the same programs under Lambda's runtime interface emulator, and
  make watch, then cargo lambda invoke, runs one by hand (docs/DEPLOY.md).
END
    exit 1
}

[ "$(uname -s)" = Linux ] || missing "the containers reach this machine's stores only on Linux"
docker info >/dev/null 2>&1 || missing "there is no Docker engine that this user may use"
docker image inspect "$image" >/dev/null 2>&1 || docker pull --quiet "$image" >/dev/null || missing "there is no image $image"

work=target/sam-local
rm -rf "$work/data"
mkdir -p "$work"
python=.tools/aws/bin/python
cargo build -p local --bin local -p tests --bin walk-through
target/debug/local --port 0 --data-dir "$work/data" --settle-every 0s >"$work/stack.log" 2>&1 &
stack=$!
api=
end() {
    # SAM removes its containers before it exits.
    # shellcheck disable=SC2086 # One word for each process.
    kill $api $stack 2>/dev/null || true
    wait
}
trap end EXIT
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

# sam_local [--signed-in] COMMAND ...
sam_local() {
    signed_in=
    if [ "$1" = --signed-in ]; then signed_in=$1; shift; fi
    # shellcheck disable=SC2086 # No word if it is empty.
    exec .tools/sam/bin/python tests/aws/sam_here.py $signed_in local "$@" \
        --template-file "$work/build/template.yaml" --skip-pull-image
}

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
with_api routes.log $python tests/aws/sam_local.py routes "$url"
with_api walk.log --signed-in target/debug/walk-through docs/WALKTHROUGH.md "$url"

for name in wallet send grab view settle audit; do
    function=$(printf '%s' "$name" | cut -c1 | tr a-z A-Z)$(printf '%s' "$name" | cut -c2-)
    answer=$(sam_local invoke "$function" --event "events/$name.json" 2>"$work/$name.log") || fail "$work/$name.log"
    echo "$name: $answer"
    case $answer in *errorType* | '') fail "$work/$name.log" ;; esac
done
