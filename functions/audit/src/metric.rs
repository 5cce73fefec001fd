use std::time::Duration;

use serde_json::Value;
use shared::domain::Timestamp;
use shared::telemetry::MetricLine;

use crate::Answer;

/// The metrics of a run as one line of `CloudWatch`'s embedded metric format, for the log. A run that continues another
/// counts from the beginning. So a day's last value, which is also its maximum, is the day's result.
pub fn metric(answer: &Answer, table: &str, now: Timestamp, duration: Duration) -> Value {
    let report = &answer.report;
    let metrics = [
        ("AuditImbalances", "Count", report.imbalance_count),
        ("AuditUnjudged", "Count", report.unjudged_count),
        ("AuditPackets", "Count", report.figures.packets),
        ("AuditWallets", "Count", report.figures.wallets),
        ("AuditDuration", "Milliseconds", u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        ("AuditUnfinished", "Count", u64::from(answer.next.is_some())),
    ];
    MetricLine::new(table).with(metrics.map(|(name, unit, value)| (name, unit, value.into()))).at(now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_metric_that_is_declared_has_a_value() {
        let answer = Answer { report: audit::Report::default(), next: None };
        let line = metric(&answer, "hongbao", Timestamp::from_ms(7), Duration::from_millis(5));
        let declared = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
        let values = declared.iter().map(|metric| &line[metric["Name"].as_str().unwrap()]);
        assert_eq!(values.filter(|value| value.is_u64()).count(), 6);
        assert_eq!((&line["_aws"]["Timestamp"], &line["AuditDuration"]), (&json!(7), &json!(5)));
        assert_eq!(line["Table"], "hongbao");
    }
}
