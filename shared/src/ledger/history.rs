use std::collections::{HashMap, HashSet};

use super::items::{self, ClaimItem, ReferenceItem, SentItem};
use super::{Ledger, LedgerError, Packet, keys};
use crate::domain::{Claim, ClaimRecord, LimitKey, PacketId, Reference, Selection, UserId};
use crate::ports::{Batch, Item, Key, Query, Table};

/// A user and a packet that they may have a claim of.
pub type ClaimKey = (UserId, PacketId);
/// The claim of a [`ClaimKey`], if it reads as one.
pub type OwnClaim = Result<Option<Claim>, LedgerError>;

/// A piece of a list, and where the next one starts.
#[derive(Clone, Debug)]
pub struct Slice<R, C> {
    /// The rows.
    pub rows: Vec<R>,
    /// The cursor for the next slice; `None` at the end.
    pub next: Option<C>,
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
        Ok(cut(self.ids(query).await?, limit, |id| *id))
    }

    /// Up to `limit` of a sender's packets with a key of a limit, the newest.
    pub async fn limited(&self, sender: &UserId, key: &LimitKey, limit: u32) -> Result<Vec<Packet>, LedgerError> {
        let pk = keys::limited_packets(sender, key);
        let query = Query { pk, sk_prefix: "", after: None, descending: true, limit: Some(limit) };
        let ids = self.ids(query).await?;
        if ids.is_empty() { Ok(Vec::new()) } else { self.packets(&ids).await }
    }

    /// Up to `limit` of the packets of a selection, the oldest first, from `from` on, and after `after`.
    pub async fn selected(
        &self,
        of: &Selection,
        from: Option<PacketId>,
        after: Option<PacketId>,
        limit: u32,
    ) -> Result<Slice<Packet, PacketId>, LedgerError> {
        let Selection { sender, reference, limit_key } = of;
        let pk = match (reference, limit_key) {
            (Some(reference), _) => keys::references(reference),
            (None, Some(key)) => keys::limited_packets(sender, key),
            (None, None) => return Ok(Slice { rows: Vec::new(), next: None }),
        };
        let after = after.map(|id| id.to_string()).or_else(|| from.map(just_before));
        let query = Query { pk, sk_prefix: "", after, descending: false, limit: Some(limit + 1) };
        let Slice { rows: mut ids, next } = cut(self.ids(query).await?, limit, |id| *id);
        ids.retain(|id| from.is_none_or(|from| *id >= from));
        let mut packets = if ids.is_empty() { Vec::new() } else { self.packets(&ids).await? };
        packets.retain(|Packet { terms, .. }| {
            let key = terms.limit.as_ref().map(|limit| &limit.key);
            terms.sender == *sender && (limit_key.is_none() || key == limit_key.as_ref())
        });
        packets.sort_by_key(|packet| packet.terms.id);
        Ok(Slice { rows: packets, next })
    }

    /// The packets that a query over references or limits finds.
    async fn ids(&self, query: Query) -> Result<Vec<PacketId>, LedgerError> {
        let items = self.table.query(query).await?.into_iter();
        items.map(|item| Ok(items::read::<ReferenceItem>(item)?.packet_id)).collect()
    }

    /// The claims that these users have of these packets (at most 100 pairs), if they have one. It leaves out those for which the table
    /// was too busy.
    pub async fn claims_at(&self, claims: &HashSet<ClaimKey>) -> Result<HashMap<ClaimKey, OwnClaim>, LedgerError> {
        let keys: HashMap<Key, ClaimKey> =
            claims.iter().map(|(user, id)| (keys::claim(user, *id), (user.clone(), *id))).collect();
        let Batch { items, left } = self.table.batch_get(keys.keys().cloned().collect()).await?;
        let mut items: HashMap<Key, Item> =
            items.into_iter().filter_map(|item| Some((keys::of_item(&item)?, item))).collect();
        let answered = keys.into_iter().filter(|(key, _)| !left.contains(key));
        let read = |item| items::read::<ClaimItem>(item).map(|item| item.claim());
        Ok(answered.map(|(key, of)| (of, items.remove(&key).map(read).transpose())).collect())
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
}

/// A sort key that comes before this packet's, and after those of all packets of an earlier time.
fn just_before(id: PacketId) -> String {
    let mut sk = id.to_string();
    sk.pop();
    sk
}

/// Cuts a list to `limit` rows. It was read one row further, which shows whether there are more.
pub(super) fn cut<R, C>(mut rows: Vec<R>, limit: u32, cursor: impl Fn(&R) -> C) -> Slice<R, C> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = if more { rows.last().map(cursor) } else { None };
    Slice { rows, next }
}
