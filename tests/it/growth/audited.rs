//! What an audit reads of the table, as the database itself counts it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use audit::{Auditor, Progress};
use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextMut,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::operation::scan::{ScanInput, ScanOutput};
use aws_sdk_dynamodb::types::{AttributeValue, ConsumedCapacity, PutRequest, ReturnConsumedCapacity, WriteRequest};
use local::dynamodb::DynamoDb;
use shared::dynamodb::create_table;
use shared::memory::MemoryTable;
use shared::wiring::dynamodb_at;
use tokio::time::Instant;

use super::figures::{Figure, Figures};
use super::steady::in_real_time;

const TABLE: &str = "audited";
/// The items of one batch, by the limit of `DynamoDB`.
const BATCH: usize = 25;

/// Requests, and halves of the read units that they took.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<(AtomicU64, AtomicU64)>);

impl Counted {
    #[expect(clippy::float_arithmetic, reason = "the SDK gives units as a float")]
    fn add<'a>(&self, capacity: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        for capacity in capacity {
            let halves = format!("{:.0}", capacity.capacity_units.unwrap() + capacity.capacity_units.unwrap());
            self.0.1.fetch_add(halves.parse().unwrap(), Ordering::SeqCst);
        }
    }
}

impl Intercept for Counted {
    fn name(&self) -> &'static str {
        "Counted"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        let (input, total) = (context.input_mut(), Some(ReturnConsumedCapacity::Total));
        if let Some(scan) = input.downcast_mut::<ScanInput>() {
            scan.return_consumed_capacity = total;
        } else if let Some(query) = input.downcast_mut::<QueryInput>() {
            query.return_consumed_capacity = total;
        } else if let Some(get) = input.downcast_mut::<GetItemInput>() {
            get.return_consumed_capacity = total;
        } else if let Some(batch) = input.downcast_mut::<BatchGetItemInput>() {
            batch.return_consumed_capacity = total;
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Ok(output) = context.output_or_error() else { return Ok(()) };
        if let Some(scan) = output.downcast_ref::<ScanOutput>() {
            self.add(&scan.consumed_capacity);
        } else if let Some(query) = output.downcast_ref::<QueryOutput>() {
            self.add(&query.consumed_capacity);
        } else if let Some(get) = output.downcast_ref::<GetItemOutput>() {
            self.add(&get.consumed_capacity);
        } else if let Some(batch) = output.downcast_ref::<BatchGetItemOutput>() {
            self.add(batch.consumed_capacity.iter().flatten());
        }
        Ok(())
    }
}

/// What a full audit of `table` reads.
///
/// # Panics
/// If the table is not in order.
pub async fn audited(table: &MemoryTable) -> Figures {
    let items = table.items();
    in_real_time(|| async move {
        let server = DynamoDb::start(None).await.unwrap();
        let client = dynamodb_at(&server.url());
        create_table(&client, TABLE).await.unwrap();
        let items: Vec<HashMap<String, AttributeValue>> = items.into_values().map(Into::into).collect();
        for batch in items.chunks(BATCH) {
            let put = |item: &HashMap<_, _>| {
                let put = PutRequest::builder().set_item(Some(item.clone())).build().unwrap();
                WriteRequest::builder().put_request(put).build()
            };
            let writes: Vec<WriteRequest> = batch.iter().map(put).collect();
            let written = client.batch_write_item().request_items(TABLE, writes).send().await.unwrap();
            assert!(written.unprocessed_items.is_none_or(|left| left.is_empty()));
        }
        let counted = Counted::default();
        let config = client.config().to_builder().interceptor(counted.clone()).build();
        let auditor = Auditor::new(aws_sdk_dynamodb::Client::from_conf(config), TABLE.to_owned());
        let deadline = Instant::now() + Duration::from_mins(30);
        let progress = auditor.run(Progress::full(1).unwrap(), deadline).await.unwrap();
        assert!(progress.is_done() && progress.report().imbalance_count == 0, "{:?}", progress.report());
        let count = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Figures::default().with(Figure::Reads, count(&counted.0.0)).with(Figure::ReadUnits, count(&counted.0.1))
    })
    .await
}
