//! Delivers the dead letters of webhooks again.

use std::time::Duration;

use aws_sdk_sqs::Client;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::queue::Sqs;
use crate::deployment::Failed;
use crate::options::Queues;
use crate::text::fields;
use crate::{Exit, Outcome};

/// How often SQS is asked how far it is, and for how long.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_FOR: Duration = Duration::from_mins(10);

/// How a move of dead letters ended.
#[derive(Debug, Serialize)]
struct Moved {
    status: String,
    count: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// Moves all dead letters back into the queue of events on their way, and waits for the end.
pub async fn run(queues: &Queues, json: bool) -> Result<Outcome, Failed> {
    let sqs = Sqs::of(queues).await?;
    let (dead, waiting) = (sqs.describe(&sqs.dead).await?.arn, sqs.describe(&sqs.waiting).await?.arn);
    // The function itself put them there, so SQS does not know where they came from.
    let begun = sqs.client.start_message_move_task().source_arn(&dead).destination_arn(waiting).send().await;
    begun.map_err(|error| Failed::Aws("SQS did not begin to move the messages", Box::new(error)))?;
    let until = Instant::now() + ASK_FOR;
    loop {
        let moved = last_move(&sqs.client, &dead).await?;
        let exit = match &*moved.status {
            "COMPLETED" => Exit::Good,
            "FAILED" | "CANCELLED" => Exit::Wrong,
            _ if Instant::now() >= until => Exit::Unfinished,
            _ => {
                sleep(ASK_EVERY).await;
                continue;
            }
        };
        return Ok(Outcome::new(json, &moved, || fields(&moved, "status count failure"), exit));
    }
}

async fn last_move(sqs: &Client, arn: &str) -> Result<Moved, Failed> {
    let asked = sqs.list_message_move_tasks().source_arn(arn).max_results(1).send().await;
    let found = asked.map_err(|error| Failed::Aws("SQS did not say how far it is", Box::new(error)))?;
    let task = found.results.into_iter().flatten().next();
    let task = task.ok_or_else(|| Failed::Answer("the move of the messages is unknown".to_owned()))?;
    Ok(Moved {
        status: task.status.unwrap_or_default(),
        count: task.approximate_number_of_messages_moved,
        failure: task.failure_reason,
    })
}
