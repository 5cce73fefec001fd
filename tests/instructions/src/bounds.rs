//! The recorded figures, and what is too far from them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::BoxError;

/// What was recorded, by build and case: another processor has other instructions for the same work, and so has a compiler
/// that was told otherwise.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// How many per cent more are too many.
    pub tolerance_percent: u64,
    /// Instructions of one grab.
    instructions: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What this program was built as, as the bounds name it.
pub fn build() -> String {
    let profile = if cfg!(debug_assertions) { " dev" } else { "" };
    format!("{}{profile}", std::env::consts::ARCH)
}

/// A figure beside its bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// As recorded.
    Within {
        /// The bound.
        most: u64,
    },
    /// So few that the bound should be recorded anew: it would let what was gained be lost again.
    Fewer {
        /// The bound.
        most: u64,
    },
    /// Beyond the bound.
    TooMany {
        /// The bound.
        most: u64,
    },
    /// Nothing was recorded for this build.
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
    /// From a file.
    pub fn read(file: &Path) -> Result<Self, BoxError> {
        Ok(serde_json::from_slice(&std::fs::read(file)?)?)
    }

    /// To a file.
    pub fn write(&self, file: &Path) -> Result<(), BoxError> {
        Ok(std::fs::write(file, serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// Holds a figure against what was recorded here.
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
