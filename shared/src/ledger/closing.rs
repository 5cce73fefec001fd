//! Orders of the operator to close all packets of a sender that have a reference. An order stays until all of them are closed, so settle
//! finishes one whose process has died.

use serde::{Deserialize, Serialize};
use serde_dynamo::AttributeValue;

use super::commit::Committed;
use super::withdrawal::place_of;
use super::{Ledger, LedgerError, Packet, items, keys};
use crate::domain::{Deed, DeedKind, Intervention, Mandate, Reference, Selection, Timestamp, UserId};
use crate::ports::{Expect, Item, Table, Write};

/// Packets of one read.
const PACKETS_AT_ONCE: u32 = 100;

/// An order to close all packets of a sender with a reference that were sent by then.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CloseOrder {
    /// Who sent them.
    pub sender: UserId,
    /// Their reference.
    pub reference: Reference,
    /// When, why and by whom it was ordered.
    #[serde(flatten)]
    pub intervention: Intervention,
}

impl<T: Table> Ledger<T> {
    /// Writes an order.
    pub async fn order_close(&self, order: &CloseOrder) -> Result<(), LedgerError> {
        let mut set = items::write(order)?;
        let number = |number: u64| AttributeValue::N(number.to_string());
        set.insert(keys::DUE_SHARD.to_owned(), number(keys::CLOSING_SHARD.into()));
        set.insert(keys::DUE_AT.to_owned(), number(order.intervention.at.ms()));
        let Intervention { reason, at, by } = &order.intervention;
        let mandate = Mandate { by: by.as_ref(), reason: Some(reason), key: None };
        let deed = Deed {
            user_id: Some(order.sender.clone()),
            reference: Some(order.reference.clone()),
            ..Deed::new(DeedKind::CloseReference, mandate, *at)
        };
        // Without a condition nothing refuses it.
        self.commit_deed(&deed, &[change(order, set, &[])]).await.map(drop)
    }

    /// Up to `limit` orders that are not carried out, the oldest first.
    pub async fn close_orders(&self, limit: u32) -> Result<Vec<CloseOrder>, LedgerError> {
        let mut orders = Vec::new();
        for entry in self.table.due(keys::CLOSING_SHARD, u64::MAX, None, limit).await? {
            let (key, _) = place_of(entry)?;
            // The index may still show one that is carried out; once more does no harm.
            orders.extend(self.table.get(key).await?.map(items::read).transpose()?);
        }
        Ok(orders)
    }

    /// The packets that an order is about, and which grabs could still begin or go on at `now`. With those that are closed and not settled:
    /// their parts may still be open.
    pub async fn packets_to_close(&self, order: &CloseOrder, now: Timestamp) -> Result<Vec<Packet>, LedgerError> {
        let CloseOrder { sender, reference, intervention } = order;
        let of = Selection { sender: sender.clone(), reference: Some(reference.clone()), limit_key: None };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.selected(&of, None, after, PACKETS_AT_ONCE).await?;
            let is_meant = |Packet { terms, settled, closed, .. }: &Packet| {
                let may_have_open_parts = closed.is_some() || now < terms.expires_at;
                settled.is_none() && may_have_open_parts && terms.created_at <= intervention.at
            };
            all.extend(page.rows.into_iter().filter(is_meant));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Notes that an order is carried out.
    pub async fn carried_out(&self, order: &CloseOrder) -> Result<(), LedgerError> {
        let write = change(order, Item::default(), &[keys::DUE_SHARD, keys::DUE_AT]);
        match self.commit(&[write]).await? {
            Committed::Yes => Ok(()),
            Committed::No(_) => Err(LedgerError::Impossible("an order that does not exist".to_owned())),
        }
    }
}

fn change(order: &CloseOrder, set: Item, remove: &'static [&'static str]) -> Write {
    let key = keys::close_order(&order.sender, &order.reference, order.intervention.at);
    Write::Change { key, expect: Expect::Nothing, set, remove }
}
