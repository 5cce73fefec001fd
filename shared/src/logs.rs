//! Logs: where they go, and what they call a user.

use std::sync::OnceLock;
use std::{fmt, io};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::domain::UserId;
use crate::ports::{Clock, System};

/// The key of the names that this process' logs have for users.
static KEY: OnceLock<String> = OnceLock::new();

/// From now on this process' logs name users under this key. A process has one key: the first.
pub fn name_users_under(key: &str) {
    KEY.get_or_init(|| key.to_owned());
}

/// What this process' logs call a user. Without a key they don't name users.
pub fn name_of(user: &UserId) -> Option<String> {
    KEY.get().map(|key| name_under(key, user))
}

/// What logs with this key call a user: 12 hex digits of HMAC-SHA256. Nobody finds the user without the key, nor a user's lines.
pub fn name_under(key: &str, user: &UserId) -> String {
    // HMAC takes a key of any length.
    let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_bytes()).map(|mac| mac.chain_update(user.as_str()));
    mac.map(|mac| hex::encode(&mac.finalize().into_bytes()[..6])).unwrap_or_default()
}

/// Logs to standard output, with the level and in the format that Lambda's logging controls name. Returns whether that is JSON.
/// The runtime's own subscriber also takes filters for single modules, but it needs a library of regular expressions.
pub(crate) fn as_lambda_wants() -> bool {
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
        write!(line, "{}", System.now())
    }
}

/// Logs to standard output, each line as JSON: what `RUST_LOG` names, or else `default`.
pub fn to_stdout_as_json(default: &str) {
    let lines = tracing_subscriber::fmt::layer().with_timer(LineTime).with_target(false).json();
    let lines = lines.with_current_span(false).with_span_list(false).with_filter(filter(default));
    tracing_subscriber::registry().with(lines).init();
}

/// Logs to standard error what `RUST_LOG` names, or else `default`: a level, or levels per module, as in `warn,local=info`.
pub fn to_stderr(default: &str) {
    init(default, None);
}

/// The same. And writes the lines that functions print on AWS to what `writer` makes.
pub fn to_stderr_and<W>(default: &str, writer: W)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let as_functions = tracing_subscriber::fmt::layer().with_timer(LineTime).with_target(false).json();
    let as_functions = as_functions.with_current_span(false).with_span_list(false).with_writer(writer);
    init(default, Some(as_functions.with_filter(Targets::new().with_target("shared", LevelFilter::INFO)).boxed()));
}

fn init(default: &str, also: Option<Box<dyn Layer<Registry> + Send + Sync>>) {
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(also).with(to_stderr.with_filter(filter(default))).init();
}

fn filter(default: &str) -> Targets {
    let named = std::env::var("RUST_LOG").ok();
    named.and_then(|filter| filter.parse().ok()).unwrap_or_else(|| default.parse().unwrap_or_default())
}
