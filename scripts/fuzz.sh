#!/bin/sh
# Fuzzes the API, or the parsers.
#
#   scripts/fuzz.sh api                calls every operation of openapi.yaml with valid and invalid requests, on its own local stack
#   scripts/fuzz.sh parsers            fuzzes each parser for MINUTES (10 by default), two parsers at a time
#   scripts/fuzz.sh keep               add to the corpus the fewest inputs that reach all code that the runs newly reached
#   scripts/fuzz.sh add TARGET FILE…   add these inputs to the corpus as they are
#
# Answers of the API must not be server errors, and must have a documented status, content type, headers and body. Invalid requests must
# be refused, valid requests accepted. CASES (default 1000) is the number of cases per operation. SEED (default 1) chooses the cases; a
# seed repeats them, except for packets' ids. target/fuzz-api has the report, and the counts of requests and answers in answers.json.
#
# tests/parsers defines the properties of each parser. If an input breaks one, target/fuzz/artifacts has the input. Add it to the corpus
# once the defect is fixed. The corpus is one archive a target, tests/fuzz/corpus/TARGET.tar.gz. A run unpacks it to target/fuzz/kept/TARGET;
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

# call USER METHOD PATH [BODY] [KEY]
call() {
    curl -sS --fail -X "$2" -H "X-User-Id: $1" -H "Idempotency-Key: ${5:-none}" ${4:+--data "$4"} "$url$3"
}
# send KEY BODY: sends a packet as alice and prints its id
send() { call alice POST /packets "$2" "$1" | sed 's/.*"packet_id":"\([^"]*\)".*/\1/'; }
# after PATH: the cursor after the first row of bob's or the operator's list; PATH ends with the beginning of a query
after() { call bob GET "$1limit=1" | sed -n 's/.*"next_cursor":"\([^"]*\)".*/\1/p'; }

fuzz_api() {
    cases=${CASES:-1000} seed=${SEED:-1}
    work=target/fuzz-api
    mkdir -p "$work"

    scripts/install-tools.sh
    scripts/install-tools.sh schemathesis
    # Built with the whole workspace, like the tests: by itself its dependencies would get other features and be built again.
    cargo build --quiet --workspace --bin local

    target/debug/local --ephemeral --port 0 >"$work/stack.out" 2>"$work/stack.log" &
    stack=$!
    trap 'kill "$stack" 2>/dev/null || true; wait "$stack" || true' EXIT
    trap 'exit 1' INT TERM
    until url=$(sed -n 's/^hongbao is ready at //p' "$work/stack.out") && [ -n "$url" ]; do
        kill -0 "$stack" 2>/dev/null || { cat "$work/stack.log" >&2; exit 1; }
        sleep 0.1
    done

    for user in alice bob carol dave; do
        call "$user" PUT "/wallets/$user/deposits/fuzz" '{"amount":1000000000000}' >"$work/answer"
    done
    open=$(send open '{"split":"random","total_amount":5000000,"count":1000,"greeting":"恭喜发财"}')
    large=$(send large '{"split":"equal","total_amount":5000,"count":5000}')
    secret=$(send secret '{"split":"random","total_amount":10000,"count":100,"passphrase":"芝麻开门"}')
    for_bob=$(send for-bob '{"split":"random","total_amount":10000,"count":100,"recipients":["bob"]}')
    sold_out=$(send sold-out '{"split":"equal","total_amount":2,"count":2}')
    expired=$(send expired '{"split":"random","total_amount":1000,"count":3,"expires_in_s":1}')
    for user in alice bob; do
        for packet in "$open" "$sold_out" "$expired"; do
            call "$user" POST "/packets/$packet/grab" >"$work/answer"
        done
    done
    until call alice GET "/packets/$expired" | grep -q '"status":"settled"'; do
        kill -0 "$stack"
        sleep 0.5
    done

    # Packets to close: one that is open, one with claims, one that is settled.
    for count in 2 5000; do
        printf '"%s"\n' "$(send "to-close-$count" '{"split":"equal","total_amount":5000,"count":'"$count"'}')"
    done >"$work/closable"
    call bob POST "/packets/$(sed -n 's/"//g;1p' "$work/closable")/grab" >"$work/answer"
    printf '"%s"\n' "$expired" >>"$work/closable"

    # The first packet appears twice, so that most grabs find a slip.
    printf '"%s"\n' "$open" "$open" "$large" "$secret" "$for_bob" "$sold_out" "$expired" >"$work/packets"
    for list in "/packets/$open/claims?" "/packets/$open/claims?order=newest&" "/me/claims?" "/me/movements?" "/wallets/alice/movements?"; do
        printf '"%s"\n' "$(after "$list")"
    done >"$work/cursors"

    .tools/schemathesis/bin/schemathesis --config-file tests/fuzz-api/schemathesis.toml run openapi.yaml --url "$url" \
        --max-examples "$cases" --seed "$seed" --no-color --generation-database none \
        --report json --report-json-path "$work/report.json"
}

case ${1:-} in
    api) fuzz_api ;;
    parsers)
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
    *) echo "fuzz: api, parsers, keep or add" >&2; exit 1 ;;
esac
