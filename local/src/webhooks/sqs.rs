//! The queue under the protocol of SQS, as far as `hongbao-admin webhooks` speaks it. So its commands are the same here and on AWS.

use publish::Message;
use serde::Deserialize;
use serde_json::{Value, json};

use super::queue::Queue;

/// The path of the protocol's requests, and the beginning of the paths of queues.
pub const PATH: &str = "/_local/sqs";
/// The paths of the queue and of its dead letters.
pub const WAITING: &str = "/_local/sqs/webhooks";
/// See [`WAITING`].
pub const DEAD: &str = "/_local/sqs/dead-letters";

/// What a request asks for, by the names of SQS.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Asked {
    queue_url: String,
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    id: String,
    message_body: String,
}

/// The answer to a request for this operation. `None`: nothing that this queue does.
pub fn answer(queue: &Queue, operation: &str, body: &[u8]) -> rusqlite::Result<Option<Value>> {
    let Ok(asked) = serde_json::from_slice::<Asked>(body) else { return Ok(None) };
    let is_dead = asked.queue_url.ends_with(DEAD);
    Ok(Some(match operation {
        "AmazonSQS.GetQueueAttributes" if is_dead || asked.queue_url.ends_with(WAITING) => {
            let [visible, hidden, dead] = queue.counts()?;
            let (name, visible, hidden) =
                if is_dead { ("dead-letters", dead, 0) } else { ("webhooks", visible, hidden) };
            json!({"Attributes": {
                "QueueArn": format!("arn:aws:sqs:local:000000000000:{name}"),
                "ApproximateNumberOfMessages": visible.to_string(),
                "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
            }})
        }
        "AmazonSQS.SendMessageBatch" if asked.queue_url.ends_with(WAITING) => put(queue, asked.entries)?,
        "AmazonSQS.StartMessageMoveTask" => json!({"TaskHandle": "local"}),
        // A move here is done at once, so the question how far it is does it.
        "AmazonSQS.ListMessageMoveTasks" => {
            let moved = queue.revive()?;
            json!({"Results": [{"Status": "COMPLETED", "ApproximateNumberOfMessagesMoved": moved}]})
        }
        _ => return Ok(None),
    }))
}

fn put(queue: &Queue, entries: Vec<Entry>) -> rusqlite::Result<Value> {
    let (mut taken, mut refused, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    for Entry { id, message_body } in entries {
        match serde_json::from_str(&message_body).and_then(|event| Message::of(&event)) {
            Ok(message) => {
                taken.push(json!({"Id": id, "MessageId": message.id, "MD5OfMessageBody": ""}));
                messages.push(message);
            }
            Err(_) => refused.push(json!({"Id": id, "SenderFault": true, "Code": "InvalidMessageContents"})),
        }
    }
    queue.put_all(&messages)?;
    Ok(json!({"Successful": taken, "Failed": refused}))
}
