//! The state of the receiver of webhooks.

use std::time::Duration;

use serde::Serialize;
use shared::domain::Timestamp;
use shared::ledger::ReceiverState;
use shared::ports::{Clock, System};

use super::ledger;
use super::queue::Sqs;
use crate::deployment::Failed;
use crate::options::{Deployment, Queues};
use crate::{Exit, Outcome};

/// How long no event is delivered before the receiver counts as failing.
const FAILING_AFTER: Duration = Duration::from_hours(24);

/// In which state a receiver is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
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
    fn of(receiver: &ReceiverState, now: Timestamp) -> (Self, Option<Timestamp>) {
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

    const fn in_words(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Retrying => "retrying",
            Self::PutOff => "put off",
            Self::Failing => "failing",
            Self::Disabled => "disabled",
        }
    }
}

/// What the command shows.
#[derive(Debug, Serialize)]
struct Status {
    state: State,
    since: Option<String>,
    last_answer: Option<String>,
    last_answer_at: Option<String>,
    put_off_until: Option<String>,
    oldest_waiting_at: Option<String>,
    /// Events in the queue; those of them that are hidden until their next try or are being tried.
    waiting: u64,
    hidden: u64,
    dead_letters: u64,
}

/// Shows the receiver's state. It is wrong if the receiver is disabled or failing, or if there are dead letters.
pub async fn run(deployment: &Deployment, queues: &Queues, json: bool) -> Result<Outcome, Failed> {
    let sqs = Sqs::of(queues).await?;
    let (ledger, place) = ledger(deployment).await;
    let receiver = ledger.receiver().await.map_err(|error| Failed::from(error).in_table(&place))?;
    let (waiting, dead) = (sqs.describe(&sqs.waiting).await?, sqs.describe(&sqs.dead).await?);
    let status = Status::new(&receiver, System.now(), [waiting.visible, waiting.hidden, dead.visible + dead.hidden]);
    let is_wrong = matches!(status.state, State::Failing | State::Disabled) || status.dead_letters > 0;
    let exit = if is_wrong { Exit::Wrong } else { Exit::Good };
    Ok(Outcome::new(json, &status, || status.in_words(), exit))
}

impl Status {
    fn new(receiver: &ReceiverState, now: Timestamp, [visible, hidden, dead_letters]: [u64; 3]) -> Self {
        let (state, since) = State::of(receiver, now);
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            state,
            since: time(since),
            last_answer: receiver.last_answer.clone(),
            last_answer_at: time(receiver.last_answer_at),
            put_off_until: time(receiver.put_off_until.filter(|until| now < *until)),
            oldest_waiting_at: time(receiver.oldest_at),
            waiting: visible + hidden,
            hidden,
            dead_letters,
        }
    }

    fn in_words(&self) -> String {
        let mut lines = vec![("receiver", self.state.in_words().to_owned())];
        lines.extend(self.since.clone().map(|at| ("since", at)));
        let answer = self.last_answer.as_ref().zip(self.last_answer_at.as_ref());
        lines.extend(answer.map(|(answer, at)| ("last failure", format!("{at}: {answer}"))));
        lines.extend(self.put_off_until.clone().map(|at| ("put off until", at)));
        lines.extend(self.oldest_waiting_at.clone().map(|at| ("oldest event", at)));
        lines.push(("waiting", format!("about {}, {} of them hidden until their next try", self.waiting, self.hidden)));
        lines.push(("dead letters", format!("about {}", self.dead_letters)));
        lines.iter().map(|(name, value)| format!("{name:<14} {value}")).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_has_failed_for_a_day_is_failing_and_one_that_is_gone_is_disabled() {
        let (at, hour) = (|hours: u64| Some(Timestamp::from_ms(hours * 3_600_000)), Duration::from_hours(1));
        let failing = |receiver: ReceiverState| ReceiverState { failing_since: at(10), ..receiver };
        let put_off = ReceiverState { put_off_until: at(20), ..ReceiverState::default() };
        let now = Timestamp::from_ms(15 * 3_600_000);
        for (receiver, now, expected) in [
            (ReceiverState::default(), now, (State::Well, None)),
            (
                ReceiverState { last_answer: Some("500".to_owned()), ..ReceiverState::default() },
                now,
                (State::Well, None),
            ),
            (failing(ReceiverState::default()), now, (State::Retrying, at(10))),
            (failing(put_off.clone()), now, (State::PutOff, at(10))),
            (put_off.clone(), now, (State::PutOff, None)),
            (put_off, now.after(5 * hour), (State::Well, None)),
            (failing(ReceiverState::default()), now.after(19 * hour), (State::Failing, at(10))),
            (
                failing(ReceiverState { put_off_until: at(50), ..ReceiverState::default() }),
                now.after(20 * hour),
                (State::Failing, at(10)),
            ),
            (
                failing(ReceiverState { disabled_at: at(11), ..ReceiverState::default() }),
                now.after(20 * hour),
                (State::Disabled, at(11)),
            ),
        ] {
            assert_eq!(State::of(&receiver, now), expected, "{receiver:?}");
        }
    }
}
