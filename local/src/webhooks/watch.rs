//! Watches what is committed, and makes records of it as the table's stream has them on AWS.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_sdk_dynamodb::types::TransactWriteItem;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use serde_json::{Value, json};
use shared::events;
use shared::ledger::keys::{self, PK, SK};
use shared::ports::{Item, Key, Table, TableError};
use tokio::sync::mpsc::UnboundedSender;

use super::queue::Queue;

/// What a transaction does to an item that may become an event.
#[derive(Clone, Debug)]
pub struct Change {
    key: Key,
    part: Part,
}

#[derive(Clone, Debug)]
enum Part {
    /// It writes this item.
    Insert(Item),
    /// It closes the packet.
    Close,
    /// It settles the packet, or ends the withdrawal.
    End,
}

/// Watches the transactions of a `DynamoDB` client, and sends on what they changed.
#[derive(Clone, Debug)]
pub struct Watch {
    pub(super) committed: UnboundedSender<Change>,
    pub(crate) queue: Arc<Queue>,
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
        if let Some(transaction) = context.input().downcast_ref::<TransactWriteItemsInput>() {
            let changes = transaction.transact_items().iter().filter_map(change);
            state.interceptor_state().store_put(Changes(changes.collect()));
        }
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        state: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(Changes(changes)) = state.load::<Changes>()
            && context.output_or_error().is_some_and(|ended| ended.is_ok())
        {
            self.queue.under_way.fetch_add(changes.len(), Ordering::SeqCst);
            // Without a receiver the stack has ended.
            changes.iter().cloned().for_each(|change| drop(self.committed.send(change)));
        }
        Ok(())
    }
}

/// What a call changes if it goes well.
#[derive(Debug)]
struct Changes(Vec<Change>);

impl Storable for Changes {
    type Storer = StoreReplace<Self>;
}

fn change(write: &TransactWriteItem) -> Option<Change> {
    let (attributes, part) = match (&write.put, &write.update) {
        (Some(put), _) => (&put.item, Part::Insert(put.item.clone().into())),
        (_, Some(update)) => {
            let names = update.expression_attribute_names.iter().flat_map(HashMap::values);
            let is_close = names.into_iter().any(|name| name == "closed_at");
            (&update.key, if is_close { Part::Close } else { Part::End })
        }
        _ => return None,
    };
    let key = keys::of_item(&attributes.clone().into())?;
    events::concerns(&key).then_some(Change { key, part })
}

impl Change {
    /// The change as a record of the table's stream. There is none if a sandbox has been emptied since.
    pub async fn record(&self, table: &impl Table) -> Result<Option<Value>, TableError> {
        let (name, image) = match &self.part {
            Part::Insert(item) => ("INSERT", item.clone()),
            Part::Close | Part::End => {
                let Some(item) = table.get(self.key.clone()).await? else { return Ok(None) };
                ("MODIFY", item)
            }
        };
        let mut image = json!(image.into_inner());
        if matches!(self.part, Part::Close) {
            // It may have been settled since.
            image["status"] = json!({"S": "closed"});
        }
        let keys = json!({PK: {"S": self.key.pk}, SK: {"S": self.key.sk}});
        let record = json!({"eventName": name, "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": "1"}});
        Ok(Some(record))
    }
}
