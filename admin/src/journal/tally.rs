//! One pass over the items of a ledger, in any order: sums, the day's movements, and what contradicts itself.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;

use ::audit::{Name, Own};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::domain::{MovementKind, Timestamp};
use shared::ledger::keys;
use shared::ports::Key;

use super::item::{text, whole};
use super::sums::{Movements, Sum};
use crate::deployment::Failed;
use crate::scratch;

/// Problems that are spelt out; further ones are only counted.
const LISTED_MAX: usize = 50;

const SCHEMA: &str = "CREATE TABLE movement (time TEXT, kind TEXT, user TEXT, id TEXT, packet TEXT, amount INTEGER)";
const ADD: &str = "INSERT INTO movement VALUES (?, ?, ?, ?, ?, ?)";

/// Something that is wrong with the ledger, its export, or the day before.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// `malformed`: an item that can't be parsed, or whose key has no meaning. `currency`: a packet in another one.
    /// `copies`: movements that differ from the items that repeat them. `negative`: a class of accounts with more debits
    /// than credits. `state`: wallets, or the undecided slips of packets, that differ from the sum of all movements.
    /// `previous`: an opening that differs from the closing of the day before.
    pub kind: String,
    /// The item or the sum.
    pub subject: String,
    pub expected: String,
    pub found: String,
}

/// Problems: their number, and the first ones.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Problems {
    pub problem_count: u64,
    pub problems: Vec<Problem>,
}

impl Problems {
    pub fn add(&mut self, kind: &str, subject: &dyn Display, expected: &dyn Display, found: &dyn Display) {
        self.problem_count += 1;
        if self.problems.len() < LISTED_MAX {
            let [subject, expected, found] = [subject.to_string(), expected.to_string(), found.to_string()];
            self.problems.push(Problem { kind: kind.to_owned(), subject, expected, found });
        }
    }
}

/// The time of a journal, in milliseconds since the epoch: a day, from the end of the journal before it on.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub start: u64,
    /// Where the next journal begins.
    pub end: u64,
}

/// What has to be equal in any stretch of time: a name, movements, and the items that repeat them.
const COPIES: [(&str, &str, &str); 6] = [
    ("packets sent", "sent", "packet"),
    ("slips claimed", "claim", "slip of a user"),
    ("slips refunded", "refunded slip", "slip of nobody"),
    ("deposits in timelines", "deposit", "DEPOSIT"),
    ("refunds in timelines", "refund", "REFUND"),
    ("withdrawals in timelines", "withdrawal", "WITHDRAW"),
];

/// When something was: before the day, in it, or after it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum When {
    Before,
    Within,
    After,
}

impl When {
    pub const ALL: [Self; 3] = [Self::Before, Self::Within, Self::After];
}

/// A movement as the database has it.
struct Movement {
    at: u64,
    kind: &'static str,
    user: String,
    id: String,
    packet: Option<String>,
    amount: u64,
}

/// All that a pass has found.
pub struct Tally {
    day: Span,
    currency: String,
    /// The day's movements.
    pub movements: Connection,
    /// What movements, and the items that repeat them, add up to.
    sums: HashMap<(When, &'static str), Sum>,
    /// The sum of all wallets.
    pub wallets: i128,
    /// The currencies of the packets.
    currencies: BTreeSet<String>,
    /// The newest time in any item.
    pub newest: u64,
    pub items: u64,
    pub problems: Problems,
}

impl Tally {
    /// An empty tally of `day`.
    pub fn new(day: Span, currency: &str) -> Result<Self, Failed> {
        Ok(Self {
            day,
            currency: currency.to_owned(),
            movements: scratch::database(SCHEMA)?,
            sums: HashMap::new(),
            wallets: 0,
            currencies: BTreeSet::new(),
            newest: 0,
            items: 0,
            problems: Problems::default(),
        })
    }

    /// Takes an item. It is parsed without the writers' types, as the audit does.
    pub fn enter(&mut self, item: &Value) -> Result<(), Failed> {
        self.items += 1;
        let key = Key { pk: text(item, keys::PK).to_owned(), sk: text(item, keys::SK).to_owned() };
        match self.add(&key, item) {
            Ok(None) => {}
            Ok(Some(Movement { at, kind, user, id, packet, amount })) => {
                let time = Timestamp::from_ms(at).to_string();
                let mut add = self.movements.prepare_cached(ADD)?;
                add.execute(params![time, kind, user, id, packet, amount])?;
            }
            Err(expected) => self.problem(&key, "malformed", &expected, &"something else"),
        }
        Ok(())
    }

    /// Adds an item to the sums. Returns a movement of the day. An error says what was expected of the item.
    fn add(&mut self, key: &Key, item: &Value) -> Result<Option<Movement>, String> {
        let amount_at = || Ok::<_, String>((whole(item, "amount")?, whole(item, "at")?));
        let (kind, user, packet, lowest) = match Name::of(key).ok_or("a key of this ledger")? {
            Name::Amounts(_) | Name::Reference(..) | Name::Receiver | Name::Of(_, Own::SendKey | Own::Day) => {
                return Ok(None);
            }
            Name::Packet(_) => {
                let currency = text(item, "currency");
                if currency != self.currency {
                    self.problem(key, "currency", &self.currency.clone(), &currency);
                }
                self.currencies.insert(currency.to_owned());
                self.sum(whole(item, "created_at")?, "packet", 1, whole(item, "total_amount")?);
                return Ok(None);
            }
            Name::Decision(..) => {
                let (amount, at) = amount_at()?;
                let is_refund = text(item, "user_id").is_empty();
                self.sum(at, if is_refund { "slip of nobody" } else { "slip of a user" }, 1, amount);
                return Ok(None);
            }
            Name::Of(_, Own::Wallet) => {
                // A user may be suspended before any money has moved.
                let balance = item["balance"]["N"].as_str().unwrap_or("0");
                self.wallets += balance.parse::<i128>().map_err(|_| "balance: a whole number")?;
                return Ok(None);
            }
            Name::Of(_, Own::InTimeline(_)) => {
                let (amount, at) = amount_at()?;
                let kind = key.sk.split('#').nth(1);
                let what = ["DEPOSIT", "REFUND", "WITHDRAW"].into_iter().find(|what| Some(*what) == kind);
                self.sum(at, what.ok_or("a copy of a movement")?, 1, amount);
                return Ok(None);
            }
            Name::Of(user, Own::Deposit) => (MovementKind::Deposit, user, None, None),
            Name::Of(user, Own::Withdrawal) => (MovementKind::Withdrawal, user, None, None),
            Name::Of(user, Own::Sent(packet)) => (MovementKind::Sent, user, Some(packet), None),
            Name::Of(user, Own::Claim(packet)) => (MovementKind::Claim, user, Some(packet), None),
            Name::Of(user, Own::Refund(packet, lowest)) => (MovementKind::Refund, user, Some(packet), Some(lowest)),
        };
        let ((amount, at), kind) = (amount_at()?, kind.name());
        if lowest.is_some() {
            self.sum(at, "refunded slip", whole(item, "slip_count")?, amount);
        }
        self.sum(at, kind, 1, amount);
        if self.when(at) != When::Within {
            return Ok(None);
        }
        let id = match (packet, lowest) {
            (Some(packet), Some(lowest)) => format!("{packet}-{lowest}"),
            (Some(packet), None) => packet.to_string(),
            (None, _) => key.sk.split_once('#').map_or("", |(_, id)| id).to_owned(),
        };
        let packet = packet.map(|packet| packet.to_string());
        Ok(Some(Movement { at, kind, user: user.to_string(), id, packet, amount }))
    }

    fn problem(&mut self, key: &Key, kind: &str, expected: &dyn Display, found: &dyn Display) {
        self.problems.add(kind, &format!("{} / {}", key.pk, key.sk), expected, found);
    }

    fn sum(&mut self, at: u64, what: &'static str, count: u64, amount: u64) {
        self.newest = self.newest.max(at);
        *self.sums.entry((self.when(at), what)).or_default() += Sum { count, amount: amount.into() };
    }

    fn when(&self, at: u64) -> When {
        match at {
            at if at < self.day.start => When::Before,
            at if at < self.day.end => When::Within,
            _ => When::After,
        }
    }

    /// The sum of these stretches of time.
    fn of(&self, when: &[When], what: &'static str) -> Sum {
        let mut sum = Sum::default();
        for when in when {
            sum += self.sums.get(&(*when, what)).copied().unwrap_or_default();
        }
        sum
    }

    /// The movements of these stretches of time.
    pub fn movements(&self, when: &[When]) -> Movements {
        Movements::new(|kind| self.of(when, kind))
    }

    /// What movements and the items that repeat them say, where they differ: the name, the movements' sum and the copies' one.
    pub fn differences(&self, when: When) -> impl Iterator<Item = (&'static str, Sum, Sum)> {
        let sums =
            COPIES.map(|(name, movements, copies)| (name, self.of(&[when], movements), self.of(&[when], copies)));
        sums.into_iter().filter(|(_, movements, copies)| movements != copies)
    }

    /// The amount of the slips that no decision has.
    pub fn undecided(&self) -> i128 {
        let [packets, claimed, refunded] =
            ["packet", "slip of a user", "slip of nobody"].map(|what| self.of(&When::ALL, what).amount);
        packets - claimed - refunded
    }

    /// The currency of the packets, if no packet is in the one that was asked for: then that is the mistake, not the packets.
    pub fn only_other_currency(&self) -> Option<&str> {
        if self.currencies.contains(&self.currency) { None } else { self.currencies.first().map(String::as_str) }
    }
}
