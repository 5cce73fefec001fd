//! The whole system on one machine, behind one address. Redis is a child process, `DynamoDB` runs in this process, and
//! a stand-in for API Gateway calls the functions' own handlers with the events that they receive on AWS.
//!
//! The program `hongbao` is a thin wrapper around [`Local`]. Tests start the same system in their own process.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod data_dir;
pub mod dynamodb;
pub mod functions;
pub mod gateway;
pub mod ledger_file;
pub mod options;
pub mod redis_server;
pub mod request_log;
mod run;
pub mod sandbox;
pub mod stack;
mod stores_file;
pub mod webhooks;

pub use options::{Ack, DevOptions, Mode, Options, SandboxOptions};
pub use run::Local;
