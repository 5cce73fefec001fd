//! The metrics of AWS, for Prometheus. The functions' code says what it counts in lines for `CloudWatch`; these become counters, gauges and
//! histograms with the same names.

use std::time::Duration;

use anyhow::Context as _;
use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::Value;

/// The bounds of histograms, in seconds.
const BUCKETS: [f64; 13] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
/// What says how something is, and not how often something happened.
const GAUGES: [&str; 9] = [
    "DueAge",
    "PendingAge",
    "OutboxDepth",
    "OutboxAge",
    "AuditUnjudged",
    "AuditPackets",
    "AuditWallets",
    "AuditDuration",
    "AuditUnfinished",
];

/// From now on metrics are kept for Prometheus.
pub fn install() -> anyhow::Result<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets(&BUCKETS)?;
    builder.install_recorder().context("metrics can't be kept")
}

/// Counts an answer of a function.
pub fn answered(function: &'static str, status: u16, took: Duration) {
    counter!("hongbao_requests_total", "function" => function, "status" => status.to_string()).increment(1);
    histogram!("hongbao_request_seconds", "function" => function).record(took);
}

/// Says how much the last audit found wrong.
pub fn found(imbalances: i64) {
    gauge!("hongbao_audit_imbalances").set(f64::from(i32::try_from(imbalances).unwrap_or(i32::MAX)));
}

/// Says how many webhooks are dead, and how long the oldest of the others has waited.
pub fn waiting(dead: i64, age: Duration) {
    gauge!("hongbao_dead_webhooks").set(f64::from(i32::try_from(dead).unwrap_or(i32::MAX)));
    gauge!("hongbao_webhook_age_seconds").set(age.as_secs_f64());
}

/// Says whether the receiver of webhooks is disabled.
pub fn disabled(is_disabled: bool) {
    gauge!("hongbao_webhooks_disabled").set(f64::from(u8::from(is_disabled)));
}

/// Counts a duty that failed.
pub fn failed(duty: &'static str) {
    counter!("hongbao_failures_total", "duty" => duty).increment(1);
}

/// Counts what a line of `CloudWatch`'s embedded metric format says.
pub fn record(line: &Value) {
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
        let outcome = directive["Dimensions"][0].as_array().into_iter().flatten().any(|name| name == "Outcome");
        let labels: Vec<(&'static str, String)> =
            outcome.then(|| ("outcome", line["Outcome"].as_str().unwrap_or_default().to_owned())).into_iter().collect();
        for metric in directive["Metrics"].as_array().into_iter().flatten() {
            let name = metric["Name"].as_str().unwrap_or_default();
            let values = match &line[name] {
                Value::Array(values) => values.iter().filter_map(Value::as_u64).collect(),
                value => value.as_u64().into_iter().collect::<Vec<u64>>(),
            };
            for count in values {
                let (unit, value) = match metric["Unit"].as_str() {
                    Some("Milliseconds") => ("_seconds", Duration::from_millis(count).as_secs_f64()),
                    Some("Seconds") => ("_seconds", Duration::from_secs(count).as_secs_f64()),
                    _ => ("", f64::from(u32::try_from(count).unwrap_or(u32::MAX))),
                };
                let is_gauge = GAUGES.contains(&name);
                let name = format!("hongbao_{}{unit}", snake(name));
                match (is_gauge, unit) {
                    (true, _) => gauge!(name, &labels).set(value),
                    (false, "_seconds") => histogram!(name, &labels).record(value),
                    (false, _) => counter!(format!("{name}_total"), &labels).increment(count),
                }
            }
        }
    }
}

/// Says that nothing is known here of the gauges whose names begin so: another process has them.
pub fn forget(beginning: &str) {
    for name in GAUGES.iter().filter(|name| name.starts_with(beginning)) {
        let unit = if name.ends_with("Age") || name.ends_with("Duration") { "_seconds" } else { "" };
        gauge!(format!("hongbao_{}{unit}", snake(name))).set(0.0);
    }
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
