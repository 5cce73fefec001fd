#!/bin/sh
# Changes the code in small ways, one at a time, and lists the changes that no test notices. Uses cargo-mutants.
#
#   scripts/mutants.sh domain    shared/src/domain, by its own tests
#   scripts/mutants.sh ledger    the ledger's transactions and histories in shared/src/ledger, by the tests beside them
#
# Further arguments go to cargo-mutants: --iterate skips the changes that the last run caught.
#
# It builds a crate of only those sources, in target/mutants, because it builds hundreds of times and the whole library takes
# minutes. Dependencies and profiles are the workspace's. .cargo/mutants.toml lists the skipped changes with reasons;
# target/mutants/*/*/mutants.out/missed.txt lists the changes that no test noticed.
set -eu
cd "$(dirname "$0")/.."
part=${1:?domain or ledger}
shift
work=target/mutants/$part
scripts/install-tools.sh mutants
PATH=$PWD/.tools/bin:$PATH

mkdir -p "$work/.cargo"
rm -rf "$work/src"
mkdir "$work/src"
cp Cargo.lock rust-toolchain.toml "$work"
cp .cargo/mutants.toml "$work/.cargo"
cp -R shared/src/domain "$work/src"
dependencies="chacha20 hex jiff proptest serde serde_json sha2 thiserror ulid"
modules=domain
case $part in
    domain) ;;
    ledger)
        # The ledger uses only the ports, not the SDK, which takes longest to build.
        modules="domain ports ledger"
        dependencies="$dependencies foldhash futures rand serde_bytes serde_dynamo tokio"
        cp -R shared/src/ports shared/src/ledger "$work/src"
        cp shared/src/crash.rs "$work/src"
        {
            printf '#[macro_use]\nmod crash;\n'
            sed -n '/^\/\/\/ An error and all its causes/,/^}/p' shared/src/lib.rs
        } >"$work/src/lib.rs"
        ;;
    *) echo "mutants: domain or ledger, not $part" >&2; exit 1 ;;
esac
for module in $modules; do echo "pub mod $module;"; done >>"$work/src/lib.rs"
{
    sed -e '/^members/,/^\]/d' -e '/^default-members/d' -e '/^serde_dynamo/s/, features = .*}/ }/' \
        -e '/^tokio/s/features = \[/&"test-util", /' Cargo.toml
    # The workspace's profiles name the package "shared".
    printf '\n[package]\nname = "shared"\nversion.workspace = true\nedition.workspace = true\n\n[dependencies]\n'
    for dependency in $dependencies; do echo "$dependency.workspace = true"; done
} >"$work/Cargo.toml"

cd "$work"
# mutants FOLDER ARGUMENT…: the folder of the results, then what to change and test.
mutants() {
    folder=$1
    shift
    cargo mutants --in-place --no-shuffle --output "$folder" "$@"
}
# Only the tests of the split need an optimised build: they draw millions of slips.
quick=--cargo-arg=--config=profile.test.package.shared.opt-level=0
status=0
case $part in
    domain)
        mutants others --exclude src/domain/split.rs $quick "$@" -- --lib -- --skip domain::split || status=$?
        mutants split --file src/domain/split.rs "$@" -- --lib -- domain::split || status=$?
        ;;
    ledger)
        mutants ledger --file 'src/ledger/{commit,claim,packet,refund,wallet,history}.rs' $quick "$@" \
            -- --lib -- ledger || status=$?
        ;;
esac
exit "$status"
