//! Whether packets can be sent: the operator's decisions, each an item, so that all of them stay readable.

use serde_json::{Value, json};

use super::commit::Committed;
use super::{Ledger, LedgerError, items, keys};
use crate::domain::{Deed, DeedKind, IdempotencyKey, Mandate, OperatorReason, SendingDecision, Timestamp};
use crate::ports::{Item, Query, Table, Write};

/// How many decisions a request is compared with, by its idempotency key.
const KEYS_KNOWN: u32 = 50;

/// A decision, as a deed shows it.
fn shown(decision: &SendingDecision) -> Value {
    json!({"paused": decision.paused, "reason": decision.reason.as_ref().map(OperatorReason::as_str)})
}

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

    /// Writes a decision, with a time above that of each one before, whatever the clocks say. The same once more, or one with a key that
    /// one of the last decisions has, leaves all as it is. Returns the one that stands, which is another one if two came at once.
    pub async fn decide_sending(&self, decision: SendingDecision) -> Result<SendingDecision, LedgerError> {
        let mut decision = decision;
        let kind = if decision.paused { DeedKind::Pause } else { DeedKind::Resume };
        loop {
            let last = self.sending_decisions(KEYS_KNOWN).await?;
            let is_known = decision.key.is_some() && {
                let is_this = |key: &Option<IdempotencyKey>| *key == decision.key;
                let noted = self.deeds(None, None, KEYS_KNOWN).await?.rows;
                last.iter().any(|past| past.paused == decision.paused && is_this(&past.key))
                    || noted.iter().any(|past| past.deed == kind && is_this(&past.key))
            };
            let standing = last.into_iter().next();
            let mut follows = Timestamp::default();
            let mut deed = Deed {
                after: Some(shown(&decision)),
                ..Deed::new(
                    kind,
                    Mandate { by: decision.by.as_ref(), reason: decision.reason.as_ref(), key: decision.key.as_ref() },
                    decision.at,
                )
            };
            if let Some(last) = standing {
                if is_known {
                    return Ok(last);
                }
                if (last.paused, &last.reason) == (decision.paused, &decision.reason) {
                    // Its key must be known, or it could find something when it is repeated.
                    if decision.key.is_some() {
                        deed.before.clone_from(&deed.after);
                        self.note_deed(&deed).await?;
                    }
                    return Ok(last);
                }
                decision.at = decision.at.max(Timestamp::from_ms(last.at.ms() + 1));
                (deed.at, deed.before) = (decision.at, Some(shown(&last)));
                follows = last.at;
            }
            let writes = [
                Write::PutNew { key: keys::sending(decision.at), item: items::write(&decision)? },
                // Two that come at once don't both follow the same one.
                Write::PutNew { key: keys::sending_after(follows), item: Item::default() },
            ];
            // Another one may have come in between.
            if let Committed::Yes = self.commit_deed(&deed, &writes).await? {
                return Ok(self.sending().await?.unwrap_or(decision));
            }
        }
    }
}
