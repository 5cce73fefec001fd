//! Compares entries and transfers that come sorted by id, kind and user.

use std::borrow::Cow;

use shared::domain::{MovementKind, Timestamp};

use super::difference::{Difference, Differences, Kind};
use crate::deployment::Failed;
use crate::journal::Span;

/// Movements of one id that wait for a counterpart, on each side. Further ones are compared with nothing.
const WAITING_MAX: usize = 1_000;

/// Where a movement was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    Ledger,
    Transfers,
}

/// A movement as one side has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    pub id: String,
    pub kind: MovementKind,
    pub user: String,
    pub side: Side,
    pub amount: u64,
    pub currency: String,
    /// Milliseconds since the epoch.
    pub at: u64,
    /// The line of the journal, or the row of the transfers.
    pub row: u64,
}

impl Found {
    /// The movement as bytes that sort by id, kind and user; the ledger's before the transfers'.
    pub fn write(&self, record: &mut Vec<u8>) {
        record.clear();
        record.extend_from_slice(self.id.as_bytes());
        record.extend_from_slice(&[0, self.kind as u8]);
        record.extend_from_slice(self.user.as_bytes());
        record.extend_from_slice(&[0, self.side as u8]);
        record.extend_from_slice(self.currency.as_bytes());
        record.push(0);
        for number in [self.amount, self.at, self.row] {
            record.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// Reads what [`Self::write`] wrote.
    pub fn read(record: &[u8]) -> Option<Self> {
        let (id, record) = text(record)?;
        let (kind, record) = record.split_first()?;
        let (user, record) = text(record)?;
        let (side, record) = record.split_first()?;
        let (currency, record) = text(record)?;
        let mut numbers = record.chunks_exact(8).filter_map(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)));
        Some(Self {
            id,
            kind: MovementKind::ALL.into_iter().find(|one| *one as u8 == *kind)?,
            user,
            side: if *side == Side::Ledger as u8 { Side::Ledger } else { Side::Transfers },
            amount: numbers.next()?,
            currency,
            at: numbers.next()?,
            row: numbers.next()?,
        })
    }

    fn subject(&self) -> String {
        format!("{} {} of {}", self.kind.name(), self.id, self.user)
    }

    fn money(&self) -> (u64, &str) {
        (self.amount, &self.currency)
    }

    fn shown(&self) -> String {
        format!("{} {} at {}", self.amount, self.currency, Timestamp::from_ms(self.at))
    }

    fn is_same_movement(&self, other: &Self) -> bool {
        (&self.id, self.kind, &self.user) == (&other.id, other.kind, &other.user)
    }
}

/// A text up to a zero byte, and what follows it.
fn text(record: &[u8]) -> Option<(String, &[u8])> {
    let end = record.iter().position(|byte| *byte == 0)?;
    Some((String::from_utf8(record[..end].to_vec()).ok()?, &record[end + 1..]))
}

/// Takes movements in order and names their differences.
pub struct Matching {
    day: Span,
    pub differences: Differences,
    /// The entry and the transfers of the movement that is read.
    entry: Option<Found>,
    transfers: Vec<Found>,
    /// Whether a transfer equals the entry.
    is_matched: bool,
    /// Entries without a transfer, and transfers without an entry, of the id that is read.
    lone_entries: Vec<Found>,
    lone_transfers: Vec<Found>,
}

impl Matching {
    pub const fn new(day: Span, differences: Differences) -> Self {
        Self {
            day,
            differences,
            entry: None,
            transfers: Vec::new(),
            is_matched: false,
            lone_entries: Vec::new(),
            lone_transfers: Vec::new(),
        }
    }

    /// Takes the next movement.
    pub fn take(&mut self, found: Found) -> Result<(), Failed> {
        let last = self.entry.as_ref().or(self.transfers.last());
        let ended = last.filter(|last| !last.is_same_movement(&found)).map(|last| last.id != found.id);
        if let Some(is_new_id) = ended {
            self.end_movement()?;
            if is_new_id {
                self.end_id()?;
            }
        }
        match (&self.entry, found.side) {
            (None, Side::Ledger) => self.entry = Some(found),
            (_, Side::Ledger) => {
                return Err(Failed::Unverifiable(format!("the journal has {} twice", found.subject())));
            }
            (Some(entry), Side::Transfers) if !self.is_matched && entry.money() == found.money() => {
                self.is_matched = true;
                let entry = entry.clone();
                self.check_day(&entry, &found)?;
            }
            (_, Side::Transfers) if self.transfers.len() < WAITING_MAX => self.transfers.push(found),
            (_, Side::Transfers) => self.again(&found)?,
        }
        Ok(())
    }

    /// Ends the comparison: nothing follows.
    pub fn end(mut self) -> Result<Differences, Failed> {
        self.end_movement()?;
        self.end_id()?;
        self.differences.close()?;
        Ok(self.differences)
    }

    /// Compares the entry with its transfers. Those that are left over repeat one.
    fn end_movement(&mut self) -> Result<(), Failed> {
        let entry = self.entry.take();
        let mut others = std::mem::take(&mut self.transfers).into_iter();
        let is_matched = std::mem::take(&mut self.is_matched);
        let first = match (entry, is_matched) {
            (Some(entry), true) => entry,
            (Some(entry), false) => match others.next() {
                Some(transfer) => {
                    self.compare(&entry, &transfer)?;
                    transfer
                }
                None => return self.wait(entry),
            },
            (None, _) => match others.next() {
                Some(transfer) => {
                    self.wait(transfer.clone())?;
                    transfer
                }
                None => return Ok(()),
            },
        };
        for other in others {
            let kind = if first.money() == other.money() { Kind::DuplicateTransfer } else { Kind::IdReused };
            self.add(kind, Some(&first), Some(&other))?;
        }
        Ok(())
    }

    /// A transfer beyond those that wait.
    fn again(&mut self, transfer: &Found) -> Result<(), Failed> {
        let first = self.entry.clone().or_else(|| self.transfers.first().cloned());
        let is_same = first.as_ref().is_some_and(|first| first.money() == transfer.money());
        self.add(if is_same { Kind::DuplicateTransfer } else { Kind::IdReused }, first.as_ref(), Some(transfer))
    }

    fn compare(&mut self, entry: &Found, transfer: &Found) -> Result<(), Failed> {
        if entry.currency != transfer.currency {
            self.add(Kind::CurrencyDiffers, Some(entry), Some(transfer))?;
        }
        if entry.amount != transfer.amount {
            let kind = if is_scaled(entry.amount, transfer.amount) { Kind::UnitDiffers } else { Kind::AmountDiffers };
            self.add(kind, Some(entry), Some(transfer))?;
        }
        self.check_day(entry, transfer)
    }

    fn check_day(&mut self, entry: &Found, transfer: &Found) -> Result<(), Failed> {
        if self.is_in_day(transfer) { Ok(()) } else { self.add(Kind::DayDiffers, Some(entry), Some(transfer)) }
    }

    fn is_in_day(&self, found: &Found) -> bool {
        (self.day.start..self.day.end).contains(&found.at)
    }

    /// Keeps a movement without a counterpart until its id ends.
    fn wait(&mut self, found: Found) -> Result<(), Failed> {
        let waiting = match found.side {
            Side::Ledger => &mut self.lone_entries,
            Side::Transfers => &mut self.lone_transfers,
        };
        if waiting.len() < WAITING_MAX {
            waiting.push(found);
            return Ok(());
        }
        self.is_missing(&found)
    }

    /// Looks for counterparts of another user, or in the other direction, among what is left of an id.
    fn end_id(&mut self) -> Result<(), Failed> {
        let mut entries = std::mem::take(&mut self.lone_entries);
        for transfer in std::mem::take(&mut self.lone_transfers) {
            let like = |entry: &Found| match (entry.user == transfer.user, entry.kind == transfer.kind) {
                _ if entry.money() != transfer.money() => None,
                (true, false) => Some(Kind::DirectionDiffers),
                (false, true) => Some(Kind::UserDiffers),
                _ => None,
            };
            let found = entries.iter().enumerate().find_map(|(place, entry)| Some((place, like(entry)?)));
            match found {
                Some((place, kind)) => {
                    let entry = entries.swap_remove(place);
                    self.add(kind, Some(&entry), Some(&transfer))?;
                    self.check_day(&entry, &transfer)?;
                }
                None => self.is_missing(&transfer)?,
            }
        }
        entries.iter().try_for_each(|entry| self.is_missing(entry))
    }

    fn is_missing(&mut self, found: &Found) -> Result<(), Failed> {
        match found.side {
            Side::Ledger => self.add(Kind::MissingInTransfers, Some(found), None),
            Side::Transfers if self.is_in_day(found) => self.add(Kind::MissingInLedger, None, Some(found)),
            Side::Transfers => self.add(Kind::OutsideDay, None, Some(found)),
        }
    }

    /// Adds a difference. For a repeated transfer, the first column is what it repeats.
    fn add(&mut self, kind: Kind, entry: Option<&Found>, transfer: Option<&Found>) -> Result<(), Failed> {
        let shown = |found: Option<&Found>, other: Option<&Found>| match (found, other) {
            (None, _) => Cow::from("nothing"),
            (Some(found), Some(other)) if !found.is_same_movement(other) => {
                format!("{}: {}", found.subject(), found.shown()).into()
            }
            (Some(found), _) => found.shown().into(),
        };
        self.differences.add(Difference {
            kind,
            subject: entry.or(transfer).map(Found::subject).unwrap_or_default(),
            ledger: shown(entry, None).into_owned(),
            transfers: shown(transfer, entry).into_owned(),
            row: transfer.map(|transfer| transfer.row),
        })
    }
}

/// Whether one amount is the other one in another unit.
fn is_scaled(one: u64, other: u64) -> bool {
    let (small, large) = (one.min(other), one.max(other));
    [10, 100, 1_000].into_iter().any(|factor| small.checked_mul(factor) == Some(large))
}
