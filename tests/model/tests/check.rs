//! Every property holds in every state of small instances, and the checker refutes each mutant.

#![allow(clippy::panic)]

use std::collections::BTreeSet;

use clap::ValueEnum;
use model::instance::{Instance, Mutant, SMALL, of_mutant};
use model::{check, refute};

/// The check must visit at least this many states.
const STATES_MIN: usize = 1_000_000;

#[test]
fn the_protocol_holds_in_every_state() {
    let mut states = 0;
    let mut missed: Option<BTreeSet<&str>> = None;
    for instance in SMALL {
        let report = check(instance);
        println!("{}: {report}", instance.name);
        assert!(report.is_good(), "{}: {report}", instance.name);
        states += report.states;
        let here: BTreeSet<_> = report.missed.into_iter().collect();
        missed = Some(missed.map_or_else(|| here.clone(), |missed| &missed & &here));
    }
    assert_eq!(missed, Some(BTreeSet::new()), "these events never happened, so the model does not cover them");
    assert!(states >= STATES_MIN, "{states} states");
}

#[test]
fn every_mutant_is_refuted() {
    for mutant in Mutant::value_variants() {
        let steps = refute(*mutant).unwrap_or_else(|| panic!("{mutant:?} is not refuted"));
        println!("{mutant:?}: \"{}\" breaks in {} steps", of_mutant(*mutant).1, steps.len());
    }
}

#[test]
fn a_mutant_is_refuted_because_of_its_mistake() {
    for mutant in Mutant::value_variants() {
        let (instance, _) = of_mutant(*mutant);
        let report = check(&Instance { mutant: None, ..instance });
        assert!(report.is_good(), "{mutant:?}: {report}");
    }
}
