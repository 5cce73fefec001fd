//! Both stores in memory, for simulations. They give the same answers as the real ones, in the same order every time. They
//! use only the clock that they are given, and no randomness. Their state can be kept and restored.
//!
//! The hot store runs the scripts that ship, over a model of Redis. Tests compare that model with real servers, and the table with a
//! real implementation of the `DynamoDB` API.

mod limits;
mod server;
mod table;

pub use redis_model::Keyspace;
pub use server::{MemoryHot, MemoryServer};
pub use table::{MemoryTable, TableSnapshot, fingerprint};
