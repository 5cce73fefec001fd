#!/bin/sh
# Fuzzes each parser for MINUTES (10 by default), two parsers at a time. tests/parsers defines the properties of each.
# Fails if an input breaks a property; target/fuzz/artifacts then has the input. Add it to the corpus once the defect is fixed.
#
#   scripts/fuzz.sh                    run
#   scripts/fuzz.sh keep               add to the corpus the fewest inputs that reach all code that the runs newly reached
#   scripts/fuzz.sh add TARGET FILE…   add these inputs to the corpus as they are
#
# The corpus is one archive a target, tests/fuzz/corpus/TARGET.tar.gz. A run unpacks it to target/fuzz/kept/TARGET;
# "keep" and "add" pack it again. The same inputs give the same archive.
set -eu
cd "$(dirname "$0")/.."
minutes=${MINUTES:-10}
work=target/fuzz
packed=tests/fuzz/corpus
targets=$(cd "$packed" && ls | sed 's/\.tar\.gz$//')

unpack() {
    rm -rf "${work:?}/kept/$1"
    mkdir -p "$work/kept"
    tar -xzf "$packed/$1.tar.gz" -C "$work/kept"
}

# Python, because Debian's tar and that of macOS share no options for owners and times.
pack() {
    python3 - "$work/kept" "$1" "$packed/$1.tar.gz" <<'PYTHON'
import gzip, os, sys, tarfile

def plain(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry

folder, target, archive = sys.argv[1:]
with open(archive, "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(os.path.join(folder, target), target, filter=plain)
PYTHON
}

build() {
    scripts/install-tools.sh
    scripts/install-tools.sh fuzz
    PATH=$PWD/.tools/bin:$PATH
    # No sanitizer: sanitizers find defects of unsafe code, and there is none.
    cargo +nightly fuzz build --fuzz-dir tests/fuzz --target-dir "$work" --sanitizer none
    programs=$(dirname "$(ls "$work"/*/release/amounts)")
}

case ${1:-run} in
    run)
        build
        for target in $targets; do
            mkdir -p "$work/corpus/$target" "$work/artifacts/$target"
            unpack "$target"
        done
        # shellcheck disable=SC2016 # The inner shell expands them.
        printf '%s\n' $targets | xargs -P 2 -I '{}' sh -c '
            work=$1 seconds=$(($2 * 60)) program=$3/$4 target=$4
            "$program" "$work/corpus/$target" "$work/kept/$target" -max_total_time="$seconds" -timeout=10 \
                -rss_limit_mb=1024 -artifact_prefix="$work/artifacts/$target/" -print_final_stats=1 \
                >"$work/$target.log" 2>&1 || { tail -n 30 "$work/$target.log"; echo "$target: found something"; exit 1; }
            echo "$target: $(grep -E "cov: " "$work/$target.log" | tail -n 1)"
        ' sh "$work" "$minutes" "$programs" '{}'
        ;;
    keep)
        build
        for target in $targets; do
            unpack "$target"
            "$programs/$target" -set_cover_merge=1 -max_len=1024 "$work/kept/$target" "$work/corpus/$target" 2>&1 |
                grep -E 'MERGE-OUTER: .* new' || true
            pack "$target"
        done
        ;;
    add)
        target=${2:?usage: scripts/fuzz.sh add TARGET FILE...}
        shift 2
        unpack "$target"
        cp "$@" "$work/kept/$target/"
        pack "$target"
        ;;
    *) echo "fuzz: run, keep or add" >&2; exit 1 ;;
esac
