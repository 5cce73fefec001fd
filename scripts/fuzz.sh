#!/bin/sh
# Gives every parser what a fuzzer comes up with, MINUTES (10 by default) for each, two at a time. What must hold of each
# is in tests/parsers. Ends with an error if anything did not; what made it fail is then in target/fuzz/artifacts, and
# belongs into tests/fuzz/corpus once it is mended.
#
#   scripts/fuzz.sh         run
#   scripts/fuzz.sh keep    add what the runs so far found worth keeping to tests/fuzz/corpus: the least that covers all
set -eu
cd "$(dirname "$0")/.."
minutes=${MINUTES:-10}
work=target/fuzz
targets=$(ls tests/fuzz/corpus)

scripts/install-tools.sh
scripts/install-tools.sh fuzz
PATH=$PWD/.tools/bin:$PATH
# No sanitizer: they look for what only unsafe code can do, and there is none.
cargo +nightly fuzz build --fuzz-dir tests/fuzz --target-dir "$work" --sanitizer none
programs=$(dirname "$(ls "$work"/*/release/amounts)")

case ${1:-run} in
    run)
        for target in $targets; do mkdir -p "$work/corpus/$target" "$work/artifacts/$target"; done
        # shellcheck disable=SC2016 # The inner shell expands them.
        printf '%s\n' $targets | xargs -P 2 -I '{}' sh -c '
            work=$1 seconds=$(($2 * 60)) program=$3/$4 target=$4
            "$program" "$work/corpus/$target" "tests/fuzz/corpus/$target" -max_total_time="$seconds" -timeout=10 \
                -rss_limit_mb=1024 -artifact_prefix="$work/artifacts/$target/" -print_final_stats=1 \
                >"$work/$target.log" 2>&1 || { tail -n 30 "$work/$target.log"; echo "$target: found something"; exit 1; }
            echo "$target: $(grep -E "cov: " "$work/$target.log" | tail -n 1)"
        ' sh "$work" "$minutes" "$programs" '{}'
        ;;
    keep)
        for target in $targets; do
            "$programs/$target" -set_cover_merge=1 -max_len=1024 "tests/fuzz/corpus/$target" "$work/corpus/$target" 2>&1 |
                grep -E 'MERGE-OUTER: .* new' || true
        done
        ;;
    *) echo "fuzz: run or keep" >&2; exit 1 ;;
esac
