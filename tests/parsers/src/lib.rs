//! What must hold of each parser, whatever it is given: no panic, and more where more can be said. What it takes prints
//! again as what was given, lies within the limits, and is nothing that the contract forbids.
//!
//! The fuzz targets in `tests/fuzz` call these functions with what they come up with; the test of this crate calls them
//! with what was found worth keeping.

// They panic at whatever they find: that is what they are for.
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

/// A parser's name, and what must hold of it.
pub type Target = (&'static str, fn(&[u8]));

/// Every target. The names are those of the fuzz targets and of the archives of their corpora.
pub const TARGETS: [Target; 7] = [
    ("amounts", amounts),
    ("bodies", bodies),
    ("cancellations", cancellations),
    ("cursors", cursors),
    ("ids", ids),
    ("items", items),
    ("replies", replies),
];
