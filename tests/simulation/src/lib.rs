//! The simulation: the real use cases, in several processes, over stores in memory that misbehave. Everything that
//! happens in a run follows from its seed, so a run that breaks a promise can be replayed exactly.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A simulation that is wrong itself has to say so.

mod audit;
mod chance;
mod faults;
mod history;
mod hot;
mod mutants;
mod plan;
mod process;
mod run;
mod search;
mod spec;
mod table;
mod trace;
mod violation;
mod world;

pub use faults::{Fault, Struck};
pub use history::Heard;
pub use mutants::Mutant;
pub use run::{Outcome, run};
pub use search::{Totals, run_all};
pub use violation::{Kind, Violation};
pub use world::Tally;
