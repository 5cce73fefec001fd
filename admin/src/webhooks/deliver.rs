//! Delivers events again, which the ledger still knows. They are the same as the first time.

use std::sync::Arc;

use ::audit::{Fields, Only, Source, key_of};
use futures::TryStreamExt;
use futures::future::try_join_all;
use serde_json::json;
use shared::domain::{PacketId, Timestamp};
use shared::events::{self, Event, Source as Place};
use shared::ledger::{Ledger, keys};
use shared::ports::{Item, Key};
use tokio::sync::OnceCell;

use super::queue::{BATCH, Sqs};
use crate::any_table::AnyTable;
use crate::deployment::{Failed, SEGMENTS, Table};
use crate::options::{Deliver, Queues};
use crate::{Exit, Outcome};

/// The events of the ledger.
struct Events {
    ledger: Ledger<AnyTable>,
    source: Arc<dyn Source>,
    /// The deployment's currency, which a claim's item lacks. Each packet has the same.
    currency: OnceCell<String>,
    /// The same, as the operator says it, for a withdrawal.
    said_currency: Option<String>,
}

/// Puts the events into the queue that were asked for: by their ids, or by the time when they happened.
pub async fn run(table: &Table, queues: &Queues, asked: &Deliver, json: bool) -> Result<Outcome, Failed> {
    let sqs = Sqs::of(queues).await?;
    let (ledger, source, said_currency) = (table.ledger(), table.source(), asked.currency.clone());
    let events = Events { ledger, source, currency: OnceCell::new(), said_currency };
    let sent = match (asked.from, asked.to) {
        (Some(from), Some(to)) if to < from => {
            return Err(Failed::Refused("--to is before --from".to_owned()));
        }
        (Some(from), Some(to)) => {
            table.announce();
            events.queue_between(&sqs, from, to).await?
        }
        _ => events.queue_named(&sqs, &asked.ids).await?,
    };
    let words = || format!("{sent} events are delivered again");
    Ok(Outcome::new(json, &json!({"events": sent}), words, Exit::Good))
}

impl Events {
    /// Queues these events, or none if one of them does not exist.
    async fn queue_named(&self, sqs: &Sqs, ids: &[String]) -> Result<usize, Failed> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.push(self.named(id).await?.ok_or_else(|| Failed::Refused(format!("there is no event {id}")))?);
        }
        try_join_all(found.chunks(BATCH).map(|events| sqs.send(events))).await?;
        Ok(found.len())
    }

    async fn named(&self, id: &str) -> Result<Option<Event>, Failed> {
        let key = match events::source(id) {
            None => return self.searched(id).await,
            Some(Place::Packet(packet)) => keys::packet(packet),
            Some(Place::SoldOut(packet)) => keys::sold_out(packet),
            Some(Place::Slip(packet, slip)) => {
                let decision = self.ledger.decision(packet, slip).await?;
                let Some(user) = decision.and_then(|decision| decision.owner.user().cloned()) else { return Ok(None) };
                keys::claim(&user, packet)
            }
        };
        let Some(item) = self.source.get(key.clone()).await? else { return Ok(None) };
        let events = self.of(&key, item).await?;
        Ok(events.into_iter().find(|event| event.id() == id))
    }

    /// The event of a withdrawal, whose id does not say where it is: all items are read for it.
    async fn searched(&self, id: &str) -> Result<Option<Event>, Failed> {
        if !events::is_of_withdrawal(id) {
            return Ok(None);
        }
        let mut pages = self.source.all(SEGMENTS.into(), Only::Whole);
        while let Some(items) = pages.try_next().await? {
            for item in items {
                let is_withdrawal = |key: &Key| key.sk.starts_with(keys::WITHDRAWAL);
                let Some(key) = key_of(&item).filter(is_withdrawal) else { continue };
                if let Some(found) = self.of(&key, item).await?.into_iter().find(|event| event.id() == id) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Queues all events from `from` on and before `to`.
    async fn queue_between(&self, sqs: &Sqs, from: Timestamp, to: Timestamp) -> Result<usize, Failed> {
        let mut pages = self.source.all(SEGMENTS.into(), Only::Whole);
        let mut count = 0;
        while let Some(items) = pages.try_next().await? {
            let mut found = Vec::new();
            for item in items {
                let Some(key) = key_of(&item).filter(events::concerns) else { continue };
                let events = self.of(&key, item).await?;
                found.extend(events.into_iter().filter(|event| (from..to).contains(&event.at())));
            }
            try_join_all(found.chunks(BATCH).map(|events| sqs.send(events))).await?;
            count += found.len();
        }
        Ok(count)
    }

    /// The events of an item.
    async fn of(&self, key: &Key, item: Item) -> Result<Vec<Event>, Failed> {
        if key.sk.starts_with(keys::WITHDRAWAL) {
            // A guess would be a wrong amount of money.
            let missing = || Failed::Refused("events of withdrawals need --currency".to_owned());
            let currency = self.said_currency.as_deref().ok_or_else(missing)?;
            return Ok(events::of_item(key, &item, currency)?);
        }
        let currency = self.currency.get_or_try_init(|| self.currency_of(Fields(&item).packet().ok())).await?;
        Ok(events::of_item(key, &item, currency)?)
    }

    async fn currency_of(&self, packet: Option<PacketId>) -> Result<String, Failed> {
        let missing = || Failed::Answer("a claim of no packet".to_owned());
        let packet = packet.ok_or_else(missing)?;
        Ok(self.ledger.packet(packet).await?.ok_or_else(missing)?.terms.currency)
    }
}
