//! The in-memory table answers like a real implementation of the `DynamoDB` API.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use local::dynamodb::DynamoDb;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use shared::dynamodb::{SdkTable, create_table};
use shared::memory::MemoryTable;
use shared::ports::{Bound, Expect, Item, Key, Query, Reason, Table, TransactError, Write};

const STEPS: usize = 1_500;
const PARTITION_KEYS: [&str; 3] = ["USER#ann", "USER#bob", "PACKET#1"];
const SORT_KEYS: [&str; 6] = ["CLAIM#1", "CLAIM#10", "CLAIM#2", "DEPOSIT#1", "META", "WALLET"];

/// Two tables that receive the same requests.
struct Twins {
    real: SdkTable,
    memory: MemoryTable,
    random: StdRng,
    /// Earlier transactions, with their tokens.
    before: Vec<(Vec<Write>, String)>,
}

impl Twins {
    async fn step(&mut self) {
        match self.random.random_range(0..10) {
            0..6 => self.transact().await,
            6 => {
                let key = self.key();
                assert_eq!(self.real.get(key.clone()).await.unwrap(), self.memory.get(key).await.unwrap());
            }
            7 => {
                let mut keys: Vec<Key> = (0..5).map(|_| self.key()).collect();
                keys.sort();
                keys.dedup();
                let found = sorted(self.real.batch_get(keys.clone()).await.unwrap());
                assert_eq!(found, sorted(self.memory.batch_get(keys).await.unwrap()));
            }
            8 => {
                let query = Query {
                    pk: self.one_of(&PARTITION_KEYS),
                    sk_prefix: ["", "CLAIM#", "D"].choose(&mut self.random).copied().unwrap(),
                    after: None,
                    descending: self.random.random(),
                    limit: self.random.random_ratio(1, 2).then(|| self.random.random_range(1..4)),
                };
                // A start key lies within the queried range.
                let after = query.sk_prefix == "CLAIM#" && self.random.random();
                let query = Query { after: after.then(|| "CLAIM#15".to_owned()), ..query };
                let found = self.real.query(query.clone()).await.unwrap();
                assert_eq!(found, self.memory.query(query.clone()).await.unwrap(), "{query:?}");
            }
            _ => self.due().await,
        }
    }

    async fn due(&mut self) {
        let (shard, until) = (self.random.random_range(0..2), self.random.random_range(0..50));
        let mut after = None;
        loop {
            let real = self.real.due(shard, until, after.clone(), 2).await.unwrap();
            let memory = self.memory.due(shard, until, after, 2).await.unwrap();
            assert_eq!(real, memory, "shard {shard}, until {until}");
            let Some(last) = real.last().cloned() else { return };
            let last: HashMap<String, AttributeValue> = last.into();
            let key = Key { pk: last["PK"].as_s().unwrap().clone(), sk: last["SK"].as_s().unwrap().clone() };
            after = Some((key, last["expires_at"].as_n().unwrap().parse().unwrap()));
        }
    }

    async fn transact(&mut self) {
        let (writes, token) = if !self.before.is_empty() && self.random.random_ratio(1, 5) {
            let (writes, token) = self.before.choose(&mut self.random).cloned().unwrap();
            // Another transaction, valid by itself, under a used token.
            let other = vec![self.write()];
            (if self.random.random_ratio(1, 3) { other } else { writes }, token)
        } else {
            (self.writes(), format!("{:032x}", self.random.random::<u128>()))
        };
        let real = said(self.real.transact(&writes, &token).await);
        assert_eq!(real, said(self.memory.transact(&writes, &token).await), "{writes:?}");
        if real != Said::Refused {
            self.before.push((writes, token));
        }
    }

    fn writes(&mut self) -> Vec<Write> {
        (0..self.random.random_range(1..=3)).map(|_| self.write()).collect()
    }

    fn write(&mut self) -> Write {
        let key = self.key();
        let number = self.random.random_range(0..40_u64);
        let text = self.one_of(&["open", "settled"]);
        match self.random.random_range(0..4) {
            0 | 1 => {
                let mut item = vec![
                    ("balance", AttributeValue::N(number.to_string())),
                    ("status", AttributeValue::S(text)),
                    ("amounts", AttributeValue::B(vec![1, 2].into())),
                    // No two items are due at the same time, since their order would be undefined.
                    ("expires_at", AttributeValue::N((number * 1_000 + self.before.len() as u64).to_string())),
                ];
                if number % 2 == 0 {
                    item.push(("due_shard", AttributeValue::N((number % 4 / 2).to_string())));
                }
                Write::PutNew { key, item: item_of(item) }
            }
            2 => {
                let bound = match self.random.random_range(0..3) {
                    0 => None,
                    1 => Some(Bound::AtLeast("balance", number)),
                    _ => Some(Bound::AtMost("balance", number)),
                };
                let delta = self.random.random_range(-20..20);
                let absent = self.random.random_bool(0.3).then_some("due_shard");
                Write::Add { key, deltas: vec![("balance", delta), ("count", 1)], bound, absent }
            }
            _ => {
                // Only one attribute: DynamoDB treats several attributes in another order as another transaction.
                let set = item_of([("status", AttributeValue::S(text))]);
                let expect = match self.random.random_range(0..4) {
                    0 => Expect::Has("due_shard"),
                    1 => Expect::Nothing,
                    _ => Expect::Is("status", "open"),
                };
                let remove: &[&str] = &["due_shard", "amounts"];
                // A change may also only remove.
                let set = if self.random.random_bool(0.2) { Item::default() } else { set };
                Write::Change { key, expect, set, remove }
            }
        }
    }

    fn key(&mut self) -> Key {
        Key { pk: self.one_of(&PARTITION_KEYS), sk: self.one_of(&SORT_KEYS) }
    }

    fn one_of(&mut self, choices: &[&str]) -> String {
        (*choices.choose(&mut self.random).unwrap()).to_owned()
    }
}

fn item_of(attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<HashMap<_, _>>().into()
}

fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(|item| format!("{:?}{:?}", item.get("PK"), item.get("SK")));
    items
}

/// The parts of an answer that the ledger uses: after a refusal, the failed conditions and the existing items.
#[derive(Debug, PartialEq)]
enum Said {
    Committed,
    Cancelled(Vec<(bool, Option<Item>)>),
    TokenSpent,
    Refused,
}

fn said(answer: Result<(), TransactError>) -> Said {
    let failed = |reason| match reason {
        Reason::None => (false, None),
        Reason::ConditionFailed(item) => (true, item),
        Reason::Busy(code) => panic!("{code}"),
    };
    match answer {
        Ok(()) => Said::Committed,
        Err(TransactError::Cancelled(reasons)) => Said::Cancelled(reasons.into_iter().map(failed).collect()),
        Err(TransactError::TokenSpent(_)) => Said::TokenSpent,
        Err(TransactError::Failed(_)) => Said::Refused,
    }
}

#[tokio::test]
async fn the_in_memory_table_answers_like_the_real_one() {
    let seed = rand::random();
    println!("seed {seed}");
    let server = DynamoDb::start(None).await.unwrap();
    let client = shared::wiring::dynamodb_at(&server.url());
    create_table(&client, "twins").await.unwrap();
    let real = SdkTable::new(client, "twins".to_owned());
    let (memory, random) = (MemoryTable::default(), StdRng::seed_from_u64(seed));
    let mut twins = Twins { real, memory, random, before: Vec::new() };
    for _ in 0..STEPS {
        twins.step().await;
    }
    let snapshot = twins.memory.snapshot();
    let items = twins.memory.items();
    for _ in 0..50 {
        let writes = twins.writes();
        let _ = twins.memory.apply(&writes, &format!("{writes:?}"));
    }
    twins.memory.restore(&snapshot);
    assert_eq!(twins.memory.items(), items, "after the restore");
}
