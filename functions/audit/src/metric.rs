use std::time::Duration;

use serde_json::{Value, json};

use crate::Answer;

/// The metrics of a run as one line of `CloudWatch`'s embedded metric format, to be written to the log. A run that goes
/// on with another counts all since the beginning, so the last one of a day, or the maximum, is the day's.
pub fn metric(answer: &Answer, table: &str, now_ms: u64, duration: Duration) -> Value {
    let metric = |name, unit| json!({"Name": name, "Unit": unit});
    let report = &answer.report;
    json!({
        "_aws": {
            "Timestamp": now_ms,
            "CloudWatchMetrics": [{
                "Namespace": "hongbao",
                // So that two deployments of an account don't mix.
                "Dimensions": [["Table"]],
                "Metrics": [
                    metric("AuditImbalances", "Count"),
                    metric("AuditUndecided", "Count"),
                    metric("AuditPackets", "Count"),
                    metric("AuditWallets", "Count"),
                    metric("AuditDuration", "Milliseconds"),
                    metric("AuditUnfinished", "Count"),
                ],
            }],
        },
        "Table": table,
        "AuditImbalances": report.imbalance_count,
        "AuditUndecided": report.undecided_count,
        "AuditPackets": report.figures.packets,
        "AuditWallets": report.figures.wallets,
        "AuditDuration": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        "AuditUnfinished": u8::from(answer.next.is_some()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_that_is_declared_has_a_value() {
        let answer = Answer { report: crate::Report::default(), next: None };
        let line = metric(&answer, "hongbao", 7, Duration::from_millis(5));
        let declared = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
        let values = declared.iter().map(|metric| &line[metric["Name"].as_str().unwrap()]);
        assert_eq!(values.filter(|value| value.is_u64()).count(), 6);
        assert_eq!((&line["_aws"]["Timestamp"], &line["AuditDuration"]), (&json!(7), &json!(5)));
        assert_eq!(line["Table"], "hongbao");
    }
}
