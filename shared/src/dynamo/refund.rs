use super::claim::read_fence;
use super::commit::Committed;
use super::items::{self, ClosingItem, FenceItem, RefundItem};
use super::keys;
use super::packet::Summary;
use super::table::{Reason, Table, Write};
use super::{Ledger, LedgerError};
use crate::domain::{Amount, Fence, Owner, Terms, Timestamp};

/// The most slips that one refund can take back: a transaction has at most 100 writes.
pub const REFUND_SLIPS_MAX: usize = 90;

/// How the refund of a chunk ended.
#[derive(Debug)]
pub enum RefundOutcome {
    /// All of its slips are refunded; these are their fences.
    Refunded(Vec<Fence>),
    /// None is: these slips of the chunk have fences already.
    Fenced(Vec<Fence>),
}

impl<T: Table> Ledger<T> {
    /// Takes up to [`REFUND_SLIPS_MAX`] slips (index and amount, in ascending order) back to the sender's wallet, all in
    /// one transaction: a fence for each slip, the refund, the sum to the wallet.
    pub async fn refund(
        &self,
        terms: &Terms,
        slips: &[(u32, Amount)],
        at: Timestamp,
    ) -> Result<RefundOutcome, LedgerError> {
        let Some(&(lowest, _)) = slips.first() else { return Ok(RefundOutcome::Refunded(Vec::new())) };
        let fences: Vec<Fence> =
            slips.iter().map(|&(slip, amount)| Fence { slip, owner: Owner::Refunded, amount, at }).collect();
        let amount: Amount = slips.iter().map(|(_, amount)| *amount).sum();
        let slip_count = u32::try_from(slips.len()).unwrap_or(u32::MAX);
        let mut writes = Vec::with_capacity(slips.len() + 2);
        for fence in &fences {
            let item = items::write(&FenceItem::from(fence))?;
            writes.push(Write::PutNew { key: keys::fence(terms.id, fence.slip), item });
        }
        writes.push(Write::PutNew {
            key: keys::refund(&terms.sender, terms.id, lowest),
            item: items::write(&RefundItem { packet_id: terms.id, slip_count, amount, at })?,
        });
        writes.push(Write::Add {
            key: keys::wallet(&terms.sender),
            deltas: vec![("balance", super::wallet::signed(amount)?)],
            bound: None,
        });
        match self.commit(&writes).await? {
            Committed::Yes => Ok(RefundOutcome::Refunded(fences)),
            Committed::No(reasons) => self.fences_in_the_way(terms, slips, reasons).await,
        }
    }

    /// Only a fence that was seen takes a slip out of a chunk.
    async fn fences_in_the_way(
        &self,
        terms: &Terms,
        slips: &[(u32, Amount)],
        reasons: Vec<Reason>,
    ) -> Result<RefundOutcome, LedgerError> {
        let mut seen = Vec::new();
        for (&(slip, _), reason) in slips.iter().zip(reasons) {
            match reason {
                Reason::ConditionFailed(Some(item)) => seen.push(read_fence(item)?),
                Reason::ConditionFailed(None) => seen.extend(self.fence(terms.id, slip).await?),
                Reason::None | Reason::Busy(_) => {}
            }
        }
        if seen.is_empty() {
            // The refund's own item alone is there: its slips are fenced, and the next read shows them.
            seen = self.fences(terms.id, slips.iter().map(|(slip, _)| *slip)).await?;
        }
        if seen.is_empty() {
            return Err(LedgerError::Impossible(format!("{}: a refund without the fences of its slips", terms.id)));
        }
        Ok(RefundOutcome::Fenced(seen))
    }

    /// Marks a packet as settled, with what its fences sum to. The caller has read a fence for every slip. Doing it
    /// twice changes nothing, since fences never change.
    pub async fn close(&self, terms: &Terms, summary: &Summary) -> Result<(), LedgerError> {
        let best = summary.best.as_ref();
        let closing = ClosingItem {
            claimed_count: summary.claimed_count,
            claimed_amount: summary.claimed_amount,
            refunded_count: summary.refunded_count,
            refunded_amount: summary.refunded_amount,
            best_slip: best.map(|best| best.slip),
            best_user: best.map(|best| best.user.clone()),
            best_amount: best.map(|best| best.amount),
        };
        let mut set = items::write(&closing)?;
        set.insert("status".to_owned(), serde_dynamo::AttributeValue::S(items::SETTLED.to_owned()));
        let expect = ("status", items::OPEN);
        let write = Write::Change { key: keys::packet(terms.id), expect, set, remove: &[keys::DUE_SHARD] };
        match self.commit(&[write]).await? {
            Committed::Yes | Committed::No(_) => Ok(()),
        }
    }
}
