use std::future::pending;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::*;
use crate::domain::{PARTITIONS, Status};
use crate::ledger::{Ledger, keys};
use crate::lock;
use crate::memory::{MemoryHot, MemoryTable};
use crate::ports::{Batch, Clock, Item, Key, Query, System, TableError, TransactError, Write};
use crate::redis::fields;
use crate::service::Settle;

/// Longer than a request may take.
const A_WHILE: Duration = Duration::from_mins(1);
const ALL: RangeInclusive<u32> = 0..=PARTITIONS - 1;

/// How a table takes writes of an item.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Refused,
    Unanswered,
}

/// A table with a fault at one item.
#[derive(Clone, Default)]
struct Faulty(Arc<State>);

#[derive(Default)]
struct State {
    table: MemoryTable,
    fault: Mutex<Option<(Key, Fault)>>,
}

impl Table for Faulty {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.0.table.get(key).await
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
        let fault = lock(&self.0.fault).clone();
        match fault.filter(|(key, _)| writes.iter().any(|write| write.key() == key)) {
            Some((_, Fault::Refused)) => Err(TableError::Refused("a test".into()).into()),
            Some((_, Fault::Unanswered)) => pending().await,
            None => self.0.table.transact(writes, token).await,
        }
    }
}

/// Packets of one slip with one reference, the oldest first. Their parts are loaded.
struct Scene {
    packets: Vec<Terms>,
    table: Faulty,
    stores: Stores<Faulty, MemoryHot>,
}

impl Scene {
    async fn new(count: u8) -> Self {
        let table = Faulty::default();
        let ledger = Arc::new(Ledger::new(table.clone(), Arc::new(System)));
        let hot = Arc::new(MemoryHot::in_memory(Arc::new(System)));
        let stores = Stores::new(ledger, hot, Arc::new(System), Arc::new(System));
        let now = System.now();
        let mut packets = Vec::new();
        for number in 0..count {
            let (id, expires_at) = (PacketId::new(now, 1, [number; 10]), now.after(Duration::from_hours(1)));
            let mut terms = Terms { id, count: 1, created_at: now, expires_at, ..Terms::sample() };
            terms.labels.reference = Some(reference());
            stores.ledger.send_funded(&terms).await;
            for part in id.parts() {
                stores.hot.load(part, &terms, false, &[]).await.unwrap();
            }
            packets.push(terms);
        }
        Self { packets, table, stores }
    }

    async fn close_all(&self) -> Result<SelectionTotals, Failure> {
        let close = ClosePacket::new(self.stores.clone(), "CNY".to_owned());
        close.close_all(&self.packets[0].sender, &reference(), "over".parse().unwrap(), None).await
    }

    async fn orders(&self) -> usize {
        self.stores.ledger.close_orders(9).await.unwrap().len()
    }
}

fn reference() -> Reference {
    "nye".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_a_close_leaves_open_is_closed_by_settle() {
    for fault in [Fault::Refused, Fault::Unanswered] {
        let scene = Scene::new(3).await;
        *lock(&scene.table.0.fault) = Some((keys::packet(scene.packets[1].id), fault));
        // The process dies while it waits for an answer.
        let answer = timeout(A_WHILE, scene.close_all()).await;
        assert!(!matches!(answer, Ok(Ok(_))), "{fault:?}: {answer:?}");
        assert_eq!(scene.orders().await, 1, "{fault:?}");
        *lock(&scene.table.0.fault) = None;
        let settle = Settle::new(scene.stores.clone(), Duration::ZERO);
        settle.run(ALL, Instant::now() + A_WHILE).await.unwrap();
        for terms in &scene.packets {
            let Packet { closed, settled, .. } = scene.stores.ledger.packet(terms.id).await.unwrap().unwrap();
            assert!(closed.is_some_and(|closed| closed.reason == "over".parse().unwrap()), "{fault:?}");
            assert!(settled.is_some(), "{fault:?}");
        }
        assert_eq!(scene.orders().await, 0, "{fault:?}");
    }
}

/// Also those beyond the first page, and one that only the ledger knows to be closed.
#[tokio::test]
async fn all_packets_with_a_reference_are_closed_in_both_stores() {
    let scene = Scene::new(101).await;
    let first = Intervention { reason: "before".parse().unwrap(), at: System.now(), by: None };
    assert!(scene.stores.ledger.close(&scene.packets[0], &first).await.unwrap());
    let totals = scene.close_all().await.unwrap();
    let closed = totals.packets.iter().filter(|packet| packet.status(System.now()) == Status::Closed);
    assert_eq!(closed.count(), 101);
    for part in scene.packets.iter().flat_map(|terms| terms.id.parts()) {
        let word = scene.stores.hot.server().part(part).remove(fields::WORD).unwrap_or_default();
        assert!(word.starts_with('c'), "{part}: {word}");
    }
    assert_eq!(scene.orders().await, 0);
}
