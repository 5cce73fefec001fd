//! The simulation: the real use cases, in several processes, over in-memory stores that fail by seed. A run follows
//! entirely from its seed, so a run that breaks a promise can be repeated exactly.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A defect of the simulation itself must stop it.

mod audit;
mod enumerate;
mod faults;
mod gate;
mod history;
mod hot;
mod mutants;
mod plan;
mod process;
mod run;
mod table;
mod trace;
mod world;

pub use audit::audit;
pub use enumerate::{INSTANCES, Instance, Report, enumerate};
pub use faults::{Fault, Struck};
pub use history::AnswerCounts;
pub use mutants::Mutant;
pub use run::{Outcome, Totals, run, run_all};
pub use trace::{Kind, Violation};
pub use world::{Known, Tally};
