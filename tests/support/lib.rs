//! Shared by the tests: a world of real stores, and an audit that only trusts the ledger's items.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod api_gateway;
pub mod book;
pub mod books;
pub mod console;
pub mod dice;
pub mod emulator;
pub mod hot;
pub mod lambda_api;
pub mod postgres;
pub mod program;
pub mod promises;
pub mod relay;
pub mod rigged;
pub mod serving;
pub mod walkthrough;
pub mod world;

pub use books::{Books, PacketBooks, audit, audit_source, audit_table};
pub use promises::Promises;
pub use rigged::{Rig, Rigged};
pub use world::{Process, STORE_TIMEOUT, Servers, Setup, SkewedClock, Snapshot, World, packet, user, users};
