use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::{Message, Refused, Target};

/// A queue of SQS.
#[derive(Debug)]
pub struct Sqs {
    /// The client.
    pub client: Client,
    /// The queue's URL.
    pub url: String,
}

impl Sqs {
    async fn send(&self, messages: &[&Message]) -> Result<(), Refused> {
        let all = |source| Refused { which: (0..messages.len()).collect(), source };
        let entries = messages.iter().enumerate().map(|(at, message)| {
            SendMessageBatchRequestEntry::builder().id(at.to_string()).message_body(&message.body).build()
        });
        let entries = entries.collect::<Result<_, _>>().map_err(|error| all(error.into()))?;
        let asked = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let sent = asked.send().await.map_err(|error| all(error.into()))?;
        let Some(last) = sent.failed().last() else { return Ok(()) };
        let which = sent.failed().iter().filter_map(|failed| failed.id().parse().ok()).collect();
        Err(Refused { which, source: format!("SQS: {}", last.code()).into() })
    }
}

impl Target for Sqs {
    fn put<'a>(&'a self, messages: &'a [&'a Message]) -> BoxFuture<'a, Result<(), Refused>> {
        self.send(messages).boxed()
    }
}
