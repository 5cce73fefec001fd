//! Webhooks of the local stack, by the functions' own code: publish makes events of what is committed, and notify delivers them from a
//! queue in the data folder.
//!
//! The embedded database has a stream too, but keeps it for ever and reads all of it at each write. So changes come from the
//! transactions of this process ([`Watch`]). What was committed in the moment before it is killed has no event.

mod queue;
pub mod sqs;
#[cfg(test)]
mod tests;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use notify::{Receiver, Secrets, Webhook};
use publish::Publisher;
use scopeguard::guard;
use shared::config::{Config, WebhookAddresses};
use shared::dynamodb::SdkTable;
use shared::events::batch::{Answer, Batch};
use shared::ledger::Ledger;
use shared::ports::{Clock, System, TableError};
use shared::secret::Secret;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch as signal;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

pub use queue::Queue;
use watch::Change;
pub use watch::Watch;

/// The queue's file in the data folder.
const FILE: &str = "webhooks.sqlite";
/// How many changes are published at once.
const CHANGES_AT_ONCE: usize = 100;
/// The pause after the ledger or the queue did not answer, and between two looks at an empty queue.
const PAUSE: Duration = Duration::from_millis(500);
/// The most batches that are delivered at once.
const BATCHES_AT_ONCE: usize = 16;
/// How long deliveries may take at the end. The next start continues with the others.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Running deliveries.
#[derive(Debug)]
pub struct Webhooks {
    stop: signal::Sender<bool>,
    tasks: [JoinHandle<()>; 2],
}

impl Webhooks {
    /// Opens the queue in `folder`, or one in memory, and delivers the events of changes of `table` until it is stopped. Dead letters of
    /// before are tried again. Returns what watches the transactions of a `DynamoDB` client.
    pub fn start(
        folder: Option<&Path>,
        url: &str,
        secret: &str,
        config: &Config,
        clock: Arc<dyn Clock>,
        table: SdkTable,
    ) -> anyhow::Result<(Self, Watch)> {
        // This machine itself may be their receiver.
        let rule = match config.webhooks.addresses {
            WebhookAddresses::Public => WebhookAddresses::PublicOrLoopback,
            rule => rule,
        };
        let receiver = Receiver::new(url, rule, true).context("--webhook-url")?;
        let secrets = Secrets::parse(secret).context("--webhook-secret")?;
        let webhook = Webhook::new(receiver, Secret::Given(Arc::new(secrets)));
        let queue = Queue::open(folder.map(|folder| folder.join(FILE)).as_deref(), clock);
        let queue = Arc::new(queue.context("the queue of webhooks can't be used")?);
        let (committed, changes) = unbounded_channel();
        let watch = Watch { committed, queue: Arc::clone(&queue) };
        let (stop, stopped) = signal::channel(false);
        let ledger = Arc::new(Ledger::new(table.clone(), Arc::new(System)));
        let currency = config.policy.currency.clone();
        let publisher = Publisher { currency, target: Arc::clone(&queue) as _, aside: None };
        let tasks = [
            tokio::spawn(publish_all(changes, table, publisher, Arc::clone(&queue), stopped.clone())),
            tokio::spawn(deliver(queue, Arc::new(webhook), ledger, stopped)),
        ];
        Ok((Self { stop, tasks }, watch))
    }

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

/// Gives changes to the function that publishes their events. When it is stopped, it goes on with those that were made by then.
async fn publish_all(
    mut changes: UnboundedReceiver<Change>,
    table: SdkTable,
    publisher: Publisher,
    queue: Arc<Queue>,
    mut stopped: signal::Receiver<bool>,
) {
    let mut committed = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = changes.recv_many(&mut committed, CHANGES_AT_ONCE) => if count == 0 { return },
            _ = stopped.changed() => changes.close(),
        }
        loop {
            match publish(&committed, &table, &publisher).await {
                Ok(answer) if answer == Answer::default() => break,
                // The function has said why.
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error = shared::error_chain(&error), "events wait: their changes can't be read");
                }
            }
            sleep(PAUSE).await;
        }
        queue.under_way.fetch_sub(committed.len(), Ordering::SeqCst);
        committed.clear();
    }
}

async fn publish(changes: &[Change], table: &SdkTable, publisher: &Publisher) -> Result<Answer, TableError> {
    let records = try_join_all(changes.iter().map(|change| change.record(table))).await?;
    Ok(publish::handle(publisher, &Batch { records: records.into_iter().flatten().collect() }).await)
}

/// Gives messages to the function that delivers them, in batches, as Lambda does.
async fn deliver(
    queue: Arc<Queue>,
    webhook: Arc<Webhook>,
    ledger: Arc<Ledger<SdkTable>>,
    mut stopped: signal::Receiver<bool>,
) {
    if ledger.receiver().await.is_ok_and(|receiver| receiver.disabled_at.is_some()) {
        tracing::error!("{}", notify::DISABLED);
    }
    let mut batches = JoinSet::new();
    // A stack that is dropped has no sender any more.
    while !*stopped.borrow() && stopped.has_changed().is_ok() {
        if batches.len() >= BATCHES_AT_ONCE {
            batches.join_next().await;
        }
        queue.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = guard(Arc::clone(&queue), |queue| {
            queue.under_way.fetch_sub(1, Ordering::SeqCst);
        });
        match queue.receive() {
            Ok(batch) if !batch.records.is_empty() => {
                let (webhook, ledger) = (Arc::clone(&webhook), Arc::clone(&ledger));
                batches.spawn(async move { under_way.deliver(&webhook, &ledger, batch).await });
                continue;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(error = shared::error_chain(&error), "the queue of webhooks can't be read"),
        }
        drop(under_way);
        tokio::select! {
            () = queue.ready.notified() => {}
            () = sleep(PAUSE) => {}
            _ = stopped.changed() => {}
            Some(_) = batches.join_next() => {}
        }
    }
    batches.join_all().await;
}
