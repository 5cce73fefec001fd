//! The audit: checks the ledger against itself, every packet against its slips and every wallet against its movements.
//!
//! It only reads the table, and shares only key names with the code that writes it: a shared mistake would hide itself.
//! Each module answers one question:
//!
//! - `scan`: to which packets and wallets does a page of items lead?
//! - `packet` and `wallet`: is this one in order?
//! - `confirm`: is a suspected imbalance real, or did money move during the read?
//! - `follow` and `auditor`: what is audited next, and where does the next run continue after a deadline?

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
pub use confirm::Rereads;
pub use item::{Name, Own};
pub use progress::{Progress, TooManySegments};
pub use reader::{Item, Page, ReadError, Reader, Segment, key_of};
pub use report::{Figures, Imbalance, Kind, Report};
