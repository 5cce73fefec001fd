//! The metrics of grabs: how often they are written, and in which lines.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use shared::ports::{Clock, System};
use shared::telemetry::{Counts, GrabEnd, Meter, Metric, MetricLine};

/// The interval between writes where requests are served concurrently.
const EVERY: Duration = Duration::from_secs(1);
/// The most values of one metric in a line, by the format.
const VALUES_MAX: usize = 100;

/// Writes a process's counts to its log.
#[derive(Debug)]
pub struct Telemetry {
    meter: Arc<Meter>,
    table: String,
    /// Whether the process has written nothing yet.
    cold: AtomicBool,
}

impl Telemetry {
    /// Writes the counts of `meter`, for the deployment with the ledger `table`.
    pub fn new(meter: Arc<Meter>, table: String) -> Self {
        Self { meter, table, cold: AtomicBool::new(true) }
    }

    /// Writes once a second, for ever.
    pub async fn tell_regularly(&self) {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            self.tell();
        }
    }

    /// Writes the counts since the last time. A failed write must not keep a caller from the answer.
    pub fn tell(&self) {
        let counts = self.meter.take();
        if counts == Counts::default() {
            return;
        }
        let lines = lines(counts, &self.table, self.cold.swap(false, Ordering::Relaxed), System.now().ms());
        // All lines are written in one piece, so that no other line comes between.
        let mut text = String::new();
        for line in &lines {
            text.push_str(&line.to_string());
            text.push('\n');
        }
        if let Err(error) = io::stdout().lock().write_all(text.as_bytes()) {
            tracing::error!(%error, "metrics could not be written");
        }
    }
}

/// The counts in as few lines as the format allows. A line has one outcome and up to 100 claim latencies.
fn lines(counts: Counts, table: &str, is_cold: bool, now_ms: u64) -> Vec<Value> {
    let Counts { ends, replays, repairs, helps, script_calls, claims_ms } = counts;
    let once = [
        ("ColdStarts", u64::from(is_cold)),
        ("Replays", replays),
        ("Repairs", repairs),
        ("Helps", helps),
        ("ScriptCalls", script_calls),
    ];
    let mut once = Some(once.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| count_of(name, count)));
    let mut ends = ends.into_iter();
    let mut claims = claims_ms.chunks(VALUES_MAX);
    let mut lines = Vec::new();
    loop {
        let (end, claims, once) = (ends.next(), claims.next(), once.take());
        if end.is_none() && claims.is_none() && once.is_none() {
            return lines;
        }
        let mut line = MetricLine::new(table);
        if let Some((end, count)) = end {
            line = line.with_by("Outcome", GrabEnd::name(end), [count_of("Grabs", count)]);
        }
        let claims = claims.map(|claims_ms| ("ClaimLatency", "Milliseconds", json!(claims_ms)));
        lines.push(line.with(once.into_iter().flatten().chain(claims)).at(now_ms));
    }
}

fn count_of(name: &'static str, count: u64) -> Metric {
    (name, "Count", json!(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_grab_is_one_line() {
        let ends = vec![(GrabEnd::Grabbed, 1)];
        let counts = Counts { ends, script_calls: 2, claims_ms: vec![4], ..Counts::default() };
        let written = lines(counts, "hongbao", true, 7);
        assert_eq!(written.len(), 1, "{written:?}");
        let line = &written[0];
        assert_eq!(
            (&line["Outcome"], &line["Grabs"], &line["Table"]),
            (&json!("grabbed"), &json!(1), &json!("hongbao"))
        );
        assert_eq!(
            (&line["ColdStarts"], &line["ScriptCalls"], &line["ClaimLatency"]),
            (&json!(1), &json!(2), &json!([4]))
        );
        assert_eq!((line.get("Replays"), line.get("Repairs")), (None, None), "counts of zero are left out");
    }

    #[test]
    fn many_grabs_are_lines_that_the_format_allows() {
        let ends = vec![(GrabEnd::Grabbed, 250), (GrabEnd::SoldOut, 9)];
        let claims_ms: Vec<u64> = (0..250).collect();
        let counts = Counts { ends, replays: 1, script_calls: 20, claims_ms: claims_ms.clone(), ..Counts::default() };
        let written = lines(counts, "hongbao", false, 7);
        let of = |name: &str| written.iter().filter_map(|line| line.get(name).cloned()).collect::<Vec<_>>();
        assert_eq!(
            (written.len(), of("Outcome"), of("Grabs")),
            (3, vec!["grabbed".into(), "sold_out".into()], vec![250.into(), 9.into()])
        );
        assert_eq!((of("Replays"), of("ScriptCalls"), of("ColdStarts")), (vec![1.into()], vec![20.into()], vec![]));
        let values: Vec<Value> =
            of("ClaimLatency").iter().flat_map(|values| values.as_array().unwrap().clone()).collect();
        assert_eq!(values, claims_ms.into_iter().map(Value::from).collect::<Vec<_>>());
        assert!(of("ClaimLatency").iter().all(|values| values.as_array().unwrap().len() <= VALUES_MAX));
    }
}
