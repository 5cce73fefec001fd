//! Tests of the simulation: it finds no broken promise in the protocol, and finds every mutant.

#![allow(clippy::unwrap_used)]

use clap::ValueEnum;
use simulation::{Fault, Kind, Mutant, run, run_all};

/// Seeds of one run of these tests. `make mutants OF=rust` runs them for each change of the code, with fewer.
fn seeds() -> u64 {
    std::env::var("SIMULATION_SEEDS").map_or(2_000, |seeds| seeds.parse().unwrap())
}

/// For each mutant: a seed that finds it, and the promise that breaks first. After a change of what seeds do, find
/// new ones with `make mutants`.
const FOUND: [(Mutant, u64, Kind); 27] = [
    (Mutant::NoSlipDecision, 5, Kind::Claim),
    (Mutant::NoClaimDecision, 44, Kind::Answer),
    (Mutant::CountedRefund, 4, Kind::Conservation),
    (Mutant::AcknowledgedBeforeCommit, 6, Kind::Promise),
    (Mutant::UnconfirmedAnswer, 2, Kind::Promise),
    (Mutant::UncertainNegative, 318, Kind::Promise),
    (Mutant::FreshTime, 4, Kind::Promise),
    (Mutant::PutBackAfterTimeout, 712, Kind::Promise),
    (Mutant::AmountFromRedis, 6, Kind::Decision),
    (Mutant::SettledEarly, 39, Kind::Decision),
    (Mutant::RedisBeforeLedger, 0, Kind::Answer),
    (Mutant::LoaderOverwrites, 37, Kind::Promise),
    (Mutant::RefundWithoutDraining, 548, Kind::Promise),
    (Mutant::KeyNotReread, 0, Kind::Answer),
    (Mutant::SeedAtExpiry, 2, Kind::Secrecy),
    (Mutant::LoaderKnowsNoClose, 114, Kind::Closed),
    (Mutant::CloseSkipsUnloaded, 474, Kind::Closed),
    (Mutant::RefundBeforeTold, 174, Kind::Promise),
    (Mutant::SuspensionReadBefore, 1006, Kind::Limit),
    (Mutant::CountedApart, 6, Kind::Limit),
    (Mutant::StartByProcessClock, 125, Kind::Start),
    (Mutant::EndedTwice, 9, Kind::Answer),
    (Mutant::LimitReadBefore, 11340, Kind::Limit),
    (Mutant::ClaimUnread, 4, Kind::Promise),
    (Mutant::HoldOverlooked, 6, Kind::Promise),
    (Mutant::RefusedBeforeClaim, 119, Kind::Promise),
    (Mutant::SettleKeepsRefused, 201, Kind::Liveness),
];

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn no_promise_is_broken() {
    let seeds = seeds();
    let totals = run_all(0..seeds, None, threads(), |_| false);
    assert_eq!(totals.runs, seeds);
    for (seed, violation) in &totals.failed {
        println!("{violation}\n  make simulate SEED={seed}");
    }
    assert!(totals.failed.is_empty(), "{} seeds break a promise", totals.failed.len());
    for answer in ["grabbed", "sold out", "expired", "not started", "refused", "not found", "unknown"] {
        let count = totals.answers.get(answer).copied().unwrap_or_default();
        assert!(count > seeds / 10, "{answer} was answered {count} times");
    }
    let suspended = totals.answers.get("suspended").copied().unwrap_or_default();
    assert!(suspended > seeds / 20, "{suspended} users were suspended");
    let limited = totals.answers.get("limit reached").copied().unwrap_or_default();
    assert!(limited > seeds / 20, "{limited} users had reached a limit");
    for &fault in Fault::value_variants() {
        assert!(totals.struck.of(fault) > seeds / 500, "{fault:?} struck {} times", totals.struck.of(fault));
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..60 {
        let (first, second) = (run(seed, None, true).tally, run(seed, None, true).tally);
        for (one, other) in first.lines.iter().zip(&second.lines) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!((first.hash, first.lines.len()), (second.hash, second.lines.len()), "seed {seed}");
        assert_eq!(run(seed, None, false).tally.hash, first.hash, "seed {seed}: without its lines");
    }
}

#[test]
fn every_planted_bug_is_found_by_its_seed() {
    // Only the enumeration finds this one soon.
    let is_known =
        |mutant: &Mutant| *mutant == Mutant::FreedWithoutHold || FOUND.iter().any(|(found, ..)| found == mutant);
    assert!(Mutant::value_variants().iter().all(is_known));
    for (mutant, seed, kind) in FOUND {
        let violations = run(seed, Some(mutant), false).tally.violations;
        assert_eq!(violations.first().map(|violation| violation.kind), Some(kind), "{mutant:?}: {violations:?}");
        let violations = run(seed, None, false).tally.violations;
        assert!(violations.is_empty(), "seed {seed} without {mutant:?}: {violations:?}");
    }
}
