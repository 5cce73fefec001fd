#!/bin/sh
# Builds the functions for arm64, as they are deployed. Checks that each needs no newer glibc than the runtime
# provided.al2023 has, and prints each size.
#
#   scripts/arm64.sh          all functions
#   scripts/arm64.sh grab     only this one
set -eu

# The version in Amazon Linux 2023.
GLIBC_MOST=2.34

cd "$(dirname "$0")/.."
if [ $# = 0 ]; then
    for folder in functions/*; do set -- "$@" "${folder#functions/}"; done
fi

programs=
for name in "$@"; do programs="$programs --bin $name"; done
# shellcheck disable=SC2086 # One word for each argument.
cargo lambda build --release --arm64 $programs

printf '%-8s %10s %10s  %s\n' function bytes zipped glibc
for name in "$@"; do
    program=target/lambda/$name/bootstrap
    # Its glibc versions mean nothing unless it is built for arm64.
    readelf -h "$program" | grep -q AArch64 || { echo "$program is not for arm64" >&2; exit 1; }
    # Only a build of the whole workspace, which the tests use, has places where they let a process die.
    if grep -q 'crash point reached' "$program"; then echo "$program has crash points" >&2; exit 1; fi
    glibc=$(readelf -V "$program" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
    [ -n "$glibc" ] || { echo "$program names no version of glibc" >&2; exit 1; }
    printf '%-8s %10s %10s  %s\n' "$name" "$(wc -c <"$program")" "$(gzip -9 <"$program" | wc -c)" "$glibc"
    newest=$(printf '%s\n' "$glibc" "$GLIBC_MOST" | sort -V | tail -n 1)
    [ "$newest" = "$GLIBC_MOST" ] || { echo "$program needs glibc $glibc; the runtime has $GLIBC_MOST" >&2; exit 1; }
done
