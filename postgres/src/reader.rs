use std::time::Duration;

use audit::{Only, Page, Range, ReadError, Source};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_dynamo::AttributeValue;
use shared::ledger::keys::{DUE_SHARD, PK, SK};
use shared::ports::{Item, Key, TableError};
use shared::timeouts;
use tokio::time::sleep;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::Database;
use crate::failure::failed;
use crate::table::{after_all, bigint, item, read_all};

/// Rows of one statement.
const PAGE: i64 = 500;
/// How often a page is read at most, and the pause after the first time.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// The key of a row, and its item if that is wanted.
type Read = Result<(Key, Option<Item>), tokio_postgres::Error>;

/// The ledger's items for an audit or a journal.
#[derive(Clone, Debug)]
pub struct PostgresReader(Database);

impl PostgresReader {
    /// The items of a ledger.
    pub const fn new(database: Database) -> Self {
        Self(database)
    }

    async fn page(&self, range: &Range, after: Option<&Key>) -> Result<Page, ReadError> {
        let start = Key { pk: String::new(), sk: String::new() };
        let after = after.unwrap_or(&start);
        match range {
            Range::Keys(keys) => self.keys(keys).await,
            Range::Partition { pk, prefix } => {
                let whole = self.select("item", "pk = $1 AND sk >= $2 AND sk < $3 AND sk > $4");
                self.rows(&whole, &[pk, prefix, &after_all(prefix), &after.sk], whole_item).await
            }
            // One reader, from the first key to the last, is as fast as several.
            Range::Segment { index: 1.., .. } => Ok(Page { items: Vec::new(), next: None }),
            Range::Segment { only: Only::Whole, .. } => {
                let whole = self.select("item", "(pk, sk) > ($1, $2)");
                self.rows(&whole, &[&after.pk, &after.sk], whole_item).await
            }
            Range::Segment { only: Only::Keys(None), .. } => {
                let keys = self.select("true", "(pk, sk) > ($1, $2)");
                self.rows(&keys, &[&after.pk, &after.sk], key_if_wanted).await
            }
            Range::Segment { only: Only::Keys(Some(since)), .. } => {
                let number = |name: &str| format!("(item -> '{name}' ->> 'N')::numeric");
                let wanted = format!(
                    "coalesce({} >= $3::bigint OR {} >= $3::bigint OR {} >= $4::bigint, false) OR item ? '{DUE_SHARD}'",
                    number("at"),
                    number("created_at"),
                    number("expires_at")
                );
                let keys = self.select(&wanted, "(pk, sk) > ($1, $2)");
                let (written, expired) = (bigint(since.written_ms), bigint(since.expired_ms));
                self.rows(&keys, &[&after.pk, &after.sk, &written, &expired], key_if_wanted).await
            }
        }
    }

    /// A statement for a page of rows: their keys, and something of each.
    fn select(&self, what: &str, which: &str) -> String {
        let schema = self.0.quoted_schema();
        format!("SELECT pk, sk, {what} FROM {schema}.items WHERE {which} ORDER BY pk, sk LIMIT {PAGE}")
    }

    async fn keys(&self, keys: &[Key]) -> Result<Page, ReadError> {
        let mut keys: Vec<&Key> = keys.iter().collect();
        keys.sort_unstable();
        keys.dedup();
        let mut connection = self.0.connection().await.map_err(|error| ReadError(failed(error).into()))?;
        let found = read_all(&mut connection, &self.0, &keys).await.map_err(unread)?;
        Ok(Page { items: found.into_values().collect(), next: None })
    }

    async fn rows(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
        read: fn(&Row) -> Read,
    ) -> Result<Page, ReadError> {
        let mut connection = self.0.connection().await.map_err(|error| ReadError(failed(error).into()))?;
        let rows = connection.query(timeouts::TRY, statement, parameters).await.map_err(unread)?;
        let read = |row| read(row).map_err(|error| ReadError(error.into()));
        let (mut keys, items): (Vec<Key>, Vec<Option<Item>>) =
            rows.iter().map(read).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let is_last = bigint(rows.len() as u64) < PAGE;
        let next = if is_last { None } else { keys.pop() };
        Ok(Page { items: items.into_iter().flatten().collect(), next })
    }
}

fn unread(failure: impl Into<TableError>) -> ReadError {
    ReadError(failure.into().into())
}

fn whole_item(row: &Row) -> Read {
    item(row).map(|(key, item)| (key, Some(item)))
}

/// The key of a row, and an item that has nothing else if the statement wants it.
fn key_if_wanted(row: &Row) -> Read {
    let key = Key { pk: row.try_get(0)?, sk: row.try_get(1)? };
    let is_wanted: bool = row.try_get(2)?;
    let mut item = Item::default();
    item.inner_mut().insert(PK.to_owned(), AttributeValue::S(key.pk.clone()));
    item.inner_mut().insert(SK.to_owned(), AttributeValue::S(key.sk.clone()));
    Ok((key, is_wanted.then_some(item)))
}

impl Source for PostgresReader {
    /// Tries again: an audit reads many pages, and one that comes late must not end it.
    fn scan<'a>(&'a self, range: &'a Range, after: Option<&'a Key>) -> BoxFuture<'a, Result<Page, ReadError>> {
        async move {
            for tries in 1..TRIES {
                match self.page(range, after).await {
                    Err(error) => tracing::debug!(error = shared::error_chain(&error), tries, "a page is read again"),
                    page => return page,
                }
                sleep(PAUSE * tries).await;
            }
            self.page(range, after).await
        }
        .boxed()
    }
}
