//! The state of the receiver of webhooks.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use shared::domain::Timestamp;
use shared::ledger::ReceiverState;
use shared::ports::{Clock, System};

use super::queue::Sqs;
use crate::deployment::{Failed, ledger};
use crate::options::{Deployment, Queues};
use crate::text::fields;
use crate::{Exit, Outcome};

/// What the command shows. `hidden` are those of the waiting events that are hidden until their next try or are being tried.
const SHOWN: &str =
    "state since last_answer last_answer_at put_off_until oldest_waiting_at waiting hidden dead_letters";
/// How long no event is delivered before the receiver counts as failing.
const FAILING_AFTER: Duration = Duration::from_hours(24);

/// In which state a receiver is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It takes what it is sent, as far as is known.
    Well,
    /// It failed last, less than a day ago.
    Retrying,
    /// It asked to be called later.
    PutOff,
    /// No event was delivered for a day.
    Failing,
    /// It said that it is gone. It is not called until it is enabled.
    Disabled,
}

impl State {
    pub fn of(receiver: &ReceiverState, now: Timestamp) -> (Self, Option<Timestamp>) {
        let has_failed = receiver.failing_since.is_some_and(|since| now >= since.after(FAILING_AFTER));
        if receiver.disabled_at.is_some() {
            (Self::Disabled, receiver.disabled_at)
        } else if has_failed {
            (Self::Failing, receiver.failing_since)
        } else if receiver.is_held(now) {
            (Self::PutOff, receiver.failing_since)
        } else if receiver.failing_since.is_some() {
            (Self::Retrying, receiver.failing_since)
        } else {
            (Self::Well, None)
        }
    }
}

/// Shows the receiver's state. It is wrong if the receiver is disabled or failing, or if there are dead letters.
pub async fn run(deployment: &Deployment, queues: &Queues, json: bool) -> Result<Outcome, Failed> {
    let sqs = Sqs::of(queues).await?;
    let (ledger, place) = ledger(deployment).await;
    let receiver = ledger.receiver().await.map_err(|error| Failed::from(error).in_table(&place))?;
    let (waiting, dead) = (sqs.describe(&sqs.waiting).await?, sqs.describe(&sqs.dead).await?);
    let (now, dead_letters) = (System.now(), dead.visible + dead.hidden);
    let (state, since) = State::of(&receiver, now);
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let shown = json!({
        "state": state,
        "since": time(since),
        "last_answer": receiver.last_answer,
        "last_answer_at": time(receiver.last_answer_at),
        "put_off_until": time(receiver.put_off_until.filter(|until| now < *until)),
        "oldest_waiting_at": time(receiver.oldest_at),
        "waiting": waiting.visible + waiting.hidden,
        "hidden": waiting.hidden,
        "dead_letters": dead_letters,
    });
    let is_wrong = matches!(state, State::Failing | State::Disabled) || dead_letters > 0;
    let exit = if is_wrong { Exit::Wrong } else { Exit::Good };
    Ok(Outcome::new(json, &shown, || fields(&shown, SHOWN), exit))
}
