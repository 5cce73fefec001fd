//! Real kills: real processes over a real Redis and a real `DynamoDB` API, with a fault proxy before each.
//!
//! Workers die by `SIGKILL` at crash points and at random and are started again at once, Redis is harmed in every way it
//! knows, and requests fail before and after they are carried out. Clients retry as real ones would, and every answer they
//! were given is held against the ledger in the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // A harness that can't work has failed.
#![cfg(feature = "crash-points")]

pub mod book;
pub mod clients;
pub mod crowd;
pub mod dice;
pub mod dynamo_proxy;
pub mod fleet;
pub mod hot;
pub mod redis_proxy;
pub mod report;
pub mod run;
pub mod shard;
pub mod tally;
pub mod worker;
