//! What the ledger forgets of a user: the texts that they wrote. Ids and money stay, because the books need them.

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_dynamo::AttributeValue;

use super::commit::Committed;
use super::items::{self, ClaimItem, PENDING, WithdrawalItem};
use super::{Ledger, LedgerError, Packet, keys};
use crate::domain::{Deed, DeedKind, Mandate, PacketId, RequestKey, Terms, Timestamp, UserId};
use crate::ports::{Expect, Item, Query, Table, Write};

/// The packets that are read at once.
const PACKETS_PER_READ: u32 = 100;
/// The packets, and of each the groups of claims, that are emptied at once.
const AT_ONCE: usize = 4;

/// The greeting of a packet, and of its claims.
const GREETING: &str = "greeting";
/// The note of a withdrawal.
const NOTE: &str = "note";

/// What an erasure has emptied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Erased {
    /// Packets that the user sent.
    pub packets: u64,
    /// Claims of these packets, which repeated the greeting.
    pub claims: u64,
    /// Withdrawals from the user's wallet.
    pub withdrawals: u64,
}

/// What an erasure has to wait for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Unfinished {
    /// Packets of the user that are not settled.
    pub packets: Vec<PacketId>,
    /// Pending withdrawals of the user.
    pub withdrawals: Vec<RequestKey>,
}

impl<T: Table> Ledger<T> {
    /// Empties what a user wrote: greetings, covers and metadata of their packets, the greetings in the claims of these, and the notes of
    /// withdrawals. It changes nothing while something of theirs is unfinished. It may end anywhere, and goes on when it is called again. Each call that finds
    /// something is a deed.
    pub async fn erase_texts(
        &self,
        user: &UserId,
        mandate: Mandate<'_>,
        at: Timestamp,
    ) -> Result<Result<Erased, Unfinished>, LedgerError> {
        let (mut unfinished, mut written, mut before) = (Unfinished::default(), Vec::new(), None);
        loop {
            let page = self.sent(user, before, PACKETS_PER_READ).await?;
            let found = if page.rows.is_empty() { Vec::new() } else { self.packets(&page.rows).await? };
            unfinished.packets.extend(found.iter().filter(|found| found.settled.is_none()).map(|found| found.terms.id));
            written.extend(found.iter().filter(|found| has_text(found)).map(|found| found.terms.id));
            match page.next {
                Some(next) => before = Some(next),
                None => break,
            }
        }
        let sk_prefix = keys::WITHDRAWAL;
        let query = Query { pk: keys::user(user), sk_prefix, after: None, descending: false, limit: None };
        let withdrawals: Vec<WithdrawalItem> =
            self.table.query(query).await?.into_iter().map(items::read).collect::<Result<_, _>>()?;
        let pending = withdrawals.iter().filter(|item| item.status.as_deref() == Some(PENDING));
        unfinished.withdrawals.extend(pending.map(|item| item.id.clone()));
        if unfinished != Unfinished::default() {
            return Ok(Err(unfinished));
        }
        let mut erased = Erased::default();
        if written.is_empty() && withdrawals.iter().all(|item| item.note.is_none()) {
            return Ok(Ok(erased));
        }
        let deed = Deed { user_id: Some(user.clone()), ..Deed::new(DeedKind::Erase, mandate, at) };
        self.note_deed(&deed).await?;
        let emptied = stream::iter(written).map(|id| self.empty_packet(id, at)).buffer_unordered(AT_ONCE);
        for claims in emptied.try_collect::<Vec<_>>().await? {
            erased.packets += 1;
            erased.claims += claims;
        }
        for item in withdrawals.iter().filter(|item| item.note.is_some()) {
            self.remove_note(user, item, at).await?;
            erased.withdrawals += 1;
        }
        Ok(Ok(erased))
    }

    /// Empties the texts of a settled packet. Its own item is the last: while it has a text, there may be claims with one. Returns the
    /// number of claims whose greeting it emptied.
    async fn empty_packet(&self, id: PacketId, at: Timestamp) -> Result<u64, LedgerError> {
        let Some(Packet { terms: Terms { count, greeting, .. }, .. }) = self.packet(id).await? else { return Ok(0) };
        let groups = if greeting.is_empty() { 0 } else { count.div_ceil(keys::SLIPS_PER_KEY) };
        let emptied = stream::iter(0..groups).map(|group| self.empty_claims(id, group)).buffer_unordered(AT_ONCE);
        let claims = emptied.try_fold(0, |sum, claims| std::future::ready(Ok(sum + claims))).await?;
        let mut set = erased(at);
        set.insert(GREETING.to_owned(), AttributeValue::S(String::new()));
        let (key, expect) = (keys::packet(id), Expect::Is(items::STATUS, items::SETTLED));
        self.change_all(&[Write::Change { key, expect, set, remove: &["cover", "metadata"] }]).await?;
        Ok(claims)
    }

    /// Empties the greeting in the claims of a group of slips.
    async fn empty_claims(&self, id: PacketId, group: u32) -> Result<u64, LedgerError> {
        let decisions = self.decisions_of_group(id, group).await?;
        let keys: Vec<_> =
            decisions.iter().filter_map(|found| found.owner.user()).map(|user| keys::claim(user, id)).collect();
        let mut writes = Vec::new();
        for item in if keys.is_empty() { Vec::new() } else { self.read_all(keys).await? } {
            let key = keys::of_item(&item);
            let key = key.ok_or_else(|| LedgerError::Impossible("a claim without a key".to_owned()))?;
            if !items::read::<ClaimItem>(item)?.greeting.is_empty() {
                let mut set = Item::default();
                set.insert(GREETING.to_owned(), AttributeValue::S(String::new()));
                writes.push(Write::Change { key, expect: Expect::Has(GREETING), set, remove: &[] });
            }
        }
        self.change_all(&writes).await?;
        Ok(writes.len() as u64)
    }

    /// Removes the note of a withdrawal that has ended, there and in the timeline.
    async fn remove_note(&self, user: &UserId, item: &WithdrawalItem, at: Timestamp) -> Result<(), LedgerError> {
        let key = keys::withdrawal(user, &item.id);
        let copy = keys::in_timeline(&key, item.at);
        let change = |key| Write::Change { key, expect: Expect::Has("id"), set: erased(at), remove: &[NOTE] };
        self.change_all(&[change(key), change(copy)]).await
    }

    /// Changes items that were there a moment ago. Nothing deletes one.
    async fn change_all(&self, writes: &[Write]) -> Result<(), LedgerError> {
        if writes.is_empty() {
            return Ok(());
        }
        match self.commit(writes).await? {
            Committed::Yes => Ok(()),
            Committed::No(_) => Err(LedgerError::Impossible("an item that lost what it had".to_owned())),
        }
    }
}

/// Whether the packet has a text of its sender.
fn has_text(Packet { terms, .. }: &Packet) -> bool {
    !terms.greeting.is_empty() || terms.labels.cover.is_some() || terms.labels.metadata.is_some()
}

/// When an item lost its texts. It is the mark of a change that is no event.
fn erased(at: Timestamp) -> Item {
    let mut set = Item::default();
    set.insert(items::ERASED_AT.to_owned(), AttributeValue::N(at.ms().to_string()));
    set
}
