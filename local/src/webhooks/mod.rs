//! Webhooks of the local stack: the function's own code delivers, from a queue in the data folder.
//!
//! On AWS the table's stream says what was committed. Here each transaction is noted in the queue's file before it is sent, by its keys
//! ([`Watch`]). Later the ledger shows what became of it. So an event of a committed transaction survives the end of this process at any
//! line.

mod queue;
pub mod sqs;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{Receiver, ReceiverError, SecretError, SecretSource, Secrets, Webhook};
use serde_dynamo::AttributeValue;
use shared::config::WebhookAddresses;
use shared::dynamodb::SdkTable;
use shared::events::{self, Event};
use shared::ledger::Ledger;
use shared::ledger::keys::{PK, SK};
use shared::ports::{Item, Key, System, Table};
use tokio::sync::{Notify, Semaphore, watch as signal};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use queue::{Noted, Part, Verdict};
pub use queue::{Queue, QueueError};
pub use watch::Watch;

/// The queue's file in the data folder.
const FILE: &str = "webhooks.sqlite";
/// How many changes are read from the ledger at once.
const CHANGES_AT_ONCE: usize = 100;
/// The pause between two looks at changes that are not committed yet.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The pause after the ledger did not answer.
const PAUSE: Duration = Duration::from_millis(500);
/// The most messages of a batch, as on AWS, and the most batches at once.
const BATCH: usize = 10;
const BATCHES_AT_ONCE: usize = 16;
/// How long deliveries may take at the end. The next start continues with the others.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Why webhooks can't be delivered.
#[derive(Debug, thiserror::Error)]
pub enum WebhooksError {
    /// The URL.
    #[error("--webhook-url")]
    Url(#[from] ReceiverError),
    /// The secret.
    #[error("--webhook-secret")]
    Secret(#[from] SecretError),
    /// The queue's file.
    #[error("the queue of webhooks can't be used")]
    Queue(#[from] QueueError),
}

/// A queue and its receiver, before anything is delivered.
#[derive(Debug)]
pub struct Prepared {
    queue: Arc<Queue>,
    webhook: Webhook,
    noted: Arc<Notify>,
}

/// Running deliveries.
#[derive(Debug)]
pub struct Webhooks {
    stop: signal::Sender<bool>,
    tasks: [JoinHandle<()>; 2],
}

impl Prepared {
    /// Opens the queue in `folder`, or one in memory. Dead letters of before are tried again.
    pub fn open(folder: Option<&Path>, url: &str, secret: &str, rule: WebhookAddresses) -> Result<Self, WebhooksError> {
        let receiver = Receiver::new(url, rule, true)?;
        let webhook = Webhook::new(receiver, SecretSource::Given(Arc::new(Secrets::parse(secret)?)));
        let queue = Queue::open(folder.map(|folder| folder.join(FILE)).as_deref(), Arc::new(System))?;
        Ok(Self { queue: Arc::new(queue), webhook, noted: Arc::default() })
    }

    /// What notes the changes of a `DynamoDB` client.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.queue), Arc::clone(&self.noted))
    }

    /// Delivers the events of changes of `table` until it is stopped. The table's client has no [`Watch`].
    #[must_use]
    pub fn start(self, table: SdkTable, currency: String) -> Webhooks {
        let (stop, stopped) = signal::channel(false);
        let Self { queue, webhook, noted } = self;
        let ready = Arc::new(Notify::new());
        let ledger = Arc::new(Ledger::new(table.clone(), Arc::new(System)));
        let changes = Changes { queue: Arc::clone(&queue), table, currency, noted, ready: Arc::clone(&ready) };
        let tasks = [
            tokio::spawn(until(stopped.clone(), async move { changes.run().await })),
            tokio::spawn(deliver(queue, Arc::new(webhook), ledger, ready, stopped)),
        ];
        Webhooks { stop, tasks }
    }
}

impl Webhooks {
    /// Ends the deliveries.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        for mut task in self.tasks {
            if timeout(ENDS_WITHIN, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

async fn until(mut stopped: signal::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
}

/// Turns noted changes into messages.
struct Changes {
    queue: Arc<Queue>,
    table: SdkTable,
    currency: String,
    noted: Arc<Notify>,
    ready: Arc<Notify>,
}

impl Changes {
    async fn run(self) {
        loop {
            match self.look().await {
                Ok(Some(found)) => {
                    if found > 0 {
                        self.ready.notify_one();
                    }
                    if found < CHANGES_AT_ONCE {
                        sleep(LOOK_EVERY).await;
                    }
                }
                Ok(None) => self.noted.notified().await,
                Err(error) => {
                    tracing::warn!(error, "events wait: their changes can't be read");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Looks at noted changes once. Returns how many were found in the ledger; `None`: none is noted.
    async fn look(&self) -> Result<Option<usize>, String> {
        let noted = self.queue.due_changes(CHANGES_AT_ONCE).map_err(|error| error.to_string())?;
        if noted.is_empty() {
            let some_wait = self.queue.has_changes().map_err(|error| error.to_string())?;
            return Ok(some_wait.then_some(0));
        }
        let mut keys: Vec<Key> = noted.iter().map(|noted| noted.key.clone()).collect();
        keys.sort();
        keys.dedup();
        let items = self.table.batch_get(keys).await.map_err(|error| error.to_string())?;
        let images: HashMap<Key, Item> = items.into_iter().filter_map(|item| Some((key_of(&item)?, item))).collect();
        let verdicts: Vec<Verdict> = noted.into_iter().map(|noted| self.judge(noted, &images)).collect();
        let found = verdicts.iter().filter(|verdict| verdict.messages.is_some()).count();
        self.queue.apply(&verdicts).map_err(|error| error.to_string())?;
        Ok(Some(found))
    }

    /// The events of a change, if the ledger shows it.
    fn judge(&self, noted: Noted, images: &HashMap<Key, Item>) -> Verdict {
        let Some(image) = images.get(&noted.key) else { return Verdict { noted, messages: None } };
        let mut events = events::of_item(&noted.key, image.clone(), &self.currency).unwrap_or_else(|error| {
            tracing::error!(error = shared::error_chain(&error), "an event is missing");
            Vec::new()
        });
        // More may have happened to the packet since.
        events.retain(|event| match event {
            Event::PacketSent(_) | Event::SlipClaimed(_) => noted.part == Part::Insert,
            Event::PacketClosed(_) => noted.part == Part::Close,
            Event::PacketSettled(_) | Event::PacketRefunded(_) => noted.part == Part::Settle,
        });
        let is_shown = noted.part == Part::Insert || !events.is_empty();
        let messages = events.iter().filter_map(|event| match serde_json::to_string(event) {
            Ok(body) => Some((event.id(), body)),
            Err(error) => {
                tracing::error!(webhook_id = event.id(), %error, "an event is missing");
                None
            }
        });
        Verdict { messages: is_shown.then(|| messages.collect()), noted }
    }
}

fn key_of(item: &Item) -> Option<Key> {
    let text = |name| match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text.clone()),
        _ => None,
    };
    Some(Key { pk: text(PK)?, sk: text(SK)? })
}

/// Gives messages to the function in batches, as Lambda does.
async fn deliver(
    queue: Arc<Queue>,
    webhook: Arc<Webhook>,
    ledger: Arc<Ledger<SdkTable>>,
    ready: Arc<Notify>,
    mut stopped: signal::Receiver<bool>,
) {
    let batches = Arc::new(Semaphore::new(BATCHES_AT_ONCE));
    loop {
        let Ok(permit) = Arc::clone(&batches).acquire_owned().await else { return };
        let batch = loop {
            // A stack that is dropped has no sender any more.
            if *stopped.borrow() || stopped.has_changed().is_err() {
                break None;
            }
            match queue.receive(BATCH) {
                Ok(batch) if !batch.records.is_empty() => break Some(batch),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error = shared::error_chain(&error), "the queue of webhooks can't be read");
                }
            }
            tokio::select! {
                () = ready.notified() => {}
                () = sleep(PAUSE) => {}
                _ = stopped.changed() => {}
            }
        };
        let Some(batch) = batch else { break };
        let (queue, webhook, ledger) = (Arc::clone(&queue), Arc::clone(&webhook), Arc::clone(&ledger));
        tokio::spawn(async move {
            queue.delivered(&webhook, &ledger, batch).await;
            drop(permit);
        });
    }
    // The last permits come back when the last deliveries have ended.
    let _ = batches.acquire_many(u32::try_from(BATCHES_AT_ONCE).unwrap_or(u32::MAX)).await;
}
