//! One pass over the items of a ledger, in any order: sums, the day's movements, and what contradicts itself.

use std::collections::BTreeSet;
use std::fmt::Display;

use ::audit::{Name, Own};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use shared::domain::MovementKind;
use shared::ports::Key;

use super::entry::{Movements, Sum};
use super::item::Attributes;
use crate::deployment::Failed;
use crate::scratch;

/// Problems that are spelt out; further ones are only counted.
const LISTED_MAX: usize = 50;

const SCHEMA: &str = "CREATE TABLE movement (at INTEGER, kind TEXT, user TEXT, id TEXT, packet TEXT, amount INTEGER)";
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

/// Why an item was not added.
#[derive(Debug, thiserror::Error)]
enum Refused {
    /// It is malformed: what was expected.
    #[error("expected {0}")]
    Expected(String),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

impl From<String> for Refused {
    fn from(expected: String) -> Self {
        Self::Expected(expected)
    }
}

/// The time of a journal, in milliseconds since the epoch: a day, from the end of the journal before it on.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub start: u64,
    /// Where the next journal begins.
    pub end: u64,
}

/// The sums of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Period {
    pub movements: Movements,
    /// The slips of the refunds among the movements.
    refunded_slips: u64,
    /// Packets, and the slips that decisions give to users and give back.
    sent: Sum,
    claimed: Sum,
    refunded: Sum,
    /// The copies of deposits, refunds and withdrawals in timelines.
    timelines: Movements,
}

impl Period {
    /// What movements and the items that repeat them say, where they differ: the name, the movements' sum and the copies' one.
    pub fn differences(&self) -> impl Iterator<Item = (&'static str, Sum, Sum)> {
        let Self { movements, refunded_slips, sent, claimed, refunded, timelines } = self;
        let refunds = Sum { count: *refunded_slips, amount: movements.refund.amount };
        [
            ("packets sent", movements.sent, *sent),
            ("slips claimed", movements.claim, *claimed),
            ("slips refunded", refunds, *refunded),
            ("deposits in timelines", movements.deposit, timelines.deposit),
            ("refunds in timelines", movements.refund, timelines.refund),
            ("withdrawals in timelines", movements.withdrawal, timelines.withdrawal),
        ]
        .into_iter()
        .filter(|(_, movements, copies)| movements != copies)
    }

    /// The amount of the slips that no decision has.
    pub const fn undecided(&self) -> i128 {
        self.sent.amount - self.claimed.amount - self.refunded.amount
    }
}

/// All that a pass has found.
pub struct Tally {
    day: Span,
    currency: String,
    /// The day's movements.
    pub movements: Connection,
    /// The sums before the day, in it and after it.
    pub periods: [Period; 3],
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
            periods: [Period::default(); 3],
            wallets: 0,
            currencies: BTreeSet::new(),
            newest: 0,
            items: 0,
            problems: Problems::default(),
        })
    }

    /// Takes an item. It is parsed without the writers' types, as the audit does.
    pub fn enter(&mut self, item: &Attributes) -> Result<(), Failed> {
        self.items += 1;
        match self.add(item) {
            Err(Refused::Expected(expected)) => {
                self.problems.add("malformed", &item.key(), &expected, &"something else");
            }
            Err(Refused::Database(error)) => return Err(error.into()),
            Ok(()) => {}
        }
        Ok(())
    }

    fn add(&mut self, item: &Attributes) -> Result<(), Refused> {
        let key = Key { pk: item.pk.text.clone(), sk: item.sk.text.clone() };
        let name = Name::of(&key).ok_or_else(|| "a key of this ledger".to_owned())?;
        let kind = match name {
            Name::Amounts(_) | Name::Reference(..) | Name::Receiver | Name::Of(_, Own::SendKey | Own::Day) => {
                return Ok(());
            }
            Name::Packet(_) => return self.add_packet(item),
            Name::Decision(..) => {
                let (amount, at) = item.money()?;
                let (period, is_refund) = (self.period(at), item.user_id.text.is_empty());
                *(if is_refund { &mut period.refunded } else { &mut period.claimed }) += amount;
                return Ok(());
            }
            // A user may be suspended before any money has moved.
            Name::Of(_, Own::Wallet) if item.balance.number.is_empty() => return Ok(()),
            Name::Of(_, Own::Wallet) => {
                let balance = item.balance.number.parse::<i128>();
                self.wallets += balance.map_err(|_| "balance: a whole number".to_owned())?;
                return Ok(());
            }
            Name::Of(_, Own::InTimeline(_)) => {
                let kind = match key.sk.split('#').nth(1) {
                    Some("DEPOSIT") => MovementKind::Deposit,
                    Some("REFUND") => MovementKind::Refund,
                    _ => MovementKind::Withdrawal,
                };
                let (amount, at) = item.money()?;
                *self.period(at).timelines.of(kind) += amount;
                return Ok(());
            }
            Name::Of(_, Own::Deposit) => MovementKind::Deposit,
            Name::Of(_, Own::Withdrawal) => MovementKind::Withdrawal,
            Name::Of(_, Own::Sent(_)) => MovementKind::Sent,
            Name::Of(_, Own::Claim(_)) => MovementKind::Claim,
            Name::Of(_, Own::Refund(..)) => MovementKind::Refund,
        };
        self.add_movement(kind, name, item)
    }

    /// Adds a packet, which repeats what its sender's movement says.
    fn add_packet(&mut self, item: &Attributes) -> Result<(), Refused> {
        let (total, at) = (item.total_amount.whole("total_amount")?, item.created_at.whole("created_at")?);
        let currency = &item.currency.text;
        if *currency != self.currency {
            self.problems.add("currency", &item.key(), &self.currency, currency);
        }
        if !self.currencies.contains(currency) {
            self.currencies.insert(currency.clone());
        }
        self.period(at).sent += Sum::new(1, total);
        Ok(())
    }

    fn add_movement(&mut self, kind: MovementKind, name: Name, item: &Attributes) -> Result<(), Refused> {
        let (amount, at) = item.money()?;
        let slips = if kind == MovementKind::Refund { item.slip_count.whole("slip_count")? } else { 0 };
        let period = self.period(at);
        *period.movements.of(kind) += amount;
        period.refunded_slips += slips;
        if !(self.day.start..self.day.end).contains(&at) {
            return Ok(());
        }
        let (user, id, packet) = match name {
            Name::Of(user, Own::Refund(packet, lowest)) => (user, format!("{packet}-{lowest}"), Some(packet)),
            Name::Of(user, Own::Sent(packet) | Own::Claim(packet)) => (user, packet.to_string(), Some(packet)),
            Name::Of(user, _) => (user, item.sk.text.split_once('#').map_or("", |(_, id)| id).to_owned(), None),
            _ => return Err(Refused::Expected("a movement".to_owned())),
        };
        let packet = packet.map(|packet| packet.to_string());
        let amount = item.amount.whole("amount")?;
        self.movements.prepare_cached(ADD)?.execute(params![at, kind.name(), user.as_str(), id, packet, amount])?;
        Ok(())
    }

    /// The currency of the packets, if no packet is in the one that was asked for: then that is the mistake, not the packets.
    pub fn only_other_currency(&self) -> Option<&str> {
        if self.currencies.contains(&self.currency) { None } else { self.currencies.first().map(String::as_str) }
    }

    fn period(&mut self, at: u64) -> &mut Period {
        self.newest = self.newest.max(at);
        let [before, within, after] = &mut self.periods;
        match at {
            at if at < self.day.start => before,
            at if at < self.day.end => within,
            _ => after,
        }
    }
}
