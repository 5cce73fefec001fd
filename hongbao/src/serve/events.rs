//! Webhooks, by the functions' own code: what publish makes of the ledger's changes goes into the database's queue, and notify
//! delivers it from there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use notify::{Attributes, QueueError, Queued, Receiver, Secrets, Webhook};
use postgres_ledger::{Database, Events, PostgresTable};
use publish::Message;
use shared::config::{Config, WebhookAddresses};
use shared::events::batch::Batch;
use shared::ledger::Ledger;
use shared::ports::{System, TableError};
use shared::secret::Secret;

use super::{ServeOptions, metrics};

/// How many changes are published at once.
const CHANGES_AT_ONCE: i64 = 200;
/// The most messages of a batch, as on AWS.
const BATCH: i64 = 10;
/// How long a received message is hidden: longer than any try takes.
const HIDDEN: Duration = Duration::from_mins(1);

/// Where events go, and the way there.
pub struct Delivery {
    events: Events,
    webhook: Webhook,
    currency: String,
}

impl Delivery {
    /// The receiver that the options name, if they do.
    pub fn new(options: &ServeOptions, config: &Config, database: &Database) -> anyhow::Result<Option<Self>> {
        let (Some(url), Some(secret)) = (&options.webhook_url, &options.webhook_secret) else { return Ok(None) };
        // Inside one's own network nothing need be encrypted.
        let accepts_http = config.webhooks.addresses == WebhookAddresses::Any;
        let receiver = Receiver::new(url, config.webhooks.addresses, accepts_http).context("--webhook-url")?;
        let secrets = Secrets::parse(secret).context("--webhook-secret")?;
        let webhook = Webhook::new(receiver, Secret::Given(Arc::new(secrets)));
        Ok(Some(Self { events: Events::new(database.clone()), webhook, currency: config.policy.currency.clone() }))
    }

    /// Puts the events of changes into the queue. Returns whether there were any changes.
    pub async fn publish(&self) -> Result<bool, TableError> {
        let changes = self.events.changes(CHANGES_AT_ONCE).await?;
        let numbers: Vec<i64> = changes.iter().map(|(number, _)| *number).collect();
        let (mut messages, mut aside) = (Vec::new(), Vec::new());
        for (number, record) in &changes {
            let made = publish::messages(record, &self.currency).unwrap_or_else(|error| {
                tracing::error!(error = shared::error_chain(&error), "an event is missing");
                let place = Message::of_unreadable(record, &error);
                aside.push(place.id.clone());
                vec![place]
            });
            messages.extend(made.into_iter().map(|message| (*number, message.id, message.body)));
        }
        self.events.publish(&messages, &numbers).await?;
        for id in aside {
            self.events.set_aside(&id).await?;
        }
        Ok(!changes.is_empty())
    }

    /// How many messages are dead, and how long the oldest of the others has waited.
    pub async fn waiting(&self) -> Result<(i64, Duration), TableError> {
        self.events.waiting().await
    }

    /// Takes a batch of messages from the queue.
    pub async fn receive(&self) -> Result<Batch<Queued>, TableError> {
        let received = self.events.receive(BATCH, HIDDEN).await?.into_iter().map(|message| Queued {
            receipt_handle: message.id.clone(),
            message_id: message.id,
            body: message.body,
            attributes: Attributes { approximate_receive_count: message.receives.to_string() },
        });
        Ok(Batch { records: received.collect() })
    }

    /// Delivers a batch, and deletes what was delivered.
    pub async fn deliver(&self, ledger: &Ledger<PostgresTable>, batch: Batch<Queued>) {
        let ids: Vec<String> = batch.records.iter().map(|queued| queued.message_id.clone()).collect();
        let handled = notify::handle(&self.webhook, ledger, self, batch, &System).await;
        metrics::disabled(handled.is_disabled);
        let stays = &handled.answer.batch_item_failures;
        let delivered = ids.iter().filter(|id| stays.iter().all(|failure| failure.item_identifier != **id));
        let delivered: Vec<&str> = delivered.map(String::as_str).collect();
        if let Err(error) = self.events.delete(&delivered).await {
            tracing::warn!(error = error.chain(), "delivered webhooks stay in the queue");
        }
    }
}

impl notify::Queue for Delivery {
    async fn hide(&self, queued: &Queued, pause: Duration) -> Result<(), QueueError> {
        self.events.hide(&queued.message_id, pause).await.map_err(|error| error.chain().into())
    }

    async fn set_aside(&self, queued: &Queued) -> Result<(), QueueError> {
        self.events.set_aside(&queued.message_id).await.map_err(|error| error.chain().into())
    }
}
