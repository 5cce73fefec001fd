//! Webhooks of the whole local stack: each commit becomes its events, which an operator can have delivered again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use http::{HeaderMap, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use local::{Ack, DevOptions, Mode, Options};
use serde_json::{Value, json};
use shared::domain::PacketId;
use shared::events::Event;
use shared::redis::test_server::poll;
use standardwebhooks::Webhook;
use tests::relay::stand_in;
use tokio::process::Command;

use crate::contract::api::{Api, with};
use crate::contract::spec::SPEC;
use crate::programs::built;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A receiver that checks and takes each event.
pub struct Receiver {
    pub url: String,
    /// The events, by their ids.
    taken: Arc<Mutex<BTreeMap<String, Vec<Value>>>>,
    /// The different bodies of each id.
    bodies: Arc<Mutex<BTreeMap<String, BTreeSet<Bytes>>>>,
}

impl Receiver {
    pub async fn start() -> Self {
        let mut receiver = Self { url: String::new(), taken: Arc::default(), bodies: Arc::default() };
        let (taken, bodies) = (Arc::clone(&receiver.taken), Arc::clone(&receiver.bodies));
        let address = stand_in(move |request| {
            let (id, event) = checked(request.headers(), request.body());
            taken.lock().unwrap().entry(id.clone()).or_default().push(event);
            bodies.lock().unwrap().entry(id).or_default().insert(request.into_body());
            async { Response::new(Full::default()) }
        });
        receiver.url = format!("http://{}/webhooks", address.await);
        receiver
    }

    fn options(&self, folder: Option<&Path>) -> Options {
        let data_dir = folder.map(Path::to_owned).unwrap_or_default();
        Options {
            webhook_url: Some(self.url.clone()),
            webhook_secret: Some(format!("{SECRET},{OTHER_SECRET}")),
            mode: Mode::Dev(DevOptions { ephemeral: folder.is_none(), data_dir, ..DevOptions::ephemeral() }),
            ..Options::ephemeral()
        }
    }

    /// Waits until this many different events were taken, and returns them by type.
    pub async fn wait(&self, count: usize) -> BTreeMap<String, Vec<Value>> {
        poll("events", async || (self.taken.lock().unwrap().len() >= count).then_some(())).await;
        let taken = self.taken.lock().unwrap().clone();
        assert_eq!(taken.len(), count, "{:?}", taken.keys());
        let mut by_type: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for event in taken.into_values().map(|mut events| events.remove(0)) {
            by_type.entry(event["type"].as_str().unwrap().to_owned()).or_default().push(event);
        }
        by_type
    }
}

/// The id and the event of a request that the specification's library accepts under both secrets.
fn checked(headers: &HeaderMap, body: &[u8]) -> (String, Value) {
    for secret in [SECRET, OTHER_SECRET] {
        Webhook::new(secret).unwrap().verify(body, headers).unwrap();
    }
    let body: Value = serde_json::from_slice(body).unwrap();
    let document = &SPEC.document["components"];
    assert_eq!(SPEC.faults(&document["schemas"]["WebhookEvent"], &body), [""; 0], "{body}");
    for parameter in ["WebhookId", "WebhookTimestamp", "WebhookSignature"].map(|name| &document["parameters"][name]) {
        let value = headers[parameter["name"].as_str().unwrap()].to_str().unwrap();
        assert_eq!(SPEC.faults(&parameter["schema"], &value.into()), [""; 0], "{value}");
    }
    let event: Event = serde_json::from_value(body["data"].clone()).unwrap();
    assert_eq!(body["type"], event.name());
    assert_eq!(body["timestamp"], event.at().to_string());
    assert_eq!(body.as_object().unwrap().len(), 3);
    assert_eq!(headers["webhook-id"], *event.id());
    (event.id(), body["data"].clone())
}

/// Alice sends a packet, and these users grab it.
async fn packet(api: &Api, body: &Value, users: impl IntoIterator<Item = String>) -> String {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let key = KEYS.fetch_add(1, Ordering::Relaxed).to_string();
    let id = api.packet("alice", &key, &with(body.clone(), &json!({"split": "equal"}))).await;
    let grabs = users.into_iter().map(|user| {
        let id = &id;
        async move { assert_eq!(api.grab(&user, id).await.expect(200)["outcome"], "grabbed") }
    });
    futures::stream::iter(grabs).buffer_unordered(32).collect::<()>().await;
    id
}

/// 23. Of one part and of several, in both modes: it comes before the expiry, once. Settle makes it up for a packet of before.
#[tokio::test]
async fn a_packet_that_is_sold_out_says_so_once() {
    for ack in [Ack::Ledger, Ack::Redis] {
        let receiver = Receiver::start().await;
        let api = Api::start_with(Options { ack, ..receiver.options(None) }).await;
        let mut expected = 0;
        for (count, parts) in [(3, 1), (1_200, 2)] {
            let body = json!({"total_amount": count, "count": count, "reference": "order-17", "expires_in_s": 3_600});
            let id = packet(&api, &body, (0..count).map(|n| format!("u{n}"))).await;
            assert_eq!(id.parse::<PacketId>().unwrap().part_count(), parts);
            if ack == Ack::Redis {
                api.settle().await;
            }
            expected += usize::try_from(count).unwrap() + 2;
            let events = receiver.wait(expected).await;
            let sold_out = events["PacketSoldOut"].iter().find(|event| event["packet_id"] == *id).unwrap();
            let of_packet = |event: &&Value| event["packet_id"] == *id;
            let mut grabs =
                events["SlipClaimed"].iter().filter(of_packet).map(|event| event["grabbed_at"].as_str().unwrap());
            let last = sold_out["sold_out_at"].as_str().unwrap();
            assert!(grabs.any(|at| at == last), "{sold_out}");
            let named = ["sender_id", "reference", "count", "total_amount"].map(|name| &sold_out[name]);
            assert_eq!(named, [&json!("alice"), &json!("order-17"), &json!(count), &json!(count)]);
            let seconds = sold_out["seconds"].as_u64().unwrap();
            assert!((1..=60).contains(&seconds), "{sold_out}");
        }
        assert!(receiver.taken.lock().unwrap().values().all(|taken| taken.len() == 1));
        api.local.stop().await;
    }
}

#[tokio::test]
async fn an_event_has_the_trace_of_the_request_that_did_it() {
    let receiver = Receiver::start().await;
    let api = Api::start_with(receiver.options(None)).await;
    // Each request has a trace of its own.
    let trace = |number: u32| format!("4bf92f3577b34da6a3ce929d{number:08x}");
    let parent = |number: u32| format!("00-{}-00f067aa0ba902b7-01", trace(number));
    api.fund("alice", 1_000).await;
    let body = json!({"split": "equal", "total_amount": 100, "count": 25});
    let send = api.post("/packets").by("alice").key("k").json(&body).header("traceparent", &parent(100));
    let id = send.await.expect(201)["packet_id"].as_str().unwrap().to_owned();
    // At once, so that claims share transactions.
    let grabs = (0..20).map(|number| {
        let grab = api.grab(&format!("u{number}"), &id);
        if number == 0 { grab } else { grab.header("traceparent", &parent(number)) }.into_future()
    });
    for grabbed in futures::future::join_all(grabs).await {
        assert_eq!(grabbed.expect(200)["outcome"], "grabbed");
    }
    let withdrawal = "/wallets/alice/withdrawals/w";
    let asked = api.put(withdrawal).json(&json!({"amount": 10, "pending": true}));
    asked.header("traceparent", &parent(101)).await.expect(201);
    let posted = api.post(format!("{withdrawal}/post")).json(&json!({}));
    posted.header("x-amzn-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1").await.expect(200);
    let closed = api.post(format!("/operator/packets/{id}/close")).json(&json!({"reason": "x"}));
    closed.header("traceparent", &parent(102)).await.expect(200);
    api.settle().await;

    let events = receiver.wait(1 + 20 + 2 + 3).await;
    let of = |event: &Value| event["trace_id"].as_str().map(str::to_owned);
    let only = |name: &str| of(&events[name][0]);
    assert_eq!((only("PacketSent"), only("PacketClosed")), (Some(trace(100)), Some(trace(102))));
    assert_eq!(only("WithdrawalRequested"), Some(trace(101)));
    assert_eq!(only("WithdrawalPosted").as_deref(), Some("5759e988bd862e3fe1be46a994272793"));
    assert_eq!((only("PacketSettled"), only("PacketRefunded")), (None, None));
    for claim in &events["SlipClaimed"] {
        let number: u32 = claim["user_id"].as_str().unwrap()[1..].parse().unwrap();
        assert_eq!(of(claim), (number > 0).then(|| trace(number)), "{claim}");
    }
    api.local.stop().await;
}

/// `hongbao-admin webhooks` with the stack's own file of stores. Returns its exit code and what it prints.
async fn operate(folder: &Path, arguments: &[&str]) -> (i32, Value) {
    let stores = std::fs::read_to_string(folder.join("stores.env")).unwrap();
    let stores =
        stores.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name, value.trim_matches('\'')));
    let mut command = Command::new(built("hongbao-admin"));
    command.args(["webhooks", "--json"]).args(arguments).env_clear().envs(stores);
    let output = command.output().await.unwrap();
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let shown = serde_json::from_str(&text).unwrap_or_else(|_| json!({"errors": errors}));
    (output.status.code().unwrap(), shown)
}

/// 13. Delivered again, an event of long ago has the id and the body of the first time.
#[tokio::test]
async fn any_event_is_delivered_again_by_its_id_or_its_time() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    let api = Api::start_with(receiver.options(Some(folder.path()))).await;
    let body = json!({"total_amount": 900, "count": 3, "greeting": "恭喜", "expires_in_s": 2, "reference": "order-17"});
    let id = packet(&api, &body, ["bob".to_owned()]).await;
    api.until("alice", &id, "settled").await;
    let events = receiver.wait(4).await;
    for event in events.values().flatten() {
        assert_eq!((&event["packet_id"], &event["reference"]), (&json!(id), &json!("order-17")));
    }
    assert_eq!(events["PacketSettled"][0]["refunded_amount"], 600);
    let (code, shown) = operate(folder.path(), &[]).await;
    assert_eq!((code, &shown["state"]), (0, &json!("well")), "{shown}");
    let deliveries = |id: &str| receiver.taken.lock().unwrap().get(id).map_or(0, Vec::len);
    let all: Vec<String> = receiver.taken.lock().unwrap().keys().cloned().collect();
    let by_id: Vec<&str> = std::iter::once("deliver").chain(all.iter().map(String::as_str)).collect();
    assert_eq!(operate(folder.path(), &by_id).await, (0, json!({"events": 4})));
    poll("again", async || all.iter().all(|id| deliveries(id) == 2).then_some(())).await;

    // From the first moment on, and before the second one.
    let (from, to) = (
        events["SlipClaimed"][0]["grabbed_at"].as_str().unwrap(),
        events["PacketSettled"][0]["settled_at"].as_str().unwrap(),
    );
    assert_eq!(operate(folder.path(), &["deliver", "--from", from, "--to", to]).await, (0, json!({"events": 1})));
    let claimed = all.iter().find(|id| id.contains("_claimed_")).unwrap();
    poll("once more", async || (deliveries(claimed) == 3).then_some(())).await;
    for (id, bodies) in &*receiver.bodies.lock().unwrap() {
        assert_eq!(bodies.len(), 1, "{id}: {bodies:?}");
    }
    let unclaimed = (0..3).map(|slip| format!("evt_{id}_claimed_{slip}")).find(|id| id != claimed).unwrap();
    for unknown in [&unclaimed, "evt_x", &format!("evt_{id}_closed"), "evt_38FS4S83HF3Y07WMYNH727QYT0_sent"] {
        let (code, shown) = operate(folder.path(), &["deliver", unknown]).await;
        assert_eq!((code, shown), (2, json!({"errors": format!("error: there is no event {unknown}\n")})));
    }
    api.local.stop().await;
}
