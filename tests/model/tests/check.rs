//! Every property holds in every state of small instances, and the checker refutes each mutant.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use clap::ValueEnum;
use model::check;
use model::instance::{Instance, Mutant, SMALL, of_mutant};

/// The check must visit at least this many states.
const STATES_MIN: usize = 1_000_000;

#[test]
fn the_protocol_holds_in_every_state() {
    let mut states = 0;
    let mut missed: Option<BTreeSet<&str>> = None;
    for instance in SMALL {
        let report = check::check(instance);
        println!("{}\n{report}", instance.name);
        assert!(report.is_complete, "{}: states were left out", instance.name);
        assert!(report.is_good(), "{}\n{report}", instance.name);
        states += report.states;
        let here: BTreeSet<_> =
            report.reached.iter().filter(|(_, is_reached)| !is_reached).map(|(name, _)| *name).collect();
        missed = Some(missed.map_or_else(|| here.clone(), |missed| &missed & &here));
    }
    assert_eq!(missed, Some(BTreeSet::new()), "these events never happened, so the model does not cover them");
    assert!(states >= STATES_MIN, "{states} states");
}

#[test]
fn every_mutant_is_refuted() {
    for mutant in Mutant::value_variants() {
        let counterexample = check::refute(*mutant);
        let counterexample = counterexample.unwrap_or_else(|| panic!("{mutant:?} is not refuted"));
        println!("{mutant:?}\n{counterexample}");
    }
}

#[test]
fn a_mutant_is_refuted_because_of_its_mistake() {
    for mutant in Mutant::value_variants() {
        let (instance, _) = of_mutant(*mutant);
        let report = check::check(&Instance { mutant: None, ..instance });
        assert!(report.is_good(), "{mutant:?}\n{report}");
    }
}
