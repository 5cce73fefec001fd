use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

use super::*;
use crate::ledger::Ledger;
use crate::memory::{MemoryHot, MemoryTable};
use crate::ports::{Batch, Item, Key, Query, System, TableError, TransactError, Write};

/// A table whose second read has its answer late.
#[derive(Clone, Default)]
struct Late(Arc<State>);

#[derive(Default)]
struct State {
    table: MemoryTable,
    reads: AtomicU32,
    has_read: Notify,
    goes_on: Notify,
}

impl Table for Late {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        let found = self.0.table.get(key).await;
        if self.0.reads.fetch_add(1, Ordering::Relaxed) == 1 {
            self.0.has_read.notify_one();
            self.0.goes_on.notified().await;
        }
        found
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        self.0.table.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.0.table.query(query).await
    }

    async fn due(&self, shard: u32, until: u64, after: Option<(Key, u64)>, most: u32) -> Result<Vec<Item>, TableError> {
        self.0.table.due(shard, until, after, most).await
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.0.table.transact(writes, token).await
    }
}

#[tokio::test]
async fn a_load_that_has_looked_too_early_is_no_word_on_a_packet() {
    let (table, terms) = (Late::default(), Terms::sample());
    let ledger = Arc::new(Ledger::new(table.clone(), Arc::new(System)));
    let hot = Arc::new(MemoryHot::in_memory(Arc::new(System)));
    let loader = Arc::new(Loader::new(Stores::new(Arc::clone(&ledger), hot, Arc::new(System), Arc::new(System))));
    let part = PartId { packet: terms.id, index: 0 };
    let loading = tokio::spawn(async move { loader.ensure(part).await });
    // Both reads of the load are over when the packet is committed.
    table.0.has_read.notified().await;
    ledger.send_funded(&terms).await;
    table.0.goes_on.notify_one();
    let ensured = loading.await.unwrap().unwrap();
    assert!(matches!(ensured, Ensured::AskAgain), "{ensured:?}");
}
