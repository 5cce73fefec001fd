use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::ports::Key;

use crate::report::Report;

/// Segments in which the table is scanned at once, unless the event says otherwise.
const SEGMENTS: u32 = 8;
/// More would make the answer of a run that is to be continued too large.
const SEGMENTS_MAX: u32 = 256;
/// How far back "what changed" reaches by default: a day, and two hours in common with the run before, for what was
/// committed some time after the moment that it bears (a grab that settle brought home), and for clocks that differ.
const LOOK_BACK_MS: u64 = 26 * 60 * 60 * 1_000;

/// The event: `{}` audits what changed since 26 hours ago, `{"since_ms": …}` since that moment, `{"full": true}`
/// everything; `"segments"` says in how many parts at once. `{"resume": …}`, which is the answer's `next`, goes on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Event {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    full: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<Progress>,
}

impl TryFrom<Map<String, Value>> for Event {
    type Error = serde_json::Error;

    /// By way of a map, since a derived `Deserialize` would take an array for an object.
    fn try_from(event: Map<String, Value>) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default)]
            full: bool,
            since_ms: Option<u64>,
            segments: Option<u32>,
            resume: Option<Progress>,
        }
        let Fields { full, since_ms, segments, resume } = serde_json::from_value(Value::Object(event))?;
        Ok(Self { full, since_ms, segments, resume })
    }
}

/// What is wrong with an event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Several of the things to audit.
    #[error("at most one of full, since_ms and resume")]
    Contradiction,
    /// Too few or too many segments.
    #[error("segments must be from 1 to {SEGMENTS_MAX}")]
    Segments,
}

/// How far an audit has come.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// What was written before this moment is left out; `None`: nothing is. Milliseconds since the epoch.
    pub(crate) since_ms: Option<u64>,
    /// Where each segment goes on.
    pub(crate) places: Vec<Place>,
    /// What was found so far.
    pub(crate) report: Report,
}

/// A place in a segment of the table.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    Start,
    After { pk: String, sk: String },
    Done,
}

impl From<Option<Key>> for Place {
    fn from(last: Option<Key>) -> Self {
        last.map_or(Self::Start, |Key { pk, sk }| Self::After { pk, sk })
    }
}

impl Progress {
    /// An audit of everything that has not begun.
    pub fn full(segments: u32) -> Result<Self, EventError> {
        Self::new(None, segments)
    }

    /// An audit of what changed since a moment, in milliseconds since the epoch, that has not begun.
    pub fn since(since_ms: u64, segments: u32) -> Result<Self, EventError> {
        Self::new(Some(since_ms), segments)
    }

    fn new(since_ms: Option<u64>, segments: u32) -> Result<Self, EventError> {
        if !(1..=SEGMENTS_MAX).contains(&segments) {
            return Err(EventError::Segments);
        }
        Ok(Self { since_ms, places: vec![Place::Start; segments as usize], report: Report::default() })
    }

    /// Whether all is audited.
    pub fn is_done(&self) -> bool {
        self.places.iter().all(|place| *place == Place::Done)
    }

    /// What was found so far.
    pub const fn report(&self) -> &Report {
        &self.report
    }
}

impl Event {
    /// What an event asks for at `now_ms`.
    pub(crate) fn progress(self, now_ms: u64) -> Result<Progress, EventError> {
        let segments = self.segments.unwrap_or(SEGMENTS);
        match (self.resume, self.full, self.since_ms) {
            (None, true, None) => Progress::full(segments),
            (None, false, since) => {
                Progress::since(since.unwrap_or_else(|| now_ms.saturating_sub(LOOK_BACK_MS)), segments)
            }
            (Some(progress), false, None) => match u32::try_from(progress.places.len()) {
                Ok(1..=SEGMENTS_MAX) => Ok(progress),
                _ => Err(EventError::Segments),
            },
            _ => Err(EventError::Contradiction),
        }
    }

    /// The event that goes on with an audit.
    pub(crate) fn resume(progress: Progress) -> Self {
        Self { resume: Some(progress), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(json: &str) -> Option<Progress> {
        serde_json::from_str::<Event>(json).ok()?.progress(LOOK_BACK_MS + 7).ok()
    }

    #[test]
    fn the_event_says_what_to_audit() {
        let of = |progress: Option<Progress>| progress.map(|progress| (progress.since_ms, progress.places.len()));
        assert_eq!(of(asked("{}")), Some((Some(7), 8)));
        assert_eq!(of(asked(r#"{"full": true, "segments": 2}"#)), Some((None, 2)));
        assert_eq!(of(asked(r#"{"since_ms": 5}"#)), Some((Some(5), 8)));
        for bad in [
            r#"{"full": true, "since_ms": 5}"#,
            r#"{"segments": 0}"#,
            r#"{"segments": 257}"#,
            r#"{"since_ms": -1}"#,
            r#"{"resume": {}}"#,
            r#"{"resume": {"since_ms": null, "places": [], "report": {}}}"#,
            r#"{"x": 1}"#,
            "[]",
            "[true, null, null, null]",
        ] {
            assert_eq!(asked(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_left_is_an_event_too() {
        let mut progress = Progress::full(3).unwrap();
        progress.places[1] = Place::After { pk: "USER#ann".to_owned(), sk: "WALLET".to_owned() };
        progress.places[2] = Place::Done;
        progress.report.figures.packets = 7;
        let event = serde_json::to_string(&Event::resume(progress.clone())).unwrap();
        assert_eq!(asked(&event), Some(progress), "{event}");
    }
}
