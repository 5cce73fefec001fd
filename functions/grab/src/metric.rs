//! The metrics of grabs: how often they are written, and in which lines.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use shared::domain::Timestamp;
use shared::ports::{Clock, System};
use shared::telemetry::{Counts, GrabEnd, Meter, Metric, MetricLine};

/// The interval between writes where requests are served concurrently.
const EVERY: Duration = Duration::from_secs(1);
/// The most grabs that share a line where requests are served one by one.
const GRABS_MAX: u64 = 20;
/// The age from which counts are written by the next invocation.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The most values of one metric in a line, by the format.
const VALUES_MAX: usize = 100;

/// Writes a process's counts to its log.
#[derive(Debug)]
pub struct Telemetry {
    meter: Arc<Meter>,
    table: String,
    /// Whether the process has written nothing yet.
    cold: AtomicBool,
    /// When the first and the last grab ended that are counted and not written.
    waiting: Mutex<Option<(Timestamp, Timestamp)>>,
}

impl Telemetry {
    /// Writes the counts of `meter`, for the deployment with the ledger `table`.
    pub fn new(meter: Arc<Meter>, table: String) -> Self {
        Self { meter, table, cold: AtomicBool::new(true), waiting: Mutex::default() }
    }

    /// Writes once a second, for ever: for a process that serves requests concurrently.
    pub async fn tell_regularly(&self) {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            print(&self.take(System.now()));
        }
    }

    /// Answers a grab of a process that serves one at a time. Before it, writes what has waited long. After it, writes a win or a fault at
    /// once, and so the first grab. Up to `GRABS_MAX` other grabs share a line: in a rush of losers a line for each would cost more than
    /// their calls of the function. Those that wait when the process ends are not counted.
    pub async fn around<A>(&self, grab: impl Future<Output = A>) -> A {
        print(&self.take_old(System.now()));
        let answer = grab.await;
        print(&self.take_urgent(System.now()));
        answer
    }

    fn waiting(&self) -> MutexGuard<'_, Option<(Timestamp, Timestamp)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of what has waited since [`WAIT_MAX`] or longer, with the time of the last grab among it. An environment may
    /// have been frozen for an hour since then.
    fn take_old(&self, now: Timestamp) -> Vec<Value> {
        let waiting = *self.waiting();
        let old = waiting.filter(|(first, _)| now.since(*first) >= WAIT_MAX);
        old.map(|(_, last)| self.take(last)).unwrap_or_default()
    }

    /// The lines of everything, unless it can wait.
    fn take_urgent(&self, now: Timestamp) -> Vec<Value> {
        let can_wait = self.meter.deferrable().is_some_and(|grabs| grabs < GRABS_MAX);
        if !can_wait || self.cold.load(Ordering::Relaxed) {
            return self.take(now);
        }
        let mut waiting = self.waiting();
        let first = waiting.map_or(now, |(first, _)| first);
        *waiting = Some((first, now));
        Vec::new()
    }

    /// The lines of what was counted since the last time, as of `at`.
    pub fn take(&self, at: Timestamp) -> Vec<Value> {
        *self.waiting() = None;
        let counts = self.meter.take();
        if counts == Counts::default() {
            return Vec::new();
        }
        lines(counts, &self.table, self.cold.swap(false, Ordering::Relaxed), at)
    }
}

/// Writes lines in one piece, so that no other line comes between. A failed write must not keep a caller from the answer.
fn print(lines: &[Value]) {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line.to_string());
        text.push('\n');
    }
    if let Err(error) = io::stdout().lock().write_all(text.as_bytes()) {
        tracing::error!(%error, "metrics could not be written");
    }
}

/// The counts in as few lines as the format allows. A line has one outcome and up to 100 claim latencies.
fn lines(counts: Counts, table: &str, is_cold: bool, at: Timestamp) -> Vec<Value> {
    let Counts { ends, replays, repairs, script_calls, claims_ms } = counts;
    let once =
        [("ColdStarts", u64::from(is_cold)), ("Replays", replays), ("Repairs", repairs), ("ScriptCalls", script_calls)];
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
        lines.push(line.with(once.into_iter().flatten().chain(claims)).at(at));
    }
}

fn count_of(name: &'static str, count: u64) -> Metric {
    (name, "Count", json!(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grabs(lines: &[Value]) -> Vec<(&Value, &Value, &Value)> {
        lines.iter().map(|line| (&line["Outcome"], &line["Grabs"], &line["_aws"]["Timestamp"])).collect()
    }

    #[test]
    fn losses_share_a_line_and_a_win_takes_them_along() {
        let telemetry = Telemetry::new(Arc::default(), "hongbao".to_owned());
        let grab = |end: GrabEnd, at: u64| {
            telemetry.meter.ended(end);
            telemetry.take_urgent(Timestamp::from_ms(at))
        };
        let first = grab(GrabEnd::SoldOut, 1);
        assert_eq!(
            grabs(&first),
            [(&json!("sold_out"), &json!(1), &json!(1))],
            "a process writes its first grab at once"
        );
        for at in 2..=20 {
            assert_eq!(grab(GrabEnd::SoldOut, at), Vec::<Value>::new());
        }
        let twentieth = grab(GrabEnd::Refused, 21);
        let [lost, refused] = &grabs(&twentieth)[..] else { panic!("{twentieth:?}") };
        assert_eq!((lost, refused.0), (&(&json!("sold_out"), &json!(19), &json!(21)), &json!("refused")));
        for urgent in [GrabEnd::Grabbed, GrabEnd::Unavailable] {
            assert_eq!(grab(GrabEnd::Expired, 30), Vec::<Value>::new());
            let with_win = grab(urgent, 31);
            let ends = grabs(&with_win).into_iter().map(|(end, count, _)| (end.clone(), count.clone()));
            let ends: Vec<_> = ends.collect();
            assert!(ends.contains(&(json!("expired"), json!(1))) && ends.contains(&(json!(urgent.name()), json!(1))));
        }
    }

    #[test]
    fn counts_of_a_frozen_process_keep_their_time() {
        let telemetry = Telemetry::new(Arc::default(), "hongbao".to_owned());
        telemetry.meter.ended(GrabEnd::Grabbed);
        telemetry.take_urgent(Timestamp::from_ms(0));
        for at in [1_000, 2_000] {
            telemetry.meter.ended(GrabEnd::SoldOut);
            telemetry.take_urgent(Timestamp::from_ms(at));
        }
        assert_eq!(telemetry.take_old(Timestamp::from_ms(10_999)), Vec::<Value>::new());
        let old = telemetry.take_old(Timestamp::from_ms(3_600_000));
        assert_eq!(grabs(&old), [(&json!("sold_out"), &json!(2), &json!(2_000))]);
        assert_eq!(telemetry.take_old(Timestamp::from_ms(7_200_000)), Vec::<Value>::new());
    }

    #[test]
    fn a_single_grab_is_one_line() {
        let ends = vec![(GrabEnd::Grabbed, 1)];
        let counts = Counts { ends, script_calls: 2, claims_ms: vec![4], ..Counts::default() };
        let written = lines(counts, "hongbao", true, Timestamp::from_ms(7));
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
        let written = lines(counts, "hongbao", false, Timestamp::from_ms(7));
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
