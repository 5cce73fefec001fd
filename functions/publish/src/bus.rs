use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::{Message, Refused, Target};

/// What the events on the bus have as their source.
const SOURCE: &str = "hongbao";

/// A bus of `EventBridge`.
#[derive(Debug)]
pub struct Bus {
    /// The client.
    pub client: Client,
    /// The bus' ARN.
    pub arn: String,
}

impl Bus {
    async fn send(&self, messages: &[&Message]) -> Result<(), Refused> {
        let entries = messages.iter().map(|Message { kind, body, .. }| {
            let entry = PutEventsRequestEntry::builder().event_bus_name(&self.arn).source(SOURCE);
            entry.detail_type(*kind).detail(body).build()
        });
        let asked = self.client.put_events().set_entries(Some(entries.collect()));
        let sent = asked
            .send()
            .await
            .map_err(|error| Refused { which: (0..messages.len()).collect(), source: error.into() })?;
        // The answer has them in the order of the request.
        let failed = sent.entries().iter().enumerate().filter_map(|(at, entry)| Some((at, entry.error_code()?)));
        let (which, codes): (Vec<usize>, Vec<&str>) = failed.unzip();
        match codes.last() {
            None => Ok(()),
            Some(last) => Err(Refused { which, source: format!("EventBridge: {last}").into() }),
        }
    }
}

impl Target for Bus {
    fn put<'a>(&'a self, messages: &'a [&'a Message]) -> BoxFuture<'a, Result<(), Refused>> {
        self.send(messages).boxed()
    }
}
