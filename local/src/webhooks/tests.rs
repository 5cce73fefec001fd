//! The queue over a fake clock, with a real receiver.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use notify::RECEIVES_MAX;
use publish::Message;
use shared::domain::Timestamp;
use shared::memory::MemoryTable;
use shared::ports::Clock;
use shared::secret::Secret;
use std::sync::Mutex;
use tokio::net::TcpListener;

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PACKET: &str = "38FS4S83HF3Y07WMYNH727QYT0";
const HOUR_MS: u64 = 3_600_000;
const BEGUN_MS: u64 = 1_795_181_400_000;

#[derive(Debug)]
struct FakeClock(AtomicU64);

impl FakeClock {
    fn ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst) - BEGUN_MS
    }

    fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::SeqCst))
    }
}

/// A receiver that is away until a time. It notes when each id arrived, away or not.
struct Receiving {
    url: String,
    tried: Arc<Mutex<BTreeMap<String, Vec<u64>>>>,
    taken: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Receiving {
    async fn start(clock: Arc<FakeClock>, away_until_ms: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let receiving = Self { url, tried: Arc::default(), taken: Arc::default() };
        let (tried, taken) = (Arc::clone(&receiving.tried), Arc::clone(&receiving.taken));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (clock, tried, taken) = (Arc::clone(&clock), Arc::clone(&tried), Arc::clone(&taken));
                let service = service_fn(move |request: Request<Incoming>| {
                    let id = request.headers()["webhook-id"].to_str().unwrap().to_owned();
                    let is_away = clock.ms() < away_until_ms;
                    tried.lock().unwrap().entry(id.clone()).or_default().push(clock.ms());
                    if !is_away {
                        *taken.lock().unwrap().entry(id).or_default() += 1;
                    }
                    let status = if is_away { 500 } else { 200 };
                    let answer = Response::builder().status(status).body(Full::<Bytes>::default()).unwrap();
                    async { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service),
                );
            }
        });
        receiving
    }
}

fn claim(slip: u32) -> (String, String) {
    let body = format!(
        r#"{{"type":"SlipClaimed","packet_id":"{PACKET}","sender_id":"alice","user_id":"u{slip}","slip":{slip},"amount":1,"currency":"CNY","grabbed_at":"2026-11-20T13:30:00.000Z"}}"#
    );
    (format!("evt_{PACKET}_claimed_{slip}"), body)
}

fn queue_claims(queue: &Queue, slips: std::ops::Range<u32>) {
    let messages: Vec<Message> =
        slips.map(|slip| Message { id: claim(slip).0, kind: "", body: claim(slip).1 }).collect();
    queue.put_all(&messages).unwrap();
}

fn webhook(receiving: &Receiving) -> Webhook {
    shared::redis::install_crypto_provider();
    let receiver = Receiver::new(&receiving.url, WebhookAddresses::PublicOrLoopback, true).unwrap();
    Webhook::new(receiver, Secret::Given(Arc::new(Secrets::parse(SECRET).unwrap())))
}

fn ledger() -> Ledger<MemoryTable> {
    Ledger::new(MemoryTable::default(), Arc::new(System))
}

/// What delivers to a receiver.
struct Delivering<'a> {
    queue: &'a Queue,
    webhook: &'a Webhook,
    ledger: &'a Ledger<MemoryTable>,
}

/// Delivers what is due, and lets `step` pass, until `until_ms`.
async fn deliver_until(
    Delivering { queue, webhook, ledger }: Delivering<'_>,
    clock: &FakeClock,
    step: Duration,
    until_ms: u64,
) {
    while clock.ms() < until_ms {
        loop {
            let batch = queue.receive().unwrap();
            if batch.records.is_empty() {
                break;
            }
            queue.deliver(webhook, ledger, batch).await;
        }
        clock.pass(step);
    }
}

#[tokio::test]
async fn nothing_is_missing_after_a_receiver_was_away_for_an_hour() {
    let clock = Arc::new(FakeClock(AtomicU64::new(BEGUN_MS)));
    let queue = Queue::open(None, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    let receiving = Receiving::start(Arc::clone(&clock), HOUR_MS).await;
    let (webhook, ledger) = (webhook(&receiving), ledger());
    queue_claims(&queue, 0..40);
    deliver_until(
        Delivering { queue: &queue, webhook: &webhook, ledger: &ledger },
        &clock,
        Duration::from_secs(1),
        HOUR_MS / 2,
    )
    .await;
    queue_claims(&queue, 40..50);
    deliver_until(
        Delivering { queue: &queue, webhook: &webhook, ledger: &ledger },
        &clock,
        Duration::from_secs(1),
        2 * HOUR_MS + HOUR_MS / 4,
    )
    .await;
    let expected: BTreeMap<String, u32> = (0..50).map(|slip| (claim(slip).0, 1)).collect();
    assert_eq!(*receiving.taken.lock().unwrap(), expected, "each id arrived once");
    for (id, times) in &*receiving.tried.lock().unwrap() {
        let pauses: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / 1000).collect();
        assert!(pauses.len() >= 8 && pauses[0] >= 5 && pauses.iter().is_sorted(), "{id}: {pauses:?}");
    }
    assert!(queue.receive().unwrap().records.is_empty());
}

#[tokio::test]
async fn after_a_day_an_event_is_a_dead_letter_which_the_next_start_tries_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    let clock = Arc::new(FakeClock(AtomicU64::new(BEGUN_MS)));
    let queue = Queue::open(Some(&file), Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    let receiving = Receiving::start(Arc::clone(&clock), 48 * HOUR_MS).await;
    let (webhook, ledger) = (webhook(&receiving), ledger());
    queue_claims(&queue, 0..1);
    deliver_until(
        Delivering { queue: &queue, webhook: &webhook, ledger: &ledger },
        &clock,
        Duration::from_mins(1),
        40 * HOUR_MS,
    )
    .await;
    let times = receiving.tried.lock().unwrap()[&claim(0).0].clone();
    assert_eq!(times.len(), usize::try_from(RECEIVES_MAX).unwrap());
    assert!(times[times.len() - 1] >= 24 * HOUR_MS, "{times:?}");
    drop(queue);
    clock.pass(Duration::from_hours(10));
    let queue = Queue::open(Some(&file), Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    deliver_until(
        Delivering { queue: &queue, webhook: &webhook, ledger: &ledger },
        &clock,
        Duration::from_mins(1),
        50 * HOUR_MS + HOUR_MS / 6,
    )
    .await;
    assert_eq!(receiving.taken.lock().unwrap().get(&claim(0).0), Some(&1));
}

#[test]
fn an_event_that_waits_in_the_queue_is_not_queued_twice() {
    let clock = Arc::new(FakeClock(AtomicU64::new(BEGUN_MS)));
    let queue = Queue::open(None, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    queue_claims(&queue, 0..3);
    queue_claims(&queue, 1..4);
    let received = || queue.receive().unwrap().records;
    assert_eq!((received().len(), received().len()), (4, 0), "they are hidden");
    clock.pass(Duration::from_secs(61));
    let again = received();
    assert!(again.iter().all(|queued| queued.attributes.approximate_receive_count == "2") && again.len() == 4);
}
