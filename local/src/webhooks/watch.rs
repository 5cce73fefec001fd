//! Notes each change that may become an event, before its transaction is sent.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
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
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(transaction) = context.input().downcast_ref::<TransactWriteItemsInput>() else { return Ok(()) };
        let changes: Vec<(Key, Part)> = transaction.transact_items().iter().filter_map(change).collect();
        if !changes.is_empty() {
            self.queue.note(&changes)?;
            self.noted.notify_one();
        }
        Ok(())
    }
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
