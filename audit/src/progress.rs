use serde::{Deserialize, Serialize};
use shared::ports::Key;

use crate::report::Report;

/// More segments would make an answer with `next` too large.
const SEGMENTS_MAX: u32 = 256;

/// Too few or too many segments.
#[derive(Debug, thiserror::Error)]
#[error("segments must be from 1 to {SEGMENTS_MAX}")]
pub struct TooManySegments;

/// The progress of an audit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Items written before this moment are left out, in milliseconds since the epoch; `None`: all items count.
    pub(crate) since_ms: Option<u64>,
    /// The place where each segment continues.
    pub(crate) places: Vec<Place>,
    /// The findings so far.
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
    /// A new audit of everything.
    pub fn full(segments: u32) -> Result<Self, TooManySegments> {
        Self::new(None, segments)
    }

    /// A new audit of the changes since a moment, in milliseconds since the epoch.
    pub fn since(since_ms: u64, segments: u32) -> Result<Self, TooManySegments> {
        Self::new(Some(since_ms), segments)
    }

    fn new(since_ms: Option<u64>, segments: u32) -> Result<Self, TooManySegments> {
        if !(1..=SEGMENTS_MAX).contains(&segments) {
            return Err(TooManySegments);
        }
        Ok(Self { since_ms, places: vec![Place::Start; segments as usize], report: Report::default() })
    }

    /// Whether all is audited.
    pub fn is_done(&self) -> bool {
        self.places.iter().all(|place| *place == Place::Done)
    }

    /// The findings so far.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// This progress, if its number of segments is valid.
    pub fn checked(self) -> Result<Self, TooManySegments> {
        match u32::try_from(self.places.len()) {
            Ok(1..=SEGMENTS_MAX) => Ok(self),
            _ => Err(TooManySegments),
        }
    }
}
