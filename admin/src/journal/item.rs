//! The attributes of an item that say something about money.

use ::audit::Item;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;
use shared::ledger::keys;

use super::entry::Sum;

/// The names of the attributes that the journal reads.
pub const ATTRIBUTES: [&str; 10] =
    [keys::PK, keys::SK, "amount", "at", "balance", "created_at", "currency", "slip_count", "total_amount", "user_id"];

/// The attributes of an item, as an export has them; an absent one is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Attributes {
    #[serde(rename = "PK")]
    pub pk: Value,
    #[serde(rename = "SK")]
    pub sk: Value,
    pub amount: Value,
    pub at: Value,
    pub balance: Value,
    pub created_at: Value,
    pub currency: Value,
    pub slip_count: Value,
    pub total_amount: Value,
    pub user_id: Value,
}

/// A value in `DynamoDB`'s JSON: `{"S": text}` or `{"N": number}`. Of other types nothing is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Value {
    #[serde(rename = "S")]
    pub text: String,
    #[serde(rename = "N")]
    pub number: String,
}

impl Attributes {
    /// The attributes of an item that the SDK read.
    pub fn of(mut item: Item) -> Self {
        let [pk, sk, amount, at, balance, created_at, currency, slip_count, total_amount, user_id] =
            ATTRIBUTES.map(|name| match item.remove(name) {
                Some(AttributeValue::S(text)) => Value { text, ..Value::default() },
                Some(AttributeValue::N(number)) => Value { number, ..Value::default() },
                _ => Value::default(),
            });
        Self { pk, sk, amount, at, balance, created_at, currency, slip_count, total_amount, user_id }
    }

    /// The item's key as reports show it.
    pub fn key(&self) -> String {
        format!("{} / {}", self.pk.text, self.sk.text)
    }

    /// Its amount, as the sum of one movement, and its time. An error says what was expected.
    pub fn money(&self) -> Result<(Sum, u64), String> {
        Ok((Sum::new(1, self.amount.whole("amount")?), self.at.whole("at")?))
    }
}

impl Value {
    /// The number: zero or more, as the database takes it. An error says what was expected.
    pub fn whole(&self, name: &str) -> Result<u64, String> {
        let number = self.number.parse().ok().filter(|number| i64::try_from(*number).is_ok());
        number.ok_or_else(|| format!("{name}: a whole number"))
    }
}
