//! Whether packets can be sent: the operator's decisions, each an item, so that all of them stay readable.

use super::commit::Committed;
use super::{Ledger, LedgerError, items, keys};
use crate::domain::{SendingDecision, Timestamp};
use crate::ports::{Query, Table, Write};

impl<T: Table> Ledger<T> {
    /// What the operator decided last about sending, if ever.
    pub async fn sending(&self) -> Result<Option<SendingDecision>, LedgerError> {
        Ok(self.sending_decisions(1).await?.pop())
    }

    /// Up to `limit` of these decisions, the newest first.
    pub async fn sending_decisions(&self, limit: u32) -> Result<Vec<SendingDecision>, LedgerError> {
        let query =
            Query { pk: keys::SENDING.to_owned(), sk_prefix: "", after: None, descending: true, limit: Some(limit) };
        self.table.query(query).await?.into_iter().map(items::read).collect()
    }

    /// Writes a decision, with a time above that of each one before, whatever the clocks say. Returns the one that stands, which is another
    /// one if two came at once.
    pub async fn decide_sending(&self, decision: SendingDecision) -> Result<SendingDecision, LedgerError> {
        let mut decision = decision;
        loop {
            if let Some(last) = self.sending().await? {
                decision.at = decision.at.max(Timestamp::from_ms(last.at.ms() + 1));
            }
            let write = Write::PutNew { key: keys::sending(decision.at), item: items::write(&decision)? };
            // Another one may have come in between.
            if let Committed::Yes = self.commit(&[write]).await? {
                return Ok(self.sending().await?.unwrap_or(decision));
            }
        }
    }
}
