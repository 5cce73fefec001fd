use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_dynamo::AttributeValue;
use shared::batching::Batcher;
use shared::ledger::keys::{DUE_AT, DUE_SHARD, PK, SK};
use shared::ports::{Batch, Item, Key, Query, Table, TableError, TransactError, Write};
use shared::timeouts;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use crate::Database;
use crate::commit::{Committing, Waiting};
use crate::database::Connection;
use crate::failure::{Failure, failed};

/// The most items of one statement that reads many.
const PAGE: i64 = 1_000;
/// After every sort key.
const END: &str = "\u{10ffff}";

/// An item's attributes, without its key.
pub type Attributes = HashMap<String, AttributeValue>;

/// The ledger's table in `PostgreSQL`.
#[derive(Clone)]
pub struct PostgresTable {
    database: Database,
    commits: Arc<Batcher<Committing>>,
    statements: Arc<Statements>,
}

/// The statements that read many items.
struct Statements {
    ascending: String,
    descending: String,
    due: String,
}

impl PostgresTable {
    /// The table of a ledger.
    pub fn new(database: Database) -> Self {
        let schema = database.quoted_schema();
        let query = |order: &str| {
            format!(
                "SELECT pk, sk, item FROM {schema}.items
                 WHERE pk = $1 AND sk >= $2 AND sk < $3 ORDER BY sk {order} LIMIT $4"
            )
        };
        let due = format!(
            "SELECT pk, sk, due_at FROM {schema}.items
             WHERE due_shard = $1 AND due_at IS NOT NULL AND due_at <= $2 AND (due_at, pk, sk) > ($3, $4, $5)
             ORDER BY due_at, pk, sk LIMIT $6"
        );
        let statements = Arc::new(Statements { ascending: query("ASC"), descending: query("DESC"), due });
        let commits = Arc::new(Batcher::new(Committing::new(database.clone())));
        Self { database, commits, statements }
    }

    async fn read(&self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, TableError> {
        let mut connection = self.database.connection().await.map_err(failed)?;
        Ok(connection.query(timeouts::READ_TRY, statement, parameters).await?)
    }

    async fn read_all(&self, keys: &[&Key]) -> Result<HashMap<Key, Item>, TableError> {
        let mut connection = self.database.connection().await.map_err(failed)?;
        Ok(read_all(&mut connection, &self.database, keys).await?)
    }
}

/// The items with these keys that exist, at one moment.
pub async fn read_all(
    connection: &mut Connection,
    database: &Database,
    keys: &[&Key],
) -> Result<HashMap<Key, Item>, Failure> {
    let (pks, sks): (Vec<&str>, Vec<&str>) = keys.iter().map(|key| (&*key.pk, &*key.sk)).unzip();
    let statement = format!(
        "SELECT pk, sk, item FROM unnest($1::text[], $2::text[]) AS asked (pk, sk) JOIN {}.items USING (pk, sk)",
        database.quoted_schema()
    );
    let rows = connection.query(timeouts::READ_TRY, &statement, &[&pks, &sks]).await?;
    Ok(rows.iter().map(item).collect::<Result<_, _>>()?)
}

/// The key and the item of a row.
pub fn item(row: &Row) -> Result<(Key, Item), tokio_postgres::Error> {
    let key = Key { pk: row.try_get(0)?, sk: row.try_get(1)? };
    let Json(mut attributes): Json<Attributes> = row.try_get(2)?;
    attributes.insert(PK.to_owned(), AttributeValue::S(key.pk.clone()));
    attributes.insert(SK.to_owned(), AttributeValue::S(key.sk.clone()));
    Ok((key, attributes.into()))
}

/// What a row of the index `due` says, in the form of an item.
fn due(shard: u32, row: &Row) -> Result<Item, tokio_postgres::Error> {
    let due_at: i64 = row.try_get(2)?;
    let attributes: Attributes = HashMap::from([
        (PK.to_owned(), AttributeValue::S(row.try_get(0)?)),
        (SK.to_owned(), AttributeValue::S(row.try_get(1)?)),
        (DUE_SHARD.to_owned(), AttributeValue::N(shard.to_string())),
        (DUE_AT.to_owned(), AttributeValue::N(due_at.to_string())),
    ]);
    Ok(attributes.into())
}

fn unreadable(error: tokio_postgres::Error) -> TableError {
    TableError::Refused(error.into())
}

/// A number of milliseconds, or a time after all others.
pub fn bigint(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The first text after all those that begin with `prefix`, which no key has.
pub fn after_all(prefix: &str) -> String {
    let mut letters = prefix.chars();
    match letters.next_back().and_then(|last| (last..=char::MAX).nth(1)) {
        Some(next) => letters.chain([next]).collect(),
        None => END.to_owned(),
    }
}

impl Table for PostgresTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        Ok(self.read_all(&[&key]).await?.remove(&key))
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        let found = self.read_all(&keys.iter().collect::<Vec<_>>()).await?;
        Ok(Batch { items: found.into_values().collect(), left: Vec::new() })
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        // No text is between one and the same with the lowest letter behind it: no key has a zero.
        let behind = |sk: &str| format!("{sk}\u{1}");
        let (mut from, mut to) = (query.sk_prefix.to_owned(), after_all(query.sk_prefix));
        let statement = if query.descending { &self.statements.descending } else { &self.statements.ascending };
        let mut last = query.after;
        let mut items = Vec::new();
        loop {
            match last {
                Some(sk) if query.descending => to = to.min(sk),
                Some(sk) => from = from.max(behind(&sk)),
                None => {}
            }
            let left = query.limit.map_or(PAGE, |limit| i64::from(limit) - bigint(items.len() as u64));
            let page = left.min(PAGE);
            let rows = self.read(statement, &[&query.pk, &from, &to, &page]).await?;
            let is_last = bigint(rows.len() as u64) < page || page == left && query.limit.is_some();
            let mut found = rows.iter().map(item).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
            last = found.last().map(|(key, _)| key.sk.clone());
            items.extend(found.drain(..).map(|(_, item)| item));
            if is_last {
                return Ok(items);
            }
        }
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        let (key, at) = after.map_or((Key { pk: String::new(), sk: String::new() }, -1), |(key, at)| (key, bigint(at)));
        let (of_shard, until, limit) = (i64::from(shard), bigint(until_ms), i64::from(limit));
        let rows = self.read(&self.statements.due, &[&of_shard, &until, &at, &key.pk, &key.sk, &limit]).await?;
        rows.iter().map(|row| due(shard, row)).collect::<Result<_, _>>().map_err(unreadable)
    }

    /// Ignores the token: each write says by itself what must stand there.
    async fn transact(&self, writes: &[Write], _token: &str) -> Result<(), TransactError> {
        let different: HashSet<&Key> = writes.iter().map(Write::key).collect();
        if different.len() < writes.len() {
            return Err(TableError::Refused("a transaction writes no item twice".into()).into());
        }
        let (waiting, outcome) = Waiting::new(writes);
        self.commits.submit((), |queue| queue.push(waiting));
        let lost = |_| TableError::Unavailable("the transaction was lost".into());
        outcome.await.map_err(lost)?
    }
}

impl fmt::Debug for PostgresTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTable").finish_non_exhaustive()
    }
}
