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
    /// Number of steps between them.
    pub steps: usize,
    /// The longest path to a state, in steps.
    pub depth: usize,
    /// Duration of the check.
    pub time: Duration,
    /// Whether every state that can be reached was visited.
    pub is_complete: bool,
    /// Properties that should always hold, and do not.
    pub broken: Vec<&'static str>,
    /// Events that should happen in some state, and whether they do.
    pub reached: Vec<(&'static str, bool)>,
}

/// A path to a state that breaks a property.
pub struct Counterexample {
    /// The property.
    pub property: &'static str,
    /// The steps.
    pub steps: Vec<Action>,
}

/// Visits every state of an instance.
pub fn check(instance: &Instance) -> Report {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checker = Protocol(*instance).checker().threads(threads).spawn_dfs().join();
    let found = checker.discoveries();
    let properties: Vec<_> = checker.model().properties();
    // The checker ends when it has a discovery for each property, or has visited every state.
    let is_complete = checker.is_done() && found.len() < properties.len();
    let (reached, broken): (Vec<_>, Vec<_>) =
        properties.into_iter().partition(|property| property.expectation == Expectation::Sometimes);
    Report {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        time: started.elapsed(),
        is_complete,
        broken: broken.iter().map(|property| property.name).filter(|name| found.contains_key(name)).collect(),
        reached: reached.iter().map(|property| (property.name, found.contains_key(property.name))).collect(),
    }
}

/// The shortest counterexample to the property that a mutant should break, if there is one.
pub fn refute(mutant: Mutant) -> Option<Counterexample> {
    let (instance, property) = of_mutant(mutant);
    // Increases the depth step by step: a checker continues for a while after a discovery, and keeps the last one.
    let steps = (2..DEPTH_MAX).find_map(|depth| {
        let checker = Protocol(instance).checker().target_max_depth(depth).spawn_bfs().join();
        checker.discovery(property).map(Path::into_actions)
    })?;
    Some(Counterexample { property, steps })
}

impl Report {
    /// Whether every state was visited and no property is broken.
    pub fn is_good(&self) -> bool {
        self.is_complete && self.broken.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, steps, depth, time, is_complete, broken, .. } = self;
        let all = if *is_complete { "all" } else { "NOT ALL" };
        writeln!(f, "  {all} {states} states, {steps} steps, {depth} deep, {:.1} s", time.as_secs_f64())?;
        broken.iter().try_for_each(|name| writeln!(f, "  BROKEN: {name}"))
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  \"{}\" does not hold after these steps:", self.property)?;
        for (n, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {:>2}. {step:?}", n + 1)?;
        }
        Ok(())
    }
}
