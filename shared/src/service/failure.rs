use std::error::Error;
use std::sync::Arc;

use crate::ledger::LedgerError;
use crate::ports::HotStoreError;

/// Why a use case has no outcome. The request may have taken effect or not; repeating it is safe.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// A store did not answer in time: try again later.
    #[error("a store did not answer")]
    Unavailable(#[source] Arc<dyn Error + Send + Sync>),
    /// A defect: something that can't be. Its cause is for the log.
    #[error("a defect")]
    Defect(#[source] Arc<dyn Error + Send + Sync>),
}

impl Failure {
    /// The use case itself has no answer in time, for this reason.
    pub(crate) fn unavailable(why: &'static str) -> Self {
        Self::Unavailable(Arc::from(Box::<dyn Error + Send + Sync>::from(why)))
    }

    /// A defect that the use case itself met.
    pub(super) fn defect(what: impl Into<String>) -> Self {
        Self::Defect(Arc::from(Box::<dyn Error + Send + Sync>::from(what.into())))
    }
}

/// A failure after which the hot store still holds a slip for the user.
#[derive(Debug, thiserror::Error)]
#[error("slip {slip} is held")]
struct Holding {
    slip: u32,
    source: Arc<dyn Error + Send + Sync>,
}

impl Failure {
    /// The same failure of a user for whom this slip is held.
    pub(crate) fn holding(self, slip: u32) -> Self {
        let holding = |source| Arc::new(Holding { slip, source });
        match self {
            Self::Unavailable(source) => Self::Unavailable(holding(source)),
            Self::Defect(source) => Self::Defect(holding(source)),
        }
    }

    /// The slip that the hot store holds for the user, if that is known.
    pub fn held_slip(&self) -> Option<u32> {
        let (Self::Unavailable(source) | Self::Defect(source)) = self;
        source.downcast_ref::<Holding>().map(|holding| holding.slip)
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Unavailable(_) => Self::Unavailable(Arc::new(error)),
            LedgerError::Impossible(_) => Self::Defect(Arc::new(error)),
        }
    }
}

impl From<HotStoreError> for Failure {
    fn from(error: HotStoreError) -> Self {
        match error {
            HotStoreError::Unavailable(_) => Self::Unavailable(Arc::new(error)),
            HotStoreError::Impossible(_) => Self::Defect(Arc::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_held_slip_and_keeps_its_cause() {
        for failure in [Failure::unavailable("too slow"), Failure::defect("too slow")] {
            assert_eq!(failure.held_slip(), None);
            let kind = failure.to_string();
            let holding = failure.holding(7);
            assert_eq!((holding.held_slip(), holding.to_string()), (Some(7), kind.clone()));
            assert_eq!(crate::error_chain(&holding), format!("{kind}: slip 7 is held: too slow"));
        }
    }
}
