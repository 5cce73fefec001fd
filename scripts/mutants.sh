#!/bin/sh
# Changes the code in small ways, one at a time, and looks for a change that no test notices: with cargo-mutants.
#
#   scripts/mutants.sh domain    shared/src/domain, by its own tests
#
# It works on a crate made of those sources alone, in target/mutants: the whole library would take minutes to build, and
# it is built hundreds of times. The dependencies and the profiles are the workspace's. .cargo/mutants.toml lists what is
# left out, and why; target/mutants/*/*/missed.txt, what no test noticed.
set -eu
cd "$(dirname "$0")/.."
part=${1:-domain}
work=target/mutants/$part
scripts/install-tools.sh mutants
PATH=$PWD/.tools/bin:$PATH

mkdir -p "$work/.cargo"
rm -rf "$work/src"
mkdir "$work/src"
cp Cargo.lock rust-toolchain.toml "$work"
cp .cargo/mutants.toml "$work/.cargo"
cp -R "shared/src/$part" "$work/src"
echo "pub mod $part;" >"$work/src/lib.rs"
{
    sed -e '/^members/d' -e '/^default-members/d' Cargo.toml
    cat <<TOML

[package]
# The workspace's profiles name it.
name = "shared"
version.workspace = true
edition.workspace = true

[dependencies]
chacha20.workspace = true
hex.workspace = true
jiff.workspace = true
proptest.workspace = true
serde.workspace = true
serde_json.workspace = true
sha2.workspace = true
thiserror.workspace = true
ulid.workspace = true
TOML
} >"$work/Cargo.toml"

cd "$work"
# mutants FOLDER ARGUMENT…: where the results lie, and what to change and test.
mutants() {
    folder=$1
    shift
    cargo mutants --in-place --no-shuffle --output "$folder" "$@"
}
# The tests of the split draw millions of slips: the others do without them, and without the optimizer that they need.
status=0
mutants others --exclude 'src/domain/split.rs' --cargo-arg=--config=profile.test.package.shared.opt-level=0 \
    -- -- --skip domain::split || status=$?
mutants split --file 'src/domain/split.rs' -- -- domain::split || status=$?
exit "$status"
