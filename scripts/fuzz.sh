#!/bin/sh
# Fuzzes the parsers for MINUTES (30 by default) on two processors. tests/parsers defines the properties of each.
# Fails if an input breaks a property; target/fuzz/artifacts then has the input. Add it to the corpus once the defect is fixed.
#
#   scripts/fuzz.sh             run
#   scripts/fuzz.sh keep        add to the corpus the fewest inputs that reach all code that the runs newly reached
#   scripts/fuzz.sh add FILE…   add these inputs to the corpus as they are
#
# The corpus is tests/fuzz/corpus.tar.gz. A run unpacks it to target/fuzz/parsers; "keep" and "add" pack it again. The same inputs
# give the same archive. An input's first byte selects the parser.
set -eu
cd "$(dirname "$0")/.."
work=target/fuzz
packed=tests/fuzz/corpus.tar.gz

unpack() {
    rm -rf "${work:?}/parsers"
    mkdir -p "$work/corpus" "$work/artifacts"
    tar -xzf "$packed" -C "$work"
}

# Python, because Debian's tar and that of macOS share no options for owners and times.
pack() {
    python3 - "$work/parsers" "$packed" <<'PYTHON'
import gzip, sys, tarfile

def plain(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry

folder, archive = sys.argv[1:]
with open(archive, "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(folder, "parsers", filter=plain)
PYTHON
}

build() {
    scripts/install-tools.sh
    scripts/install-tools.sh fuzz
    PATH=$PWD/.tools/bin:$PATH
    # No sanitizer: sanitizers find defects of unsafe code, and there is none.
    cargo +nightly fuzz build --fuzz-dir tests/fuzz --target-dir "$work" --sanitizer none
    program=$(ls "$work"/*/release/fuzz)
}

case ${1:-run} in
    run)
        build
        unpack
        "$program" "$work/corpus" "$work/parsers" -fork=2 -max_total_time=$((${MINUTES:-30} * 60)) -timeout=10 \
            -rss_limit_mb=1024 -artifact_prefix="$work/artifacts/" >"$work/log" 2>&1 ||
            { tail -n 30 "$work/log"; echo "found something"; exit 1; }
        grep -E "cov: " "$work/log" | tail -n 1
        ;;
    keep)
        build
        unpack
        "$program" -set_cover_merge=1 -max_len=1024 "$work/parsers" "$work/corpus" 2>&1 | grep -E 'MERGE-OUTER: .* new' || true
        pack
        ;;
    add)
        shift
        unpack
        cp "$@" "$work/parsers/"
        pack
        ;;
    *) echo "fuzz: run, keep or add" >&2; exit 1 ;;
esac
