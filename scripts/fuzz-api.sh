#!/bin/sh
# Calls every operation of openapi.yaml with valid and invalid requests, on its own local stack. Answers must not be server
# errors, and must have a documented status, content type, headers and body. Invalid requests must be refused, valid requests
# accepted.
#
# CASES (default 1000) is the number of cases per operation. SEED (default 1) chooses the cases; a seed repeats them, except
# for packets' ids. target/fuzz-api has the report, and the counts of requests and answers in answers.json.
set -eu
cd "$(dirname "$0")/.."
cases=${CASES:-1000} seed=${SEED:-1}
work=target/fuzz-api
mkdir -p "$work"

scripts/install-tools.sh
scripts/install-tools.sh schemathesis
# Built with the whole workspace, like the tests: by itself its dependencies would get other features and be built again.
cargo build --quiet --workspace --bin hongbao

key='{"keys":[{"kty":"oct","kid":"fuzz","k":"PYbn25y-McoGFfH72cvSQG_cjLHINbaqjMUQ0RBIIGU"}]}'
target/debug/hongbao dev --ephemeral --port 0 --user-withdrawals --ticket-key "$key" >"$work/stack.out" 2>"$work/stack.log" &
stack=$!
trap 'kill "$stack" 2>/dev/null || true; wait "$stack" || true' EXIT
trap 'exit 1' INT TERM
until url=$(sed -n 's/^hongbao is ready at //p' "$work/stack.out") && [ -n "$url" ]; do
    kill -0 "$stack" 2>/dev/null || { cat "$work/stack.log" >&2; exit 1; }
    sleep 0.1
done

# call USER METHOD PATH [BODY] [KEY]
call() {
    curl -sS --fail -X "$2" -H "X-User-Id: $1" -H "Idempotency-Key: ${5:-none}" ${4:+--data "$4"} "$url$3"
}
# send KEY BODY: sends a packet as alice and prints its id
send() { call alice POST /packets "$2" "$1" | sed 's/.*"packet_id":"\([^"]*\)".*/\1/'; }
# after PATH: the cursor after the first row of bob's or the operator's list; PATH ends with the beginning of a query
after() { call bob GET "$1limit=1" | sed -n 's/.*"next_cursor":"\([^"]*\)".*/\1/p'; }

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
