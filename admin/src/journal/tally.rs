//! One pass over the items of a ledger, in any order: sums, the day's entries, and what contradicts itself.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use shared::domain::MovementKind;

use super::entry::{Movements, Sum};
use super::fact::{self, Attributes, Fact};
use crate::sort::Sorter;

/// Problems that are spelt out; further ones are only counted.
const LISTED_MAX: usize = 50;

/// Something that is wrong with the ledger, its export, or the day before.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The item or the sum.
    pub subject: String,
    pub expected: String,
    pub found: String,
}

/// The kinds of problems.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// An item that can't be parsed, or whose key has no meaning.
    Malformed,
    /// A packet in another currency.
    Currency,
    /// Movements that differ from the packets and slip decisions that repeat them.
    Copies,
    /// A class of accounts with more debits than credits.
    Negative,
    /// Wallets, or the undecided slips of packets, that differ from the sum of all movements.
    State,
    /// An opening that differs from the closing of the day before.
    Previous,
}

impl ProblemKind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Currency => "currency",
            Self::Copies => "copies",
            Self::Negative => "negative",
            Self::State => "state",
            Self::Previous => "previous",
        }
    }
}

/// Problems: their number, and the first ones.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Problems {
    pub problem_count: u64,
    pub problems: Vec<Problem>,
}

impl Problems {
    pub fn add(
        &mut self,
        kind: ProblemKind,
        subject: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.problem_count += 1;
        if self.problems.len() < LISTED_MAX {
            let (subject, expected, found) = (subject.into(), expected.into(), found.into());
            self.problems.push(Problem { kind, subject, expected, found });
        }
    }

    fn append(&mut self, other: Self) {
        self.problem_count += other.problem_count;
        self.problems.extend(other.problems);
        self.problems.truncate(LISTED_MAX);
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
    pub refunded_slips: u64,
    /// What items of packets say of the same time.
    pub copies: Copies,
}

/// The sums of what movements should equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copies {
    /// Packets.
    pub sent: Sum,
    /// Slips that decisions give to users.
    pub claimed: Sum,
    /// Slips that decisions give back.
    pub refunded: Sum,
    /// The copies of deposits, refunds and withdrawals in timelines.
    pub timelines: Movements,
}

/// All that a pass has found.
pub struct Tally {
    day: Span,
    currency: String,
    /// The day's entries.
    pub entries: Sorter,
    pub before: Period,
    pub within: Period,
    pub after: Period,
    /// The sum of all wallets.
    pub wallets: i128,
    /// Whether a packet is in the currency.
    has_currency: bool,
    /// The currency of a packet in another one.
    other_currency: Option<String>,
    /// Whether a version with timelines wrote anything. An older one has no copies of its movements.
    pub has_timelines: bool,
    /// The newest time in any item.
    pub newest: u64,
    pub items: u64,
    pub problems: Problems,
    record: Vec<u8>,
}

impl Tally {
    /// An empty tally of `day`, which keeps `memory` bytes of entries in memory and the others in `folder`.
    pub fn new(day: Span, currency: &str, folder: &Path, memory: usize) -> Self {
        Self {
            day,
            currency: currency.to_owned(),
            entries: Sorter::new(folder, memory),
            before: Period::default(),
            within: Period::default(),
            after: Period::default(),
            wallets: 0,
            has_currency: false,
            other_currency: None,
            has_timelines: false,
            newest: 0,
            items: 0,
            problems: Problems::default(),
            record: Vec::new(),
        }
    }

    /// Takes an item.
    pub fn enter(&mut self, item: &Attributes<'_>) -> io::Result<()> {
        self.items += 1;
        match fact::read(item) {
            Err(expected) => self.problems.add(ProblemKind::Malformed, item.key(), expected, "something else"),
            Ok(Fact::Silent) => {}
            Ok(Fact::Wallet { balance }) => self.wallets += balance,
            Ok(Fact::Packet { total, at, currency }) => {
                if currency == self.currency {
                    self.has_currency = true;
                } else {
                    self.problems.add(ProblemKind::Currency, item.key(), &*self.currency, currency);
                    self.other_currency = Some(currency.to_owned());
                }
                self.period(at).copies.sent += Sum::new(1, total);
            }
            Ok(Fact::Decision { refunded, amount, at }) => {
                let copies = &mut self.period(at).copies;
                *(if refunded { &mut copies.refunded } else { &mut copies.claimed }) += Sum::new(1, amount);
            }
            Ok(Fact::Copy { kind, amount, at }) => {
                self.has_timelines = true;
                self.period(at).copies.timelines[kind] += Sum::new(1, amount);
            }
            Ok(Fact::Movement { entry, slips }) => {
                let period = self.period(entry.at);
                period.movements[entry.kind] += Sum::new(1, entry.amount);
                if entry.kind == MovementKind::Refund {
                    period.refunded_slips += slips;
                }
                if (self.day.start..self.day.end).contains(&entry.at) {
                    entry.write(&mut self.record);
                    self.entries.push(&self.record)?;
                }
            }
        }
        Ok(())
    }

    /// The currency of the packets, if no packet is in the one that was asked for: then that is the mistake, not the packets.
    pub fn only_other_currency(&self) -> Option<&str> {
        if self.has_currency { None } else { self.other_currency.as_deref() }
    }

    fn period(&mut self, at: u64) -> &mut Period {
        self.newest = self.newest.max(at);
        match at {
            at if at < self.day.start => &mut self.before,
            at if at < self.day.end => &mut self.within,
            _ => &mut self.after,
        }
    }

    /// Takes all that another tally of the same day has found.
    pub fn append(&mut self, other: Self) -> io::Result<()> {
        self.before.add(&other.before);
        self.within.add(&other.within);
        self.after.add(&other.after);
        self.wallets += other.wallets;
        self.has_currency |= other.has_currency;
        self.other_currency = self.other_currency.take().or(other.other_currency);
        self.has_timelines |= other.has_timelines;
        self.newest = self.newest.max(other.newest);
        self.items += other.items;
        self.problems.append(other.problems);
        self.entries.append(other.entries)
    }
}

impl Period {
    fn add(&mut self, other: &Self) {
        self.movements = self.movements + other.movements;
        self.refunded_slips += other.refunded_slips;
        self.copies.sent += other.copies.sent;
        self.copies.claimed += other.copies.claimed;
        self.copies.refunded += other.copies.refunded;
        self.copies.timelines = self.copies.timelines + other.copies.timelines;
    }

    /// What movements and their copies say, where they differ: the name, the movements' sum and the copies' one.
    pub fn differences(&self, has_timelines: bool) -> impl Iterator<Item = (&'static str, Sum, Sum)> {
        let Self { movements, refunded_slips, copies } = self;
        let refunds = Sum { count: *refunded_slips, amount: movements.refund.amount };
        let timelines = [
            ("deposits in timelines", movements.deposit, copies.timelines.deposit),
            ("refunds in timelines", movements.refund, copies.timelines.refund),
            ("withdrawals in timelines", movements.withdrawal, copies.timelines.withdrawal),
        ];
        [
            ("packets sent", movements.sent, copies.sent),
            ("slips claimed", movements.claim, copies.claimed),
            ("slips refunded", refunds, copies.refunded),
        ]
        .into_iter()
        .chain(timelines.into_iter().filter(move |_| has_timelines))
        .filter(|(_, movements, copies)| movements != copies)
    }
}
