//! The scheduled function: persists the hot store's holds, and refunds undecided slips.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod metric;

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::{Map, Value};
use shared::domain::PARTITIONS;
use shared::ports::{HotStore, Table};
use shared::service::{Failure, RunReport, Settle};
use tokio::time::Instant;

pub use metric::metric;

/// The event: `{}` for all partitions, or `{"partitions": [from, to]}`, both included, so that several runs can share
/// the work.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Event {
    partitions: Option<(u32, u32)>,
}

impl TryFrom<Map<String, Value>> for Event {
    type Error = serde_json::Error;

    /// Reads a map first, because a derived `Deserialize` would accept an array for an object.
    fn try_from(event: Map<String, Value>) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            partitions: Option<(u32, u32)>,
        }
        let Fields { partitions } = serde_json::from_value(Value::Object(event))?;
        Ok(Self { partitions })
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The event names partitions that don't exist.
    #[error("partitions must be [from, to] with 0 <= from <= to <= 255")]
    NoSuchPartitions,
    /// The ledger could not list the due packets.
    #[error("the run ended early")]
    Failed(#[from] Failure),
}

/// Settles the partitions of the event until `deadline`.
pub async fn handle<T: Table, H: HotStore>(
    settle: &Settle<T, H>,
    event: Event,
    deadline: Instant,
) -> Result<RunReport, SettleError> {
    let report = settle.run(event.range()?, deadline).await?;
    tracing::info!(?report, "settled");
    Ok(report)
}

impl Event {
    /// The partitions to settle.
    pub fn range(self) -> Result<RangeInclusive<u32>, SettleError> {
        match self.partitions {
            None => Ok(0..=PARTITIONS - 1),
            Some((from, to)) if from <= to && to < PARTITIONS => Ok(from..=to),
            Some(_) => Err(SettleError::NoSuchPartitions),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use shared::ledger::Ledger;
    use shared::memory::{MemoryHot, MemoryTable};
    use shared::ports::System;
    use shared::service::Stores;

    use super::*;

    #[tokio::test]
    async fn a_run_settles_the_partitions_that_the_event_names() {
        let ledger = Arc::new(Ledger::new(MemoryTable::default(), Arc::new(System)));
        let hot = Arc::new(MemoryHot::in_memory(Arc::new(System)));
        let settle = Settle::new(Stores::new(ledger, hot, Arc::new(System), Arc::new(System)), Duration::ZERO);
        let deadline = Instant::now() + Duration::from_mins(1);
        let run = async |partitions| handle(&settle, Event { partitions }, deadline).await;
        assert_eq!(run(Some((0, 15))).await.unwrap().outbox_left, Some(0));
        let none = run(Some((1, 0))).await;
        assert!(matches!(none, Err(SettleError::NoSuchPartitions)), "{none:?}");
    }

    #[test]
    fn the_event_names_partitions_or_none() {
        let range = |json: &str| serde_json::from_str::<Event>(json).ok().and_then(|event| event.range().ok());
        assert_eq!(range("{}"), Some(0..=255));
        assert_eq!(range(r#"{"partitions": [0, 0]}"#), Some(0..=0));
        assert_eq!(range(r#"{"partitions": [16, 31]}"#), Some(16..=31));
        for bad in [
            r#"{"partitions": [1, 0]}"#,
            r#"{"partitions": [0, 256]}"#,
            r#"{"partitions": [0]}"#,
            r#"{"x": 1}"#,
            "[]",
            "[[0, 1]]",
        ] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
