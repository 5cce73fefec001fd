//! A backlog that one run of settle can't finish: the run uses all of its time and reports the rest. Time is tokio's
//! paused clock.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shared::domain::{AckMode, Amount, Limits, Split, UserId};
use shared::ledger::Ledger;
use shared::memory::{MemoryHot, MemoryTable};
use shared::ports::{GrabAnswer, Grabber, HotStore, Item, Key, Query, System, Table, TableError, TransactError, Write};
use shared::service::{NewPacket, Report, SendOutcome, SendPacket, SendPolicy, Settle, Stores, Wallets};
use tokio::time::{Instant, sleep};

/// How long a transaction of a slow table takes.
const SLOW: Duration = Duration::from_secs(1);
/// Partitions that settle processes at once; each waits for one transaction.
const AT_ONCE: u64 = 16;
const PACKETS: u64 = 200;

/// A table whose transactions can be made slow.
#[derive(Default)]
struct SlowTable {
    table: MemoryTable,
    is_slow: Arc<AtomicBool>,
}

impl Table for SlowTable {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.table.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Vec<Item>, TableError> {
        self.table.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.table.query(query).await
    }

    async fn due(
        &self,
        shard: u32,
        until_ms: u64,
        after: Option<(Key, u64)>,
        limit: u32,
    ) -> Result<Vec<Item>, TableError> {
        self.table.due(shard, until_ms, after, limit).await
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        if self.is_slow.load(Ordering::Relaxed) {
            sleep(SLOW).await;
        }
        self.table.transact(writes, token).await
    }
}

/// Sends [`PACKETS`] packets, each with one held slip. From then on every transaction is slow.
async fn backlog() -> Settle<SlowTable, MemoryHot> {
    let table = SlowTable::default();
    let is_slow = Arc::clone(&table.is_slow);
    let ledger = Arc::new(Ledger::new(table, Arc::new(System)));
    let hot = Arc::new(MemoryHot::new(Arc::new(System)));
    let stores = Stores::new(Arc::clone(&ledger), Arc::clone(&hot), Arc::new(System), Arc::new(System));
    let policy = SendPolicy { currency: "CNY".to_owned(), ack: AckMode::Redis, limits: Limits::default() };
    let send = SendPacket::new(stores.clone(), policy);
    let sender: UserId = "sender".parse().unwrap();
    let wallets = Wallets::new(ledger, Arc::new(System), "CNY".to_owned());
    wallets.deposit(&sender, &"d".parse().unwrap(), Amount::new(PACKETS)).await.unwrap();
    for key in 0..PACKETS {
        let packet = NewPacket {
            sender: sender.clone(),
            split: Split::Equal,
            total: Amount::new(1),
            count: 1,
            greeting: String::new(),
            expires_in: Duration::from_hours(1),
            passphrase: None,
            recipients: None,
        };
        let outcome = send.send(packet, &key.to_string().parse().unwrap()).await.unwrap();
        let SendOutcome::Sent(terms) = outcome else { panic!("not sent: {outcome:?}") };
        let part = terms.id.parts().next().unwrap();
        hot.load(part, &terms, &[]).await.unwrap();
        let grabber = Grabber { user: format!("u{key}").parse().unwrap(), passphrase: None };
        let found = hot.grab(part, &[grabber]).await.unwrap().unwrap();
        assert!(matches!(found[..], [GrabAnswer::Held { .. }]), "{found:?}");
    }
    is_slow.store(true, Ordering::Relaxed);
    Settle::new(stores, Duration::ZERO)
}

async fn settle(settle: &Settle<SlowTable, MemoryHot>, time: Duration) -> Report {
    settle.run(0..=255, Instant::now() + time).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_uses_all_of_its_time_and_counts_the_rest() {
    let backlog = backlog().await;
    let report = settle(&backlog, 6 * SLOW).await;
    // Half of the time would suffice for 3 rounds.
    assert!(report.persisted > 3 * AT_ONCE, "{report:?}");
    assert_eq!(report.outbox_left, Some(PACKETS - report.persisted), "{report:?}");
    assert!(report.oldest_outbox_ms.is_some(), "{report:?}");

    let rest = settle(&backlog, Duration::from_mins(5)).await;
    assert_eq!((rest.persisted, rest.outbox_left), (PACKETS - report.persisted, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn a_run_without_time_counts_all() {
    let backlog = backlog().await;
    let report = settle(&backlog, Duration::ZERO).await;
    assert_eq!((report.persisted, report.outbox_left), (0, Some(PACKETS)));
}
