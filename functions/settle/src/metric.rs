use serde_json::Value;
use shared::domain::Timestamp;
use shared::service::RunReport;
use shared::telemetry::MetricLine;

/// The metrics of a run as one line of `CloudWatch`'s embedded metric format, for the log. Figures that the run could
/// not determine are left out: an alarm notices a missing figure, but not a wrong one.
#[must_use]
pub fn metric(report: &RunReport, table: &str, now: Timestamp) -> Value {
    let known = [
        ("Persisted", "Count", Some(report.persisted)),
        ("Parked", "Count", Some(report.parked)),
        ("RefundedPackets", "Count", Some(report.refunded_packets)),
        ("RefundedSlips", "Count", Some(report.refunded_slips)),
        ("DueAge", "Seconds", Some(report.oldest_due_s)),
        ("PendingAge", "Seconds", report.oldest_pending_s),
        ("OutboxDepth", "Count", report.outbox_left),
        ("OutboxAge", "Milliseconds", report.oldest_outbox_ms),
    ];
    let known = known.into_iter().filter_map(|(name, unit, value)| value.map(|value| (name, unit, value.into())));
    MetricLine::new(table).with(known).at(now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared(line: &Value) -> Vec<&str> {
        let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
        metrics.iter().map(|metric| metric["Name"].as_str().unwrap()).collect()
    }

    #[test]
    fn every_metric_that_is_declared_has_a_value() {
        let report = RunReport {
            outbox_left: Some(3),
            oldest_outbox_ms: Some(9),
            oldest_pending_s: Some(5),
            ..RunReport::default()
        };
        let line = metric(&report, "hongbao", Timestamp::from_ms(7));
        assert_eq!(declared(&line).iter().filter(|name| line[**name].is_u64()).count(), 8);
        assert_eq!((&line["_aws"]["Timestamp"], &line["Table"]), (&json!(7), &json!("hongbao")));
        assert_eq!((&line["OutboxDepth"], &line["OutboxAge"], &line["PendingAge"]), (&json!(3), &json!(9), &json!(5)));
    }

    #[test]
    fn an_unknown_figure_is_not_declared() {
        let line = metric(&RunReport::default(), "hongbao", Timestamp::from_ms(7));
        assert_eq!(declared(&line), ["Persisted", "Parked", "RefundedPackets", "RefundedSlips", "DueAge"]);
        assert_eq!(line.get("OutboxDepth"), None);
    }
}
