//! Turns many requests into few calls: a batcher, single-flight, an admission limiter and a bounded cache. Nothing here is
//! specific to this project.

mod admission;
mod batcher;
mod cache;
mod single_flight;

pub use admission::{AdmissionLimiter, Overloaded, Permit};
pub use batcher::{Batcher, Caller};
pub use cache::{Cache, cache, cache_of_large};
pub use single_flight::{Flight, FreshSingleFlight, Promise, SingleFlight};
