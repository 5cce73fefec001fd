//! What every rule needs: requests that are sent until they are answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_dynamo::AttributeValue;
use serde_json::{Value, json};
use shared::ledger::keys::{self, CHECK, PK, SK};
use shared::ports::{
    Bound, Entropy, Expect, Item, Key, Query, Reason, System, Table, TableError, TransactError, Write,
};
use tokio::time::{Instant, sleep};

/// How long a request is sent again that gets no answer, or finds its items busy.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The pause before that, of which each takes a random part.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Why a rule ended early.
#[derive(Debug)]
pub enum End {
    /// The table broke it: what was seen.
    Broken(String),
    /// The table did not answer.
    Unanswered(String),
}

pub type Checked<A = ()> = Result<A, End>;

/// Calls a rule broken unless something holds.
pub fn unless(holds: bool, seen: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(End::Broken(seen())) }
}

/// A table, and the keys of one check of it.
pub struct Probe<'a, T> {
    pub table: &'a T,
    /// The beginning of all partition keys.
    pub prefix: String,
    keys: AtomicU64,
}

impl<'a, T: Table> Probe<'a, T> {
    pub fn new(table: &'a T) -> Self {
        Self { table, prefix: format!("{CHECK}{}#", token()), keys: AtomicU64::new(0) }
    }

    /// A key with a partition key of its own.
    pub fn key(&self, sk: &str) -> Key {
        Key { pk: format!("{}{}", self.prefix, self.keys.fetch_add(1, Relaxed)), sk: sk.to_owned() }
    }

    /// Sends a read until it is answered.
    pub async fn ask<A, F>(&self, read: impl Fn() -> F) -> Checked<A>
    where
        F: Future<Output = Result<A, TableError>>,
    {
        let give_up = Instant::now() + ANSWER_MAX;
        loop {
            match read().await {
                Ok(answer) => return Ok(answer),
                Err(error) => pause_after(&error, give_up).await?,
            }
        }
    }

    pub async fn get(&self, key: &Key) -> Checked<Option<Item>> {
        self.ask(|| self.table.get(key.clone())).await
    }

    /// A number of an item, 0 if there is none.
    pub async fn number(&self, key: &Key, name: &str) -> Checked<i64> {
        Ok(self.get(key).await?.map_or(0, |item| number(&item, name)))
    }

    /// Of those who raced for an item the one won whose number it has.
    pub async fn winner(&self, item: &Key, ends: &[Option<Vec<Reason>>]) -> Checked<usize> {
        let winners: Vec<usize> = (0..ends.len()).filter(|by| ends[*by].is_none()).collect();
        let found = self.get(item).await?;
        match winners[..] {
            [by] if found == Some(stored(item, json!({"by": by}))) => Ok(by),
            _ => Err(End::Broken(format!("of {} rivals {winners:?} won, and the item is {found:?}", ends.len()))),
        }
    }

    pub async fn query(&self, query: &Query) -> Checked<Vec<Item>> {
        self.ask(|| self.table.query(query.clone())).await
    }

    /// The items with these keys that exist.
    pub async fn batch(&self, keys: &[Key]) -> Checked<BTreeMap<Key, Item>> {
        let (mut found, mut left) = (BTreeMap::new(), keys.to_vec());
        while !left.is_empty() {
            let batch = self.ask(|| self.table.batch_get(left.clone())).await?;
            found.extend(batch.items.into_iter().filter_map(|item| Some((keys::of_item(&item)?, item))));
            left = batch.left;
        }
        Ok(found)
    }

    /// Sends a transaction until its end is known: `None` if it was done, or else a reason for each write. Its first write makes an item
    /// that no other transaction makes. If that item exists after a try without an answer, that try was done.
    pub async fn send(&self, writes: &[Write], token: &str) -> Checked<Option<Vec<Reason>>> {
        let give_up = Instant::now() + ANSWER_MAX;
        let mut is_open = false;
        loop {
            let error = match self.table.transact(writes, token).await {
                Ok(()) => return Ok(None),
                Err(TransactError::Cancelled(reasons)) => {
                    let counts = || format!("a transaction of {} writes has {} reasons", writes.len(), reasons.len());
                    unless(reasons.len() == writes.len(), counts)?;
                    if reasons.iter().any(has_failed) {
                        return Ok(Some(reasons).filter(|reasons| !(is_open && has_failed(&reasons[0]))));
                    }
                    TableError::Unavailable(format!("busy: {reasons:?}").into())
                }
                Err(TransactError::TokenSpent(error)) => {
                    return Err(End::Broken(format!("a new token is spent: {error}")));
                }
                Err(TransactError::Failed(error)) => {
                    is_open = true;
                    error
                }
            };
            pause_after(&error, give_up).await?;
        }
    }

    /// [`Self::send`] with a first write and a token of its own. The reasons are those of `writes`.
    pub async fn commit(&self, writes: &[Write]) -> Checked<Option<Vec<Reason>>> {
        let writes = [&[put(&self.key("MARK"), Value::default())], writes].concat();
        Ok(self.send(&writes, &token()).await?.map(|reasons| reasons[1..].to_vec()))
    }

    /// Commits writes against which the table has nothing.
    pub async fn must(&self, writes: &[Write]) -> Checked {
        let reasons = self.commit(writes).await?;
        unless(reasons.is_none(), || format!("{writes:?} was refused, for {reasons:?}"))
    }
}

async fn pause_after(error: &TableError, give_up: Instant) -> Checked {
    if matches!(error, TableError::Refused(_)) || Instant::now() >= give_up {
        return Err(End::Unanswered(error.chain()));
    }
    sleep(System.jitter(PAUSE)).await;
    Ok(())
}

pub fn token() -> String {
    hex::encode(System.bytes16())
}

const fn has_failed(reason: &Reason) -> bool {
    matches!(reason, Reason::ConditionFailed(_))
}

pub fn put(key: &Key, item: Value) -> Write {
    Write::PutNew { key: key.clone(), item: attributes(item) }
}

pub fn add(key: &Key, name: &'static str, delta: i64, bounds: &[Bound]) -> Write {
    Write::Add { key: key.clone(), deltas: vec![(name, delta)], bounds: bounds.to_vec(), absent: None }
}

pub fn change(key: &Key, expect: Expect, set: Value, remove: &'static [&'static str]) -> Write {
    Write::Change { key: key.clone(), expect, set: attributes(set), remove }
}

fn attributes(item: Value) -> Item {
    // An object of JSON always is an item. Null is one without attributes.
    serde_dynamo::to_item(item).unwrap_or_default()
}

/// An item as the table answers with it.
pub fn stored(key: &Key, item: Value) -> Item {
    let mut item = attributes(item);
    item.insert(PK.to_owned(), AttributeValue::S(key.pk.clone()));
    item.insert(SK.to_owned(), AttributeValue::S(key.sk.clone()));
    item
}

/// A number of an item, 0 if it has none.
pub fn number(item: &Item, name: &str) -> i64 {
    match item.get(name) {
        Some(AttributeValue::N(digits)) => digits.parse().unwrap_or(i64::MIN),
        _ => 0,
    }
}
