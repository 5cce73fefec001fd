//! A place to measure in: a real Redis, a ledger in memory, and any number of processes over them.

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use lambda_http::{Body, Request};
use serde_json::{Value, json};
use shared::domain::{
    AckMode, Amount, Claim, DayZone, Hold, IdempotencyKey, Labels, Limits, MAX_MOVEMENT, PacketId, PartId, Split,
    Terms, UserId,
};
use shared::ledger::{ClaimOutcome, DepositOutcome, Ledger};
use shared::ports::{Clock, Entropy, GrabAnswer, Grabber, HotStore};
use shared::redis::test_server::TestServer;
use shared::redis::{Connection, RedisConfig};
use shared::service::{
    CampaignReports, ClosePacket, GrabSlip, NewPacket, SendOutcome, SendPacket, SendPolicy, Settle, Stores,
    ViewPackets, Wallets,
};
use tests::{STORE_TIMEOUT, SkewedClock, user};
use tokio::time::Instant;

use super::figures::{CountedTable, Counters, Figures, RedisCounters, Steady, SteadyServer, in_real_time};

const CURRENCY: &str = "CNY";
/// The amount of every slip.
const SLIP_AMOUNT: u64 = 100;
const EVENT: &str = include_str!("../../../events/grab.json");
/// Later than every expiry.
const LATER: Duration = Duration::from_hours(2);
/// Grabs of one call, and decisions of one call.
const GRABS_PER_CALL: usize = 64;
const DECISIONS_PER_CALL: usize = 500;

/// Bytes that are the same in each run, and never twice the same in a run.
#[derive(Debug, Default)]
struct Fixed(AtomicU64);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes();
        bytes.iter_mut().zip(count.into_iter().rev().cycle()).for_each(|(byte, of_count)| *byte = of_count);
    }
}

/// The stores, and what was counted of them.
pub struct Place {
    /// What was counted.
    pub counters: Counters,
    server: TestServer,
    entropy: Arc<Fixed>,
    users: AtomicU64,
    keys: AtomicU64,
}

/// A process, with caches and a connection of its own.
pub struct Process {
    send: SendPacket<CountedTable, Steady>,
    close: ClosePacket<CountedTable, Steady>,
    grab: GrabSlip<CountedTable, Steady>,
    view: ViewPackets<CountedTable, Steady>,
    settle: Settle<CountedTable, Steady>,
    pub wallets: Wallets<CountedTable>,
    ledger: Arc<Ledger<CountedTable>>,
    hot: Arc<Steady>,
    clock: Arc<SkewedClock>,
}

/// Lets everything come to its end that goes on in the background.
async fn rest() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

impl Place {
    /// Empty stores. The caller's clock must be paused.
    pub async fn new() -> Self {
        let server = in_real_time(|| TestServer::start(&[])).await;
        let redis = RedisCounters::new(&server.url()).into();
        let counters = Counters { redis, plain: Arc::default(), table: CountedTable::default() };
        let place =
            Self { counters, server, entropy: Arc::default(), users: AtomicU64::default(), keys: AtomicU64::default() };
        place.warm_up().await;
        place
    }

    /// Calls each script once, so that Redis has it.
    async fn warm_up(&self) {
        let process = self.process().await;
        let terms = process.send(self, &user("early"), 2).await;
        let id = terms.id;
        process.grab(id, "early-1").await;
        self.hold(&process, id.parts().next().unwrap()).await;
        process.grab(id, "early-3").await;
        process.view(&format!("/packets/{id}"), "early").await;
        process.settle().await;
        process.expire();
        process.settle().await;
        self.redis().flush();
    }

    /// A process that knows nothing yet, and is connected.
    pub async fn process(&self) -> Process {
        let mut config = RedisConfig::new(self.server.url());
        (config.connect_timeout, config.response_timeout) = (STORE_TIMEOUT, STORE_TIMEOUT);
        let connection = Connection::new(&config).unwrap();
        let connecting = connection.clone();
        in_real_time(move || async move { connecting.connect().await }).await.unwrap();
        let hot = Arc::new(Steady::new(SteadyServer::new(connection, Arc::clone(&self.counters.plain))));
        let entropy = Arc::<Fixed>::clone(&self.entropy);
        let ledger = Arc::new(Ledger::new(self.counters.table.clone(), Arc::<Fixed>::clone(&entropy)));
        let clock = Arc::new(SkewedClock::default());
        let now = || Arc::clone(&clock) as Arc<dyn Clock>;
        let stores = Stores::new(Arc::clone(&ledger), Arc::clone(&hot), now(), entropy);
        let policy = SendPolicy {
            currency: CURRENCY.to_owned(),
            ack: AckMode::Ledger,
            limits: Limits::default(),
            daily_max: None,
            day_zone: DayZone::UTC,
        };
        Process {
            send: SendPacket::new(stores.clone(), policy),
            close: ClosePacket::new(stores.clone(), CURRENCY.to_owned()),
            grab: GrabSlip::new(stores.clone(), CURRENCY.to_owned()),
            view: ViewPackets::new(stores.clone()),
            settle: Settle::new(stores, Duration::ZERO),
            wallets: Wallets::new(Arc::clone(&ledger), now(), CURRENCY.to_owned(), MAX_MOVEMENT),
            ledger,
            hot,
            clock,
        }
    }

    /// What `work` costs, with all that it leaves to the background.
    pub async fn cost<V>(&self, work: impl Future<Output = V>) -> (Figures, V) {
        rest().await;
        self.counters.table.count(true);
        let before = self.counters.read();
        let value = work.await;
        rest().await;
        let after = self.counters.read();
        self.counters.table.count(false);
        (after - before, value)
    }

    /// Redis itself.
    pub fn redis(&self) -> MutexGuard<'_, RedisCounters> {
        self.counters.redis.lock().unwrap()
    }

    /// A new user. All have names of twelve letters.
    pub fn next_user(&self) -> UserId {
        user(&format!("user{:08}", self.users.fetch_add(1, Ordering::SeqCst)))
    }

    fn next_key<K: FromStr<Err: Debug>>(&self) -> K {
        format!("key-{:08}", self.keys.fetch_add(1, Ordering::SeqCst)).parse().unwrap()
    }

    /// A hold whose function died right after it.
    pub async fn hold(&self, process: &Process, part: PartId) -> Hold {
        self.holds(process, part, 1).await.remove(0)
    }

    async fn holds(&self, process: &Process, part: PartId, count: usize) -> Vec<Hold> {
        let terms = process.ledger.packet(part.packet).await.unwrap().expect("a packet").terms;
        let mut holds = Vec::with_capacity(count);
        while holds.len() < count {
            let many = GRABS_PER_CALL.min(count - holds.len());
            let grabber = |_| Grabber { user: self.next_user(), passphrase: None };
            let grabbers: Vec<Grabber> = (0..many).map(grabber).collect();
            let answers = process.hot.grab(part, &grabbers).await.unwrap().unwrap();
            for (Grabber { user, .. }, answer) in grabbers.into_iter().zip(answers) {
                let GrabAnswer::Held { slip, left, .. } = answer else { panic!("{answer:?}") };
                holds.push(Hold { slip, user, at: terms.expires_at.before(left) });
            }
        }
        holds
    }

    /// Users claim `count` slips of a part, each with what grab writes to both stores.
    async fn claim_in(&self, process: &Process, terms: &Terms, part: PartId, count: usize) {
        let holds = self.holds(process, part, count).await;
        for holds in holds.chunks(DECISIONS_PER_CALL) {
            let mut decisions = Vec::with_capacity(holds.len());
            for hold in holds {
                let claim = Claim { slip: hold.slip, amount: Amount::new(SLIP_AMOUNT), at: hold.at };
                let outcome = process.ledger.claim(terms, &hold.user, &claim, None).await.unwrap();
                assert!(matches!(outcome, ClaimOutcome::Committed), "{outcome:?}");
                decisions.push(claim.decision(&hold.user));
            }
            process.hot.reconcile(part, terms.count, &decisions, holds).await.unwrap();
        }
    }

    /// Users claim slips, spread over the parts: `claimed` in all, of which `already` were claimed before.
    pub async fn claim(&self, process: &Process, terms: &Terms, already: u32, claimed: u32) {
        let parts: Vec<PartId> = terms.id.parts().collect();
        let parts_count = u32::try_from(parts.len()).unwrap();
        // So many slips of the first parts as of the others, or one more.
        let share = |all: u32, index: u32| all / parts_count + u32::from(index < all % parts_count);
        for part in parts {
            let count = share(claimed, part.index) - share(already, part.index);
            self.claim_in(process, terms, part, count as usize).await;
        }
    }

    /// Users claim all slips except the last free one.
    pub async fn claim_except_one(&self, process: &Process, terms: &Terms) {
        let last = terms.id.parts().next_back().unwrap();
        for part in terms.id.parts() {
            let free = self.redis().free_slips(part);
            self.claim_in(process, terms, part, free - usize::from(part == last)).await;
        }
    }
}

/// An event of API Gateway as the functions receive it.
fn request(method: &str, path: &str, user: &str, headers: &[(&str, &str)], body: &Value) -> Request {
    let mut event: Value = serde_json::from_str(EVENT).unwrap();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    (event["rawPath"], event["rawQueryString"]) = (json!(path), json!(query));
    if !query.is_empty() {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        event["queryStringParameters"] = pairs.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    }
    event["requestContext"]["http"]["method"] = json!(method);
    event["requestContext"]["http"]["path"] = json!(path);
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = json!(user);
    event["body"] = json!(body.to_string());
    for (name, value) in headers {
        event["headers"][*name] = json!(value);
    }
    lambda_http::request::from_str(&event.to_string()).unwrap()
}

fn body_of(response: &http::Response<Body>) -> Value {
    let text = match response.body() {
        Body::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let body = serde_json::from_str(&text).unwrap();
    assert!(response.status().is_success(), "{body}");
    body
}

impl Process {
    /// Deposits what so many slips hold.
    pub async fn fund(&self, place: &Place, user: &UserId, slips: u32) {
        let amount = Amount::new(u64::from(slips) * SLIP_AMOUNT);
        let outcome = self.wallets.deposit(user, &place.next_key(), amount, None).await.unwrap();
        assert_eq!(outcome, DepositOutcome::Moved);
    }

    /// A user sends a packet that their wallet can pay: `POST /packets`.
    pub async fn post(&self, place: &Place, sender: &UserId, slips: u32) -> PacketId {
        self.post_with(place, sender, slips, &Value::Null).await
    }

    /// The same with a limit.
    pub async fn post_with(&self, place: &Place, sender: &UserId, slips: u32, limit: &Value) -> PacketId {
        let key: IdempotencyKey = place.next_key();
        let body = json!({
            "split": "equal", "total_amount": u64::from(slips) * SLIP_AMOUNT, "count": slips, "greeting": "恭喜发财",
            "expires_in_s": 3_600, "limit": limit,
        });
        let request = request("POST", "/packets", sender.as_str(), &[("idempotency-key", key.as_str())], &body);
        let packet = body_of(&send::handle(&self.send, &self.close, &self.wallets, request).await);
        packet["packet_id"].as_str().unwrap_or_else(|| panic!("{packet}")).parse().unwrap()
    }

    /// The same without a request.
    pub async fn send(&self, place: &Place, sender: &UserId, slips: u32) -> Arc<Terms> {
        self.fund(place, sender, slips).await;
        let packet = NewPacket {
            sender: sender.clone(),
            split: Split::Equal,
            total: Amount::new(u64::from(slips) * SLIP_AMOUNT),
            count: slips,
            greeting: "恭喜发财".to_owned(),
            starts_at: None,
            expires_in: Duration::from_hours(1),
            passphrase: None,
            recipients: None,
            wants_ticket: false,
            limit: None,
            labels: Labels::default(),
        };
        match self.send.send(packet, &place.next_key()).await.unwrap() {
            SendOutcome::Sent(terms) => terms,
            other => panic!("{other:?}"),
        }
    }

    /// The terms of a packet.
    pub async fn terms(&self, id: PacketId) -> Arc<Terms> {
        Arc::new(self.ledger.packet(id).await.unwrap().unwrap().terms)
    }

    /// `POST /packets/{packet_id}/grab`. Returns the outcome, and whether it is one from before.
    pub async fn grab(&self, id: PacketId, user: &str) -> (String, bool) {
        let request = request("POST", &format!("/packets/{id}/grab"), user, &[], &json!({}));
        let body = body_of(&grab::handle(&self.grab, request).await);
        (body["outcome"].as_str().unwrap().to_owned(), body["replayed"] == true)
    }

    /// `GET` of something that the view function shows.
    pub async fn view(&self, path: &str, user: &str) -> Value {
        let reports = CampaignReports::new(Arc::clone(&self.ledger));
        let request = request("GET", path, user, &[], &json!({}));
        body_of(&view::handle(&self.view, &reports, &self.wallets, request).await)
    }

    /// From now on this process' clock is past every expiry.
    pub fn expire(&self) {
        self.clock.set_ahead(LATER);
    }

    /// A run of settle over all partitions. Returns how many packets and slips it refunded.
    pub async fn settle(&self) -> (u64, u64) {
        let deadline = Instant::now() + Duration::from_mins(10);
        let report = settle::handle(&self.settle, settle::Event::default(), deadline).await.unwrap();
        assert_eq!(report.due_left, 0, "{report:?}");
        (report.refunded_packets, report.refunded_slips)
    }
}
