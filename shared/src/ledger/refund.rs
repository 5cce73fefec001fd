use super::commit::Committed;
use super::items::{self, DecisionItem, RefundItem, SettledItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{Amount, Decision, Owner, Summary, Terms, Timestamp};
use crate::ports::{Expect, Reason, Table, Write};

/// The most slips that one refund can take back: a transaction has at most 100 writes.
pub const REFUND_SLIPS_MAX: usize = 90;

/// How the refund of a chunk ended.
#[derive(Debug)]
pub enum RefundOutcome {
    /// All of its slips are refunded; these are their decisions.
    Refunded(Vec<Decision>),
    /// No slip is refunded, because these slips of the chunk have decisions already.
    AlreadyDecided(Vec<Decision>),
}

impl<T: Table> Ledger<T> {
    /// Takes up to [`REFUND_SLIPS_MAX`] slips (index and amount, in ascending order) back to the sender's wallet, in
    /// one transaction. It writes a decision for each slip, the refund with its copy in the timeline, and the sum to the wallet.
    pub async fn refund(
        &self,
        terms: &Terms,
        slips: &[(u32, Amount)],
        at: Timestamp,
    ) -> Result<RefundOutcome, LedgerError> {
        let Some(&(lowest, _)) = slips.first() else { return Ok(RefundOutcome::Refunded(Vec::new())) };
        let decisions: Vec<Decision> =
            slips.iter().map(|&(slip, amount)| Decision { slip, owner: Owner::Refunded, amount, at }).collect();
        let amount: Amount = slips.iter().map(|(_, amount)| *amount).sum();
        let slip_count = u32::try_from(slips.len()).unwrap_or(u32::MAX);
        let mut writes = Vec::with_capacity(slips.len() + 3);
        for decision in &decisions {
            let item = items::write(&DecisionItem::from(decision))?;
            writes.push(Write::PutNew { key: keys::decision(terms.id, decision.slip), item });
        }
        let key = keys::refund(&terms.sender, terms.id, lowest);
        let item = items::write(&RefundItem { packet_id: terms.id, slip_count, amount, at })?;
        let copy = Write::PutNew { key: keys::in_timeline(&key, at), item: item.clone() };
        writes.extend([Write::PutNew { key, item }, copy]);
        writes.push(Write::Add {
            key: keys::wallet(&terms.sender),
            deltas: vec![("balance", items::signed(amount)?)],
            bounds: vec![],
            absent: None,
        });
        match self.commit(&writes).await? {
            Committed::Yes => Ok(RefundOutcome::Refunded(decisions)),
            Committed::No(reasons) => self.decisions_in_the_way(terms, slips, reasons).await,
        }
    }

    /// Reads the decisions that prevented a refund. Only a decision that was read takes a slip out of a chunk.
    async fn decisions_in_the_way(
        &self,
        terms: &Terms,
        slips: &[(u32, Amount)],
        reasons: Vec<Reason>,
    ) -> Result<RefundOutcome, LedgerError> {
        let mut seen = Vec::new();
        for (&(slip, _), reason) in slips.iter().zip(reasons) {
            match reason {
                Reason::ConditionFailed(Some(item)) => seen.push(items::read_decision(item)?),
                Reason::ConditionFailed(None) => seen.extend(self.decision(terms.id, slip).await?),
                Reason::None | Reason::Busy(_) => {}
            }
        }
        if seen.is_empty() {
            // Only the refund's own item exists: its slips are decided, and the next read shows them.
            seen = self.decisions(terms.id, slips.iter().map(|(slip, _)| *slip)).await?;
        }
        if seen.is_empty() {
            return Err(LedgerError::Impossible(format!("{}: a refund without the decisions of its slips", terms.id)));
        }
        Ok(RefundOutcome::AlreadyDecided(seen))
    }

    /// Marks a packet as settled at `at`, with what its decisions sum to. The caller has read a decision for every slip. Doing it
    /// twice changes nothing, since decisions never change, and the first time stays.
    pub async fn mark_settled(&self, terms: &Terms, summary: &Summary, at: Timestamp) -> Result<(), LedgerError> {
        let best = summary.best.as_ref();
        let sums = SettledItem {
            settled_at: at,
            claimed_count: summary.claimed_count,
            claimed_amount: summary.claimed_amount,
            refunded_count: summary.refunded_count,
            refunded_amount: summary.refunded_amount,
            best_slip: best.map(|best| best.slip),
            best_user: best.map(|best| best.user.clone()),
            best_amount: best.map(|best| best.amount),
        };
        let mut set = items::write(&sums)?;
        set.insert(items::STATUS.to_owned(), serde_dynamo::AttributeValue::S(items::SETTLED.to_owned()));
        // A packet is in the index until it is settled. If it is not there, it was settled before.
        let expect = Expect::Has(keys::DUE_SHARD);
        let write = Write::Change { key: keys::packet(terms.id), expect, set, remove: &[keys::DUE_SHARD] };
        self.commit(&[write]).await.map(drop)
    }
}
