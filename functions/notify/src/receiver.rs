//! What the tries of a batch say of the receiver.

use std::time::Duration;

use shared::domain::Timestamp;
use shared::ledger::ReceiverState;

use crate::Queued;
use crate::webhook::Undelivered;

/// How long an answer stands for the ones that follow it, if they are the same. Each one that is noted is a write.
const NOTE_EVERY: Duration = Duration::from_mins(1);
/// The most characters of an answer that are kept.
const ANSWER_CHARACTERS_MAX: usize = 200;

/// A message, and what became of its event.
pub struct Tried<'a> {
    /// The message.
    pub queued: &'a Queued,
    /// The webhook's id, or the message's name if it is no event.
    pub id: String,
    /// How often it was received.
    pub attempt: u32,
    /// When the event happened.
    pub event_at: Option<Timestamp>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an event.
pub enum Outcome {
    /// The receiver took it.
    Delivered,
    /// It was tried in vain.
    Failed(Undelivered),
    /// It was not tried: the receiver must not be called.
    Held,
}

/// Adds to what is `known` what became of these events by `now`.
pub fn note(known: &mut ReceiverState, tried: &[Tried], now: Timestamp) {
    let failures = || {
        tried.iter().filter_map(|tried| match &tried.outcome {
            Outcome::Failed(undelivered) if undelivered.is_the_receivers() => Some(undelivered),
            _ => None,
        })
    };
    if let Some(last) = failures().next_back() {
        note_answer(known, last, now);
        known.failing_since.get_or_insert(now);
    }
    for undelivered in failures() {
        if undelivered.is_gone() {
            known.disabled_at.get_or_insert(now);
        }
        known.put_off_until = known.put_off_until.max(undelivered.retry_after(now).map(|time| now.after(time)));
    }
    if tried.iter().any(|tried| matches!(tried.outcome, Outcome::Delivered)) {
        (known.failing_since, known.oldest_at) = (None, None);
    } else if known.failing_since.is_some() || known.is_held(now) {
        known.oldest_at = tried.iter().filter_map(|tried| tried.event_at).chain(known.oldest_at).min();
    }
}

fn note_answer(known: &mut ReceiverState, undelivered: &Undelivered, now: Timestamp) {
    let answer: String = shared::error_chain(undelivered).chars().take(ANSWER_CHARACTERS_MAX).collect();
    let is_the_same = known.last_answer.as_ref() == Some(&answer);
    if !is_the_same || known.last_answer_at.is_none_or(|at| now >= at.after(NOTE_EVERY)) {
        (known.last_answer, known.last_answer_at) = (Some(answer), Some(now));
    }
}
