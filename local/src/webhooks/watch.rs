//! Notes each change that may become an event, before its transaction is sent.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use shared::events;
use shared::ledger::keys::{PK, SK};
use shared::ports::Key;
use tokio::sync::Notify;

use super::queue::{Part, Queue};

/// Watches the transactions of a `DynamoDB` client. Where a change can't be noted, the transaction is not sent.
#[derive(Clone, Debug)]
pub struct Watch {
    queue: Arc<Queue>,
    noted: Arc<Notify>,
}

impl Watch {
    /// The queue that the events of the changes go into.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    pub(super) const fn new(queue: Arc<Queue>, noted: Arc<Notify>) -> Self {
        Self { queue, noted }
    }
}

impl Intercept for Watch {
    fn name(&self) -> &'static str {
        "Watch"
    }

    fn read_before_execution(
        &self,
        context: &BeforeSerializationInterceptorContextRef<'_>,
        state: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(transaction) = context.input().downcast_ref::<TransactWriteItemsInput>() else { return Ok(()) };
        let changes: Vec<(Key, Part)> = transaction.transact_items().iter().filter_map(change).collect();
        if !changes.is_empty() {
            state.interceptor_state().store_put(NotedChanges(self.queue.note(&changes)?));
            self.noted.notify_one();
        }
        Ok(())
    }

    /// Saves the wait until the next look. Where nobody waits for an answer any more, that look comes.
    fn read_after_execution(
        &self,
        _: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        state: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(NotedChanges(ids)) = state.load::<NotedChanges>() {
            // The transaction is done: an error here must not hide its answer.
            let _ = self.queue.look_now(ids);
            self.noted.notify_one();
        }
        Ok(())
    }
}

/// The names of the changes that a call has noted.
#[derive(Debug)]
struct NotedChanges(Vec<i64>);

impl Storable for NotedChanges {
    type Storer = StoreReplace<Self>;
}

/// The change that a write makes, if it may become an event.
fn change(write: &TransactWriteItem) -> Option<(Key, Part)> {
    let (attributes, part) = match (&write.put, &write.update) {
        (Some(put), _) => (&put.item, Part::Insert),
        (_, Some(update)) => {
            let sets =
                |name: &str| update.expression_attribute_names.iter().flat_map(HashMap::values).any(|set| set == name);
            let part = if sets("refunded_count") { Part::Settle } else { Part::Close };
            (&update.key, part)
        }
        _ => return None,
    };
    let text = |name| attributes.get(name).and_then(|value: &AttributeValue| value.as_s().ok()).cloned();
    let key = Key { pk: text(PK)?, sk: text(SK)? };
    events::concerns(&key).then_some((key, part))
}
