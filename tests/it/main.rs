//! Tests with a real Redis server, a `DynamoDB` API, and the functions' own programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin;
mod amazon;
mod audit;
mod close;
mod contract;
#[cfg(target_os = "linux")] // The emulator runs only there.
mod functions;
mod growth;
mod guard;
mod http_rush;
mod hung_reads;
mod journal;
mod layers;
mod live;
mod memory_table;
mod pressure;
mod programs;
mod readme;
mod repair;
mod rush;
mod rust_client;
mod rust_crate;
mod scripts;
mod send;
mod settle;
mod template;
mod webhooks;

/// A file of the repository.
fn repository(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
