//! The red-packet engine: what the functions, the local stack and the tests share.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_arithmetic))]

#[macro_use]
pub mod crash;

pub mod config;
pub mod domain;
pub mod dynamo;
pub mod http;
#[cfg(feature = "memory")]
pub mod memory;
pub mod metric;
pub mod parts;
pub mod redis;
pub mod service;
pub mod turns;

/// What every function does first: logs as the platform asks for, and one choice of cryptography for TLS.
pub fn start() {
    lambda_http::tracing::init_default_subscriber();
    redis::install_crypto_provider();
}

/// An error and all its causes, in one line: for logs.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |chain, cause| format!("{chain}: {cause}"))
}
