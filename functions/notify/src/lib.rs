//! Delivers events to an app's server as webhooks. A queue holds the events; what can't be delivered stays there, and comes again after a
//! pause. A server that is busy or gone puts off all events.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod address;
mod attempt;
mod client;
mod receiver;
mod retry;
mod secret;
#[cfg(test)]
mod tests;
mod webhook;

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::domain::Timestamp;
use shared::events::batch::Answer;
use shared::telemetry::MetricLine;

pub use attempt::handle;
pub use client::{ANSWER_MAX, Receiver, ReceiverError};
pub use retry::{RECEIVES_MAX, pause};
pub use secret::{SecretError, Secrets};
pub use webhook::{Undelivered, Webhook};

/// What a log says of a receiver that is disabled.
pub const DISABLED: &str = "the receiver of webhooks is disabled, because it answered 410 or an operator wished it: no event is delivered until an operator \
    enables it, with PUT /operator/webhooks {\"enabled\": true} or `hongbao-admin webhooks enable`";

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

/// Why a queue did not do what it was asked.
pub type QueueError = Box<dyn Error + Send + Sync>;

/// The queue that the messages come from.
pub trait Queue {
    /// Hides a message for this time. If that fails, the message comes back at the queue's own time.
    fn hide(&self, queued: &Queued, pause: Duration) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// Keeps a copy of a message among the dead letters. The message itself is then deleted like one that was delivered.
    fn set_aside(&self, queued: &Queued) -> impl Future<Output = Result<(), QueueError>> + Send;
}

/// How a batch was handled.
#[derive(Debug)]
pub struct Handled {
    /// The function's answer: the messages that stay in the queue, which deletes all others.
    pub answer: Answer,
    /// The age of the oldest event that stays in the queue.
    pub waiting: Option<Duration>,
    /// Whether the receiver is not called until an operator enables it.
    pub is_disabled: bool,
}

impl Handled {
    /// A line of `CloudWatch`'s embedded metric format, for the log. There is none of a batch that was delivered whole.
    #[must_use]
    pub fn metric(&self, table: &str, now: Timestamp) -> Option<Value> {
        let waiting = self.waiting?;
        let metrics = [
            ("WebhookAge", "Seconds", waiting.as_secs().into()),
            ("WebhooksDisabled", "Count", u8::from(self.is_disabled).into()),
        ];
        Some(MetricLine::new(table).with(metrics).at(now))
    }
}
