//! The red-packet engine: what the functions, the local stack and the tests share.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::float_arithmetic))]

#[macro_use]
pub mod crash;

pub mod batching;
pub mod config;
pub mod domain;
pub mod dynamodb;
pub mod events;
pub mod http;
pub mod jws;
pub mod ledger;
pub mod logs;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod ports;
pub mod redis;
pub mod secret;
pub mod service;
pub mod telemetry;
pub mod tickets;
pub mod timeouts;
pub mod wiring;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use tokio::runtime::Builder;

/// Runs a function. It sets up logs as the platform asks for them, and chooses the cryptography for TLS.
///
/// A process that answers one event at a time runs on one thread. It mostly has less than one processor, and each round trip
/// would wait for another thread to wake up.
pub fn run<E: From<io::Error> + fmt::Display>(function: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let logs_json = logs::as_lambda_wants();
    redis::install_crypto_provider();
    let mut runtime = if is_concurrent() { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let ended = runtime.enable_all().build()?.block_on(function);
    // What a program prints by itself when it ends is no JSON, so Lambda takes it for a line of level INFO, and may drop it.
    if let Err(error) = &ended
        && logs_json
    {
        tracing::error!(%error, "the function ended");
    }
    ended
}

/// Whether the platform gives this process several events at once, as Lambda Managed Instances do.
pub fn is_concurrent() -> bool {
    let most = std::env::var("AWS_LAMBDA_MAX_CONCURRENCY").ok().and_then(|most| most.parse().ok());
    most.is_some_and(|most: u32| most > 1)
}

/// Locks a value that stays consistent if a thread panics while it holds the lock.
pub(crate) fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error and all its causes, in one line: for logs.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |chain, cause| format!("{chain}: {cause}"))
}
