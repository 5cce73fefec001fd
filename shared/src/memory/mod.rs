//! Both stores in memory, for simulations. They give the same answers as the real ones, in the same order every time. They
//! use only the clock that they are given, and no randomness. Their state can be kept and restored.
//!
//! Tests compare their answers with those of a real Redis and of a real implementation of the `DynamoDB` API.

mod hot;
mod limits;
mod part;
mod table;

pub use hot::{HotSnapshot, MemoryHot};
pub use part::{Entry, LoadedTerms, Part};
pub use table::{MemoryTable, TableSnapshot};
