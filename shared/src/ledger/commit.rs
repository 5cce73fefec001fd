use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{Ledger, LedgerError};
use crate::ports::{Reason, Table, TableError, TransactError, Write};
use crate::timeouts;

pub(super) const BACKOFF_FIRST: Duration = Duration::from_millis(5);
pub(super) const BACKOFF_MOST: Duration = Duration::from_millis(400);

/// How a transaction ended.
pub(super) enum Committed {
    /// All of its writes are done, by this attempt or by an earlier one of the same call.
    Yes,
    /// None is done, and at least one condition failed: one reason for each write, in order.
    No(Vec<Reason>),
}

impl<T: Table> Ledger<T> {
    /// Tries a transaction until it commits or a condition fails, at most for [`timeouts::TRANSACTION`].
    pub(super) async fn commit(&self, writes: &[Write]) -> Result<Committed, LedgerError> {
        self.commit_until(Instant::now() + timeouts::TRANSACTION, writes).await
    }

    /// Tries a transaction until it commits or a condition fails, or until `give_up`. A conflict, throttling and an unknown result
    /// are no answer: the very same items are sent again, after a jittered pause.
    pub(super) async fn commit_until(&self, give_up: Instant, writes: &[Write]) -> Result<Committed, LedgerError> {
        // All attempts of this call share a token, so that an attempt whose answer was lost counts as this call's own. That only
        // saves work: with a new token, or with none, the call would end the same.
        let mut token = hex::encode(self.entropy.bytes16());
        let mut backoff = BACKOFF_FIRST;
        loop {
            crash_point!("ledger.before_transaction");
            let Ok(answer) = timeout_at(give_up, self.table.transact(writes, &token)).await else {
                return Err(TableError::Pending("no answer in time".into()).into());
            };
            crash_point!("ledger.after_transaction");
            let error = match answer {
                Ok(()) => return Ok(Committed::Yes),
                Err(TransactError::Cancelled(reasons)) => {
                    if reasons.iter().any(|reason| matches!(reason, Reason::ConditionFailed(_))) {
                        return Ok(Committed::No(reasons));
                    }
                    busy(&reasons)
                }
                Err(TransactError::TokenSpent(source)) => {
                    token = hex::encode(self.entropy.bytes16());
                    TableError::Unavailable(source)
                }
                // A request that got no permit in time would only lengthen the queue.
                Err(TransactError::Failed(error @ (TableError::Refused(_) | TableError::Overloaded(_)))) => {
                    return Err(error.into());
                }
                Err(TransactError::Failed(error)) => error,
            };
            if Instant::now() + backoff >= give_up {
                return Err(error.into());
            }
            tokio::time::sleep(self.entropy.jitter(backoff)).await;
            backoff = (backoff * 2).min(BACKOFF_MOST);
        }
    }
}

/// The codes of `DynamoDB` for a transaction that met another one on its items.
const CONFLICTS: [&str; 2] = ["TransactionConflict", "TransactionInProgress"];

/// The error of a transaction that was cancelled because its items are in use or throttled.
pub(super) fn busy(reasons: &[Reason]) -> TableError {
    let said: Vec<&str> = reasons
        .iter()
        .filter_map(|reason| if let Reason::Busy(code) = reason { Some(&**code) } else { None })
        .collect();
    let error = format!("cancelled: {}", said.join(", ")).into();
    let is_conflict = said.iter().any(|code| CONFLICTS.contains(code));
    if is_conflict { TableError::Pending(error) } else { TableError::Unavailable(error) }
}
