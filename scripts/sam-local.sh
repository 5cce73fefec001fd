#!/bin/sh
# The functions in the containers of `sam local`: each sample event is answered, and each route leads to its function. It
# starts a local stack of its own for the stores, and needs Docker on Linux, whose host network the containers share.
set -eu

cd "$(dirname "$0")/.."
case $(uname -m) in aarch64 | arm64) arch=arm64 ;; *) arch=x86_64 ;; esac
image=public.ecr.aws/lambda/provided:al2023-$arch

missing() {
    cat >&2 <<END
sam-local: $1

What it needs:
  Docker    Debian: apt-get install docker.io, and dockerd running (systemctl start docker, or dockerd as root)
  the image docker pull $image
            Where nothing can be pulled, one for trying the wiring can be made of Debian's packages:
              debootstrap --variant=minbase bookworm rootfs
              tar -C rootfs -c . | docker import - $image
            Its glibc is newer than the runtime's: make arm64 checks that.
Without Docker: make test runs the same programs under Lambda's runtime emulator, and
  cargo lambda watch, then cargo lambda invoke grab --data-file events/grab.json   runs one by hand (docs/DEPLOY.md).
END
    exit 1
}

[ "$(uname -s)" = Linux ] || missing "the containers reach this machine's stores on Linux alone"
docker info >/dev/null 2>&1 || missing "there is no Docker engine that this user may use"
docker image inspect "$image" >/dev/null 2>&1 || docker pull --quiet "$image" >/dev/null || missing "there is no image $image"

work=target/sam-local
mkdir -p "$work"
python=.tools/aws/bin/python
cargo build --release -p local
target/release/local --port 0 --data-dir "$work/data" --settle-every 0s >"$work/stack.log" 2>&1 &
stack=$!
api=
trap 'kill $api $stack 2>/dev/null || true' EXIT
tries=0
until [ -f "$work/data/stores.env" ]; do
    kill -0 "$stack" 2>/dev/null && [ "$tries" -lt 300 ] || { cat "$work/stack.log" >&2; exit 1; }
    tries=$((tries + 1))
    sleep 0.1
done
set -a
# shellcheck disable=SC1091 # Written by the stack.
. "./$work/data/stores.env"
set +a

$python tests/aws/sam_local.py template "$work/template.yaml"
.tools/sam/bin/sam build --template-file "$work/template.yaml" --build-dir "$work/build"
sam_local() { .tools/sam/bin/sam local "$@" --template-file "$work/build/template.yaml" --docker-network host --skip-pull-image; }

for name in wallet send grab view settle audit; do
    function=$(printf '%s' "$name" | cut -c1 | tr a-z A-Z)$(printf '%s' "$name" | cut -c2-)
    answer=$(sam_local invoke "$function" --event "events/$name.json" 2>"$work/$name.log") || { cat "$work/$name.log" >&2; exit 1; }
    echo "$name: $answer"
    case $answer in *errorType* | '') cat "$work/$name.log" >&2; exit 1 ;; esac
done

sam_local start-api --port 3001 --warm-containers EAGER >"$work/api.log" 2>&1 &
api=$!
tries=0
until curl -s -o /dev/null http://127.0.0.1:3001/me/wallet; do
    kill -0 "$api" 2>/dev/null && [ "$tries" -lt 120 ] || { cat "$work/api.log" >&2; exit 1; }
    tries=$((tries + 1))
    sleep 1
done
$python tests/aws/sam_local.py routes http://127.0.0.1:3001
