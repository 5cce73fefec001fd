//! Turns changes of the ledger into events, and puts these on the queue of webhooks or on the bus. Each of the two has a function of its
//! own, with its own place in the stream, so that neither waits for the other.
//!
//! An event may be put there twice, and is never left out. What does not read as the ledger writes it is set aside, so that it keeps
//! nothing else waiting.

mod bus;
mod sqs;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use shared::events::batch::{Answer, Batch};
use shared::events::{self, Event, Unreadable};
use tokio::time::sleep;

pub use bus::Bus;
pub use sqs::Sqs;

/// The most messages of one call, for SQS and for `EventBridge`.
pub const CALL_MAX: usize = 10;
/// How often messages are sent that were refused, and the pause after the first time. Then Lambda's own repetition takes over.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// What is put somewhere.
#[derive(Clone, Debug)]
pub struct Message {
    /// A webhook's id, or that of a record in the stream.
    pub id: String,
    /// The event's name.
    pub kind: &'static str,
    /// JSON.
    pub body: String,
}

/// Messages that were not taken.
#[derive(Debug, thiserror::Error)]
#[error("{} messages were not taken", which.len())]
pub struct Refused {
    /// Their places among those of the call.
    pub which: Vec<usize>,
    /// Why the last of them was not.
    pub source: Box<dyn Error + Send + Sync>,
}

/// Where messages are put.
pub trait Target: Send + Sync {
    /// Puts up to [`CALL_MAX`] messages there.
    fn put<'a>(&'a self, messages: &'a [&'a Message]) -> BoxFuture<'a, Result<(), Refused>>;
}

/// What the function needs.
pub struct Publisher {
    /// The deployment's currency, which a claim's item lacks.
    pub currency: String,
    /// Where each event goes.
    pub target: Arc<dyn Target>,
    /// Where the place of a record goes that does not read as the ledger writes it. `None`: only into the log.
    pub aside: Option<Arc<dyn Target>>,
}

impl Message {
    /// The message of an event.
    pub fn of(event: &Event) -> Result<Self, serde_json::Error> {
        // The two characters that SQS refuses. In JSON they can only be part of a text.
        let body = serde_json::to_string(event)?.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
        Ok(Self { id: event.id(), kind: event.name(), body })
    }

    /// Where the record is that has no event, without what stands in it.
    #[must_use]
    pub fn of_unreadable(record: &Value, error: &Unreadable) -> Self {
        let (id, body) = (record["eventID"].as_str().unwrap_or_default(), &record["dynamodb"]);
        let place = json!({"error": shared::error_chain(error), "eventID": id, "Keys": body["Keys"], "SequenceNumber": body["SequenceNumber"]});
        Self { id: id.to_owned(), kind: "Unreadable", body: place.to_string() }
    }
}

/// Publishes the events of a batch of the table's stream. All from the first record on that could not be published comes again.
pub async fn handle(publisher: &Publisher, batch: &Batch<Value>) -> Answer {
    let (mut events, mut aside) = (Vec::new(), Vec::new());
    for (place, record) in batch.records.iter().enumerate() {
        match messages(record, &publisher.currency) {
            Ok(messages) => events.extend(messages.into_iter().map(|message| (place, message))),
            Err(error) => {
                tracing::error!(error = shared::error_chain(&error), "an event is missing");
                aside.push((place, Message::of_unreadable(record, &error)));
            }
        }
    }
    let puts = [(Some(&publisher.target), &events), (publisher.aside.as_ref(), &aside)];
    let puts = puts.into_iter().filter_map(|(target, messages)| Some((target?, messages)));
    let failed = join_all(puts.map(|(target, messages)| first_failed(&**target, messages))).await;
    let first = failed.into_iter().flatten().min().and_then(|place| batch.records.get(place));
    first
        .map(|record| record["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned())
        .into_iter()
        .collect()
}

/// The messages of a record.
pub fn messages(record: &Value, currency: &str) -> Result<Vec<Message>, Unreadable> {
    Ok(events::of_record(record, currency)?.iter().map(Message::of).collect::<Result<_, _>>()?)
}

/// Puts the messages of records, and returns the first record of which one was not taken.
async fn first_failed(target: &dyn Target, messages: &[(usize, Message)]) -> Option<usize> {
    let calls = messages.chunks(CALL_MAX).map(|call| async move {
        let messages: Vec<&Message> = call.iter().map(|(_, message)| message).collect();
        let refused = put(target, &messages).await.err()?;
        tracing::warn!(error = shared::error_chain(&refused), "events wait");
        refused.which.iter().filter_map(|at| call.get(*at)).map(|(place, _)| *place).min()
    });
    join_all(calls).await.into_iter().flatten().min()
}

/// Puts up to [`CALL_MAX`] messages somewhere, and tries those again that were refused, and no others.
pub async fn put(target: &dyn Target, messages: &[&Message]) -> Result<(), Refused> {
    let mut left: Vec<usize> = (0..messages.len()).collect();
    let mut tries = 1;
    loop {
        let call: Vec<&Message> = left.iter().filter_map(|at| messages.get(*at).copied()).collect();
        let Err(refused) = target.put(&call).await else { return Ok(()) };
        left = refused.which.iter().filter_map(|at| left.get(*at).copied()).collect();
        if tries == TRIES {
            return Err(Refused { which: left, ..refused });
        }
        sleep(PAUSE * tries).await;
        tries += 1;
    }
}
