//! One batch: which events are tried, and what becomes of those that were not delivered.

use std::time::Duration;

use futures::future::join_all;
use shared::domain::Timestamp;
use shared::events::batch::Batch;
use shared::ledger::{Ledger, ReceiverState};
use shared::ports::{Clock, Table};
use tokio::time::timeout;

use crate::receiver::{self, Outcome, Tried};
use crate::retry::{LOOK_AFTER, RECEIVES_MAX, pause, spread};
use crate::webhook::{self, Webhook};
use crate::{Handled, Queue, Queued};

/// How long a receiver that was enabled is tried before an event is set aside. Those that waited have been received often.
const SET_ASIDE_AFTER: Duration = Duration::from_hours(24);

/// How long the state of the receiver may take to be noted. A batch that meets a hanging receiver has little time left, and the next one
/// notes the same.
const NOTE_MAX: Duration = Duration::from_secs(2);

/// Tries once to deliver each message of a batch, concurrently, unless the receiver must not be called. Those that stay in the queue are
/// hidden until it is time to try them again.
pub async fn handle<Q: Queue + Sync, T: Table>(
    webhook: &Webhook,
    ledger: &Ledger<T>,
    queue: &Q,
    batch: Batch<Queued>,
    clock: &dyn Clock,
) -> Handled {
    let before = ledger.receiver().await.inspect_err(|error| {
        tracing::warn!(error = shared::error_chain(error), "events wait: the state of the receiver can't be read");
    });
    let mut tried = Vec::with_capacity(batch.records.len());
    let mut known = before.as_ref().ok().cloned();
    // A receiver that failed is asked with one event first.
    let first = usize::from(known.as_ref().is_some_and(|known| known.failing_since.is_some()));
    let (first, rest) = batch.records.split_at(first.min(batch.records.len()));
    for records in [first, rest] {
        let may_call = known.as_ref().is_some_and(|known| !known.is_held(clock.now()));
        let ended = join_all(records.iter().map(|queued| attempt(webhook, queued, may_call))).await;
        if let Some(known) = &mut known {
            receiver::note(known, &ended, clock.now());
        }
        tried.extend(ended);
    }
    if let (Ok(before), Some(known)) = (&before, &known) {
        match timeout(NOTE_MAX, ledger.note_receiver(before, known)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = shared::error_chain(&error), "the state of the receiver can't be noted");
            }
            Err(_) => tracing::warn!("the state of the receiver can't be noted in time"),
        }
    }
    let known = known.unwrap_or_default();
    if known.disabled_at.is_some() && before.is_ok_and(|before| before.disabled_at.is_none()) {
        tracing::error!("{}", crate::DISABLED);
    }
    report(&known, &tried);
    let stays = join_all(tried.iter().map(|tried| keep(queue, tried, &known, clock.now()))).await;
    let left: Vec<&Tried> = tried.iter().zip(stays).filter_map(|(tried, stays)| stays.then_some(tried)).collect();
    let ages = left.iter().map(|tried| tried.event_at.map_or(Duration::ZERO, |at| clock.now().since(at)));
    let (waiting, answer) = (ages.max(), left.iter().map(|tried| tried.queued.message_id.clone()).collect());
    Handled { answer, waiting, is_disabled: known.disabled_at.is_some() }
}

async fn attempt<'a>(webhook: &Webhook, queued: &'a Queued, may_call: bool) -> Tried<'a> {
    let attempt = queued.attributes.approximate_receive_count.parse().unwrap_or(1);
    let event = match webhook::read(&queued.body) {
        Ok(event) => event,
        Err(undelivered) => {
            let (id, outcome) = (queued.message_id.clone(), Outcome::Failed(undelivered));
            return Tried { queued, id, attempt, event_at: None, outcome };
        }
    };
    let outcome = match may_call.then(|| webhook.deliver(&event)) {
        None => Outcome::Held,
        Some(delivery) => delivery.await.map_or_else(Outcome::Failed, |()| Outcome::Delivered),
    };
    Tried { queued, id: event.id(), attempt, event_at: Some(event.at()), outcome }
}

/// Logs what was not delivered: each event that was tried, and how many were not.
fn report(known: &ReceiverState, tried: &[Tried]) {
    let held = tried.iter().filter(|tried| matches!(tried.outcome, Outcome::Held)).count();
    if held > 0 {
        let (until, disabled_at) =
            (known.put_off_until.map(|at| at.to_string()), known.disabled_at.map(|at| at.to_string()));
        tracing::info!(held, until, disabled_at, "events wait: the receiver is not called");
    }
    for Tried { id, attempt, outcome, .. } in tried {
        if let Outcome::Failed(undelivered) = outcome {
            let error = shared::error_chain(undelivered);
            tracing::warn!(webhook_id = id, attempt, error, "a webhook was not delivered");
        }
    }
}

/// Keeps a message that was not delivered. Returns whether it stays in the queue.
async fn keep<Q: Queue + Sync>(queue: &Q, tried: &Tried<'_>, known: &ReceiverState, now: Timestamp) -> bool {
    let Tried { queued, id, attempt, outcome, .. } = tried;
    let is_dead = match outcome {
        Outcome::Delivered => return false,
        Outcome::Held => false,
        // What a receiver that must not be called has answered says nothing of an event.
        Outcome::Failed(_) if known.is_held(now) => false,
        Outcome::Failed(_) => {
            *attempt >= RECEIVES_MAX && known.enabled_at.is_none_or(|at| now >= at.after(SET_ASIDE_AFTER))
        }
    };
    if is_dead {
        match queue.set_aside(queued).await {
            Ok(()) => {
                tracing::error!(webhook_id = id, attempt, "a webhook was not delivered for a day, and is set aside");
                return false;
            }
            Err(error) => {
                tracing::warn!(webhook_id = id, error = shared::error_chain(&*error), "a webhook can't be set aside");
            }
        }
    }
    let put_off = known.put_off_until.map_or(Duration::ZERO, |until| until.since(now));
    let pause = pause(*attempt, id).max(spread(put_off.min(LOOK_AFTER), *attempt, id));
    if let Err(error) = queue.hide(queued, pause).await {
        tracing::warn!(webhook_id = id, error = shared::error_chain(&*error), "a message could not be hidden");
    }
    true
}
