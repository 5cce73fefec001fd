//! One pass over the items of a ledger, in any order: sums, the day's movements, and what contradicts itself.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::time::Duration;

use ::audit::{Fields, Malformed, Name, Own, Withdrawal, key_of, shown};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use shared::domain::{MovementKind, Timestamp, UserId};
use shared::ports::{Item, Key};

use super::sums::{Movements, Sum};
use crate::deployment::Failed;
use crate::scratch;

/// Problems that are spelt out; further ones are only counted.
const LISTED_MAX: usize = 50;

const SCHEMA: &str = "CREATE TABLE movement (time TEXT, kind TEXT, user TEXT, id TEXT, packet TEXT, amount INTEGER);
    CREATE TABLE withdrawal (id TEXT, user TEXT, amount INTEGER, status TEXT, time TEXT, ended TEXT, posted INTEGER)";
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
            let [subject, expected, found] = [subject, expected, found].map(ToString::to_string);
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

/// How long before the end of a day a withdrawal may have ended that its journal still lists: a bank may be late.
const LISTED_FOR: Duration = Duration::from_hours(30 * 24);
const ADD_WITHDRAWAL: &str = "INSERT INTO withdrawal VALUES (?, ?, ?, ?, ?, ?, ?)";

/// Stretches of time, as places among the sums.
pub const BEFORE: Range<usize> = 0..1;
pub const WITHIN: Range<usize> = 1..2;
pub const UNTIL_END: Range<usize> = 0..2;
pub const EVER: Range<usize> = 0..3;

/// All that a pass has found.
pub struct Tally {
    span: Span,
    currency: String,
    /// The day's movements.
    pub movements: Connection,
    /// What movements, and the items that repeat them, add up to: before the day, in it, and after it.
    sums: BTreeMap<&'static str, [Sum; 3]>,
    /// The sum of all wallets, without what is reserved.
    pub wallets: i128,
    /// The sum of what is reserved in them.
    pub pending: i128,
    /// The newest time in any item.
    pub newest: u64,
    pub items: u64,
    pub problems: Problems,
}

impl Tally {
    /// An empty tally of a day.
    pub fn new(span: Span, currency: &str) -> Result<Self, Failed> {
        Ok(Self {
            span,
            currency: currency.to_owned(),
            movements: scratch::database(SCHEMA)?,
            sums: BTreeMap::new(),
            wallets: 0,
            pending: 0,
            newest: 0,
            items: 0,
            problems: Problems::default(),
        })
    }

    /// Takes an item. The audit's code parses it.
    pub fn enter(&mut self, item: &Item) -> Result<(), Failed> {
        self.items += 1;
        let key = key_of(item).unwrap_or_else(|| Key { pk: String::new(), sk: String::new() });
        match self.add(&key, item) {
            Err(Failed::Malformed(Malformed(expected))) => {
                self.problem(&key, "malformed", &expected, &"something else");
                Ok(())
            }
            added => added,
        }
    }

    /// Adds an item to the sums, and a movement of the day to the others.
    fn add(&mut self, key: &Key, item: &Item) -> Result<(), Failed> {
        let fields = Fields(item);
        let amount_at = || Ok::<_, Malformed>((fields.number("amount")?, fields.number("at")?));
        let name = Name::of(key).ok_or_else(|| Malformed("a key of this ledger".to_owned()))?;
        let (kind, user, packet, lowest) = match name {
            Name::Amounts(_)
            | Name::Reference(..)
            | Name::Limited(..)
            | Name::Receiver
            | Name::SoldOut(_)
            | Name::Sending
            | Name::OperatorKey
            | Name::Deed
            | Name::Request
            | Name::CloseOrder
            | Name::Check
            | Name::Of(_, Own::SendKey | Own::Deed | Own::Day | Own::Won) => {
                return Ok(());
            }
            Name::Packet(_) => {
                let currency = fields.text("currency").unwrap_or_default();
                if currency != self.currency {
                    self.problem(key, "currency", &self.currency.clone(), &currency);
                }
                self.sum(fields.number("created_at")?, "packet", 1, fields.number("total_amount")?);
                return Ok(());
            }
            Name::Decision(..) => {
                let (amount, at) = amount_at()?;
                self.sum(at, if fields.has("user_id") { "slip of a user" } else { "slip of nobody" }, 1, amount);
                return Ok(());
            }
            Name::Of(_, Own::Wallet) => {
                self.wallets += fields.total("balance")?;
                self.pending += fields.total("pending")?;
                return Ok(());
            }
            Name::Of(_, Own::InTimeline(_)) => {
                let (amount, at) = amount_at()?;
                let kind = key.sk.split('#').nth(1);
                let what = ["DEPOSIT", "REFUND", "RETURN", "WITHDRAW"].into_iter().find(|what| Some(*what) == kind);
                if let Some(what) = what {
                    self.sum(at, what, 1, amount);
                }
                return Ok(());
            }
            Name::Of(user, Own::Withdrawal) => return self.add_withdrawal(key, &user, &Withdrawal::read(item)?),
            Name::Of(user, Own::Deposit) => (MovementKind::Deposit, user, None, None),
            Name::Of(user, Own::Sent(packet)) => (MovementKind::Sent, user, Some(packet), None),
            Name::Of(user, Own::Claim(packet)) => (MovementKind::Claim, user, Some(packet), None),
            Name::Of(user, Own::Refund(packet, lowest)) => (MovementKind::Refund, user, Some(packet), Some(lowest)),
        };
        let ((amount, at), kind) = (amount_at()?, kind.name());
        if lowest.is_some() {
            self.sum(at, "refunded slip", fields.number("slip_count")?, amount);
        }
        self.sum(at, kind, 1, amount);
        let packet = packet.map(|packet| packet.to_string());
        let id = match (&packet, lowest) {
            (Some(packet), Some(lowest)) => format!("{packet}-{lowest}"),
            (Some(packet), None) => packet.clone(),
            (None, _) => id_of(key).to_owned(),
        };
        self.add_entry(at, kind, &user, &id, packet.as_deref(), amount)
    }

    /// Adds a withdrawal. One in two steps reserves its amount, and releases it when it ends; if it is posted, the money then leaves the wallet.
    fn add_withdrawal(&mut self, key: &Key, user: &UserId, withdrawal: &Withdrawal) -> Result<(), Failed> {
        let (id, Withdrawal { amount, at, posted, pending, returned, ended_at }) = (id_of(key), *withdrawal);
        self.sum(at, "withdrawal that was made", 1, amount);
        let movement = |tally: &mut Self, at, kind, amount| {
            tally.sum(at, kind, 1, amount);
            tally.add_entry(at, kind, user, id, None, amount)
        };
        if pending == 0 && ended_at.is_none() {
            return movement(self, at, "withdrawal", amount);
        }
        movement(self, at, "reserve", amount)?;
        if let Some(ended_at) = ended_at {
            movement(self, ended_at, "release", amount)?;
            if posted > 0 {
                movement(self, ended_at, "withdrawal", posted)?;
            }
            if returned > 0 {
                self.sum(ended_at, "return", 1, returned);
            }
        }
        let listed_since = Timestamp::from_ms(self.span.end).before(LISTED_FOR).ms();
        if at < self.span.end && ended_at.is_none_or(|ended_at| ended_at >= listed_since) {
            let ended_at = ended_at.filter(|at| *at < self.span.end);
            let status = match ended_at {
                None => "pending",
                Some(_) if posted > 0 => "posted",
                Some(_) => "voided",
            };
            let ended = ended_at.map(|at| Timestamp::from_ms(at).to_string());
            let posted = ended_at.map(|_| posted).filter(|posted| *posted > 0);
            let mut add = self.movements.prepare_cached(ADD_WITHDRAWAL)?;
            add.execute(params![id, user.as_str(), amount, status, Timestamp::from_ms(at).to_string(), ended, posted])?;
        }
        Ok(())
    }

    /// Adds a movement to those of the day, if it is one.
    fn add_entry(
        &self,
        at: u64,
        kind: &str,
        user: &UserId,
        id: &str,
        packet: Option<&str>,
        amount: u64,
    ) -> Result<(), Failed> {
        if WITHIN.contains(&self.place(at)) {
            let time = Timestamp::from_ms(at).to_string();
            let mut add = self.movements.prepare_cached(ADD)?;
            add.execute(params![time, kind, user.as_str(), id, packet, amount])?;
        }
        Ok(())
    }

    fn problem(&mut self, key: &Key, kind: &str, expected: &dyn Display, found: &dyn Display) {
        self.problems.add(kind, &shown(key), expected, found);
    }

    fn sum(&mut self, at: u64, what: &'static str, count: u64, amount: u64) {
        self.newest = self.newest.max(at);
        let place = self.place(at);
        let sum = &mut self.sums.entry(what).or_default()[place];
        *sum = *sum + Sum { count, amount: amount.into() };
    }

    /// The place of a moment among the sums.
    fn place(&self, at: u64) -> usize {
        usize::from(at >= self.span.start) + usize::from(at >= self.span.end)
    }

    /// What this adds up to in a stretch of time.
    pub fn of(&self, when: Range<usize>, what: &str) -> Sum {
        let sums = self.sums.get(what).and_then(|sums| sums.get(when)).unwrap_or_default();
        sums.iter().fold(Sum::default(), |all, sum| all + *sum)
    }

    /// How many withdrawals in two steps are listed.
    pub fn withdrawals(&self) -> Result<u64, Failed> {
        Ok(self.movements.query_row("SELECT count(*) FROM withdrawal", [], |row| row.get(0))?)
    }

    /// The movements of a stretch of time.
    pub fn movements(&self, when: Range<usize>) -> Movements {
        Movements::new(|kind| self.of(when.clone(), kind))
    }
}

/// The id in the key of a deposit or a withdrawal.
fn id_of(key: &Key) -> &str {
    key.sk.split_once('#').map_or("", |(_, id)| id)
}
