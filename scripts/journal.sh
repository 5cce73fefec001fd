#!/usr/bin/env bash
# Measures hongbao-admin journal and reconcile on an export with a number of movements, 10 million if no other: journal.sh [MOVEMENTS]
set -euo pipefail

cd "$(dirname "$0")/.."
programs=$PWD/target/measured movements=${1:-10000000} day=2026-11-23
cargo build --profile measured -p local -p admin -p tests --no-default-features --bin hongbao-admin --bin generate-export
[ -x /usr/bin/time ] || { echo "journal: GNU time is missing (package time)" >&2; exit 1; }
folder=$(mktemp -d "$programs/journal-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# measured WHAT COMMAND...: runs it, and prints its time and memory.
measured() {
    local what=$1
    shift
    /usr/bin/time -f "$what: %e s, %U s of user CPU, %M KB of memory at most" "$@"
}

measured export "$programs/generate-export" export "$movements" "$day"
measured journal "$programs/hongbao-admin" journal --day "$day" --day-zone UTC --export export --output books
# The movements as an app that mirrors them would list them.
awk -F, '{ sub(/\r$/, "") } NR == 1 { print "id,kind,user,amount,currency,time"; next } { print $4 "," $2 "," $3 "," $8 "," $9 "," $1 }' \
    books/journal.csv > transfers.csv
measured reconcile "$programs/hongbao-admin" reconcile books transfers.csv --kinds deposit,withdrawal,sent,claim,refund
