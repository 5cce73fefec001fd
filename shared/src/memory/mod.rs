//! Both stores in memory, for simulations: the same answers as the real ones, in the same order every time. They use
//! only the clock that they are given, no randomness, and a state that can be kept and restored.
//!
//! That the answers are the same is tested against a real Redis and a real implementation of the `DynamoDB` API.

mod hot;
mod part;
mod table;

pub use hot::{HotSnapshot, MemoryHot};
pub use part::{Entry, LoadedTerms, Part};
pub use table::{MemoryTable, TableSnapshot};
