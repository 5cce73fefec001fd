//! Raw reads of the table: strongly consistent, without interpretation.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{Builder, Config};
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use futures::FutureExt;
use futures::future::BoxFuture;
use shared::ledger::keys::{DUE_SHARD, PK, SK};
use shared::ports::Key;
use tokio::time::timeout;

use crate::source::{Only, Page, Range, ReadError, Source, key_of};

/// An item as the SDK has it.
type Attributes = HashMap<String, AttributeValue>;

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

/// The table, for reads only.
#[derive(Clone, Debug)]
pub struct Reader {
    client: Client,
    table: String,
}

impl Source for Reader {
    fn scan<'a>(&'a self, range: &'a Range, after: Option<&'a Key>) -> BoxFuture<'a, Result<Page, ReadError>> {
        match range {
            Range::Keys(keys) => self.batches(keys).boxed(),
            Range::Partition { pk, prefix } => self.partition(pk, prefix, after).boxed(),
            Range::Segment { index, of, only } => self.segment(*index, *of, *only, after).boxed(),
        }
    }
}

impl Reader {
    /// The table `table`, read with `client`.
    pub const fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    async fn batches(&self, keys: &[Key]) -> Result<Page, ReadError> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let mut found = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(BATCH_KEYS) {
            let late = |_| ReadError("the table is throttled".into());
            found.extend(timeout(BATCH_TIMEOUT, self.batch_of(chunk)).await.map_err(late)??);
        }
        page(Some(found), None)
    }

    async fn batch_of(&self, chunk: &[Key]) -> Result<Vec<Attributes>, ReadError> {
        let mut found = Vec::with_capacity(chunk.len());
        let mut wanted: Vec<Attributes> = chunk.iter().map(attributes).collect();
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

    async fn partition(&self, pk: &str, prefix: &str, start: Option<&Key>) -> Result<Page, ReadError> {
        let mut request = self
            .client
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .key_condition_expression("#pk = :pk")
            .expression_attribute_names("#pk", PK)
            .expression_attribute_values(":pk", AttributeValue::S(pk.to_owned()))
            .set_exclusive_start_key(start.map(attributes));
        if !prefix.is_empty() {
            request = request
                .key_condition_expression("#pk = :pk AND begins_with(#sk, :sk)")
                .expression_attribute_names("#sk", SK)
                .expression_attribute_values(":sk", AttributeValue::S(prefix.to_owned()));
        }
        let answer = request.customize().config_override(patient()).send().await.map_err(failed)?;
        page(answer.items, answer.last_evaluated_key)
    }

    async fn segment(&self, index: i32, of: i32, only: Only, start: Option<&Key>) -> Result<Page, ReadError> {
        let mut request = self
            .client
            .scan()
            .table_name(&self.table)
            .consistent_read(true)
            .segment(index)
            .total_segments(of)
            .limit(SCAN_ITEMS)
            .set_exclusive_start_key(start.map(attributes));
        if let Only::Keys(since) = only {
            request = request
                .projection_expression("#pk, #sk")
                .expression_attribute_names("#pk", PK)
                .expression_attribute_names("#sk", SK);
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
        }
        let answer = request.customize().config_override(patient()).send().await.map_err(failed)?;
        page(answer.items, answer.last_evaluated_key)
    }
}

fn page(items: Option<Vec<Attributes>>, last: Option<Attributes>) -> Result<Page, ReadError> {
    let read = |last: Attributes| key_of(&last.into()).ok_or_else(|| ReadError("its answer ends at no key".into()));
    Ok(Page { items: items.into_iter().flatten().map(Into::into).collect(), next: last.map(read).transpose()? })
}

fn attributes(key: &Key) -> Attributes {
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
