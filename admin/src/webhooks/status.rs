//! The state of the receiver of webhooks.

use serde_json::json;
use shared::domain::Timestamp;
use shared::ledger::ReceiverStatus;
use shared::ports::{Clock, System};

use super::queue::Sqs;
use crate::deployment::{Failed, Table};
use crate::options::Queues;
use crate::text::fields;
use crate::{Exit, Outcome};

/// What the command shows. `hidden` are those of the waiting events that are hidden until their next try or are being tried.
const SHOWN: &str =
    "state since last_answer last_answer_at put_off_until oldest_waiting_at waiting hidden dead_letters";
/// Shows the receiver's state. It is wrong if the receiver is disabled or failing, or if there are dead letters.
pub async fn run(table: &Table, queues: &Queues, json: bool) -> Result<Outcome, Failed> {
    let sqs = Sqs::of(queues).await?;
    let receiver = table.ledger().receiver().await?;
    let (waiting, dead) = (sqs.describe(&sqs.waiting).await?, sqs.describe(&sqs.dead).await?);
    let (now, dead_letters) = (System.now(), dead.visible + dead.hidden);
    let (state, since) = receiver.status(now);
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
    let is_wrong = matches!(state, ReceiverStatus::Failing | ReceiverStatus::Disabled) || dead_letters > 0;
    let exit = if is_wrong { Exit::Wrong } else { Exit::Good };
    Ok(Outcome::new(json, &shown, || fields(&shown, SHOWN), exit))
}
