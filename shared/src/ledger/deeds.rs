//! What operators did. Each deed is written in the transaction that does it, once in the list of all deeds. One on a user also has a
//! number among theirs, so each knows exactly what was before it, also if several decide at the same time.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use futures::future::try_join_all;
use serde_dynamo::AttributeValue;
use tokio::time::Instant;

use super::commit::Committed;
use super::history::{Slice, cut};
use super::items::{self, WalletItem};
use super::withdrawal::place_of;
use super::{Ledger, LedgerError, keys};
use crate::domain::{
    Deed, DeedKind, IdempotencyKey, LimitKey, MovementKind, RequestKey, Suspension, Timestamp, UserId, UserLimits, Won,
};
use crate::ports::{Expect, Item, Key, Query, Reason, Table, Write};
use crate::timeouts;

/// How many of a user's deeds a request is compared with, by its idempotency key.
const KEYS_KNOWN: u32 = 50;
/// The entries of the index that are read at once, which are as many as one batch of reads takes.
const READ_AT_ONCE: u32 = 100;
/// How often they are read for one page. Where few are asked for, a page may have few rows.
const PAGES_MAX: u32 = 10;

/// A place in a list of deeds: that of the last one read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeedCursor(String);

impl DeedCursor {
    /// The place after the item with this end of a sort key.
    pub(super) fn new(place: &str) -> Self {
        Self(place.to_owned())
    }
}

impl fmt::Display for DeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DeedCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.is_empty() { Err(()) } else { Ok(Self(text.to_owned())) }
    }
}

/// A user who is suspended, or has limits of their own.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The user.
    pub user: UserId,
    /// Their suspension, if they are suspended.
    pub suspension: Option<Suspension>,
    /// What they may do instead of what everybody may.
    pub limits: Option<UserLimits>,
    /// When the operator decided it last.
    pub at: Timestamp,
}

/// A place in the list of such users.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecidedCursor {
    at: Timestamp,
    user: UserId,
}

impl fmt::Display for DecidedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.at.ms(), self.user)
    }
}

impl FromStr for DecidedCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, user) = text.split_once('#').ok_or(())?;
        Ok(Self { at: Timestamp::from_ms(at.parse().map_err(drop)?), user: user.parse().map_err(drop)? })
    }
}

/// What a user has won of all packets of a sender whose limit has this key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LimitUse {
    /// Who sent them.
    pub sender: UserId,
    /// The key.
    pub key: LimitKey,
    /// How often, and how much.
    pub won: Won,
}

/// A deposit or a withdrawal with some id, by its user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requested {
    /// Which of the two.
    pub kind: MovementKind,
    /// Whose it is.
    pub user: UserId,
}

/// What is to be written to a wallet, and the deed that does it.
pub(super) struct Change {
    pub deed: Deed,
    pub set: Item,
    pub remove: &'static [&'static str],
    /// Whether it changes anything.
    pub is_new: bool,
    /// Whether the user is then suspended or has limits of their own.
    pub is_decided: bool,
}

impl<T: Table> Ledger<T> {
    /// Writes a deed by itself: one that changes no item of the ledger.
    pub async fn note_deed(&self, deed: &Deed) -> Result<(), LedgerError> {
        self.commit_deed(deed, &[]).await.map(drop)
    }

    /// Commits writes together with the deed that does them. [`Committed::No`] has the reasons of `writes`.
    pub(super) async fn commit_deed(&self, deed: &Deed, writes: &[Write]) -> Result<Committed, LedgerError> {
        let give_up = Instant::now() + timeouts::TRANSACTION;
        let name = hex::encode(self.entropy.bytes16());
        let mut deed = deed.clone();
        loop {
            let mut number = None;
            if let Some(user) = &deed.user_id {
                let last = self.deeds_on(user, None, 1).await?.pop();
                number = Some((user.clone(), last.as_ref().map_or(0, number_of) + 1));
                // The list of a user's deeds goes by their numbers, so their times must not contradict these.
                if let Some(last) = last {
                    deed.at = deed.at.max(items::read::<Deed>(last)?.at);
                }
            }
            let number = number.as_ref().map(|(user, number)| (user, *number));
            if let Some(committed) = self.try_deed(give_up, &deed, &name, number, writes).await? {
                return Ok(committed);
            }
        }
    }

    /// Tries to commit a deed as the one with this number of its user. `None`: another deed has the number.
    async fn try_deed(
        &self,
        give_up: Instant,
        deed: &Deed,
        name: &str,
        number: Option<(&UserId, u32)>,
        writes: &[Write],
    ) -> Result<Option<Committed>, LedgerError> {
        let item = items::write(deed)?;
        let mut all = writes.to_vec();
        all.push(Write::PutNew { key: keys::deed(deed.at, name), item: item.clone() });
        all.extend(number.map(|(user, number)| Write::PutNew { key: keys::deed_on(user, number), item }));
        let reasons = match self.commit_until(give_up, &all).await? {
            Committed::Yes => return Ok(Some(Committed::Yes)),
            Committed::No(reasons) => reasons,
        };
        let failed = |reason: &Reason| matches!(reason, Reason::ConditionFailed(_));
        let (mut own, of_deed) = (reasons, writes.len());
        let of_deed = own.split_off(of_deed.min(own.len()));
        if own.iter().any(failed) {
            return Ok(Some(Committed::No(own)));
        }
        // No other deed has this random name: an attempt whose answer was lost wrote it.
        Ok(of_deed.first().is_some_and(failed).then_some(Committed::Yes))
    }

    /// Changes a user's wallet as `decide` says of it. A request whose key one of the user's last deeds of this kind has changes nothing: it
    /// has done that one, which is returned. So one with a key leaves a deed even where nothing was to be changed: repeated later, it must
    /// not find something.
    pub(super) async fn decide_on(
        &self,
        kind: DeedKind,
        user: &UserId,
        key: Option<&IdempotencyKey>,
        decide: impl Fn(&WalletItem) -> Result<Change, LedgerError>,
    ) -> Result<Option<Deed>, LedgerError> {
        let give_up = Instant::now() + timeouts::TRANSACTION;
        let name = hex::encode(self.entropy.bytes16());
        loop {
            // The deeds come first: a decision after this read has the next number, and this one must not get it then.
            let last = self.deeds_on(user, None, if key.is_some() { KEYS_KNOWN } else { 1 }).await?;
            let deeds = last.iter().map(|item| items::read::<Deed>(item.clone())).collect::<Result<Vec<_>, _>>()?;
            let wallet = self.table.get(keys::wallet(user)).await?;
            let wallet = wallet.map(items::read::<WalletItem>).transpose()?.unwrap_or_default();
            if let Some(done) =
                deeds.iter().find(|deed| deed.deed == kind && deed.key.is_some() && deed.key.as_ref() == key)
            {
                return Ok(Some(done.clone()));
            }
            let Change { mut deed, mut set, remove, is_new, is_decided } = decide(&wallet)?;
            if !is_new && key.is_none() {
                return Ok(None);
            }
            // As in `commit_deed`.
            deed.at = deeds.first().map_or(deed.at, |last| deed.at.max(last.at));
            if is_decided {
                let number = |number: u64| AttributeValue::N(number.to_string());
                set.insert(keys::DUE_SHARD.to_owned(), number(keys::DECIDED_SHARD.into()));
                set.insert(keys::DUE_AT.to_owned(), number(deed.at.ms()));
            }
            let write = Write::Change { key: keys::wallet(user), expect: Expect::Nothing, set, remove };
            let number = last.first().map_or(0, number_of) + 1;
            let writes = if is_new { std::slice::from_ref(&write) } else { &[] };
            if self.try_deed(give_up, &deed, &name, Some((user, number)), writes).await?.is_some() {
                return Ok(None);
            }
        }
    }

    /// Up to `limit` deeds, the newest first, after `after`: all, or those on a user.
    pub async fn deeds(
        &self,
        user: Option<&UserId>,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<Deed, DeedCursor>, LedgerError> {
        let after = after.map(|DeedCursor(sk)| sk);
        let items = if let Some(user) = user {
            self.deeds_on(user, after.map(|sk| format!("{}{sk}", keys::DEED)), limit + 1).await?
        } else {
            let pk = keys::DEEDS.to_owned();
            let query = Query { pk, sk_prefix: "", after, descending: true, limit: Some(limit + 1) };
            self.table.query(query).await?
        };
        let read = |item: Item| {
            let sk = keys::of_item(&item).map(|key| key.sk).unwrap_or_default();
            let place = sk.strip_prefix(keys::DEED).map(str::to_owned).unwrap_or(sk);
            Ok((DeedCursor(place), items::read::<Deed>(item)?))
        };
        let rows = items.into_iter().map(read).collect::<Result<Vec<_>, LedgerError>>()?;
        let Slice { rows, next } = cut(rows, limit, |(place, _)| place.clone());
        Ok(Slice { rows: rows.into_iter().map(|(_, deed)| deed).collect(), next })
    }

    async fn deeds_on(&self, user: &UserId, after: Option<String>, limit: u32) -> Result<Vec<Item>, LedgerError> {
        let (pk, sk_prefix) = (keys::user(user), keys::DEED);
        Ok(self.table.query(Query { pk, sk_prefix, after, descending: true, limit: Some(limit) }).await?)
    }

    /// Up to `limit` users who are `suspended`, or have limits of their own, or either, after `after`: those of whom the operator decided
    /// first. One of whom they have just decided may be missing.
    pub async fn decided_users(
        &self,
        suspended: Option<bool>,
        after: Option<DecidedCursor>,
        limit: u32,
    ) -> Result<Slice<Decided, DecidedCursor>, LedgerError> {
        let mut place = after.map(|after| (keys::wallet(&after.user), after.at.ms()));
        let most = limit as usize + 1;
        let mut rows = Vec::new();
        for page_number in 1.. {
            let page = self.table.due(keys::DECIDED_SHARD, u64::MAX, place.take(), READ_AT_ONCE).await?;
            let is_end = page.len() < READ_AT_ONCE as usize;
            let found: Vec<(Key, u64)> = page.into_iter().map(place_of).collect::<Result<_, _>>()?;
            place = found.last().cloned();
            let items = self.read_all(found.iter().map(|(key, _)| key.clone()).collect()).await?;
            let mut items: HashMap<Key, Item> =
                items.into_iter().filter_map(|item| Some((keys::of_item(&item)?, item))).collect();
            for (key, at) in found {
                let Some((user, item)) = keys::user_of(&key.pk).zip(items.remove(&key)) else { continue };
                let wallet: WalletItem = items::read(item)?;
                let limits = wallet.own_limits().cloned();
                let suspension = wallet.suspension();
                let is_asked = match suspended {
                    Some(true) => suspension.is_some(),
                    Some(false) => limits.is_some(),
                    None => suspension.is_some() || limits.is_some(),
                };
                // The index may still show one of whom that is over.
                if is_asked {
                    rows.push(Decided { user, suspension, limits, at: Timestamp::from_ms(at) });
                }
            }
            if is_end || rows.len() >= most {
                break;
            }
            if page_number == PAGES_MAX {
                let next = place.and_then(|(key, at)| {
                    Some(DecidedCursor { at: Timestamp::from_ms(at), user: keys::user_of(&key.pk)? })
                });
                return Ok(Slice { rows, next });
            }
        }
        Ok(cut(rows, limit, |row| DecidedCursor { at: row.at, user: row.user.clone() }))
    }

    /// Up to `limit` keys of limits towards which a user has won, after `after`, by sender and key.
    pub async fn limit_uses(
        &self,
        user: &UserId,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<LimitUse, DeedCursor>, LedgerError> {
        let after = after.map(|DeedCursor(name)| format!("{}{name}", keys::WON));
        let (pk, sk_prefix) = (keys::user(user), keys::WON);
        let items = self.table.query(Query { pk, sk_prefix, after, descending: false, limit: Some(limit + 1) }).await?;
        let read = |item: Item| {
            let key = keys::of_item(&item);
            let name = key.as_ref().and_then(|key| key.sk.strip_prefix(keys::WON)?.split_once('#'));
            let parsed = name.and_then(|(sender, key)| Some((sender.parse().ok()?, key.parse().ok()?)));
            let (sender, key) =
                parsed.ok_or_else(|| LedgerError::Impossible("a sort key that names no limit".to_owned()))?;
            Ok(LimitUse { sender, key, won: items::read(item)? })
        };
        let rows = items.into_iter().map(read).collect::<Result<Vec<_>, LedgerError>>()?;
        Ok(cut(rows, limit, |row| DeedCursor(format!("{}#{}", row.sender, row.key))))
    }

    /// Up to `limit` deposits and withdrawals with an id, after `after`.
    pub async fn requests(
        &self,
        id: &RequestKey,
        after: Option<DeedCursor>,
        limit: u32,
    ) -> Result<Slice<Requested, DeedCursor>, LedgerError> {
        let of_shard = |shard: u32| {
            let (pk, after) = (keys::requests(id, shard), after.clone().map(|DeedCursor(sk)| sk));
            self.table.query(Query { pk, sk_prefix: "", after, descending: false, limit: Some(limit + 1) })
        };
        let found = try_join_all((0..keys::REQUEST_SHARDS).map(of_shard)).await?;
        let read = |item: Item| {
            let sk = keys::of_item(&item).map(|key| key.sk).unwrap_or_default();
            let found = sk.split_once('#').and_then(|(kind, user)| Some((kind == "DEPOSIT", user.parse().ok()?)));
            let (is_deposit, user) =
                found.ok_or_else(|| LedgerError::Impossible("a sort key that names no user".to_owned()))?;
            let kind = if is_deposit { MovementKind::Deposit } else { MovementKind::Withdrawal };
            Ok((DeedCursor(sk), Requested { kind, user }))
        };
        let mut rows = found.into_iter().flatten().map(read).collect::<Result<Vec<_>, LedgerError>>()?;
        rows.sort_by(|(DeedCursor(one), _), (DeedCursor(other), _)| one.cmp(other));
        let Slice { rows, next } = cut(rows, limit, |(place, _)| place.clone());
        Ok(Slice { rows: rows.into_iter().map(|(_, found)| found).collect(), next })
    }
}

/// The number of a user's deed, from its key.
fn number_of(item: &Item) -> u32 {
    let key = keys::of_item(item);
    key.and_then(|key| key.sk.strip_prefix(keys::DEED)?.parse().ok()).unwrap_or_default()
}
