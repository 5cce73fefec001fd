//! Delivers events to an app's server as webhooks. A queue holds the events; what can't be delivered stays there, and comes again after a
//! pause.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod address;
mod client;
mod retry;
mod secret;
mod webhook;

use std::error::Error;
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::domain::Timestamp;
use shared::telemetry::MetricLine;

pub use client::{ANSWER_MAX, Receiver, ReceiverError};
pub use retry::{RECEIVES_MAX, pause};
pub use secret::{SecretError, SecretSource, Secrets};
pub use webhook::{Message, Undelivered, Webhook};

/// A batch of messages, as SQS gives it to a function.
#[derive(Debug, Deserialize, Serialize)]
pub struct Batch {
    /// The messages.
    #[serde(rename = "Records")]
    pub records: Vec<Queued>,
}

/// A message of a queue.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// Its name in the queue.
    pub message_id: String,
    /// The right to hide it, which this receipt of it gave.
    pub receipt_handle: String,
    /// An event.
    pub body: String,
    /// What the queue says of it.
    pub attributes: Attributes,
}

/// See [`Queued::attributes`].
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Attributes {
    /// How often it was received, this time included.
    pub approximate_receive_count: String,
}

/// The messages that stay in the queue.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// One for each. The queue deletes all others.
    pub batch_item_failures: Vec<Failure>,
}

/// See [`Answer::batch_item_failures`].
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The message's name in the queue.
    pub item_identifier: String,
}

/// The queue that the messages come from.
pub trait Queue {
    /// Hides a message for this time. If that fails, the message comes back at the queue's own time.
    fn hide(
        &self,
        receipt: &str,
        pause: Duration,
    ) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// How a batch was handled.
#[derive(Debug)]
pub struct Handled {
    /// The function's answer.
    pub answer: Answer,
    /// The age of the oldest event that was not delivered.
    pub failed_age: Option<Duration>,
}

/// Tries once to deliver each message of a batch, all of them concurrently. Those that stay in the queue are hidden until it is time to
/// try them again.
pub async fn handle<Q: Queue + Sync>(webhook: &Webhook, queue: &Q, batch: Batch, now: Timestamp) -> Handled {
    let tried = join_all(batch.records.iter().map(|queued| attempt(webhook, queue, queued, now))).await;
    let stay = batch.records.iter().zip(&tried).filter(|(_, failed_age)| failed_age.is_some());
    let failures = stay.map(|(queued, _)| Failure { item_identifier: queued.message_id.clone() });
    let answer = Answer { batch_item_failures: failures.collect() };
    Handled { answer, failed_age: tried.into_iter().flatten().max() }
}

/// The age of an event as a line of `CloudWatch`'s embedded metric format, for the log.
#[must_use]
pub fn metric(failed_age: Duration, table: &str, now: Timestamp) -> Value {
    MetricLine::new(table).with([("WebhookAge", "Seconds", failed_age.as_secs().into())]).at(now)
}

/// Tries to deliver a message. Returns the event's age if it stays in the queue.
async fn attempt<Q: Queue + Sync>(webhook: &Webhook, queue: &Q, queued: &Queued, now: Timestamp) -> Option<Duration> {
    let attempt = queued.attributes.approximate_receive_count.parse().unwrap_or(1);
    let (id, age, delivered) = match Message::read(&queued.body) {
        Ok(message) => (message.id(), now.since(message.at()), webhook.deliver(&message, now).await),
        Err(undelivered) => (queued.message_id.clone(), Duration::ZERO, Err(undelivered)),
    };
    let undelivered = delivered.err()?;
    let pause = pause(attempt, &id);
    let (error, pause_s) = (shared::error_chain(&undelivered), pause.as_secs());
    tracing::warn!(webhook_id = id, attempt, error, pause_s, "a webhook was not delivered");
    if let Err(error) = queue.hide(&queued.receipt_handle, pause).await {
        tracing::warn!(webhook_id = id, error = shared::error_chain(&*error), "a message could not be hidden");
    }
    Some(age)
}
