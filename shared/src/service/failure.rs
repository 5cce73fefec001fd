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
