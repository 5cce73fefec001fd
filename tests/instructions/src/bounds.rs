//! The recorded figures, and the bounds around them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::BoxError;

/// The recorded figures by build and case. The same work takes other instructions on another processor or with other compiler
/// options.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The tolerance above and below a recorded figure, in per cent.
    pub tolerance_percent: u64,
    /// Instructions of one grab, by build and case.
    instructions: BTreeMap<String, BTreeMap<String, u64>>,
}

/// The name of this program's build in the bounds.
pub fn build() -> String {
    let profile = if cfg!(debug_assertions) { " dev" } else { "" };
    format!("{}{profile}", std::env::consts::ARCH)
}

/// The comparison of a figure with its bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Within the tolerance.
    Within {
        /// The bound.
        most: u64,
    },
    /// Below the tolerance. The bound should be recorded again, or the gain could be lost unnoticed.
    Fewer {
        /// The bound.
        most: u64,
    },
    /// Above the bound.
    TooMany {
        /// The bound.
        most: u64,
    },
    /// No figure is recorded for this build.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within { most } => write!(f, "at most {most}"),
            Self::Fewer { most } => write!(f, "at most {most}: record the gain with `make instructions RECORD=1`"),
            Self::TooMany { most } => write!(f, "TOO MANY: at most {most}"),
            Self::Unknown => write!(f, "no bound is recorded for this build"),
        }
    }
}

impl Bounds {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Self, BoxError> {
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    }

    /// Writes a file.
    pub fn write(&self, file: &Path) -> Result<(), BoxError> {
        Ok(std::fs::write(file, serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// Compares a figure with the recorded one.
    pub fn judge(&self, case: &str, measured: u64) -> Verdict {
        let recorded = self.instructions.get(&build()).and_then(|cases| cases.get(case));
        let Some(&recorded) = recorded else { return Verdict::Unknown };
        let tolerance = recorded * self.tolerance_percent / 100;
        let most = recorded + tolerance;
        if measured > most {
            Verdict::TooMany { most }
        } else if measured < recorded - tolerance {
            Verdict::Fewer { most }
        } else {
            Verdict::Within { most }
        }
    }

    /// Records a figure.
    pub fn record(&mut self, case: &str, measured: u64) {
        let cases = self.instructions.entry(build()).or_default();
        cases.insert(case.to_owned(), measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_tolerance_is_too_many() {
        let mut bounds = Bounds { tolerance_percent: 10, instructions: BTreeMap::new() };
        assert_eq!(bounds.judge("loser", 1), Verdict::Unknown);
        bounds.record("loser", 1_000);
        assert_eq!(bounds.judge("loser", 1_100), Verdict::Within { most: 1_100 });
        assert_eq!(bounds.judge("loser", 1_101), Verdict::TooMany { most: 1_100 });
        assert_eq!(bounds.judge("loser", 900), Verdict::Within { most: 1_100 });
        assert_eq!(bounds.judge("loser", 899), Verdict::Fewer { most: 1_100 });
        assert_eq!(bounds.judge("winner", 1), Verdict::Unknown);
    }
}
