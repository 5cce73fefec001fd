//! Webhooks of the whole local stack: each commit becomes its events, whatever the receiver does and whenever the stack ends.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::{StreamSpecification, StreamViewType};
use futures::StreamExt;
use http::{HeaderMap, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use local::dynamodb::DynamoDb;
use local::{Ack, Options};
use serde_json::{Value, json};
use shared::domain::PacketId;
use shared::dynamodb::create_table;
use shared::events::{self, Event};
use shared::ports::{Clock, System};
use shared::redis::test_server::poll;
use shared::wiring::dynamodb_at;
use standardwebhooks::Webhook;
use tests::relay::stand_in;
use tokio::process::Command;

use crate::contract::api::{Api, with};
use crate::contract::spec::SPEC;
use crate::programs::built;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A receiver that checks each request, and answers with a status that a test can change.
struct Receiver {
    url: String,
    seen: Arc<Seen>,
}

/// What a receiver answers, and what it saw.
#[derive(Default)]
struct Seen {
    status: AtomicU16,
    retry_after: Mutex<Option<String>>,
    /// The events that were answered with a success, by their ids.
    taken: Mutex<BTreeMap<String, Vec<Value>>>,
    tried: Mutex<Vec<String>>,
    /// The different bodies of each id, taken or not.
    bodies: Mutex<BTreeMap<String, BTreeSet<Bytes>>>,
}

impl Seen {
    fn answer(&self, headers: &HeaderMap, body: Bytes) -> Response<Full<Bytes>> {
        let (id, event) = checked(headers, &body);
        let status = self.status.load(Ordering::SeqCst);
        self.tried.lock().unwrap().push(id.clone());
        self.bodies.lock().unwrap().entry(id.clone()).or_default().insert(body);
        let mut answer = Response::builder().status(status);
        if status < 300 {
            self.taken.lock().unwrap().entry(id).or_default().push(event);
        } else if let Some(retry_after) = &*self.retry_after.lock().unwrap() {
            answer = answer.header("retry-after", retry_after);
        }
        answer.body(Full::default()).unwrap()
    }
}

impl Deref for Receiver {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        &self.seen
    }
}

impl Receiver {
    async fn start() -> Self {
        let seen = Arc::new(Seen { status: AtomicU16::new(204), ..Seen::default() });
        let answering = Arc::clone(&seen);
        let address = stand_in(move |request| {
            let answer = answering.answer(request.headers(), request.body().clone());
            async move { answer }
        });
        let url = format!("http://{}/webhooks", address.await);
        Self { url, seen }
    }

    fn options(&self, folder: Option<&Path>) -> Options {
        Options {
            webhook_url: Some(self.url.clone()),
            webhook_secret: Some(format!("{SECRET},{OTHER_SECRET}")),
            ephemeral: folder.is_none(),
            data_dir: folder.map_or_else(|| ".local".into(), Path::to_owned),
            ..Options::ephemeral()
        }
    }

    /// Waits until this many different events were taken, and returns them by type.
    async fn wait(&self, count: usize) -> BTreeMap<String, Vec<Value>> {
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

/// A request of the table's stream. The SDK for streams would be one more crate, for this test only.
async fn streams(url: &str, operation: &str, body: Value) -> Value {
    let request = reqwest::Client::new().post(url).header("content-type", "application/x-amz-json-1.0");
    let request = request.header("x-amz-target", format!("DynamoDBStreams_20120810.{operation}"));
    // Neither implementation checks a signature.
    let signed =
        "AWS4-HMAC-SHA256 Credential=local/20261120/local/dynamodb/aws4_request, SignedHeaders=host, Signature=0";
    let request = request.header("authorization", signed).header("x-amz-date", "20261120T133000Z");
    let answer = request.body(body.to_string()).send().await.unwrap();
    let status = answer.status();
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert!(status.is_success(), "{operation}: {answer}");
    answer
}

/// All records of a stream.
async fn records(url: &str, stream: &str) -> Vec<Value> {
    let description = streams(url, "DescribeStream", json!({"StreamArn": stream})).await;
    let mut all = Vec::new();
    for shard in description["StreamDescription"]["Shards"].as_array().unwrap() {
        let start = json!({"StreamArn": stream, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"});
        let mut next = streams(url, "GetShardIterator", start).await["ShardIterator"].clone();
        while next.is_string() {
            let page = streams(url, "GetRecords", json!({"ShardIterator": next})).await;
            let records = page["Records"].as_array().unwrap();
            all.extend(records.iter().cloned());
            // An open shard has no end.
            next = if records.is_empty() { Value::Null } else { page["NextShardIterator"].clone() };
        }
    }
    all
}

/// The name and the type of each attribute.
fn shape(image: &Value) -> BTreeMap<String, Vec<String>> {
    let types = |value: &Value| value.as_object().unwrap().keys().cloned().collect();
    image.as_object().unwrap().iter().map(|(name, value)| (name.clone(), types(value))).collect()
}

/// Whether a record is as one of `tests/events.json`: it has all of its fields, and no attribute has another type.
fn is_like(record: &Value, known: &Value) -> bool {
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let kind =
        |record: &Value| record["dynamodb"]["Keys"]["SK"]["S"].as_str().unwrap().split('#').next().map(str::to_owned);
    let (found, expected) = (shape(&record["dynamodb"]["NewImage"]), shape(&known["dynamodb"]["NewImage"]));
    (kind(record), &record["eventName"]) == (kind(known), &known["eventName"])
        && fields(record).is_superset(&fields(known))
        && fields(&record["dynamodb"]).is_superset(&fields(&known["dynamodb"]))
        && found.iter().all(|(name, types)| expected.get(name).is_none_or(|expected| expected == types))
}

#[tokio::test]
async fn the_stream_of_the_table_has_the_events_that_webhooks_deliver() {
    let (receiver, ledger) = (Receiver::start().await, DynamoDb::start(None).await.unwrap());
    let client = dynamodb_at(&ledger.url());
    create_table(&client, "hongbao").await.unwrap();
    let stream = StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::NewImage).build();
    let table = client.update_table().table_name("hongbao").stream_specification(stream.unwrap()).send().await.unwrap();
    let stream = table.table_description.unwrap().latest_stream_arn.unwrap();
    let options = Options { dynamodb_url: Some(ledger.url()), ..receiver.options(None) };
    let api = Api::start_with(options).await;
    let body = json!({"total_amount": 900, "count": 3, "greeting": "恭喜", "expires_in_s": 2, "reference": "order-17"});
    let id = packet(&api, &body, ["bob".to_owned(), "carol".to_owned()]).await;
    api.until("alice", &id, "settled").await;
    let events = receiver.wait(5).await;
    let counts = ["PacketSent", "SlipClaimed", "PacketSettled", "PacketRefunded"].map(|kind| events[kind].len());
    assert_eq!(counts, [1, 2, 1, 1]);
    for event in events.values().flatten() {
        assert_eq!((&event["packet_id"], &event["reference"]), (&json!(id), &json!("order-17")));
    }
    assert_eq!(events["PacketSettled"][0]["refunded_amount"], 300);
    let delivered: BTreeMap<String, Value> =
        receiver.taken.lock().unwrap().iter().map(|(id, events)| (id.clone(), events[0].clone())).collect();

    let records: Vec<Value> = records(&ledger.url(), &stream).await;
    assert!(records.iter().all(|record| record["eventName"] != "REMOVE"), "nothing is deleted");
    let event_of = |record: &Value| events::of_record(record, "CNY").unwrap();
    let published: BTreeMap<String, Value> =
        records.iter().flat_map(event_of).map(|event| (event.id(), serde_json::to_value(event).unwrap())).collect();
    assert_eq!(published, delivered);
    let known: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(crate::repository("tests/events.json")).unwrap()).unwrap();
    for record in records.iter().filter(|record| !event_of(record).is_empty()) {
        assert!(known.iter().any(|case| is_like(record, &case["record"])), "{record}");
    }
    api.local.stop().await;
    ledger.stop().await;
}

#[tokio::test]
async fn events_survive_the_end_of_the_stack_and_of_the_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    receiver.status.store(500, Ordering::SeqCst);
    let api = Api::start_with(receiver.options(Some(folder.path()))).await;
    packet(&api, &json!({"total_amount": 62, "count": 31}), (0..30).map(|n| format!("u{n}"))).await;
    poll("a try", async || (!receiver.tried.lock().unwrap().is_empty()).then_some(())).await;
    api.local.stop().await;
    assert!(receiver.taken.lock().unwrap().is_empty());
    receiver.status.store(200, Ordering::SeqCst);
    let started = Api::start_with(receiver.options(Some(folder.path())));
    let api = tokio::time::timeout(Duration::from_mins(1), started).await.unwrap();
    let events = receiver.wait(31).await;
    assert_eq!((events["PacketSent"].len(), events["SlipClaimed"].len()), (1, 30));
    let taken = receiver.taken.lock().unwrap().clone();
    assert!(receiver.tried.lock().unwrap().iter().all(|id| taken.contains_key(id)), "the ids stay the same");
    api.local.stop().await;
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

/// Waits until the state is as wanted, and returns it.
async fn state_of(folder: &Path, what: &str, is_so: impl Fn(&Value) -> bool) -> (i32, Value) {
    poll(what, async || {
        let (code, shown) = operate(folder, &[]).await;
        is_so(&shown).then_some((code, shown))
    })
    .await
}

/// 13. 410 stops all events until an operator enables the receiver. The missing ones are delivered from the ledger, as if for the first time.
#[tokio::test]
async fn a_receiver_that_is_gone_gets_nothing_until_an_operator_enables_it() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    let begun = System.now();
    // The queues that the commands use are below the base path too.
    let options = || Options { base_path: Some("/hongbao".to_owned()), ..receiver.options(Some(folder.path())) };
    let api = Api::start_with(options()).await;
    let (code, shown) = operate(folder.path(), &[]).await;
    assert_eq!((code, &shown["state"], &shown["waiting"]), (0, &json!("well"), &json!(0)), "{shown}");

    receiver.status.store(410, Ordering::SeqCst);
    let body = json!({"total_amount": 20, "count": 2});
    packet(&api, &body, []).await;
    let (code, shown) = state_of(folder.path(), "disabled", |shown| shown["state"] == "disabled").await;
    assert_eq!((code, &shown["last_answer"]), (1, &json!("the receiver answered 410 Gone")), "{shown}");
    assert!(shown["since"].is_string() && shown["oldest_waiting_at"].is_string(), "{shown}");
    receiver.status.store(204, Ordering::SeqCst);
    packet(&api, &body, ["bob".to_owned()]).await;
    state_of(folder.path(), "hidden events", |shown| shown["hidden"] == 3).await;
    assert_eq!(receiver.tried.lock().unwrap().len(), 1, "it is not called any more");

    // The state is the table's, not the process'.
    api.local.stop().await;
    let api = Api::start_with(options()).await;
    let (code, shown) = operate(folder.path(), &[]).await;
    assert_eq!((code, &shown["state"]), (1, &json!("disabled")), "{shown}");
    let (code, shown) = operate(folder.path(), &["enable"]).await;
    assert!(code == 0 && shown["enabled_at"].is_string(), "{shown}");
    let (from, to) = (begun.to_string(), System.now().after(Duration::from_secs(1)).to_string());
    let (code, shown) = operate(folder.path(), &["deliver", "--from", &to, "--to", &from]).await;
    assert_eq!((code, &shown["errors"]), (2, &json!("error: --to is before --from\n")), "{shown}");
    assert_eq!(operate(folder.path(), &["deliver", "--from", &from, "--to", &to]).await, (0, json!({"events": 3})));
    receiver.wait(3).await;
    let (code, shown) =
        state_of(folder.path(), "well", |shown| shown["state"] == "well" && shown["waiting"] == 0).await;
    assert_eq!((code, &shown["since"]), (0, &Value::Null), "{shown}");
    api.local.stop().await;
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

/// 13. So is one of a withdrawal, in the currency that the file of stores names.
#[tokio::test]
async fn an_event_of_a_withdrawal_is_delivered_again_by_its_id_or_its_time() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    let api = Api::start_with(receiver.options(Some(folder.path()))).await;
    api.fund("alice", 300).await;
    let out = json!({"amount": 300, "pending": true});
    let asked = api.put("/wallets/alice/withdrawals/w1").json(&out).await.expect(201);
    let posted = api.post("/wallets/alice/withdrawals/w1/post").json(&json!({"amount": 200})).await.expect(200);
    let events = receiver.wait(2).await;
    assert_eq!(events["WithdrawalPosted"][0]["posted_amount"], 200);
    let deliveries = |name: &str| {
        let taken = receiver.taken.lock().unwrap();
        taken.iter().filter(|(id, _)| id.ends_with(name)).map(|(_, events)| events.len()).sum::<usize>()
    };
    let ids: Vec<String> = receiver.taken.lock().unwrap().keys().cloned().collect();
    let by_id: Vec<&str> = std::iter::once("deliver").chain(ids.iter().map(String::as_str)).collect();
    assert_eq!(operate(folder.path(), &by_id).await, (0, json!({"events": 2})));
    poll("again", async || (deliveries("requested") == 2 && deliveries("posted") == 2).then_some(())).await;
    // From the first moment on, and before the second one.
    let [from, to] = [&asked["at"], &posted["ended_at"]].map(|at| at.as_str().unwrap());
    assert_eq!(operate(folder.path(), &["deliver", "--from", from, "--to", to]).await, (0, json!({"events": 1})));
    poll("once more", async || (deliveries("requested") == 3).then_some(())).await;
    for (id, bodies) in &*receiver.bodies.lock().unwrap() {
        assert_eq!(bodies.len(), 1, "{id}: {bodies:?}");
    }
    api.local.stop().await;
}
