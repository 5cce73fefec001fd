//! Grabs from a packet of five parts, all of whose slips are claimed. The clock stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::domain::{Amount, Amounts, RequestKey, UserId};
use crate::ledger::{Ledger, SendRequest};
use crate::memory::{HotSnapshot, MemoryHot, MemoryTable};
use crate::ports::{Clock, HotStore, Item, Key, Query, System, Table, TableError, TransactError, Write};
use crate::service::{GrabOutcome, GrabSlip, Stores};

const PARTS: u32 = 5;

/// A table that counts reads, and can fall silent.
#[derive(Default)]
struct Watched {
    table: MemoryTable,
    gets: AtomicU64,
    is_silent: AtomicBool,
}

#[derive(Clone, Default)]
struct Shared(Arc<Watched>);

impl Table for Shared {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.0.gets.fetch_add(1, Ordering::Relaxed);
        if self.0.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.0.table.get(key).await
    }

    async fn batch_get(&self, _: Vec<Key>) -> Result<Vec<Item>, TableError> {
        unreachable!("a grab reads no batch")
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.0.table.query(query).await
    }

    async fn due(&self, _: u32, _: u64, _: Option<(Key, u64)>, _: u32) -> Result<Vec<Item>, TableError> {
        unreachable!("a grab settles nothing")
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        self.0.table.transact(writes, token).await
    }
}

struct Scene {
    terms: Terms,
    table: Shared,
    hot: Arc<MemoryHot>,
}

type Process = GrabSlip<Shared, MemoryHot>;

fn user(number: u32) -> UserId {
    format!("u{number}").parse().unwrap()
}

impl Scene {
    /// Users 0 to 4 have the slips.
    async fn new(change: impl FnOnce(&mut Terms)) -> Self {
        let now = System.now();
        let mut terms = Terms {
            id: PacketId::new(now, PARTS, [1; 10]),
            count: PARTS,
            total: Amount::new(u64::from(PARTS)),
            expires_at: now.after(Duration::from_hours(1)),
            ..Terms::sample()
        };
        change(&mut terms);
        let (table, hot) = (Shared::default(), Arc::new(MemoryHot::new(Arc::new(System))));
        let scene = Self { terms, table, hot };
        let (terms, ledger) = (&scene.terms, scene.ledger());
        let key: RequestKey = "k".parse().unwrap();
        ledger.deposit(&terms.sender, &key, terms.total, None, terms.created_at).await.unwrap();
        let amounts: Vec<_> = (0..PARTS).map(|_| Amounts::pack(&[1]).unwrap()).collect();
        let request = SendRequest { terms, amounts: &amounts, key: &key, body_hash: [0; 32], daily_max: None };
        ledger.send(&request).await.unwrap();
        for part in terms.id.parts() {
            scene.hot.load(part, terms, false, &[]).await.unwrap();
        }
        let winners = scene.process();
        for number in 0..PARTS {
            let outcome = scene.grab(&winners, number).await;
            assert!(matches!(outcome, GrabOutcome::Grabbed { .. }), "{outcome:?}");
        }
        scene
    }

    fn ledger(&self) -> Arc<Ledger<Shared>> {
        Arc::new(Ledger::new(self.table.clone(), Arc::new(System)))
    }

    fn process(&self) -> Process {
        let stores = Stores::new(self.ledger(), Arc::clone(&self.hot), Arc::new(System), Arc::new(System));
        GrabSlip::new(stores, "CNY".to_owned())
    }

    async fn grab(&self, process: &Process, number: u32) -> GrabOutcome {
        process.grab(self.terms.id, &user(number), None).await.unwrap()
    }

    /// The hot store forgets everything: whoever asks it would have to load the packet again.
    fn wipe(&self) {
        self.hot.restore(&HotSnapshot::default());
    }

    fn is_wiped(&self) -> bool {
        self.hot.snapshot() == HotSnapshot::default()
    }

    fn gets(&self) -> u64 {
        self.table.0.gets.swap(0, Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_answers_later_users_from_their_claim_items() {
    let scene = Scene::new(|_| ()).await;
    let process = scene.process();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    scene.wipe();
    scene.gets();
    assert_eq!(scene.grab(&process, 11).await, GrabOutcome::SoldOut);
    assert_eq!(scene.gets(), 1);
    let again = scene.grab(&process, 0).await;
    assert!(matches!(again, GrabOutcome::Grabbed { replayed: true, .. }), "{again:?}");
    assert!(scene.is_wiped(), "the hot store was asked");

    tokio::time::advance(TTL).await;
    assert_eq!(scene.grab(&process, 12).await, GrabOutcome::SoldOut);
    assert!(!scene.is_wiped(), "this is no longer remembered");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_serves_a_rush_reads_the_owners_instead() {
    let scene = Scene::new(|_| ()).await;
    let process = scene.process().running_on();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    tokio::task::yield_now().await;
    scene.wipe();
    scene.gets();
    assert_eq!(scene.grab(&process, 11).await, GrabOutcome::SoldOut);
    assert_eq!(scene.gets(), 0);
    assert!(scene.is_wiped(), "the hot store was asked");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_does_not_answer_delays_one_loser_only() {
    let scene = Scene::new(|_| ()).await;
    let process = scene.process();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    scene.table.0.is_silent.store(true, Ordering::Relaxed);
    for (number, most) in [(11, super::super::CLAIM_READ_MAX), (12, Duration::ZERO), (13, Duration::ZERO)] {
        let begun = Instant::now();
        assert_eq!(scene.grab(&process, number).await, GrabOutcome::SoldOut);
        assert_eq!(begun.elapsed(), most, "user {number}");
    }
    tokio::time::advance(PAUSE).await;
    scene.table.0.is_silent.store(false, Ordering::Relaxed);
    scene.gets();
    assert_eq!(scene.grab(&process, 14).await, GrabOutcome::SoldOut);
    assert_eq!(scene.gets(), 1, "the ledger is asked again");
}

#[tokio::test(start_paused = true)]
async fn a_packet_on_the_hot_stores_word_is_not_remembered() {
    let scene = Scene::new(|terms| terms.ack = AckMode::Redis).await;
    let process = scene.process();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    assert_eq!(process.final_packets.why(scene.terms.id), None);
    let again = scene.grab(&process, 0).await;
    assert!(matches!(again, GrabOutcome::Grabbed { replayed: true, .. }), "its claim is only in the outbox: {again:?}");
}

#[tokio::test(start_paused = true)]
async fn users_whom_the_guard_refuses_are_not_told_that_nothing_is_left() {
    let scene = Scene::new(|terms| terms.guard.recipients = Some((0..11).map(user).collect())).await;
    let process = scene.process();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    let stranger = scene.grab(&process, 99).await;
    assert!(matches!(stranger, GrabOutcome::Refused(_)), "{stranger:?}");
}

#[test]
fn it_is_forgotten_at_the_expiry() {
    let (packets, mut terms) = (FinalPackets::new(0), Terms::sample());
    let is_known =
        |terms: &Terms, why| packets.remember(terms, why, terms.expires_at) && packets.why(terms.id) == Some(why);
    assert!(!is_known(&terms, Lost::SoldOut), "losers get another answer from the expiry on");
    assert!(is_known(&terms, Lost::Expired), "that is for ever");
    terms.id = PacketId::new(terms.created_at, 1, [2; 10]);
    terms.expires_at = terms.expires_at.after(TTL);
    assert!(packets.remember(&terms, Lost::SoldOut, terms.created_at));
    assert_eq!(packets.why(terms.id), Some(Lost::SoldOut));
}
