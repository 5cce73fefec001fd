//! Metrics: what a process counts, and the lines of `CloudWatch`'s embedded metric format that it logs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::domain::Timestamp;

/// The namespace of all metrics.
const NAMESPACE: &str = "hongbao";
/// The levels of Lambda's logging controls.
const LAMBDA_LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

/// One line of `CloudWatch`'s embedded metric format under construction.
///
/// Every metric has the table as a dimension, so that two deployments of an account don't mix.
#[derive(Debug)]
pub struct MetricLine {
    fields: Map<String, Value>,
    directives: Vec<Value>,
}

/// A metric's name, its unit and its value: a number, or up to 100 of them.
pub type Metric = (&'static str, &'static str, Value);

impl MetricLine {
    /// A line of the deployment whose ledger is `table`.
    pub fn new(table: &str) -> Self {
        let fields = Map::from_iter([("Table".to_owned(), json!(table))]);
        Self { fields, directives: Vec::new() }
    }

    /// The same line with these metrics of the table.
    #[must_use]
    pub fn with(self, metrics: impl IntoIterator<Item = Metric>) -> Self {
        self.add(&json!(["Table"]), metrics)
    }

    /// The same line with these metrics of the table, which have another dimension too.
    #[must_use]
    pub fn with_by(mut self, dimension: &'static str, value: &str, metrics: impl IntoIterator<Item = Metric>) -> Self {
        self.fields.insert(dimension.to_owned(), json!(value));
        self.add(&json!(["Table", dimension]), metrics)
    }

    fn add(mut self, dimensions: &Value, metrics: impl IntoIterator<Item = Metric>) -> Self {
        let mut declared = Vec::new();
        for (name, unit, value) in metrics {
            declared.push(json!({"Name": name, "Unit": unit}));
            self.fields.insert(name.to_owned(), value);
        }
        if !declared.is_empty() {
            self.directives.push(json!({"Namespace": NAMESPACE, "Dimensions": [dimensions], "Metrics": declared}));
        }
        self
    }

    /// The finished line. The values were measured at `at`.
    ///
    /// Its level is the lowest that Lambda's logging controls let pass, and it has a valid time. Lambda takes a line that lacks
    /// either for one of level INFO. It drops such a line if the controls name a higher level.
    pub fn at(mut self, at: Timestamp) -> Value {
        let meta = json!({"Timestamp": at.ms(), "CloudWatchMetrics": self.directives});
        self.fields.insert("_aws".to_owned(), meta);
        self.fields.insert("level".to_owned(), json!(passing_level()));
        self.fields.insert("timestamp".to_owned(), json!(at.to_string()));
        Value::Object(self.fields)
    }
}

/// The level that Lambda's logging controls name.
fn passing_level() -> String {
    let named = std::env::var("AWS_LAMBDA_LOG_LEVEL").ok();
    named.filter(|level| LAMBDA_LEVELS.contains(&level.as_str())).unwrap_or_else(|| "INFO".to_owned())
}

/// How a grab ended, for the metric `Grabs`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GrabEnd {
    /// The user has a slip, from this grab or from before.
    Grabbed,
    /// None was left.
    SoldOut,
    /// The packet's time was over.
    Expired,
    /// The operator had closed the packet.
    Closed,
    /// The packet's start was ahead.
    NotStarted,
    /// The user had won as much as the packet's limit allows.
    LimitReached,
    /// It was refused: a bad request, no such packet, or not for this user.
    Refused,
    /// It has no outcome: a store did not answer, or there is a defect.
    Unavailable,
}

impl GrabEnd {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Grabbed,
        Self::SoldOut,
        Self::Expired,
        Self::Closed,
        Self::NotStarted,
        Self::LimitReached,
        Self::Refused,
        Self::Unavailable,
    ];

    /// The value of the dimension `Outcome`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grabbed => "grabbed",
            Self::SoldOut => "sold_out",
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::NotStarted => "not_started",
            Self::LimitReached => "limit_reached",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether it is counted at once: a win or a fault. The others may share a line with later ones.
    const fn is_urgent(self) -> bool {
        matches!(self, Self::Grabbed | Self::Unavailable)
    }
}

/// Counts for metrics. They cost a grab some atomic additions.
#[derive(Debug, Default)]
pub struct Meter {
    ends: [AtomicU64; GrabEnd::ALL.len()],
    replays: AtomicU64,
    repairs: AtomicU64,
    script_calls: AtomicU64,
    /// The number of claims by the milliseconds that they took. The time-out of a grab bounds the size of this map.
    claims_ms: Mutex<BTreeMap<u64, u64>>,
}

/// What a [`Meter`] has counted since it was last read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// The number of grabs for each way in which a grab ended.
    pub ends: Vec<(GrabEnd, u64)>,
    /// Grabs that were answered with a claim from before.
    pub replays: u64,
    /// Parts that were reconciled as a whole, because they had forgotten a decision.
    pub repairs: u64,
    /// Calls of scripts in the hot store.
    pub script_calls: u64,
    /// The time of each claim's transaction, with its retries, in milliseconds and ascending order.
    pub claims_ms: Vec<u64>,
}

impl Meter {
    /// A grab ended.
    pub fn ended(&self, end: GrabEnd) {
        self.ends[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A grab was answered with a claim from before.
    pub fn replayed(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    /// A part was repaired.
    pub fn repaired(&self) {
        self.repairs.fetch_add(1, Ordering::Relaxed);
    }

    /// A script was called.
    pub fn called_script(&self) {
        self.script_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A claim's transaction was answered after this time.
    pub fn claimed(&self, took: Duration) {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let mut claims_ms = crate::lock(&self.claims_ms);
        *claims_ms.entry(took_ms).or_default() += 1;
    }

    /// How many grabs were counted since [`Self::take`] was called last, if all of them can wait: no win, no fault, and nothing
    /// else that happened except calls of scripts.
    pub fn deferrable(&self) -> Option<u64> {
        let count = |end: GrabEnd| self.ends[end as usize].load(Ordering::Relaxed);
        let urgent = GrabEnd::ALL.into_iter().filter(|end| end.is_urgent()).map(count).sum::<u64>();
        let others = [&self.replays, &self.repairs].map(|count| count.load(Ordering::Relaxed));
        let can_wait = urgent == 0 && others == [0; 2] && crate::lock(&self.claims_ms).is_empty();
        can_wait.then(|| GrabEnd::ALL.into_iter().filter(|end| !end.is_urgent()).map(count).sum())
    }

    /// What was counted since this was called last.
    pub fn take(&self) -> Counts {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let ends = GrabEnd::ALL.into_iter().map(|end| (end, take(&self.ends[end as usize])));
        let claims_ms = std::mem::take(&mut *crate::lock(&self.claims_ms));
        let repeat = |(took_ms, count)| std::iter::repeat_n(took_ms, usize::try_from(count).unwrap_or(usize::MAX));
        Counts {
            ends: ends.filter(|(_, count)| *count > 0).collect(),
            replays: take(&self.replays),
            repairs: take(&self.repairs),
            script_calls: take(&self.script_calls),
            claims_ms: claims_ms.into_iter().flat_map(repeat).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_declares_each_metric_under_its_dimensions() {
        let line = MetricLine::new("hongbao")
            .with_by("Outcome", "grabbed", [("Grabs", "Count", json!(2))])
            .with([("Replays", "Count", json!(1)), ("ClaimLatency", "Milliseconds", json!([3, 4]))])
            .with([])
            .at(Timestamp::from_ms(7));
        let directive = |dimensions: Value, metrics: Value| json!({"Namespace": "hongbao", "Dimensions": [dimensions], "Metrics": metrics});
        let expected = json!({
            "_aws": {
                "Timestamp": 7,
                "CloudWatchMetrics": [
                    directive(json!(["Table", "Outcome"]), json!([{"Name": "Grabs", "Unit": "Count"}])),
                    directive(json!(["Table"]), json!([
                        {"Name": "Replays", "Unit": "Count"}, {"Name": "ClaimLatency", "Unit": "Milliseconds"}
                    ])),
                ],
            },
            "Table": "hongbao", "Outcome": "grabbed", "Grabs": 2, "Replays": 1, "ClaimLatency": [3, 4],
            "level": "INFO", "timestamp": "1970-01-01T00:00:00.007Z",
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn losses_and_refusals_can_wait() {
        let meter = Meter::default();
        assert_eq!(meter.deferrable(), Some(0));
        for end in [GrabEnd::SoldOut, GrabEnd::Expired, GrabEnd::Refused] {
            meter.ended(end);
            meter.called_script();
        }
        assert_eq!(meter.deferrable(), Some(3));
        let urgent: [&dyn Fn(&Meter); 5] = [
            &|meter| meter.ended(GrabEnd::Grabbed),
            &|meter| meter.ended(GrabEnd::Unavailable),
            &Meter::replayed,
            &Meter::repaired,
            &|meter| meter.claimed(Duration::ZERO),
        ];
        for count in urgent {
            count(&meter);
            assert_eq!(meter.deferrable(), None);
            meter.take();
            assert_eq!(meter.deferrable(), Some(0));
        }
    }

    #[test]
    fn what_was_taken_is_not_counted_again() {
        let meter = Meter::default();
        for end in GrabEnd::ALL.into_iter().chain([GrabEnd::SoldOut]) {
            meter.ended(end);
        }
        meter.replayed();
        meter.repaired();
        meter.called_script();
        meter.called_script();
        for took_ms in [9, 3, 9] {
            meter.claimed(Duration::from_millis(took_ms));
        }
        let counts = meter.take();
        assert_eq!(
            counts.ends.iter().map(|(end, count)| (end.name(), *count)).collect::<Vec<_>>(),
            [
                ("grabbed", 1),
                ("sold_out", 2),
                ("expired", 1),
                ("closed", 1),
                ("not_started", 1),
                ("limit_reached", 1),
                ("refused", 1),
                ("unavailable", 1)
            ]
        );
        assert_eq!((counts.replays, counts.repairs, counts.script_calls), (1, 1, 2));
        assert_eq!(counts.claims_ms, [3, 9, 9]);
        assert_eq!(meter.take(), Counts::default());
    }
}
