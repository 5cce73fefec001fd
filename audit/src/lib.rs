//! The audit: checks the ledger against itself, every packet against its slips and every wallet against its movements.
//!
//! It only reads the table, and shares nothing but key names with the code that writes it: a mistake that both made would hide
//! itself. Each module answers one question:
//!
//! - `scan`: which packets and wallets does a page of items lead to?
//! - `packet` and `wallet`: is this one in order?
//! - `confirm`: is what looks wrong really wrong, or did money move while it was read?
//! - `follow` and `auditor`: what is audited next, and where does the next run go on after a deadline?

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod auditor;
mod confirm;
mod follow;
mod item;
mod layout;
mod packet;
mod progress;
mod reader;
mod report;
mod run;
mod scan;
mod wallet;

pub use auditor::Auditor;
pub use confirm::Patience;
pub use progress::{Progress, TooManySegments};
pub use reader::ReadError;
pub use report::{Figures, Imbalance, Kind, Report};
