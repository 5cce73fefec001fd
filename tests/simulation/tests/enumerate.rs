//! Tests of the enumeration: every order of calls and faults in a small world keeps every promise, and planted mistakes are found.

#![allow(clippy::unwrap_used)]

use simulation::{INSTANCES, Mutant, enumerate};

/// For each mutant: a world that finds it soon.
const FOUND: &[(Mutant, &str)] = &[
    (Mutant::NoSlipDecision, "two users, two slips"),
    (Mutant::NoClaimDecision, "two users, two slips"),
    (Mutant::AcknowledgedBeforeCommit, "settle"),
    (Mutant::UnconfirmedAnswer, "two users, two slips"),
    (Mutant::ClaimUnread, "two devices"),
    (Mutant::HoldOverlooked, "two users grab twice"),
    (Mutant::SettledEarly, "settle"),
    (Mutant::LoaderOverwrites, "not loaded"),
    (Mutant::UncertainNegative, "two devices, a slip"),
    (Mutant::RefundWithoutDraining, "redis mode, settle"),
    (Mutant::CloseSkipsUnloaded, "close, not loaded"),
    (Mutant::RefundBeforeTold, "close, redis mode, settle"),
    (Mutant::CountedRefund, "two parts"),
    (Mutant::LimitReadBefore, "limit, two users"),
    (Mutant::RefusedBeforeClaim, "limit, settle, a fault"),
    (Mutant::PutBackAfterTimeout, "two users, two slips"),
    (Mutant::SettleKeepsRefused, "limit, settle"),
    (Mutant::FreedWithoutHold, "limit"),
];

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn every_order_keeps_every_promise() {
    let report = enumerate(&INSTANCES[0], None, threads(), u64::MAX);
    assert!(report.is_all && report.violation.is_none(), "{report}");
    assert!(report.paths > 1_500 && report.states > 2_000 && report.recoveries > 100, "{report}");
}

#[test]
fn planted_mistakes_are_found() {
    for (mutant, world) in FOUND {
        let instance = INSTANCES.iter().find(|instance| instance.name == *world).unwrap();
        let report = enumerate(instance, Some(*mutant), threads(), 20_000);
        assert!(report.violation.is_some(), "{mutant:?} in {world}: {report}");
        println!("{mutant:?} in {world}: {} paths", report.paths);
    }
}
