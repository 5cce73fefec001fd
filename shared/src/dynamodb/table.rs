use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextMut;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{Config, ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::{TransactWriteItemsError, TransactWriteItemsInput};
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, KeysAndAttributes, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
    Update,
};

use crate::batching::{Overloaded, Permits};
use crate::ledger::keys::{self, DUE_AT, DUE_INDEX, DUE_SHARD, PK, SK};
use crate::ports::{Batch, Bound, Expect, Item, Key, Query, Reason, Table, TableError, TransactError, Write};
use crate::timeouts;

type Attributes = HashMap<String, AttributeValue>;

/// The most transactions that a process has in flight. The SDK opens a connection for each request that finds none free; in a
/// rush that would be thousands.
const TRANSACTIONS_AT_ONCE: usize = 256;
/// The most reads that a process has in flight. They have permits of their own: a rush of winners must not delay viewers.
const READS_AT_ONCE: usize = 256;

/// The table behind the AWS SDK.
#[derive(Clone, Debug)]
pub struct SdkTable {
    client: Client,
    /// The same client with the bounds of a read.
    reader: Client,
    name: String,
    transactions: Arc<Permits>,
    reads: Arc<Permits>,
    sends_tokens: bool,
}

impl SdkTable {
    /// The table `name`, as `client` reaches it. A try of a read takes at most [`timeouts::READ_TRY`].
    pub fn new(client: Client, name: String) -> Self {
        let bounds = client.config().timeout_config().map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
        let bounds = bounds.operation_attempt_timeout(timeouts::READ_TRY).build();
        let reader = Client::from_conf(client.config().to_builder().timeout_config(bounds).build());
        let transactions = Arc::new(Permits::new(TRANSACTIONS_AT_ONCE));
        let reads = Arc::new(Permits::new(READS_AT_ONCE));
        Self { client, reader, name, transactions, reads, sends_tokens: true }
    }

    /// The same, without tokens in its transactions: for a database to which a token is more work, not less. The ledger's
    /// protocol does not lean on them.
    #[must_use]
    pub fn without_tokens(self) -> Self {
        Self { sends_tokens: false, ..self }
    }

    fn write(&self, write: &Write) -> Result<TransactWriteItem, TableError> {
        match write {
            Write::PutNew { key, item } => {
                let mut attributes: Attributes = item.clone().into();
                attributes.extend(attributes_of(key));
                let put = Put::builder()
                    .table_name(&self.name)
                    .set_item(Some(attributes))
                    .condition_expression("attribute_not_exists(#pk)")
                    .expression_attribute_names("#pk", PK)
                    .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                    .build();
                Ok(TransactWriteItem::builder().put(put.map_err(refused)?).build())
            }
            Write::Add { key, deltas, bounds, absent } => self.add(key, deltas, bounds, *absent),
            Write::Change { key, expect, set, remove } => self.change(key, *expect, set, remove),
        }
    }

    fn add(
        &self,
        key: &Key,
        deltas: &[(&'static str, i64)],
        bounds: &[Bound],
        absent: Option<&'static str>,
    ) -> Result<TransactWriteItem, TableError> {
        let mut update = Update::builder().table_name(&self.name).set_key(Some(attributes_of(key)));
        let mut terms = Vec::with_capacity(deltas.len());
        for (i, (name, delta)) in deltas.iter().enumerate() {
            terms.push(format!("#a{i} :a{i}"));
            update = update
                .expression_attribute_names(format!("#a{i}"), *name)
                .expression_attribute_values(format!(":a{i}"), AttributeValue::N(delta.to_string()));
        }
        update = update.update_expression(format!("ADD {}", terms.join(", ")));
        let mut conditions = Vec::new();
        for (i, bound) in bounds.iter().enumerate() {
            let (condition, name, value) = match *bound {
                Bound::AtLeast(name, value) => (format!("#b{i} >= :b{i}"), name, value),
                Bound::AtMost(name, value) => (format!("(attribute_not_exists(#b{i}) OR #b{i} <= :b{i})"), name, value),
            };
            conditions.push(condition);
            update = update
                .expression_attribute_names(format!("#b{i}"), name)
                .expression_attribute_values(format!(":b{i}"), AttributeValue::N(value.to_string()));
        }
        if let Some(name) = absent {
            conditions.push("attribute_not_exists(#n)".to_owned());
            update = update.expression_attribute_names("#n", name);
        }
        if !conditions.is_empty() {
            update = update
                .condition_expression(conditions.join(" AND "))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        }
        Ok(TransactWriteItem::builder().update(update.build().map_err(refused)?).build())
    }

    fn change(
        &self,
        key: &Key,
        expect: Expect,
        set: &Item,
        remove: &[&'static str],
    ) -> Result<TransactWriteItem, TableError> {
        let mut update = Update::builder().table_name(&self.name).set_key(Some(attributes_of(key)));
        update = match expect {
            Expect::Is(name, expected) => update
                .condition_expression("#e = :e")
                .expression_attribute_names("#e", name)
                .expression_attribute_values(":e", AttributeValue::S(expected.to_owned())),
            Expect::Has(name) => {
                update.condition_expression("attribute_exists(#e)").expression_attribute_names("#e", name)
            }
            Expect::Nothing => update,
        };
        let mut sets = Vec::new();
        for (i, (name, value)) in Attributes::from(set.clone()).into_iter().enumerate() {
            sets.push(format!("#s{i} = :s{i}"));
            update = update
                .expression_attribute_names(format!("#s{i}"), name)
                .expression_attribute_values(format!(":s{i}"), value);
        }
        let mut removes = Vec::new();
        for (i, name) in remove.iter().enumerate() {
            removes.push(format!("#r{i}"));
            update = update.expression_attribute_names(format!("#r{i}"), *name);
        }
        let clauses = [("SET", sets), ("REMOVE", removes)].into_iter().filter(|(_, changes)| !changes.is_empty());
        let clauses: Vec<String> = clauses.map(|(verb, changes)| format!("{verb} {}", changes.join(", "))).collect();
        let update = update.update_expression(clauses.join(" "));
        Ok(TransactWriteItem::builder().update(update.build().map_err(refused)?).build())
    }
}

impl Table for SdkTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        let _permit = self.reads.acquire().await?;
        let request =
            self.reader.get_item().table_name(&self.name).set_key(Some(attributes_of(&key))).consistent_read(true);
        request.send().await.map_err(failed)?.item.map(item).transpose()
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        let asked = KeysAndAttributes::builder().set_keys(Some(keys.iter().map(attributes_of).collect()));
        let asked = asked.consistent_read(true).build().map_err(refused)?;
        let _permit = self.reads.acquire().await?;
        let request = self.reader.batch_get_item().request_items(&self.name, asked);
        let answer = request.send().await.map_err(failed)?;
        let found = answer.responses.into_iter().flatten().flat_map(|(_, items)| items);
        let left = answer.unprocessed_keys.into_iter().flatten().flat_map(|(_, rest)| rest.keys);
        let key = |attributes| {
            keys::of_item(&item(attributes)?).ok_or_else(|| TableError::Refused("a key without its parts".into()))
        };
        Ok(Batch { items: found.map(item).collect::<Result<_, _>>()?, left: left.map(key).collect::<Result<_, _>>()? })
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        let _permit = self.reads.acquire().await?;
        let mut items = Vec::new();
        let mut start = query.after.as_ref().map(|sk| attributes_of(&Key { pk: query.pk.clone(), sk: sk.clone() }));
        loop {
            let missing = query.limit.map(|limit| i32::try_from(limit as usize - items.len()).unwrap_or(i32::MAX));
            let mut request = self
                .reader
                .query()
                .table_name(&self.name)
                .consistent_read(true)
                .key_condition_expression("#pk = :pk")
                .expression_attribute_names("#pk", PK)
                .expression_attribute_values(":pk", AttributeValue::S(query.pk.clone()))
                .scan_index_forward(!query.descending)
                .set_limit(missing)
                .set_exclusive_start_key(start);
            if !query.sk_prefix.is_empty() {
                request = request
                    .key_condition_expression("#pk = :pk AND begins_with(#sk, :sk)")
                    .expression_attribute_names("#sk", SK)
                    .expression_attribute_values(":sk", AttributeValue::S(query.sk_prefix.to_owned()));
            }
            let answer = request.send().await.map_err(failed)?;
            for attributes in answer.items.into_iter().flatten() {
                items.push(item(attributes)?);
            }
            start = answer.last_evaluated_key;
            if start.is_none() || query.limit.is_some_and(|limit| items.len() >= limit as usize) {
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
        let _permit = self.reads.acquire().await?;
        let number = |n: u64| AttributeValue::N(n.to_string());
        let mut items = Vec::new();
        let mut start = after.map(|(key, due_at)| {
            let mut start = attributes_of(&key);
            start.insert(DUE_SHARD.to_owned(), number(shard.into()));
            start.insert(DUE_AT.to_owned(), number(due_at));
            start
        });
        loop {
            let request = self
                .reader
                .query()
                .table_name(&self.name)
                .index_name(DUE_INDEX)
                .key_condition_expression("#shard = :shard AND #at <= :until")
                .expression_attribute_names("#shard", DUE_SHARD)
                .expression_attribute_names("#at", DUE_AT)
                .expression_attribute_values(":shard", number(shard.into()))
                .expression_attribute_values(":until", number(until_ms))
                .limit(i32::try_from(limit as usize - items.len()).unwrap_or(i32::MAX))
                .set_exclusive_start_key(start);
            let answer = request.send().await.map_err(failed)?;
            for attributes in answer.items.into_iter().flatten() {
                items.push(item(attributes)?);
            }
            start = answer.last_evaluated_key;
            if start.is_none() || items.len() >= limit as usize {
                return Ok(items);
            }
        }
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        let writes = writes.iter().map(|write| self.write(write)).collect::<Result<Vec<_>, _>>()?;
        let _permit = self.transactions.acquire().await.map_err(TableError::from)?;
        let request = self.client.transact_write_items().set_transact_items(Some(writes)).client_request_token(token);
        // The ledger repeats a transaction itself, and knows for how long.
        let mut once = Config::builder().retry_config(RetryConfig::disabled());
        if !self.sends_tokens {
            once = once.interceptor(NoToken);
        }
        match request.customize().config_override(once).send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    let reasons = cancelled.cancellation_reasons().iter().map(reason).collect::<Option<_>>();
                    Err(reasons.map_or_else(|| failed(error).into(), TransactError::Cancelled))
                }
                Some(TransactWriteItemsError::IdempotentParameterMismatchException(_)) => {
                    Err(TransactError::TokenSpent(error.into()))
                }
                _ => Err(failed(error).into()),
            },
        }
    }
}

/// Takes a transaction's token away. The SDK makes one up where none is given, so this comes after that.
#[derive(Debug)]
struct NoToken;

impl Intercept for NoToken {
    fn name(&self) -> &'static str {
        "NoToken"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(transaction) = context.input_mut().downcast_mut::<TransactWriteItemsInput>() {
            transaction.client_request_token = None;
        }
        Ok(())
    }
}

impl From<Overloaded> for TableError {
    fn from(overloaded: Overloaded) -> Self {
        Self::Overloaded(overloaded.into())
    }
}

/// What a cancellation says of one write. `None`: the write itself is wrong.
fn reason(reason: &CancellationReason) -> Option<Reason> {
    match reason.code().unwrap_or("None") {
        "None" => Some(Reason::None),
        // An unreadable item counts as not shown. The ledger then reads the item, which reports what is wrong with it.
        "ConditionalCheckFailed" => Some(Reason::ConditionFailed(reason.item().cloned().and_then(|it| item(it).ok()))),
        "ValidationError" | "ItemCollectionSizeLimitExceeded" => None,
        busy => Some(Reason::Busy(busy.to_owned())),
    }
}

/// An item, unless it has an attribute of a type that the SDK does not know: its conversion would panic there.
fn item(attributes: Attributes) -> Result<Item, TableError> {
    if attributes.values().all(is_known) {
        Ok(attributes.into())
    } else {
        Err(TableError::Refused("an attribute of an unknown type".into()))
    }
}

fn is_known(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::L(values) => values.iter().all(is_known),
        AttributeValue::M(values) => values.values().all(is_known),
        other => !other.is_unknown(),
    }
}

fn attributes_of(key: &Key) -> Attributes {
    HashMap::from([
        (PK.to_owned(), AttributeValue::S(key.pk.clone())),
        (SK.to_owned(), AttributeValue::S(key.sk.clone())),
    ])
}

fn refused(error: aws_sdk_dynamodb::error::BuildError) -> TableError {
    TableError::Refused(error.into())
}

/// The errors that call the request itself wrong: it would fail at any other time too. Every other error is passing or unknown.
/// The operator mends a missing permission or table; until then a hold must wait, and not be parked.
const REFUSALS: [&str; 3] = ["ValidationException", "SerializationException", "TransactionCanceledException"];

fn failed<E>(error: SdkError<E>) -> TableError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let refused =
        error.code().is_some_and(|code| REFUSALS.contains(&code)) || matches!(error, SdkError::ConstructionFailure(_));
    if refused { TableError::Refused(error.into()) } else { TableError::Unavailable(error.into()) }
}

#[cfg(test)]
mod tests;
