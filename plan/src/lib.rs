//! A rush, planned: what a number of users within some seconds needs, what they will see, and what it costs.
//!
//! [`simulate`] follows each request through API Gateway, Lambda, Redis and `DynamoDB`, and each client through its tries. It calls
//! nothing: limits are [`Inputs`], service times come from a recorded benchmark ([`Report`]), prices from `scripts/cost.json`
//! ([`Costs`]). The same seed gives the same answer.

// A plan is made of rates, shares and dollars. No figure in it is a user's money.
#![allow(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod advice;
mod check;
mod cost;
mod inputs;
mod outcome;
mod plan;
mod report;
mod rush;
mod sizing;
mod station;
mod text;

#[cfg(test)]
mod tests;

pub use advice::{Advice, Change, raise};
pub use check::{Check, Compared, check};
pub use cost::{Cost, Costs};
pub use inputs::{Input, Inputs, Source};
pub use outcome::{Answer, Limit, Outcome, Second};
pub use plan::Plan;
pub use report::{Cell, RECORDED, Report};
pub use rush::{Rush, Times, simulate};
pub use sizing::{Needs, SIZES, Size};
pub use text::{inputs as list_inputs, sizing as sizing_table};

/// Why a plan can't be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// An input that does not exist.
    #[error("there is no input {0}: --inputs lists them")]
    NoInput(String),
    /// An input with a value that it can't have.
    #[error("{0}: expected {1}")]
    BadInput(&'static str, &'static str),
    /// A rush that can't be simulated.
    #[error("{0}")]
    BadRush(&'static str),
    /// A report without a figure that the plan needs.
    #[error("the report has no cell \"{0}\" in workload {1}: record one with A to E")]
    NoCell(&'static str, &'static str),
    /// The list of prices can't be read.
    #[error("the list of prices can't be read")]
    Costs(#[source] serde_json::Error),
}
