//! The protocol by itself: what each step writes, and what it makes of each answer.

mod claim;
mod closing;
mod deeds;
mod movements;
mod packet;
mod wallet;
mod withdrawal;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::items::ClaimItem;
use super::{Ledger, SendOutcome, SendRequest, items, keys};
use crate::domain::{Amount, Amounts, Claim, PacketId, Signer, Terms, Timestamp, UserId};
use crate::ports::{Batch, Bound, Entropy, Item, Key, Query, Reason, Table, TableError, TransactError, Write};

/// A table that answers transactions as it was set up to, reads from the items it was given, and keeps what it was asked.
#[derive(Default)]
struct Told {
    answers: Mutex<VecDeque<Result<(), TransactError>>>,
    items: Mutex<BTreeMap<Key, Item>>,
    transactions: Mutex<Vec<(Vec<Write>, String)>>,
    reads: Mutex<Vec<Key>>,
    queries: Mutex<Vec<Query>>,
    /// The wallet whose transactions have no answer.
    mute: Mutex<Option<Key>>,
    /// When batches were read, if it is too busy for all of them.
    busy: Mutex<Option<Vec<Instant>>>,
}

impl Table for Told {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        let item = self.items.lock().unwrap().get(&key).cloned();
        self.reads.lock().unwrap().push(key);
        Ok(item)
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        if let Some(times) = &mut *self.busy.lock().unwrap() {
            times.push(Instant::now());
            return Ok(Batch { items: Vec::new(), left: keys });
        }
        let items = self.items.lock().unwrap();
        let items = keys.iter().filter_map(|key| items.get(key).cloned()).collect();
        Ok(Batch { items, left: Vec::new() })
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        let items = self.items.lock().unwrap();
        let mut found: Vec<_> =
            items.iter().filter(|(key, _)| key.pk == query.pk && key.sk.starts_with(query.sk_prefix)).collect();
        if query.descending {
            found.reverse();
        }
        let past = |sk: &String| {
            query.after.as_ref().is_none_or(|after| if query.descending { sk < after } else { sk > after })
        };
        let found = found.into_iter().filter(|(key, _)| past(&key.sk)).map(|(_, item)| item.clone());
        let found = found.take(query.limit.map_or(usize::MAX, |limit| limit as usize)).collect();
        self.queries.lock().unwrap().push(query);
        Ok(found)
    }

    async fn due(&self, _: u32, _: u64, after: Option<(Key, u64)>, _: u32) -> Result<Vec<Item>, TableError> {
        let items = self.items.lock().unwrap();
        let past = |key: &&Key| after.as_ref().is_none_or(|(after, _)| *key > after);
        Ok(items.keys().filter(past).map(|key| items[key].clone()).collect())
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.transactions.lock().unwrap().push((writes.to_vec(), token.to_owned()));
        let mute = self.mute.lock().unwrap().clone();
        if writes.iter().any(|write| matches!(write, Write::Add { key, .. } if Some(key) == mute.as_ref())) {
            return Err(unavailable());
        }
        self.answers.lock().unwrap().pop_front().unwrap_or(Ok(()))
    }
}

/// Counts: no two calls give the same bytes.
#[derive(Default)]
struct Counter(Mutex<u8>);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) {
        let mut count = self.0.lock().unwrap();
        *count = count.wrapping_add(1);
        bytes.fill(*count);
    }
}

fn ledger() -> Ledger<Told> {
    Ledger::new(Told::default(), Arc::new(Counter::default()))
}

/// A ledger whose first transaction is cancelled for these reasons.
fn cancelled(reasons: impl IntoIterator<Item = Reason>) -> Ledger<Told> {
    let ledger = ledger();
    ledger.answer(Err(TransactError::Cancelled(reasons.into_iter().collect())));
    ledger
}

fn there<I: serde::Serialize>(item: &I) -> Reason {
    Reason::ConditionFailed(Some(items::write(item).unwrap()))
}

fn unavailable() -> TransactError {
    TableError::Unavailable("no answer".into()).into()
}

impl Ledger<Told> {
    fn answer(&self, answer: Result<(), TransactError>) {
        self.table.answers.lock().unwrap().push_back(answer);
    }

    /// Puts an item into the table, with its key among its attributes as a table gives it.
    fn holds<I: serde::Serialize>(&self, key: Key, item: &I) {
        let mut item = items::write(item).unwrap();
        item.insert(keys::PK.to_owned(), serde_dynamo::AttributeValue::S(key.pk.clone()));
        item.insert(keys::SK.to_owned(), serde_dynamo::AttributeValue::S(key.sk.clone()));
        self.table.items.lock().unwrap().insert(key, item);
    }

    /// The writes of the only transaction.
    fn written(&self) -> Vec<Write> {
        let transactions = self.table.transactions.lock().unwrap();
        assert_eq!(transactions.len(), 1);
        transactions[0].0.clone()
    }

    fn tokens(&self) -> Vec<String> {
        self.table.transactions.lock().unwrap().iter().map(|(_, token)| token.clone()).collect()
    }
}

impl<T: Table> Ledger<T> {
    /// Sends a packet of equal slips, once its sender has the money for it.
    pub(crate) async fn send_funded(&self, terms: &Terms) {
        let Terms { id, sender, total, count, created_at, .. } = terms;
        self.deposit(sender, &id.to_string().parse().unwrap(), *total, None, *created_at).await.unwrap();
        let amount = total.minor_units() / u64::from(*count);
        let of_part = |slips: usize| Amounts::pack(&vec![amount; slips]).unwrap();
        let amounts: Vec<Amounts> = id.parts().map(|part| of_part(part.slips(*count).len())).collect();
        let key = id.to_string().parse().unwrap();
        let request = SendRequest { terms, amounts: &amounts, key: &key, body_hash: [0; 32], daily_limit: None };
        assert_eq!(self.send(&request).await.unwrap(), SendOutcome::Sent);
    }
}

fn put<I: serde::Serialize>(key: Key, item: &I) -> Write {
    Write::PutNew { key, item: items::write(item).unwrap() }
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

fn signer() -> Signer {
    "arn:aws:iam::123456789012:user/operator".parse().unwrap()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn packet_id(n: u8) -> PacketId {
    PacketId::new(at(1_795_181_400_000), 1, [n; 10])
}

fn terms() -> Terms {
    Terms::sample()
}

fn claim_item(packet_id: PacketId, claim: &Claim) -> ClaimItem {
    let Terms { sender, greeting, .. } = terms();
    ClaimItem {
        packet_id,
        slip: claim.slip,
        amount: claim.amount,
        at: claim.at,
        sender_id: sender,
        greeting,
        reference: None,
        limit_key: None,
        trace: None,
        by: None,
    }
}
