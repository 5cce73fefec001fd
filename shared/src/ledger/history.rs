use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde_dynamo::AttributeValue;

use super::items::{self, ClaimItem, OutsideItem, ReferenceItem, RefundItem, SentItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{Claim, ClaimRecord, Movement, MovementKind, PacketId, Reference, RequestKey, UserId};
use crate::ports::{Item, Key, Query, Table};

/// A piece of a list, and where the next one starts.
#[derive(Clone, Debug)]
pub struct Slice<R, C> {
    /// The rows.
    pub rows: Vec<R>,
    /// The cursor for the next slice; `None` at the end.
    pub next: Option<C>,
}

/// The beginning of the sort keys of this kind of movement.
const fn prefix(kind: MovementKind) -> &'static str {
    match kind {
        MovementKind::Claim => keys::CLAIM,
        MovementKind::Deposit => keys::DEPOSIT,
        MovementKind::Refund => keys::REFUND,
        MovementKind::Sent => keys::SENT,
        MovementKind::Withdrawal => keys::WITHDRAWAL,
    }
}

/// A place in the list of a user's movements: the sort key of the last one read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MovementCursor {
    kind: MovementKind,
    sk: String,
}

impl fmt::Display for MovementCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sk)
    }
}

impl FromStr for MovementCursor {
    type Err = ();

    /// Accepts only the sort key of a movement, so no cursor names another kind of item.
    fn from_str(sk: &str) -> Result<Self, ()> {
        let split = |kind: MovementKind| Some((kind, sk.strip_prefix(prefix(kind))?));
        let (kind, id) = MovementKind::ALL.into_iter().find_map(split).ok_or(())?;
        let well_formed = match kind {
            MovementKind::Claim | MovementKind::Sent => id.parse::<PacketId>().is_ok(),
            MovementKind::Deposit | MovementKind::Withdrawal => id.parse::<RequestKey>().is_ok(),
            MovementKind::Refund => id.split_once('#').is_some_and(|(packet, slip)| {
                packet.parse::<PacketId>().is_ok() && slip.len() == 6 && slip.bytes().all(|byte| byte.is_ascii_digit())
            }),
        };
        if well_formed { Ok(Self { kind, sk: sk.to_owned() }) } else { Err(()) }
    }
}

impl<T: Table> Ledger<T> {
    /// Up to `limit` of the packets that a user sent, the newest first, before `before`.
    pub async fn sent(
        &self,
        user: &UserId,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<Slice<PacketId, PacketId>, LedgerError> {
        let after = before.map(|id| keys::sent(user, id).sk);
        let rows = self.newest(user, keys::SENT, after, limit).await?;
        let rows = rows.into_iter().map(|item| Ok(items::read::<SentItem>(item)?.packet_id));
        Ok(cut(rows.collect::<Result<Vec<_>, LedgerError>>()?, limit, |id| *id))
    }

    /// Up to `limit` of the packets with a reference, the newest first, before `before`.
    pub async fn referenced(
        &self,
        reference: &Reference,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<Slice<PacketId, PacketId>, LedgerError> {
        let query = Query {
            pk: keys::references(reference),
            sk_prefix: "",
            after: before.map(|id| id.to_string()),
            descending: true,
            limit: Some(limit + 1),
        };
        let rows = self.table.query(query).await?.into_iter();
        let rows = rows.map(|item| Ok(items::read::<ReferenceItem>(item)?.packet_id));
        Ok(cut(rows.collect::<Result<Vec<_>, LedgerError>>()?, limit, |id| *id))
    }

    /// A user's claims of these packets (at most 100), by packet.
    pub async fn claims_of(
        &self,
        user: &UserId,
        ids: impl IntoIterator<Item = PacketId>,
    ) -> Result<HashMap<PacketId, Claim>, LedgerError> {
        let keys: Vec<Key> = ids.into_iter().map(|id| keys::claim(user, id)).collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let read = |item| {
            let item: ClaimItem = items::read(item)?;
            Ok((item.packet_id, item.claim()))
        };
        self.table.batch_get(keys).await?.into_iter().map(read).collect()
    }

    /// Up to `limit` of the slips that a user claimed, those of the newest packets first, before packet `before`.
    pub async fn claims(
        &self,
        user: &UserId,
        before: Option<PacketId>,
        limit: u32,
    ) -> Result<Slice<ClaimRecord, PacketId>, LedgerError> {
        let after = before.map(|id| keys::claim(user, id).sk);
        let rows = self.newest(user, keys::CLAIM, after, limit).await?;
        let rows = rows.into_iter().map(|item| {
            let item: ClaimItem = items::read(item)?;
            let claim = item.claim();
            Ok(ClaimRecord { packet_id: item.packet_id, sender: item.sender_id, greeting: item.greeting, claim })
        });
        Ok(cut(rows.collect::<Result<Vec<_>, LedgerError>>()?, limit, |record| record.packet_id))
    }

    async fn newest(
        &self,
        user: &UserId,
        sk_prefix: &'static str,
        after: Option<String>,
        limit: u32,
    ) -> Result<Vec<Item>, LedgerError> {
        let query = Query { pk: keys::user(user), sk_prefix, after, descending: true, limit: Some(limit + 1) };
        Ok(self.table.query(query).await?)
    }

    /// Up to `limit` movements of a user's wallet, by kind and then by id, after `after`.
    pub async fn movements(
        &self,
        user: &UserId,
        after: Option<MovementCursor>,
        limit: u32,
    ) -> Result<Slice<Movement, MovementCursor>, LedgerError> {
        let first = after.as_ref().map_or(MovementKind::Claim, |cursor| cursor.kind);
        let mut after = after.map(|cursor| cursor.sk);
        let mut rows = Vec::new();
        for kind in MovementKind::ALL.into_iter().filter(|kind| *kind >= first) {
            let missing = (limit as usize + 1).saturating_sub(rows.len());
            if missing == 0 {
                break;
            }
            let query = Query {
                pk: keys::user(user),
                sk_prefix: prefix(kind),
                after: after.take(),
                descending: false,
                limit: u32::try_from(missing).ok(),
            };
            for item in self.table.query(query).await? {
                rows.push(read_movement(kind, item)?);
            }
        }
        let slice = cut(rows, limit, |(cursor, _)| cursor.clone());
        Ok(Slice { rows: slice.rows.into_iter().map(|(_, movement)| movement).collect(), next: slice.next })
    }
}

/// Cuts a list to `limit` rows. It was read one row further, which shows whether there are more.
fn cut<R, C>(mut rows: Vec<R>, limit: u32, cursor: impl Fn(&R) -> C) -> Slice<R, C> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = if more { rows.last().map(cursor) } else { None };
    Slice { rows, next }
}

fn read_movement(kind: MovementKind, item: Item) -> Result<(MovementCursor, Movement), LedgerError> {
    let Some(AttributeValue::S(sk)) = item.get(keys::SK).cloned() else {
        return Err(LedgerError::Impossible("an item without a sort key".to_owned()));
    };
    let name = sk.strip_prefix(prefix(kind)).unwrap_or_default().to_owned();
    let (id, amount, at, packet_id, by) = match kind {
        MovementKind::Claim => {
            let item: ClaimItem = items::read(item)?;
            (name, item.amount, item.at, Some(item.packet_id), item.by)
        }
        MovementKind::Sent => {
            let item: SentItem = items::read(item)?;
            (name, item.amount, item.at, Some(item.packet_id), None)
        }
        MovementKind::Refund => {
            let lowest = name.split_once('#').and_then(|(_, slip)| slip.parse::<u32>().ok()).unwrap_or_default();
            let item: RefundItem = items::read(item)?;
            (format!("{}-{lowest}", item.packet_id), item.amount, item.at, Some(item.packet_id), None)
        }
        MovementKind::Deposit | MovementKind::Withdrawal => {
            let item: OutsideItem = items::read(item)?;
            (item.id, item.amount, item.at, None, item.by)
        }
    };
    let amount = items::signed(amount)?;
    let outgoing = matches!(kind, MovementKind::Sent | MovementKind::Withdrawal);
    let amount = if outgoing { -amount } else { amount };
    Ok((MovementCursor { kind, sk }, Movement { kind, id, amount, at, packet_id, by }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_among_movements_is_a_sort_key_of_one() {
        let id = "38FS4S83HF3Y07WMYNH727QYT0";
        let refund = |slip: &str| format!("REFUND#{id}#{slip}");
        let good = [format!("CLAIM#{id}"), format!("SENT#{id}"), "DEPOSIT#d-1".to_owned(), "WITHDRAW#w_1".to_owned()];
        for sk in good.into_iter().chain([refund("000090")]) {
            assert_eq!(sk.parse::<MovementCursor>().map(|cursor| cursor.to_string()), Ok(sk));
        }
        let bad = ["", "WALLET", "KEY#k", "CLAIM#", "CLAIM#x", "DEPOSIT#", "DEPOSIT#a b", "REFUND#"].map(str::to_owned);
        for sk in bad.into_iter().chain(["", "90", "+00090", "0000090", "00009x"].map(refund)) {
            assert!(sk.parse::<MovementCursor>().is_err(), "{sk}");
        }
    }
}
