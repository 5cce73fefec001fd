#!/bin/sh
# Changes the code in small ways, one at a time, and lists the changes that no test notices. Uses cargo-mutants.
#
#   scripts/mutants.sh 3/20                 the third of twenty shards of all changes; about half an hour on two cores
#   scripts/mutants.sh 1/2 memory http      the first half of the changes of these modules
#   scripts/mutants.sh figures              adds up by module what all runs have found
#
# It works on a clone in target/mutants, never on this folder. Each change is judged by up to four rounds of tests, the
# quickest first. A round gets only the changes that the one before did not notice. .cargo/mutants.toml lists the skipped
# changes with reasons; target/mutants/missed.txt lists the changes of this run that no test noticed.
set -eu
cd "$(dirname "$0")/.."
work=$PWD/target/mutants
all="domain ledger service memory http batching settle"

# figures FOLDER…: a table by module, of the results in these folders.
figures() {
    for results in "$@"; do
        for round in 1 2 3 4; do
            for kind in caught unviable timeout missed; do
                file=$results/$round/mutants.out/$kind.txt
                # A later round decides about what an earlier one missed.
                [ ! -f "$file" ] || sed "s/^/$kind /" "$file"
            done
        done
    done | awk '
        {
            kind = $1; sub(/^[a-z]+ /, ""); path = $1; sub(/:.*/, "", path)
            found[$0] = kind; of[$0] = module(path)
        }
        function module(path) {
            if (path ~ /^functions\//) return "functions/settle"
            sub(/^shared\/src\//, "", path)
            if (path == "domain/split.rs") return "domain/split"
            if (path ~ /^service\/.*\//) { sub(/\/[^\/]*$/, "", path); return path }
            sub(/\/.*/, "", path)
            return path
        }
        END {
            for (change in found) { count[of[change], found[change]]++; modules[of[change]]++ }
            format = "%-20s %8s %16s %8s %14s %12s\n"
            printf format, "", "changes", "do not compile", "noticed", "run for ever", "not noticed"
            for (name in modules)
                printf format, name, modules[name], count[name, "unviable"] + 0, count[name, "caught"] + 0,
                    count[name, "timeout"] + 0, count[name, "missed"] + 0 | "sort"
        }'
}

shard=${1:?a shard, as 3/20, or figures}
shift
if [ "$shard" = figures ]; then
    figures "$work"/results/*
    exit
fi
number=${shard%/*}
of=${shard#*/}
[ "$number" -ge 1 ] && [ "$number" -le "$of" ] || { echo "mutants: shards are 1/$of to $of/$of" >&2; exit 1; }
modules=${*:-$all}
results=$work/results/$(echo "$modules" | tr '/ ' '.-')-$number-of-$of

scripts/install-tools.sh mutants
PATH=$PWD/.tools/bin:$PATH
mkdir -p "$work/results"
mkdir "$work/running" 2>/dev/null || { echo "mutants: another run is under way; if not, remove $work/running" >&2; exit 1; }
trap 'rmdir "$work/running"' EXIT
trap 'exit 1' INT TERM

# The clone has what is committed, and changes of files that Git knows.
[ -d "$work/tree" ] || git clone --quiet --shared --no-checkout . "$work/tree"
commit=$(git stash create)
git -C "$work/tree" checkout --quiet --force --detach "${commit:-$(git rev-parse HEAD)}"
rm -rf "$results"

export CARGO_TARGET_DIR="$work/build"
cd "$work/tree"
set --
for module in $modules; do
    case $module in
        settle) set -- "$@" --file 'functions/settle/src/**' ;;
        *) set -- "$@" --file "shared/src/$module/**" ;;
    esac
done

# round NUMBER ARGUMENT…: tests the changes that the round before has missed. The arguments go to cargo-mutants.
round() {
    number_of_round=$1
    shift
    if [ "$number_of_round" = 1 ]; then
        set -- --shard "$((number - 1))/$of" "$@"
    else
        missed=$results/$((number_of_round - 1))/mutants.out/missed.txt
        [ -s "$missed" ] || return 0
        while IFS= read -r change; do
            set -- --re "^$(printf '%s' "$change" | sed 's/[][\\.*^$()+?{}|]/\\&/g')\$" "$@"
        done <"$missed"
    fi
    mkdir -p "$results/$number_of_round"
    status=0
    cargo mutants --in-place --no-shuffle --profile mutants --output "$results/$number_of_round" "$@" || status=$?
    # 2: changes were missed; 3: some run for ever. Else the tests failed without a change.
    [ "$status" = 0 ] || [ "$status" = 2 ] || [ "$status" = 3 ] || exit "$status"
}

# These tests take minutes in a build without optimisation.
slow="--skip split::tests::mean --skip split::tests::after_the_shuffle --skip split::tests::before_the_shuffle"
slow="$slow --skip split::tests::the_last_slip_is_not --skip split::tests::the_shuffle_moves"
slow="$slow --skip view::tests::a_large_packet_that_changes --skip view::tests::a_shard_that_does_not_answer"
slow="$slow --skip view::tests::a_page_of_claims_reads --skip view::tests::a_list_of_sent_packets_does_not_read"
case " $modules " in *" domain "*) ;; *) slow="$slow --skip domain::" ;; esac
# These judge none of the changed modules, and wait for servers.
elsewhere="--skip redis:: --skip dynamodb::"
# These need seeds that do what they did when they were recorded; a harmless change moves them.
recorded="--skip every_planted_bug --skip the_model_rejects_mutants"

# targets NAME…: builds only these tests. Arguments behind -- reach only the run, so the build would make all tests.
targets() {
    for target in "$@"; do printf ' --cargo-arg=--%s' "$target"; done
}
optimised=--cargo-arg=--config=profile.mutants.package.shared.opt-level=2

# shellcheck disable=SC2046,SC2086 # The words are arguments.
{
    round 1 "$@" $(targets lib) -- -- $elsewhere $slow
    SIMULATION_SEEDS=200 round 2 "$@" $(targets test=backlog test=seeds) --test-package simulation -- -- $recorded
    round 3 "$@" $(targets lib test=portions test=conformance) $optimised --test-package shared,simulation -- -- $elsewhere $recorded
    case " $modules " in
        *" memory "*)
            "$OLDPWD/scripts/install-tools.sh"
            round 4 "$@" $(targets test=it) $optimised --test-package tests -- -- scripts::conformance scripts::sequences memory_table
            ;;
    esac
}

: >"$work/missed.txt"
for round in 1 2 3 4; do
    missed=$results/$round/mutants.out/missed.txt
    [ ! -f "$missed" ] || cp "$missed" "$work/missed.txt"
done
figures "$results"
if [ -s "$work/missed.txt" ]; then
    echo "No test notices these:"
    cat "$work/missed.txt"
    exit 1
fi
