//! The function that publishes events: with the queue, the bus and the dead letters behind AWS' protocol.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::Response;
use http_body_util::Full;
use hyper::body::Bytes;
use tests::relay::stand_in;

use super::*;

const QUEUE: &str = "https://sqs.example/queue";
const BUS: &str = "arn:aws:events:local:123456789012:event-bus/hongbao";
const DEAD: &str = "https://sqs.example/dead";

/// An answer in AWS' protocol.
pub(super) fn aws_answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let answer = Response::builder().status(status).header("content-type", "application/x-amz-json-1.0");
    answer.body(body.to_string().into()).unwrap()
}

/// SQS and `EventBridge`, as far as the function calls them.
#[derive(Default)]
struct Aws {
    /// The bodies of the messages of each queue, and the entries of the bus.
    taken: Mutex<BTreeMap<String, Vec<Value>>>,
    /// How often a message is still refused whose body has this text, alone or with all others of its call.
    refusals: Mutex<Vec<(&'static str, bool, u32)>>,
    calls: Mutex<Vec<usize>>,
}

impl Aws {
    async fn start(self: &Arc<Self>) -> String {
        let aws = Arc::clone(self);
        let address = stand_in(move |request| {
            let operation = request.headers()["x-amz-target"].to_str().unwrap().to_owned();
            let (status, answer) = aws.answer(&operation, &serde_json::from_slice(request.body()).unwrap());
            async move { aws_answer(status, &answer) }
        });
        format!("http://{}", address.await)
    }

    fn answer(&self, operation: &str, body: &Value) -> (u16, Value) {
        let (place, text) = match operation {
            "AmazonSQS.SendMessageBatch" => (body["QueueUrl"].as_str().unwrap(), "MessageBody"),
            "AWSEvents.PutEvents" => ("bus", "Detail"),
            other => panic!("{other}"),
        };
        let entries = body["Entries"].as_array().unwrap();
        assert!((1..=10).contains(&entries.len()), "{}", entries.len());
        self.calls.lock().unwrap().push(entries.len());
        let (mut successful, mut failed, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            let mut refusals = self.refusals.lock().unwrap();
            let is_meant = |(part, _, times): &&mut (&str, bool, u32)| {
                *times > 0 && (entry[text].as_str().unwrap().contains(*part) || *part == place)
            };
            if let Some((_, whole, times)) = refusals.iter_mut().find(is_meant) {
                *times -= 1;
                if *whole {
                    // Nothing that the client itself tries again.
                    return (400, json!({"__type": "com.amazonaws.sqs#AccessDenied", "message": "no"}));
                }
                failed.push(json!({"Id": entry["Id"], "Code": "Busy", "SenderFault": false}));
                all.push(json!({"ErrorCode": "ThrottlingException", "ErrorMessage": "busy"}));
                continue;
            }
            successful.push(json!({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": ""}));
            all.push(json!({"EventId": "e"}));
            let mut taken = self.taken.lock().unwrap();
            taken.entry(place.to_owned()).or_default().push(entry.clone());
        }
        if place == "bus" {
            (200, json!({"FailedEntryCount": failed.len(), "Entries": all}))
        } else {
            (200, json!({"Successful": successful, "Failed": failed}))
        }
    }

    /// What was taken since the last time, by place.
    fn take(&self) -> BTreeMap<String, Vec<Value>> {
        self.calls.lock().unwrap().clear();
        std::mem::take(&mut *self.taken.lock().unwrap())
    }
}

/// The events of the cases of `tests/events.json`, or of the messages of a queue.
fn events_of(messages: &[Value]) -> Vec<Value> {
    messages.iter().map(|entry| serde_json::from_str(entry["MessageBody"].as_str().unwrap()).unwrap()).collect()
}

/// The slips of the events of messages, in order.
fn slips(messages: &[Value]) -> Vec<u64> {
    let event = |entry: &Value| entry["MessageBody"].as_str().or(entry["Detail"].as_str()).unwrap().to_owned();
    let events = messages.iter().map(|entry| serde_json::from_str::<Value>(&event(entry)).unwrap());
    let mut slips: Vec<u64> = events.map(|event| event["slip"].as_u64().unwrap()).collect();
    slips.sort_unstable();
    slips
}

fn cases() -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(repository("tests/events.json")).unwrap()).unwrap()
}

/// Records with their numbers in the stream.
fn batch(records: impl IntoIterator<Item = Value>) -> Value {
    let records = records.into_iter().zip(1..).map(|(mut record, number)| {
        record["eventID"] = format!("event-{number}").into();
        record["dynamodb"]["SequenceNumber"] = number.to_string().into();
        record
    });
    json!({"Records": records.collect::<Vec<_>>()})
}

/// So many claims, each of another slip.
fn claims(count: u32) -> Vec<Value> {
    let claim = cases().into_iter().find(|case| case["events"][0]["type"] == "SlipClaimed").unwrap();
    let numbered = (0..count).map(|slip| {
        let mut record = claim["record"].clone();
        record["dynamodb"]["NewImage"]["slip"]["N"] = slip.to_string().into();
        record
    });
    numbered.collect()
}

async fn start(url: &str, target: &str) -> Function {
    let variables = [
        ("TABLE_NAME", TABLE),
        ("AWS_ENDPOINT_URL_SQS", url),
        ("AWS_ENDPOINT_URL_EVENTBRIDGE", url),
        ("AWS_REGION", "local"),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ("EVENT_TARGET", target),
        ("EVENT_DEAD_LETTERS", DEAD),
    ];
    Function::start(built("publish"), &variables).await
}

async fn publish(function: &Function, batch: &Value) -> Value {
    function.invoke(batch.to_string().as_bytes()).await
}

fn none() -> Value {
    json!({"batchItemFailures": []})
}

fn from(number: u32) -> Value {
    json!({"batchItemFailures": [{"itemIdentifier": number.to_string()}]})
}

#[tokio::test]
async fn each_change_of_a_batch_becomes_its_events_where_they_are_wanted() {
    let aws = Arc::new(Aws::default());
    let url = aws.start().await;
    let expected: Vec<Value> = cases().iter().flat_map(|case| case["events"].as_array().unwrap().clone()).collect();
    let all = batch(cases().into_iter().map(|case| case["record"].clone()));
    for target in [QUEUE, BUS] {
        let function = start(&url, target).await;
        assert_eq!(publish(&function, &all).await, none(), "{}", function.log());
        let taken = aws.take();
        assert_eq!(taken.keys().collect::<Vec<_>>(), [if target == BUS { "bus" } else { QUEUE }]);
        let sorted = |mut events: Vec<Value>| {
            events.sort_by_key(Value::to_string);
            events
        };
        if let Some(messages) = taken.get(QUEUE) {
            assert_eq!(sorted(events_of(messages)), sorted(expected.clone()));
        }
        for entry in taken.get("bus").into_iter().flatten() {
            let detail: Value = serde_json::from_str(entry["Detail"].as_str().unwrap()).unwrap();
            assert_eq!((&entry["Source"], &entry["DetailType"]), (&json!("hongbao"), &detail["type"]));
            assert_eq!(entry["EventBusName"], BUS);
            assert!(expected.contains(&detail), "{detail}");
        }
        assert_eq!(taken.values().map(Vec::len).sum::<usize>(), expected.len());
        let log = function.log();
        assert!(!log.contains("alice") && !log.contains("5e5e"), "{log}");
    }
}

#[tokio::test]
async fn only_messages_that_were_refused_are_sent_again_and_the_batch_repeats_from_the_first_that_stays_so() {
    let aws = Arc::new(Aws::default());
    let url = aws.start().await;
    let all = batch(claims(25));
    let refuse = |refusals: &[(&'static str, bool, u32)]| *aws.refusals.lock().unwrap() = refusals.to_vec();
    for (target, place) in [(QUEUE, QUEUE), (BUS, "bus")] {
        let function = start(&url, target).await;
        let taken = || aws.take().remove(place).unwrap_or_default();

        // Two events are refused twice, and each is there once in the end.
        refuse(&[("\"slip\":7,", false, 2), ("\"slip\":12,", false, 2)]);
        assert_eq!(publish(&function, &all).await, none());
        let calls = aws.calls.lock().unwrap().clone();
        assert_eq!(calls.iter().filter(|entries| **entries == 1).count(), 4, "{calls:?}");
        assert_eq!(slips(&taken()), (0..25).collect::<Vec<_>>());

        // Two of them are refused for long. All others go on.
        refuse(&[("\"slip\":9,", false, 3), ("\"slip\":21,", false, 3)]);
        assert_eq!(publish(&function, &all).await, from(10), "the tenth record is of slip 9");
        assert_eq!(taken().len(), 23);

        // The target is away.
        refuse(&[(place, true, 100)]);
        assert_eq!(publish(&function, &all).await, from(1));
        assert!(taken().is_empty());
        let log = function.log();
        assert!(log.contains("events wait") && log.contains("AccessDenied"), "{log}");

        // Lambda repeats the batch from that record on.
        refuse(&[]);
        assert_eq!(publish(&function, &all).await, none());
        assert_eq!(taken().len(), 25);
    }
}

#[tokio::test]
async fn a_record_that_reads_as_no_event_is_set_aside_and_keeps_no_other_waiting() {
    let aws = Arc::new(Aws::default());
    let function = start(&aws.start().await, QUEUE).await;
    let mut records = claims(4);
    records[1]["dynamodb"]["NewImage"]["slip"] = json!({"S": "seven"});
    records[2]["eventName"] = "TRUNCATE".into();
    let all = batch(records);
    assert_eq!(publish(&function, &all).await, none());
    let taken = aws.take();
    assert_eq!((taken[QUEUE].len(), taken[DEAD].len()), (2, 2));
    for (aside, number) in events_of(&taken[DEAD]).iter().zip(2..) {
        let record = &all["Records"][number - 1];
        assert_eq!((&aside["eventID"], &aside["SequenceNumber"]), (&record["eventID"], &json!(number.to_string())));
        assert_eq!(aside["Keys"], record["dynamodb"]["Keys"]);
        assert!(aside["error"].is_string() && aside.get("NewImage").is_none(), "{aside}");
    }
    // While it can't be set aside, it comes again.
    *aws.refusals.lock().unwrap() = vec![(DEAD, true, 100)];
    assert_eq!(publish(&function, &all).await, from(2));
}

/// SQS refuses two characters, which a greeting may have.
#[tokio::test]
async fn an_event_with_any_text_can_be_queued() {
    let aws = Arc::new(Aws::default());
    let function = start(&aws.start().await, QUEUE).await;
    let mut record = cases()[0]["record"].clone();
    record["dynamodb"]["NewImage"]["greeting"] = json!({"S": "a\u{fffe}b\u{ffff}c"});
    assert_eq!(publish(&function, &batch([record])).await, none());
    let taken = aws.take();
    let body = taken[QUEUE][0]["MessageBody"].as_str().unwrap();
    assert!(body.chars().all(|c| !matches!(c, '\u{fffe}' | '\u{ffff}')));
    assert_eq!(events_of(&taken[QUEUE])[0]["greeting"], "a\u{fffe}b\u{ffff}c");
}
