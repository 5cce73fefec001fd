//! A batch as Lambda reads it from a stream or a queue for a function, and the function's answer.

use serde::{Deserialize, Serialize};

/// Records of a stream, or messages of a queue.
#[derive(Debug, Deserialize, Serialize)]
pub struct Batch<R> {
    /// Them, in the order in which they came.
    #[serde(rename = "Records")]
    pub records: Vec<R>,
}

/// What comes again. Of a stream, all records from the first of these on do.
#[derive(Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// One for each.
    pub batch_item_failures: Vec<Failure>,
}

/// See [`Answer::batch_item_failures`].
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The record's number in the stream, or the message's name in the queue.
    pub item_identifier: String,
}

impl FromIterator<String> for Answer {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let failures = names.into_iter().map(|item_identifier| Failure { item_identifier });
        Self { batch_item_failures: failures.collect() }
    }
}
