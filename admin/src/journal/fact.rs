//! What one item of the table says about money. Parsed without the writers' types, as the audit does.

use std::borrow::Cow;

use ::audit::{Item, Name, Own};
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;
use shared::domain::MovementKind;
use shared::ledger::keys;
use shared::ports::Key;

use super::entry::Entry;

/// The attributes of an item that the journal reads; an absent one is empty.
#[derive(Debug, Default, Deserialize)]
pub struct Attributes<'a> {
    #[serde(rename = "PK", borrow, default)]
    pk: Value<'a>,
    #[serde(rename = "SK", borrow, default)]
    sk: Value<'a>,
    #[serde(borrow, default)]
    amount: Value<'a>,
    #[serde(borrow, default)]
    at: Value<'a>,
    #[serde(borrow, default)]
    balance: Value<'a>,
    #[serde(borrow, default)]
    created_at: Value<'a>,
    #[serde(borrow, default)]
    currency: Value<'a>,
    #[serde(borrow, default)]
    slip_count: Value<'a>,
    #[serde(borrow, default)]
    total_amount: Value<'a>,
    #[serde(borrow, default)]
    user_id: Value<'a>,
}

/// The names of these attributes.
pub const ATTRIBUTES: [&str; 10] =
    [keys::PK, keys::SK, "amount", "at", "balance", "created_at", "currency", "slip_count", "total_amount", "user_id"];

/// A value in `DynamoDB`'s JSON: `{"S": text}` or `{"N": number}`. Of other types nothing is read.
#[derive(Debug, Default, Deserialize)]
struct Value<'a> {
    #[serde(rename = "S", borrow, default)]
    text: Cow<'a, str>,
    #[serde(rename = "N", borrow, default)]
    number: Cow<'a, str>,
}

impl<'a> Attributes<'a> {
    /// The attributes of an item that the SDK read.
    pub fn of(item: &'a Item) -> Self {
        let value = |name: &str| match item.get(name) {
            Some(AttributeValue::S(text)) => Value { text: text.into(), ..Value::default() },
            Some(AttributeValue::N(number)) => Value { number: number.into(), ..Value::default() },
            _ => Value::default(),
        };
        Self {
            pk: value(keys::PK),
            sk: value(keys::SK),
            amount: value("amount"),
            at: value("at"),
            balance: value("balance"),
            created_at: value("created_at"),
            currency: value("currency"),
            slip_count: value("slip_count"),
            total_amount: value("total_amount"),
            user_id: value("user_id"),
        }
    }

    /// The item's key as reports show it.
    pub fn key(&self) -> String {
        format!("{} / {}", self.pk.text, self.sk.text)
    }
}

/// What an item says about money. Amounts are in minor units, times in milliseconds since the epoch.
#[derive(Debug, Eq, PartialEq)]
pub enum Fact<'a> {
    /// A movement. A refund has as many slips, a claim one.
    Movement { entry: Entry<'a>, slips: u64 },
    /// A packet, which repeats what its sender's movement says.
    Packet { total: u64, at: u64, currency: &'a str },
    /// A slip decision, which repeats what the movement of its claim or refund says.
    Decision { refunded: bool, amount: u64, at: u64 },
    /// The copy of a movement in a timeline.
    Copy { kind: MovementKind, amount: u64, at: u64 },
    /// A wallet.
    Wallet { balance: i128 },
    /// Nothing.
    Silent,
}

/// Reads an item. An error says what was expected of it.
pub fn read<'a>(item: &'a Attributes<'_>) -> Result<Fact<'a>, String> {
    let key = Key { pk: item.pk.text.clone().into_owned(), sk: item.sk.text.clone().into_owned() };
    let name = Name::of(&key).ok_or("a key of this ledger")?;
    let amount = || whole("amount", &item.amount);
    let at = || whole("at", &item.at);
    Ok(match name {
        Name::Amounts(_) | Name::Reference(..) | Name::Receiver | Name::Of(_, Own::SendKey | Own::Day) => Fact::Silent,
        Name::Packet(_) => Fact::Packet {
            total: whole("total_amount", &item.total_amount)?,
            at: whole("created_at", &item.created_at)?,
            currency: &item.currency.text,
        },
        Name::Decision(..) => Fact::Decision { refunded: item.user_id.text.is_empty(), amount: amount()?, at: at()? },
        // A user may be suspended before any money has moved.
        Name::Of(_, Own::Wallet) if item.balance.number.is_empty() => Fact::Wallet { balance: 0 },
        Name::Of(_, Own::Wallet) => Fact::Wallet { balance: whole("balance", &item.balance)? },
        Name::Of(_, Own::InTimeline(_)) => {
            let kind = match item.sk.text.split('#').nth(1) {
                Some("DEPOSIT") => MovementKind::Deposit,
                Some("REFUND") => MovementKind::Refund,
                _ => MovementKind::Withdrawal,
            };
            Fact::Copy { kind, amount: amount()?, at: at()? }
        }
        Name::Of(_, own) => {
            let (kind, id, slips) = movement(own, item)?;
            let user = item.pk.text.split_once('#').map_or("", |(_, user)| user);
            Fact::Movement { entry: Entry { at: at()?, kind, user, id, amount: amount()? }, slips }
        }
    })
}

fn movement<'a>(own: Own, item: &'a Attributes<'_>) -> Result<(MovementKind, Cow<'a, str>, u64), String> {
    let id = || Cow::from(item.sk.text.split_once('#').map_or("", |(_, id)| id));
    Ok(match own {
        Own::Deposit => (MovementKind::Deposit, id(), 0),
        Own::Withdrawal => (MovementKind::Withdrawal, id(), 0),
        Own::Sent(_) => (MovementKind::Sent, id(), 0),
        Own::Claim(_) => (MovementKind::Claim, id(), 1),
        Own::Refund(packet, lowest) => {
            (MovementKind::Refund, format!("{packet}-{lowest}").into(), whole("slip_count", &item.slip_count)?)
        }
        Own::Wallet | Own::SendKey | Own::Day | Own::InTimeline(_) => return Err("a movement".to_owned()),
    })
}

fn whole<N: std::str::FromStr>(name: &str, value: &Value) -> Result<N, String> {
    value.number.parse().map_err(|_| format!("{name}: a whole number"))
}
