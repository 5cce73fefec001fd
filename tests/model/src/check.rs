//! The checker and its report.

use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, Model, Path};

use crate::instance::{Instance, Mutant, of_mutant};
use crate::protocol::{Action, Protocol};

/// The longest counterexample to search for, in steps.
const DEPTH_MAX: usize = 20;

/// The result for one instance.
pub struct Report {
    /// Number of different states.
    pub states: usize,
    /// Duration of the check.
    pub time: Duration,
    /// Whether every state that can be reached was visited.
    pub is_complete: bool,
    /// Properties that should always hold, and do not.
    pub broken: Vec<&'static str>,
    /// Events that should happen in some instance, and do not in this one.
    pub missed: Vec<&'static str>,
}

/// Visits every state of an instance.
pub fn check(instance: &Instance) -> Report {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checker = Protocol(*instance).checker().threads(threads).spawn_dfs().join();
    let found = checker.discoveries();
    let properties: Vec<_> = checker.model().properties();
    let names = |wanted: Expectation, is_found: bool| {
        let wanted = properties.iter().filter(move |property| property.expectation == wanted);
        wanted.map(|property| property.name).filter(|name| found.contains_key(name) == is_found).collect()
    };
    Report {
        states: checker.unique_state_count(),
        time: started.elapsed(),
        // The checker ends when it has a discovery for each property, or has visited every state.
        is_complete: checker.is_done() && found.len() < properties.len(),
        broken: names(Expectation::Always, true),
        missed: names(Expectation::Sometimes, false),
    }
}

/// The shortest way, in steps, to a state that breaks the property that a mutant should break, if there is one.
pub fn refute(mutant: Mutant) -> Option<Vec<Action>> {
    let (instance, property) = of_mutant(mutant);
    // Increases the depth step by step: a checker continues for a while after a discovery, and keeps the last one.
    (2..DEPTH_MAX).find_map(|depth| {
        let checker = Protocol(instance).checker().target_max_depth(depth).spawn_bfs().join();
        checker.discovery(property).map(Path::into_actions)
    })
}

impl Report {
    /// Whether every state was visited and no property is broken.
    pub fn is_good(&self) -> bool {
        self.is_complete && self.broken.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, time, is_complete, broken, .. } = self;
        let all = if *is_complete { "all" } else { "NOT ALL" };
        write!(f, "{all} {states} states, {:.1} s", time.as_secs_f64())?;
        broken.iter().try_for_each(|name| write!(f, "; BROKEN: {name}"))
    }
}
