//! The attributes of an item that say something about money, in `DynamoDB`'s JSON.

use ::audit::Item;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value, json};
use shared::ledger::keys;

use crate::deployment::Failed;

/// The names of the attributes that the journal reads.
pub const ATTRIBUTES: [&str; 14] = [
    keys::PK,
    keys::SK,
    "amount",
    "at",
    "balance",
    "created_at",
    "currency",
    "ended_at",
    "pending",
    "posted_amount",
    "slip_count",
    "status",
    "total_amount",
    "user_id",
];

/// An item that the SDK read, as an export has it: `{"amount": {"N": "5"}}`. Of other types than texts and numbers nothing is read.
pub fn exported(item: Item) -> Value {
    let attribute = |(name, value)| {
        Some(match value {
            AttributeValue::S(text) => (name, json!({ "S": text })),
            AttributeValue::N(number) => (name, json!({ "N": number })),
            _ => return None,
        })
    };
    item.into_iter().filter_map(attribute).collect::<Map<_, _>>().into()
}

/// A text; an absent one is empty.
pub fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name]["S"].as_str().unwrap_or_default()
}

/// A whole number of zero or more, as the database takes it. An error says what was expected.
pub fn whole(item: &Value, name: &str) -> Result<u64, Failed> {
    let number = item[name]["N"].as_str().and_then(|number| number.parse().ok());
    number
        .filter(|number| i64::try_from(*number).is_ok())
        .ok_or_else(|| Failed::Refused(format!("{name}: a whole number")))
}
