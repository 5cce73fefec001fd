//! A rush, planned: what a number of users within some seconds needs, what they will see, and what it costs.
//!
//! [`simulate`] follows each request through API Gateway, Lambda, Redis and `DynamoDB`, and each client through its tries. It calls
//! nothing: limits and service times are [`Inputs`], prices and the work of a call come from `scripts/cost.json` ([`Costs`]). The same seed gives the same answer.

// A plan is made of rates, shares and dollars. No figure in it is a user's money.
#![allow(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod advice;
mod cost;
mod inputs;
mod outcome;
mod report;
mod rush;
mod sizing;
mod station;

#[cfg(test)]
mod tests;

pub use advice::Change;
pub use cost::{Cost, Costs};
pub use inputs::{Input, Inputs, TEMPLATE};
pub use outcome::{Answer, Limit, Outcome};
pub use report::{Course, Plan, Rounds};
pub use rush::{Rush, Times, simulate};
pub use sizing::table as sizing_table;

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
    /// The list of prices can't be read.
    #[error("the list of prices can't be read")]
    Costs(#[source] serde_json::Error),
}
