//! Every property holds in every state of small instances, and the checker refutes each mutant.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeSet, HashSet, VecDeque};

use clap::ValueEnum;
use model::instance::{Instance, Mutant};
use model::{Protocol, State, check, instances};
use stateright::Model;

/// The check must visit at least this many states.
const STATES_MIN: usize = 1_000_000;
/// States whose next states are compared with those of the renamed state.
const STATES_COMPARED: usize = 20_000;

#[test]
fn the_protocol_holds_in_every_state() {
    let mut states = 0;
    let mut missed: Option<BTreeSet<&str>> = None;
    for instance in instances::SMALL {
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
        let counterexample = counterexample.unwrap_or_else(|| panic!("{mutant} is not refuted"));
        println!("{mutant}\n{counterexample}");
    }
}

#[test]
fn a_mutant_is_refuted_because_of_its_mistake() {
    for mutant in Mutant::value_variants() {
        let (instance, _) = instances::of_mutant(*mutant);
        let report = check::check(&Instance { mutant: None, ..instance });
        assert!(report.is_good(), "{mutant}\n{report}");
    }
}

#[test]
fn renamed_users_and_settle_runs_lead_to_renamed_states() {
    let instance = Instance { rollbacks: 1, copies: 1, ..instances::SMALL[0] };
    let protocol = Protocol(Instance { settlers: 2, ..instance });
    let mut seen: HashSet<State> = protocol.init_states().into_iter().collect();
    let mut next: VecDeque<State> = seen.iter().copied().collect();
    for _ in 0..STATES_COMPARED {
        let state = next.pop_front().unwrap();
        let after = protocol.next_states(&state);
        for to in [[1, 0, 2], [1, 2, 0]] {
            let expected: HashSet<State> = after.iter().map(|state| state.renamed(to)).collect();
            assert_eq!(protocol.next_states(&state.renamed(to)).into_iter().collect::<HashSet<_>>(), expected);
        }
        let swapped = |mut state: State| {
            state.settles.swap(0, 1);
            state
        };
        let expected: HashSet<State> = after.iter().copied().map(swapped).collect();
        assert_eq!(protocol.next_states(&swapped(state)).into_iter().collect::<HashSet<_>>(), expected);
        next.extend(after.into_iter().filter(|state| seen.insert(*state)));
    }
}
