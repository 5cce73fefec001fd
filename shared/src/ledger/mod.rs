//! The ledger: what is true. One `DynamoDB` table holds packets, slips' decisions, claims, refunds and wallets.
//!
//! [`Ledger`] is the protocol: which items a step writes in one transaction, and what a refusal means. It stands on
//! [`Table`], which knows keys, items and conditions but nothing of packets; `dynamodb::SdkTable` is the real one.

mod claim;
mod closing;
mod commit;
mod deeds;
mod erasure;
mod history;
mod items;
pub mod keys;
mod movements;
mod operator_keys;
mod packet;
mod receiver;
mod refund;
mod sending;
mod sold_out;
#[cfg(test)]
mod tests;
mod wallet;
mod withdrawal;

use std::sync::Arc;

pub use claim::{CLAIMS_MAX, ClaimOutcome, ClaimRefusal};
pub use closing::CloseOrder;
pub use deeds::{Decided, DecidedCursor, DeedCursor, LimitUse, Requested};
pub use erasure::{Erased, Unfinished};
pub use history::{ClaimKey, OwnClaim, Slice};
pub use items::{ERASED_AT, SETTLED};
pub use keys::due_shard;
pub use movements::MovementCursor;
pub use operator_keys::{OperatorKey, hash_of_key};
pub use packet::{Due, DueCursor, Packet, SendOutcome, SendRequest};
pub use receiver::{ReceiverState, ReceiverStatus};
pub use refund::{REFUND_SLIPS_MAX, RefundOutcome};
pub use wallet::DepositOutcome;
pub use withdrawal::{EndOutcome, PendingCursor, WithdrawalOutcome};

use crate::ports::{Entropy, Table, TableError};

/// Why the ledger did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It did not answer in time. Nothing is known of the request, which may have taken effect.
    #[error("the ledger did not answer")]
    Unavailable(#[source] TableError),
    /// A defect: an item that can't be read, or a request that the table calls malformed.
    #[error("the ledger holds or was given something impossible: {0}")]
    Impossible(String),
}

impl From<TableError> for LedgerError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Refused(_) => Self::Impossible(error.chain()),
            TableError::Unavailable(_) | TableError::Pending(_) | TableError::Overloaded(_) => Self::Unavailable(error),
        }
    }
}

/// The ledger's protocol over a [`Table`].
pub struct Ledger<T> {
    table: T,
    entropy: Arc<dyn Entropy>,
}

impl<T: Table> Ledger<T> {
    /// A ledger in `table`; `entropy` feeds the jitter of its retries and the tokens of its transactions.
    pub fn new(table: T, entropy: Arc<dyn Entropy>) -> Self {
        Self { table, entropy }
    }

    /// The table.
    #[cfg(test)]
    pub(crate) const fn table(&self) -> &T {
        &self.table
    }
}
