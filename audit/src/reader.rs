//! Raw reads of the table: strongly consistent, without interpretation.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{Builder, Config};
use aws_sdk_dynamodb::operation::scan::builders::ScanFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use shared::ledger::keys::{DUE_SHARD, PK, SK};
use shared::ports::Key;
use tokio::time::timeout;

/// An item of the table.
pub type Item = HashMap<String, AttributeValue>;

/// Items per answer of a scan. Limits a segment's memory, and the work to repeat after a deadline.
const SCAN_ITEMS: i32 = 500;
/// `DynamoDB`'s limit on the keys of one batch.
const BATCH_KEYS: usize = 100;
/// Tries of one read. An audit is not in a hurry, and must survive a throttled minute.
const ATTEMPTS_MAX: u32 = 10;
const BACKOFF_MOST: Duration = Duration::from_secs(5);
/// The pause before the left-out keys of a batch are requested again. It doubles each time, up to the limit above.
const BATCH_PAUSE_FIRST: Duration = Duration::from_millis(20);
/// How long one batch is read, with its pauses: longer than a throttled minute.
const BATCH_TIMEOUT: Duration = Duration::from_mins(2);

/// Why the audit could not continue. It can't judge what it has not read.
#[derive(Debug, thiserror::Error)]
#[error("the table did not answer")]
pub struct ReadError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// Some items, and the place where the next ones begin.
#[derive(Debug)]
pub struct Page {
    /// The items.
    pub items: Vec<Item>,
    /// The last key that was read; `None` at the end.
    pub next: Option<Key>,
}

/// One of a table's disjoint segments.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its number, from 0.
    pub index: i32,
    /// The number of segments.
    pub of: i32,
}

/// A scan's filter: items with a time at or after a bound, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// The bound on `at` and `created_at`.
    pub written_ms: u64,
    /// The bound on `expires_at`.
    pub expired_ms: u64,
}

/// The table, for reads only.
#[derive(Clone, Debug)]
pub struct Reader {
    client: Client,
    table: String,
}

impl Reader {
    /// The table `table`, read with `client`.
    pub const fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// The item with this key.
    pub async fn get(&self, key: Key) -> Result<Option<Item>, ReadError> {
        let request = self.client.get_item().table_name(&self.table).set_key(Some(attributes(&key)));
        let answer = request.consistent_read(true).customize().config_override(patient()).send().await;
        Ok(answer.map_err(failed)?.item)
    }

    /// The existing items with these keys, which may repeat.
    pub async fn batch_get(&self, mut keys: Vec<Key>) -> Result<HashMap<Key, Item>, ReadError> {
        keys.sort_unstable();
        keys.dedup();
        let mut found = HashMap::with_capacity(keys.len());
        for chunk in keys.chunks(BATCH_KEYS) {
            let late = |_| ReadError("the table is throttled".into());
            let items = timeout(BATCH_TIMEOUT, self.read_chunk(chunk)).await.map_err(late)??;
            found.extend(items.into_iter().filter_map(|item| Some((key_of(&item)?, item))));
        }
        Ok(found)
    }

    async fn read_chunk(&self, chunk: &[Key]) -> Result<Vec<Item>, ReadError> {
        let mut found = Vec::with_capacity(chunk.len());
        let mut wanted: Vec<Item> = chunk.iter().map(attributes).collect();
        let mut pause = BATCH_PAUSE_FIRST;
        while !wanted.is_empty() {
            let asked = KeysAndAttributes::builder().set_keys(Some(wanted)).consistent_read(true).build();
            let request = self.client.batch_get_item().request_items(&self.table, asked.map_err(failed)?);
            let answer = request.customize().config_override(patient()).send().await.map_err(failed)?;
            found.extend(answer.responses.into_iter().flatten().flat_map(|(_, items)| items));
            wanted = answer.unprocessed_keys.into_iter().flatten().flat_map(|(_, rest)| rest.keys).collect();
            if !wanted.is_empty() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACKOFF_MOST);
            }
        }
        Ok(found)
    }

    /// The items of a partition key whose sort keys begin with `prefix`, in order, after `start`.
    pub async fn query(&self, pk: &str, prefix: &str, start: Option<Key>) -> Result<Page, ReadError> {
        let mut request = self
            .client
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .key_condition_expression("#pk = :pk")
            .expression_attribute_names("#pk", PK)
            .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
            .set_exclusive_start_key(start.as_ref().map(attributes));
        if !prefix.is_empty() {
            request = request
                .key_condition_expression("#pk = :pk AND begins_with(#sk, :sk)")
                .expression_attribute_names("#sk", SK)
                .expression_attribute_values(":sk", AttributeValue::S(prefix.to_owned()));
        }
        let answer = request.customize().config_override(patient()).send().await.map_err(failed)?;
        Ok(Page { items: answer.items.unwrap_or_default(), next: next(answer.last_evaluated_key)? })
    }

    /// The keys of some items of a segment after `start`, in no order: of all items, or of those that pass `since`.
    pub async fn scan(&self, segment: Segment, since: Option<Since>, start: Option<&Key>) -> Result<Page, ReadError> {
        let mut request = self.scanning(segment, &[PK, SK], start);
        if let Some(since) = since {
            request = request
                .filter_expression(
                    "#at >= :written OR #created >= :written OR #expires >= :expired OR attribute_exists(#due)",
                )
                .expression_attribute_names("#at", "at")
                .expression_attribute_names("#created", "created_at")
                .expression_attribute_names("#expires", "expires_at")
                .expression_attribute_names("#due", DUE_SHARD)
                .expression_attribute_values(":written", AttributeValue::N(since.written_ms.to_string()))
                .expression_attribute_values(":expired", AttributeValue::N(since.expired_ms.to_string()));
        }
        page_of(request).await
    }

    /// Some items of a segment after `start`, in no order, with these attributes only.
    pub async fn scan_items(
        &self,
        segment: Segment,
        attributes: &[&str],
        start: Option<&Key>,
    ) -> Result<Page, ReadError> {
        page_of(self.scanning(segment, attributes, start)).await
    }

    fn scanning(&self, segment: Segment, projected: &[&str], start: Option<&Key>) -> ScanFluentBuilder {
        let names: Vec<String> = (0..projected.len()).map(|n| format!("#p{n}")).collect();
        let request = self
            .client
            .scan()
            .table_name(&self.table)
            .consistent_read(true)
            .segment(segment.index)
            .total_segments(segment.of)
            .limit(SCAN_ITEMS)
            .projection_expression(names.join(", "))
            .set_exclusive_start_key(start.map(attributes));
        let attributes = names.into_iter().zip(projected);
        attributes.fold(request, |request, (name, attribute)| request.expression_attribute_names(name, *attribute))
    }
}

async fn page_of(request: ScanFluentBuilder) -> Result<Page, ReadError> {
    let answer = request.customize().config_override(patient()).send().await.map_err(failed)?;
    Ok(Page { items: answer.items.unwrap_or_default(), next: next(answer.last_evaluated_key)? })
}

/// The primary key of an item.
pub fn key_of(item: &Item) -> Option<Key> {
    let text = |name| item.get(name).and_then(|value| value.as_s().ok()).cloned();
    Some(Key { pk: text(PK)?, sk: text(SK)? })
}

fn next(last: Option<Item>) -> Result<Option<Key>, ReadError> {
    let read = |last| key_of(&last).ok_or_else(|| ReadError("the table's answer ends at no key".into()));
    last.map(read).transpose()
}

fn attributes(key: &Key) -> Item {
    HashMap::from([
        (PK.to_owned(), AttributeValue::S(key.pk.clone())),
        (SK.to_owned(), AttributeValue::S(key.sk.clone())),
    ])
}

fn patient() -> Builder {
    let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_max_backoff(BACKOFF_MOST);
    Config::builder().retry_config(retries)
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> ReadError {
    ReadError(Box::new(error))
}

#[cfg(test)]
mod tests;
