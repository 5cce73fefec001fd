//! Turns many requests into few calls: a batcher, single-flight, permits and a bounded cache. Nothing here is
//! specific to this project.

mod batcher;
mod cache;
mod permits;
mod single_flight;

pub use batcher::{Batcher, Caller};
pub use cache::{Cache, cache, cache_of_large};
pub use permits::{Overloaded, Permit, Permits};
pub use single_flight::{Duty, Flight, FreshSingleFlight, SingleFlight};
