//! The queues of webhooks, on AWS or on a local stack, which speaks the same protocol.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use publish::Message;
use shared::events::Event;
use shared::wiring;

use crate::deployment::{Failed, aws_config};
use crate::options::Queues;

/// SQS' limit on the messages of a call.
pub const BATCH: usize = publish::CALL_MAX;

/// The queue of events on their way, and that of the dead letters.
pub struct Sqs {
    pub client: Client,
    pub waiting: String,
    pub dead: String,
}

/// What SQS says of a queue. Its numbers are estimates.
pub struct Described {
    pub arn: String,
    pub visible: u64,
    pub hidden: u64,
}

impl Sqs {
    /// The queues that the command line and the environment name.
    pub async fn of(queues: &Queues) -> Result<Self, Failed> {
        let needed =
            |url: &Option<String>, missing: &str| url.clone().ok_or_else(|| Failed::Refused(missing.to_owned()));
        let waiting = needed(&queues.queue, "--queue is needed: the stack's output WebhooksUrl")?;
        let dead = needed(&queues.dead_letters, "--dead-letters is needed: the stack's output WebhookDeadLettersUrl")?;
        let endpoint = queues.endpoint.clone().or_else(|| std::env::var("AWS_ENDPOINT_URL_SQS").ok());
        let aws = match endpoint.filter(|url| !url.is_empty()) {
            Some(url) => wiring::stand_in_at(&url),
            None => aws_config().await,
        };
        Ok(Self { client: Client::new(&aws), waiting, dead })
    }

    /// Describes a queue.
    pub async fn describe(&self, url: &str) -> Result<Described, Failed> {
        use QueueAttributeName::{ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible, QueueArn};
        let names = [QueueArn, ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible];
        let asked = self.client.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec()));
        let found =
            asked.send().await.map_err(|error| Failed::Aws("SQS did not describe the queue", Box::new(error)))?;
        let [arn, visible, hidden] =
            names.map(|name| found.attributes.as_ref().and_then(|attributes| attributes.get(&name)));
        let number = |text: Option<&String>| text.and_then(|text| text.parse().ok()).unwrap_or_default();
        let arn = arn.cloned().ok_or_else(|| Failed::Answer("a queue without an ARN".to_owned()))?;
        Ok(Described { arn, visible: number(visible), hidden: number(hidden) })
    }

    /// Puts up to [`BATCH`] events into the queue of those on their way.
    pub async fn send(&self, events: &[Event]) -> Result<(), Failed> {
        let queue = publish::Sqs { client: self.client.clone(), url: self.waiting.clone() };
        let messages: Vec<Message> = events
            .iter()
            .map(Message::of)
            .collect::<Result<_, _>>()
            .map_err(|error| Failed::Answer(error.to_string()))?;
        let sent = publish::put(&queue, &messages.iter().collect::<Vec<_>>()).await;
        sent.map_err(|error| Failed::Aws("SQS did not take the events", Box::new(error)))
    }
}
