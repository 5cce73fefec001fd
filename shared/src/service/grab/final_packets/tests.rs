//! Grabs from a packet of five parts, all of whose slips are claimed. The clock stands still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::domain::{Amount, Amounts, IdempotencyKey, PassphraseDigest, UserId};
use crate::ledger::{Ledger, SendRequest};
use crate::memory::{HotSnapshot, MemoryHot, MemoryTable};
use crate::ports::{Clock, HotStore, Item, Key, Query, System, Table, TableError, TransactError, Write};
use crate::service::{GrabOutcome, GrabSlip, Stores};
use crate::timeouts;

const PARTS: u32 = 5;

/// How the table answers reads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Mood {
    #[default]
    Answers,
    Silent,
    Refuses,
    Damaged,
}

/// A table that counts reads, and answers them by its mood.
#[derive(Default)]
struct Watched {
    table: MemoryTable,
    gets: AtomicU64,
    mood: Mutex<Mood>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Watched>);

impl Table for Shared {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.0.gets.fetch_add(1, Ordering::Relaxed);
        let mood = *lock(&self.0.mood);
        match mood {
            Mood::Answers => self.0.table.get(key).await,
            Mood::Silent => {
                tokio::time::sleep(timeouts::READ_TRY).await;
                Err(TableError::Unavailable("no answer".into()))
            }
            Mood::Refuses => Err(TableError::Unavailable("throttled".into())),
            Mood::Damaged => Ok(Some(Item::default())),
        }
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
        let key: IdempotencyKey = "k".parse().unwrap();
        ledger.deposit(&terms.sender, &"d".parse().unwrap(), terms.total, None, terms.created_at).await.unwrap();
        let amounts: Vec<_> = (0..PARTS).map(|_| Amounts::pack(&[1]).unwrap()).collect();
        let request = SendRequest { terms, amounts: &amounts, key: &key, body_hash: [0; 32], daily_limit: None };
        ledger.send(&request).await.unwrap();
        for part in terms.id.parts() {
            scene.hot.load(part, terms, false, &[]).await.unwrap();
        }
        let winners = scene.process();
        for number in 0..PARTS {
            let outcome = winners.grab(scene.terms.id, &user(number), scene.terms.guard.passphrase).await.unwrap();
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

    fn answer_as(&self, mood: Mood) {
        *lock(&self.table.0.mood) = mood;
    }

    async fn grab(&self, process: &Process, number: u32) -> GrabOutcome {
        process.grab(self.terms.id, &user(number), None).await.unwrap()
    }

    /// The hot store forgets everything: each caller would have to load the packet again.
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
}

#[tokio::test(start_paused = true)]
async fn a_process_that_serves_a_rush_reads_the_owners_once() {
    let scene = Scene::new(|_| ()).await;
    let process = scene.process().running_on();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    tokio::task::yield_now().await;
    scene.wipe();
    scene.gets();
    for number in 11..14 {
        assert_eq!(scene.grab(&process, number).await, GrabOutcome::SoldOut);
        // What is known is not read again, however many ask.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(scene.gets(), 0);
    assert!(scene.is_wiped(), "the hot store was asked");
    assert_eq!(
        process.exhausted.final_part(scene.terms.id.parts().next().unwrap()).map(|part| part.by_user.len()),
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_does_not_answer_delays_one_loser_a_second() {
    for mood in [Mood::Silent, Mood::Refuses] {
        for knows_terms in [true, false] {
            let scene = Scene::new(|_| ()).await;
            let process = scene.process();
            if knows_terms {
                assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
            }
            scene.answer_as(mood);
            let first = if mood == Mood::Silent { timeouts::CLAIM_READ } else { Duration::ZERO };
            for (number, most) in [(11, first), (12, Duration::ZERO), (13, Duration::ZERO)] {
                let begun = Instant::now();
                assert_eq!(scene.grab(&process, number).await, GrabOutcome::SoldOut);
                assert_eq!(begun.elapsed(), most, "user {number}, {mood:?}, {knows_terms}");
            }
            tokio::time::advance(PAUSE).await;
            scene.answer_as(Mood::Answers);
            assert_eq!(scene.grab(&process, 14).await, GrabOutcome::SoldOut);
            scene.wipe();
            assert_eq!(scene.grab(&process, 15).await, GrabOutcome::SoldOut);
            assert!(scene.is_wiped(), "the ledger is asked again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_claim_concerns_its_user_only() {
    let scene = Scene::new(|_| ()).await;
    let process = scene.process();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    scene.answer_as(Mood::Damaged);
    let again = scene.grab(&process, 0).await;
    assert!(matches!(again, GrabOutcome::Grabbed { replayed: true, .. }), "the hot store knows it: {again:?}");
    scene.answer_as(Mood::Answers);
    scene.wipe();
    assert_eq!(scene.grab(&process, 11).await, GrabOutcome::SoldOut);
    assert!(scene.is_wiped(), "the hot store was asked");
}

#[tokio::test(start_paused = true)]
async fn a_packet_on_the_hot_stores_word_is_not_remembered() {
    let scene = Scene::new(|terms| terms.ack = AckMode::Redis).await;
    let process = scene.process();
    assert_eq!(scene.grab(&process, 10).await, GrabOutcome::SoldOut);
    assert_eq!(process.final_packets.why(scene.terms.id, System.now()), None);
    let again = scene.grab(&process, 0).await;
    assert!(matches!(again, GrabOutcome::Grabbed { replayed: true, .. }), "its claim is only in the outbox: {again:?}");
}

#[tokio::test(start_paused = true)]
async fn users_whom_the_guard_refuses_do_not_learn_that_nothing_is_left() {
    let recipients = |terms: &mut Terms| terms.guard.recipients = Some((0..11).map(user).collect());
    let passphrase = |terms: &mut Terms| terms.guard.passphrase = Some(PassphraseDigest([1; 32]));
    for guard in [recipients, passphrase] {
        let scene = Scene::new(guard).await;
        let process = scene.process();
        let open = Some(PassphraseDigest([1; 32]));
        let loser = process.grab(scene.terms.id, &user(10), open).await.unwrap();
        assert_eq!(loser, GrabOutcome::SoldOut);
        let stranger = scene.grab(&process, 99).await;
        assert!(matches!(stranger, GrabOutcome::Refused(_)), "{stranger:?}");
    }
}

#[test]
fn it_is_remembered_for_a_while_and_not_beyond_the_expiry() {
    let packets = FinalPackets::new();
    let mut terms = Terms::sample();
    let (id, now) = (terms.id, terms.created_at);
    terms.expires_at = now.after(TTL * 2);
    packets.remember(&terms, Lost::SoldOut, now);
    let last = now.after(TTL).before(Duration::from_millis(1));
    assert_eq!(
        [now, last, now.after(TTL)].map(|at| packets.why(id, at)),
        [Some(Lost::SoldOut), Some(Lost::SoldOut), None]
    );
    assert_eq!(packets.why(id, now.before(Duration::from_millis(1))), None, "the clock was set back");

    terms.expires_at = now.after(TTL / 2);
    let last = terms.expires_at.before(Duration::from_millis(1));
    packets.remember(&terms, Lost::SoldOut, now);
    assert_eq!([last, terms.expires_at].map(|at| packets.why(id, at)), [Some(Lost::SoldOut), None]);
    for why in [Lost::Expired, Lost::Closed] {
        packets.remember(&terms, why, now);
        assert_eq!(packets.why(id, terms.expires_at), Some(why));
    }
}
