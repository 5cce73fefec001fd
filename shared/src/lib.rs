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
pub mod ledger;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod ports;
pub mod redis;
pub mod service;
pub mod telemetry;
pub mod timeouts;
pub mod wiring;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use tokio::runtime::Builder;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Runs a function. It sets up logs as the platform asks for them, and chooses the cryptography for TLS.
///
/// A process that answers one event at a time runs on one thread. It mostly has less than one processor, and each round trip
/// would wait for another thread to wake up.
pub fn run<E: From<io::Error> + fmt::Display>(function: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let logs_json = log_as_lambda_wants();
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

/// Logs to standard output, with the level and in the format that Lambda's logging controls name. Returns whether that is JSON.
/// The runtime's own subscriber also takes filters for single modules, but it needs a library of regular expressions.
fn log_as_lambda_wants() -> bool {
    let env = |name| std::env::var(name).ok();
    let level = env("AWS_LAMBDA_LOG_LEVEL").or_else(|| env("RUST_LOG"));
    let level = match level.as_deref() {
        // No line has this level of Lambda's, which is above ERROR.
        Some("FATAL") => LevelFilter::OFF,
        level => level.and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::INFO),
    };
    let subscriber = tracing_subscriber::fmt().with_target(false).with_max_level(level);
    let is_json = env("AWS_LAMBDA_LOG_FORMAT").is_some_and(|format| format.eq_ignore_ascii_case("json"));
    if is_json {
        // The runtime's span would be in each line twice. It has only Lambda's id of the call, and a line has the request's own.
        subscriber.with_timer(LineTime).json().with_current_span(false).with_span_list(false).init();
    } else {
        subscriber.without_time().init();
    }
    is_json
}

/// The time of a line in JSON. Lambda takes a line without a valid time for one of level INFO, whatever level it names.
struct LineTime;

impl FormatTime for LineTime {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        write!(line, "{}", ports::Clock::now(&ports::System))
    }
}

/// Logs to standard error what `RUST_LOG` names, or else `default`: a level, or levels per module, as in `warn,local=info`.
pub fn log_to_stderr(default: &str) {
    let named = std::env::var("RUST_LOG").ok();
    let filter: Targets =
        named.and_then(|filter| filter.parse().ok()).unwrap_or_else(|| default.parse().unwrap_or_default());
    let format = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(format).with(filter).init();
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
