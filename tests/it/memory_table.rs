//! The implementations of the ledger's table: the one in memory answers like real ones, and like the service where these differ from it.
//! `scripts/dynamodb-local.py` gives each test a database of Amazon's, `beside-postgres` a server of `PostgreSQL`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use local::dynamodb::DynamoDb;
use postgres_ledger::PostgresTable;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use shared::dynamodb::{SdkTable, create_table};
use shared::memory::MemoryTable;
use shared::ports::{Bound, Expect, Item, Key, Query, Reason, Table, TableError, TransactError, Write};
use shared::wiring::dynamodb_at;
use tests::postgres;

use crate::repository;

const STEPS: usize = 1_500;
const PARTITION_KEYS: [&str; 3] = ["USER#ann", "USER#bob", "PACKET#1"];
const SORT_KEYS: [&str; 6] = ["CLAIM#1", "CLAIM#10", "CLAIM#2", "DEPOSIT#1", "META", "WALLET"];

/// What is beside the table in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Embedded,
    Amazons,
    Postgres,
}

/// Two tables that receive the same requests.
struct Twins<R> {
    real: R,
    kind: Kind,
    memory: MemoryTable,
    random: StdRng,
    /// Earlier transactions, with their tokens.
    before: Vec<(Vec<Write>, String)>,
}

impl<R: Table> Twins<R> {
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
                let found = sorted(self.real.batch_get(keys.clone()).await.unwrap().items);
                assert_eq!(found, sorted(self.memory.batch_get(keys).await.unwrap().items));
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
        let (shard, until) = (self.random.random_range(0..2), self.random.random_range(0..45_000));
        let mut after = None;
        loop {
            let real = self.real.due(shard, until, after.clone(), 2).await.unwrap();
            let memory = self.memory.due(shard, until, after, 2).await.unwrap();
            assert_eq!(real, memory, "shard {shard}, until {until}");
            let Some(last) = real.last().cloned() else { return };
            let last: HashMap<String, AttributeValue> = last.into();
            let key = Key { pk: last["PK"].as_s().unwrap().clone(), sk: last["SK"].as_s().unwrap().clone() };
            after = Some((key, last["due_at"].as_n().unwrap().parse().unwrap()));
        }
    }

    async fn transact(&mut self) {
        let (writes, token) = if self.may_repeat() && self.random.random_ratio(1, 5) {
            let (writes, token) = self.before.choose(&mut self.random).cloned().unwrap();
            // Another transaction, valid by itself, under a used token.
            let other = vec![self.write()];
            (if self.random.random_ratio(1, 3) { other } else { writes }, token)
        } else {
            (self.writes(), format!("{:032x}", self.random.random::<u128>()))
        };
        let names_twice = writes.iter().map(Write::key).collect::<BTreeSet<_>>().len() < writes.len();
        if self.kind == Kind::Amazons && names_twice {
            // Amazon's program looks at the conditions first. It commits nothing either.
            let real = said(self.real.transact(&writes, &token).await);
            assert!(matches!(real, Said::Refused | Said::Cancelled(_) | Said::TokenSpent), "{writes:?}: {real:?}");
            assert_eq!(said(self.memory.transact(&writes, &token).await), Said::Refused);
            return;
        }
        let real = said(self.real.transact(&writes, &token).await);
        assert_eq!(real, said(self.memory.transact(&writes, &token).await), "{writes:?}");
        if real != Said::Refused {
            self.before.push((writes, token));
        }
    }

    /// `PostgreSQL` knows no tokens: there a transaction of before is a new one.
    fn may_repeat(&self) -> bool {
        self.kind != Kind::Postgres && !self.before.is_empty()
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
                    ("due_at", AttributeValue::N((number * 1_000 + self.before.len() as u64).to_string())),
                ];
                if number % 2 == 0 {
                    item.push(("due_shard", AttributeValue::N((number % 4 / 2).to_string())));
                }
                Write::PutNew { key, item: item_of(item) }
            }
            2 => {
                let bounds = match self.random.random_range(0..4) {
                    0 => vec![],
                    1 => vec![Bound::AtLeast("balance", number)],
                    2 => vec![Bound::AtMost("balance", number)],
                    _ => vec![Bound::AtLeast("balance", number), Bound::AtMost("count", 2)],
                };
                let delta = self.random.random_range(-20..20);
                let absent = self.random.random_bool(0.3).then_some("due_shard");
                Write::Add { key, deltas: vec![("balance", delta), ("count", 1)], bounds, absent }
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

/// The implementations that can run here: the embedded one, and Amazon's if a server is given.
async fn implementations() -> Vec<DynamoDb> {
    let mut all = vec![DynamoDb::start_embedded().await.unwrap()];
    let other = DynamoDb::start(None).await.unwrap();
    let is_postgres = std::env::var_os(postgres::URL_VARIABLE).is_some();
    if !other.is_embedded() && !is_postgres {
        all.push(other);
    }
    all
}

async fn table(server: &DynamoDb) -> SdkTable {
    let client = dynamodb_at(&server.url());
    create_table(&client, "twins").await.unwrap();
    SdkTable::new(client, "twins".to_owned())
}

async fn compare(real: impl Table, kind: Kind) {
    let seed = rand::random();
    println!("seed {seed}, {kind:?}");
    let (memory, random) = (MemoryTable::default(), StdRng::seed_from_u64(seed));
    let mut twins = Twins { real, kind, memory, random, before: Vec::new() };
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

#[tokio::test]
async fn the_in_memory_table_answers_like_the_real_ones() {
    for server in implementations().await {
        let kind = if server.is_embedded() { Kind::Embedded } else { Kind::Amazons };
        compare(table(&server).await, kind).await;
    }
}

#[tokio::test]
async fn the_in_memory_table_answers_like_postgresql() {
    let (_server, database) = postgres::database("twins").await;
    compare(PostgresTable::new(database), Kind::Postgres).await;
}

/// A request at a limit of the service, or beyond it.
enum Request {
    Transact(Vec<Write>),
    /// The second one is sent after the first one has been committed.
    Then(Vec<Write>, Vec<Write>),
    Get(Key),
    Batch(Vec<Key>),
    Query(Query),
}

/// What became of a request: `refused` as malformed, `cancelled` with reasons, or `taken`.
type Outcome = &'static str;

/// A name, the outcome in the service, and the request. `docs/RELIABILITY.md` names the pages of AWS that say so.
type Case = (&'static str, Outcome, Request);

fn key(pk: &str, sk: &str) -> Key {
    Key { pk: pk.to_owned(), sk: sk.to_owned() }
}

fn number(digits: &str) -> AttributeValue {
    AttributeValue::N(digits.to_owned())
}

fn put(pk: &str, sk: &str, attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>) -> Write {
    Write::PutNew { key: key(pk, sk), item: item_of(attributes) }
}

/// An item of this size in all.
fn sized(sk: &str, bytes: usize) -> Write {
    let others = "PK".len() + "a".len() + "SK".len() + sk.len() + "x".len();
    put("a", sk, [("x", AttributeValue::S("x".repeat(bytes - others)))])
}

fn small(count: usize) -> Vec<Write> {
    (0..count).map(|n| put("a", &format!("item-{n}"), [])).collect()
}

fn large(count: usize) -> Vec<Write> {
    (0..count).map(|n| sized(&format!("item-{n:02}"), 399 * 1024)).collect()
}

fn change(set: Vec<(&'static str, AttributeValue)>, remove: &'static [&'static str]) -> Write {
    Write::Change { key: key("a", "item-0"), expect: Expect::Nothing, set: item_of(set), remove }
}

fn add(deltas: Vec<(&'static str, i64)>) -> Write {
    Write::Add { key: key("a", "item-0"), deltas, bounds: vec![], absent: None }
}

fn query(pk: &str, limit: Option<u32>) -> Query {
    Query { pk: pk.to_owned(), sk_prefix: "", after: None, descending: false, limit }
}

fn cases() -> Vec<Case> {
    use Request::{Batch, Get, Query, Then, Transact};
    let keys = |count: usize| (0..count).map(|n| key("a", &format!("item-{n}"))).collect::<Vec<_>>();
    let text = |bytes: usize| "k".repeat(bytes);
    let grows = change(vec![("y", AttributeValue::S("y".repeat(2 * 1024)))], &[]);
    vec![
        ("a transaction without a write", "refused", Transact(Vec::new())),
        ("a transaction of 100 writes", "taken", Transact(small(100))),
        ("a transaction of 101 writes", "refused", Transact(small(101))),
        ("a transaction that names an item twice", "refused", Transact(vec![add(vec![("n", 1)]), add(vec![("m", 1)])])),
        (
            "a transaction that names an item twice, with a failed condition",
            "refused",
            Transact(vec![put("a", "s", []), put("a", "s", [])]),
        ),
        ("a transaction of just under 4 MB", "taken", Transact(large(10))),
        ("a transaction of more than 4 MB", "refused", Transact(large(11))),
        ("an item of 400 KB", "taken", Transact(vec![sized("item-0", 400 * 1024)])),
        ("an item of 400 KB and a byte", "refused", Transact(vec![sized("item-0", 400 * 1024 + 1)])),
        (
            "an update that makes an item larger than 400 KB",
            "refused",
            Then(vec![sized("item-0", 399 * 1024)], vec![grows]),
        ),
        ("a write with an empty partition key", "refused", Transact(vec![put("", "s", [])])),
        ("a write with an empty sort key", "refused", Transact(vec![put("p", "", [])])),
        ("a partition key of 2,048 bytes", "taken", Transact(vec![put(&text(2_048), "s", [])])),
        ("a partition key of 2,049 bytes", "refused", Transact(vec![put(&text(2_049), "s", [])])),
        ("a sort key of 1,024 bytes", "taken", Transact(vec![put("p", &text(1_024), [])])),
        ("a sort key of 1,025 bytes", "refused", Transact(vec![put("p", &text(1_025), [])])),
        (
            "text where the index has a number",
            "refused",
            Transact(vec![put("p", "s", [("due_shard", AttributeValue::S("1".into()))])]),
        ),
        ("a number of 38 digits", "taken", Transact(vec![put("p", "s", [("n", number(&"9".repeat(38)))])])),
        ("a number of 39 digits", "refused", Transact(vec![put("p", "s", [("n", number(&"9".repeat(39)))])])),
        ("an update that changes nothing", "refused", Transact(vec![change(Vec::new(), &[])])),
        ("a read with an empty key", "refused", Get(key("p", ""))),
        ("a batch of 100 keys", "taken", Batch(keys(100))),
        ("a batch of 101 keys", "refused", Batch(keys(101))),
        ("a batch that names a key twice", "refused", Batch(vec![key("p", "s"), key("p", "s")])),
        ("a query with an empty key", "refused", Query(query("", None))),
        ("a query with a limit of 0", "refused", Query(query("p", Some(0)))),
    ]
}

/// The outcome of a request.
async fn outcome(table: &impl Table, request: &Request) -> Outcome {
    let transact = async |writes: &[Write]| match said(
        table.transact(writes, &format!("{:032x}", rand::random::<u128>())).await,
    ) {
        Said::Committed => "taken",
        Said::Cancelled(_) => "cancelled",
        Said::Refused => "refused",
        Said::TokenSpent => panic!("each transaction has a token of its own"),
    };
    let of_read = |error: Option<TableError>| match error {
        None => "taken",
        Some(TableError::Refused(_)) => "refused",
        Some(error) => panic!("{}", error.chain()),
    };
    match request {
        Request::Transact(writes) => transact(writes).await,
        Request::Then(first, second) => {
            assert_eq!(transact(first).await, "taken");
            transact(second).await
        }
        Request::Get(key) => of_read(table.get(key.clone()).await.err()),
        Request::Batch(keys) => of_read(table.batch_get(keys.clone()).await.err()),
        Request::Query(query) => of_read(table.query(query.clone()).await.err()),
    }
}

/// The table of `docs/RELIABILITY.md`: for each request that some implementation answers in another way than the service, the
/// outcome in the service and in the two implementations.
fn documented() -> BTreeMap<String, [String; 3]> {
    let page = std::fs::read_to_string(repository("docs/RELIABILITY.md")).unwrap();
    let (_, section) = page.split_once("### Three implementations of DynamoDB").expect("the section");
    let rows = section.split("\n#").next().unwrap().lines();
    let rows = rows.filter(|line| line.starts_with("| ") && !line.starts_with("| request"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [service, others @ ..] = [cells[1], cells[2], cells[3]];
        for other in others {
            assert_eq!(other.starts_with("**"), other != service, "a difference is bold: {row}");
        }
        (cells[0].to_owned(), [service, others[0], others[1]].map(|cell| cell.replace("**", "")))
    })
    .collect()
}

#[tokio::test]
async fn the_documents_say_where_implementations_differ_from_the_service() {
    let documented = documented();
    let names: BTreeSet<String> = cases().iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert!(documented.keys().all(|name| names.contains(name)), "docs/RELIABILITY.md has a row without a case");
    let servers = implementations().await;
    let mut wrong = Vec::new();
    for (name, expected, request) in cases() {
        let same = [expected; 3].map(str::to_owned);
        let [service, embedded, amazons] = documented.get(name).unwrap_or(&same);
        assert_eq!(service, expected, "{name}");
        assert_eq!(outcome(&MemoryTable::default(), &request).await, service, "in memory: {name}");
        for server in &servers {
            let (client, table) = (dynamodb_at(&server.url()), format!("t{:x}", rand::random::<u64>()));
            create_table(&client, &table).await.unwrap();
            let found = outcome(&SdkTable::new(client, table), &request).await;
            let (of, expected) = if server.is_embedded() { ("embedded", embedded) } else { ("Amazon's", amazons) };
            if found != expected {
                wrong.push(format!("{name}, {of}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/RELIABILITY.md is wrong about {wrong:#?}");
}
