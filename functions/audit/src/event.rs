use audit::{Progress, TooManySegments};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Segments in which the table is scanned at once, unless the event says otherwise.
const SEGMENTS: u32 = 8;
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
    /// It names several things to audit.
    #[error("at most one of full, since_ms and resume")]
    Contradiction,
    /// Too few or too many segments.
    #[error(transparent)]
    Segments(#[from] TooManySegments),
}

impl Event {
    /// What an event asks for at `now_ms`.
    pub(crate) fn progress(self, now_ms: u64) -> Result<Progress, EventError> {
        let segments = self.segments.unwrap_or(SEGMENTS);
        match (self.resume, self.full, self.since_ms) {
            (None, true, None) => Ok(Progress::full(segments)?),
            (None, false, since) => {
                Ok(Progress::since(since.unwrap_or_else(|| now_ms.saturating_sub(LOOK_BACK_MS)), segments)?)
            }
            (Some(progress), false, None) => Ok(progress.checked()?),
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
    use audit::Figures;
    use serde_json::json;

    use super::*;

    fn asked(json: &str) -> Option<Progress> {
        serde_json::from_str::<Event>(json).ok()?.progress(LOOK_BACK_MS + 7).ok()
    }

    #[test]
    fn the_event_says_what_to_audit() {
        assert_eq!(asked("{}"), Progress::since(7, 8).ok());
        assert_eq!(asked(r#"{"full": true, "segments": 2}"#), Progress::full(2).ok());
        assert_eq!(asked(r#"{"since_ms": 5}"#), Progress::since(5, 8).ok());
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
        let places = json!(["start", {"after": {"pk": "USER#ann", "sk": "WALLET"}}, "done"]);
        let report =
            audit::Report { figures: Figures { packets: 7, ..Figures::default() }, ..audit::Report::default() };
        let progress: Progress =
            serde_json::from_value(json!({"since_ms": null, "places": places, "report": report})).unwrap();
        let event = serde_json::to_string(&Event::resume(progress.clone())).unwrap();
        assert_eq!(asked(&event), Some(progress), "{event}");
    }
}
