//! The audit: checks the ledger against itself, every packet against its slips and every wallet against its movements.
//!
//! It reads the ledger by the one method of a [`Source`], and shares only key names with the code that writes it: a shared mistake would
//! hide itself. The journal, the simulation and the books of tests read items with this crate too.
//! Each module answers one question:
//!
//! - `source`: where do items come from? `reader` is the table.
//! - `item`: what does an item say?
//! - `packet` and `wallet`: is this one in order?
//! - `confirm`: is a suspected imbalance real, or did money move during the read?
//! - `follow` and `auditor`: what is audited next, and where does the next run continue after a deadline?

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod auditor;
#[cfg(any(test, feature = "test-support"))]
pub mod books;
mod confirm;
mod follow;
mod item;
mod packet;
mod progress;
mod reader;
mod report;
mod run;
mod source;
mod wallet;

pub use auditor::Auditor;
pub use confirm::Rereads;
pub use item::{Fields, Malformed, Name, Own, Withdrawal};
pub use progress::{Progress, TooManySegments};
pub use reader::Reader;
pub use report::{Figures, Imbalance, Kind, Report};
pub use source::{Only, Page, Range, ReadError, Since, Source, key_of, shown};
