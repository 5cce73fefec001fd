//! The properties of each parser, for every possible input. No parser panics. Where it applies, an accepted value prints again
//! as the input, lies within the limits, and breaks no rule of the contract.
//!
//! The fuzz targets in `tests/fuzz` call these functions with generated inputs. The test of this crate calls them with the
//! inputs of the corpora.

// A panic is how these functions report a finding.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

mod amounts;
mod bodies;
mod cursors;
mod dynamodb;
mod ids;
mod replies;

pub use amounts::amounts;
pub use bodies::bodies;
pub use cursors::cursors;
pub use dynamodb::{cancellations, items};
pub use ids::ids;
pub use replies::replies;

/// A target's name, and the function that checks the properties.
pub type Target = (&'static str, fn(&[u8]));

/// All targets. The fuzz targets and the archives of the corpora have the same names.
pub const TARGETS: [Target; 7] = [
    ("amounts", amounts),
    ("bodies", bodies),
    ("cancellations", cancellations),
    ("cursors", cursors),
    ("ids", ids),
    ("items", items),
    ("replies", replies),
];
