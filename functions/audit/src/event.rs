use audit::{Progress, TooManySegments};
use serde::{Deserialize, Serialize};

/// Number of segments that are scanned at once.
const SEGMENTS: u32 = 8;
/// The default time span of an audit of changes, in hours: a day, and two hours of overlap with the run before. The overlap
/// covers clocks that differ, and items that were committed later than their own time, such as a claim that settle
/// persisted.
const HOURS: u32 = 26;
const HOUR_MS: u64 = 60 * 60 * 1_000;

/// The event. `{}` audits the changes of the last 26 hours, `{"hours": …}` those of so many hours, `{"since_ms": …}` those since
/// that moment, `{"full": true}` everything. `{"resume": …}`, which is the answer's `next`, continues an audit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Event {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    full: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hours: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<Progress>,
}

/// Why an event is invalid.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It has several kinds of audit.
    #[error("at most one of full, hours, since_ms and resume")]
    Contradiction,
    /// Too few or too many segments.
    #[error(transparent)]
    Segments(#[from] TooManySegments),
}

impl Event {
    /// The audit that an event requests at `now_ms`.
    pub(crate) fn progress(self, now_ms: u64) -> Result<Progress, EventError> {
        match (self.resume, self.full, self.since_ms, self.hours) {
            (None, true, None, None) => Ok(Progress::full(SEGMENTS)?),
            (None, false, Some(since_ms), None) => Ok(Progress::since(since_ms, SEGMENTS)?),
            (None, false, None, hours) => {
                let look_back_ms = u64::from(hours.unwrap_or(HOURS)) * HOUR_MS;
                Ok(Progress::since(now_ms.saturating_sub(look_back_ms), SEGMENTS)?)
            }
            (Some(progress), false, None, None) => Ok(progress.checked()?),
            _ => Err(EventError::Contradiction),
        }
    }

    /// The event that continues an audit.
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
        serde_json::from_str::<Event>(json).ok()?.progress(26 * HOUR_MS + 7).ok()
    }

    #[test]
    fn the_event_says_what_to_audit() {
        assert_eq!(asked("{}"), Progress::since(7, 8).ok());
        assert_eq!(asked(r#"{"full": true}"#), Progress::full(8).ok());
        assert_eq!(asked(r#"{"since_ms": 5}"#), Progress::since(5, 8).ok());
        assert_eq!(asked(r#"{"hours": 25}"#), Progress::since(HOUR_MS + 7, 8).ok());
        assert_eq!(asked(r#"{"hours": 4000000000}"#), Progress::since(0, 8).ok());
        for bad in [
            r#"{"full": true, "since_ms": 5}"#,
            r#"{"full": true, "hours": 5}"#,
            r#"{"hours": 5, "since_ms": 5}"#,
            r#"{"hours": -1}"#,
            r#"{"since_ms": -1}"#,
            r#"{"resume": {}}"#,
            r#"{"resume": {"since_ms": null, "places": [], "report": {}}}"#,
            r#"{"x": 1}"#,
        ] {
            assert_eq!(asked(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_remaining_audit_is_an_event() {
        let places = json!(["start", {"after": {"pk": "USER#ann", "sk": "WALLET"}}, "done"]);
        let report =
            audit::Report { figures: Figures { packets: 7, ..Figures::default() }, ..audit::Report::default() };
        let progress: Progress =
            serde_json::from_value(json!({"since_ms": null, "places": places, "report": report})).unwrap();
        let event = serde_json::to_string(&Event::resume(progress.clone())).unwrap();
        assert_eq!(asked(&event), Some(progress), "{event}");
    }
}
