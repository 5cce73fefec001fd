//! The model accepts what the use cases do, and rejects mutants that alter a step.

use simulation::Mutant;
use simulation::conformance::{SKIPPED_MAX, conform, conform_all};

/// Seeds of one run of these tests.
const SEEDS: u64 = 500;

/// Mutants that alter a step, each with a seed that the model rejects. After a change of what seeds do, find new ones with
/// `make mutants`.
const REJECTED: [(Mutant, u64); 18] = [
    (Mutant::NoSlipDecision, 4),
    (Mutant::NoClaimDecision, 4),
    (Mutant::CountedRefund, 4),
    (Mutant::AcknowledgedBeforeCommit, 4),
    (Mutant::UnconfirmedAnswer, 0),
    (Mutant::UncertainNegative, 3),
    (Mutant::PutBackAfterTimeout, 20),
    (Mutant::AmountFromRedis, 6),
    (Mutant::SettledEarly, 2),
    (Mutant::RedisBeforeLedger, 0),
    (Mutant::LoaderOverwrites, 12),
    (Mutant::CachedBeforeFinal, 1),
    (Mutant::RefundWithoutDraining, 9),
    (Mutant::LoaderKnowsNoClose, 44),
    (Mutant::CloseSkipsUnloaded, 44),
    (Mutant::RefundBeforeTold, 9),
    (Mutant::StartByProcessClock, 127),
    (Mutant::StartNotInGuard, 8),
];

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn the_model_accepts_every_step() {
    let verdicts = conform_all(0..SEEDS, None, threads(), |_| false);
    println!("{verdicts}");
    assert_eq!(verdicts.seeds, SEEDS);
    for (seed, difference) in &verdicts.rejected {
        println!("make conformance SEED={seed}\n  {difference}");
    }
    assert!(verdicts.rejected.is_empty(), "the model rejects {} seeds", verdicts.rejected.len());
    assert!(verdicts.skipped() * 100 < SEEDS * SKIPPED_MAX, "too much is left out: {verdicts}");
    assert!(verdicts.steps > SEEDS * 50, "few steps: {verdicts}");
}

#[test]
fn the_model_rejects_mutants() {
    for (mutant, seed) in REJECTED {
        assert!(conform(seed, Some(mutant), false).difference.is_some(), "{mutant:?} is accepted");
        let verdict = conform(seed, None, false);
        assert!(verdict.difference.is_none(), "seed {seed} without {mutant:?}: {verdict:?}");
    }
}
