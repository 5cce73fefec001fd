//! The whole system on one machine, behind one address: Redis as a child process, `DynamoDB` inside this one, and a
//! stand-in for API Gateway that gives the functions' own handlers the events they get on AWS.
//!
//! The binary is a thin wrapper around [`Local`], and tests start the same thing in their own process.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod data_dir;
pub mod dynamodb;
pub mod gateway;
pub mod options;
pub mod redis_server;
mod run;
pub mod stack;
mod stores_file;

pub use options::{Ack, Options};
pub use run::{Local, StartError};
