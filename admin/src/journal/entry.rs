//! The entries of the journal: a movement as a debit of one account and a credit of another.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum as SumOf;
use std::ops::{Add, AddAssign, Index, IndexMut};

use serde::{Deserialize, Serialize};
use shared::domain::{MovementKind, Timestamp};

/// The account of all money outside this deployment.
pub const EXTERNAL: &str = "external";

/// A movement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry<'a> {
    /// Milliseconds since the epoch.
    pub at: u64,
    pub kind: MovementKind,
    pub user: &'a str,
    /// Its name among the user's movements of this kind, as in the operator's API.
    pub id: Cow<'a, str>,
    /// Minor units.
    pub amount: u64,
}

/// An entry as the files show it.
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Line<'a> {
    pub time: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub user: Cow<'a, str>,
    pub id: Cow<'a, str>,
    /// The packet; none for a deposit or a withdrawal.
    pub packet: Option<Cow<'a, str>>,
    /// The account that the money leaves.
    pub debit: Cow<'a, str>,
    /// The account that the money reaches.
    pub credit: Cow<'a, str>,
    pub amount: u64,
    pub currency: Cow<'a, str>,
}

impl<'a> Entry<'a> {
    /// The entry as bytes that sort by time, then by kind, user and id.
    pub fn write(&self, record: &mut Vec<u8>) {
        record.clear();
        record.extend_from_slice(&self.at.to_be_bytes());
        record.push(self.kind as u8);
        // No user and no id has a zero byte.
        for text in [self.user, &*self.id] {
            record.extend_from_slice(text.as_bytes());
            record.push(0);
        }
        record.extend_from_slice(&self.amount.to_be_bytes());
    }

    /// Reads what [`Self::write`] wrote.
    pub fn read(record: &'a [u8]) -> Option<Self> {
        let (at, record) = record.split_first_chunk()?;
        let (kind, record) = record.split_first()?;
        let (record, amount) = record.split_last_chunk()?;
        let mut texts = record.split(|byte| *byte == 0).map(|text| std::str::from_utf8(text).ok());
        Some(Self {
            at: u64::from_be_bytes(*at),
            kind: MovementKind::ALL.into_iter().find(|one| *one as u8 == *kind)?,
            user: texts.next()??,
            id: texts.next()??.into(),
            amount: u64::from_be_bytes(*amount),
        })
    }

    /// The packet's id, if the movement is one of a packet.
    pub fn packet(&self) -> Option<&str> {
        match self.kind {
            MovementKind::Claim | MovementKind::Sent => Some(&self.id),
            // No packet's id has a hyphen.
            MovementKind::Refund => self.id.split_once('-').map(|(packet, _)| packet),
            MovementKind::Deposit | MovementKind::Withdrawal => None,
        }
    }

    /// The entry as the files show it.
    pub fn line<'b>(&'b self, currency: &'b str) -> Line<'b> {
        let wallet = || format!("wallet:{}", self.user).into();
        let packet = || format!("packet:{}", self.packet().unwrap_or_default()).into();
        let outside = || EXTERNAL.into();
        let (debit, credit) = match self.kind {
            MovementKind::Deposit => (outside(), wallet()),
            MovementKind::Sent => (wallet(), packet()),
            MovementKind::Claim | MovementKind::Refund => (packet(), wallet()),
            MovementKind::Withdrawal => (wallet(), outside()),
        };
        Line {
            time: Timestamp::from_ms(self.at).to_string().into(),
            kind: self.kind.name().into(),
            user: self.user.into(),
            id: (&*self.id).into(),
            packet: self.packet().map(Into::into),
            debit,
            credit,
            amount: self.amount,
            currency: currency.into(),
        }
    }
}

/// A number of movements, and the sum of their amounts in minor units.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sum {
    pub count: u64,
    pub amount: i128,
}

impl Sum {
    /// `count` movements of `amount` together.
    pub fn new(count: u64, amount: u64) -> Self {
        Self { count, amount: amount.into() }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.amount += other.amount;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, self.amount)
    }
}

/// Sums of movements, by kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Movements {
    pub deposit: Sum,
    pub sent: Sum,
    pub claim: Sum,
    pub refund: Sum,
    pub withdrawal: Sum,
}

/// The kinds in the order of the accounts: how money comes in, moves, and goes out.
pub const KINDS: [MovementKind; 5] =
    [MovementKind::Deposit, MovementKind::Sent, MovementKind::Claim, MovementKind::Refund, MovementKind::Withdrawal];

impl Index<MovementKind> for Movements {
    type Output = Sum;

    fn index(&self, kind: MovementKind) -> &Sum {
        match kind {
            MovementKind::Deposit => &self.deposit,
            MovementKind::Sent => &self.sent,
            MovementKind::Claim => &self.claim,
            MovementKind::Refund => &self.refund,
            MovementKind::Withdrawal => &self.withdrawal,
        }
    }
}

impl IndexMut<MovementKind> for Movements {
    fn index_mut(&mut self, kind: MovementKind) -> &mut Sum {
        match kind {
            MovementKind::Deposit => &mut self.deposit,
            MovementKind::Sent => &mut self.sent,
            MovementKind::Claim => &mut self.claim,
            MovementKind::Refund => &mut self.refund,
            MovementKind::Withdrawal => &mut self.withdrawal,
        }
    }
}

impl Add for Movements {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for kind in KINDS {
            self[kind] += other[kind];
        }
        self
    }
}

impl SumOf for Movements {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// The balance of each class of accounts: its credits less its debits. Together they are always zero.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Classes {
    /// Money outside: negative while there is money in the deployment.
    pub external: i128,
    pub wallets: i128,
    pub packets: i128,
}

impl Classes {
    /// The balances of accounts that began with nothing.
    pub const fn of(movements: &Movements) -> Self {
        let Movements { deposit, sent, claim, refund, withdrawal } = movements;
        Self {
            external: withdrawal.amount - deposit.amount,
            wallets: deposit.amount - sent.amount + claim.amount + refund.amount - withdrawal.amount,
            packets: sent.amount - claim.amount - refund.amount,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKET: &str = "38FS4S83HF3Y07WMYNH727QYT0";

    fn entry(kind: MovementKind) -> Entry<'static> {
        let id = match kind {
            MovementKind::Claim | MovementKind::Sent => PACKET.into(),
            MovementKind::Refund => format!("{PACKET}-90").into(),
            MovementKind::Deposit | MovementKind::Withdrawal => "first".into(),
        };
        Entry { at: 1_795_392_000_001, kind, user: "ann", id, amount: 520 }
    }

    #[test]
    fn each_kind_debits_one_account_and_credits_another() {
        let packet = format!("packet:{PACKET}");
        for (kind, debit, credit, of) in [
            (MovementKind::Deposit, EXTERNAL, "wallet:ann", None),
            (MovementKind::Sent, "wallet:ann", &*packet, Some(PACKET)),
            (MovementKind::Claim, &*packet, "wallet:ann", Some(PACKET)),
            (MovementKind::Refund, &*packet, "wallet:ann", Some(PACKET)),
            (MovementKind::Withdrawal, "wallet:ann", EXTERNAL, None),
        ] {
            let entry = entry(kind);
            let line = entry.line("CNY");
            assert_eq!((&*line.debit, &*line.credit, line.packet.as_deref()), (debit, credit, of));
            assert_eq!((&*line.time, line.amount, &*line.currency), ("2026-11-23T00:00:00.001Z", 520, "CNY"));
        }
    }

    #[test]
    fn entries_sort_by_time_first() {
        let record = |entry: &Entry| {
            let mut record = Vec::new();
            entry.write(&mut record);
            record
        };
        let first = entry(MovementKind::Withdrawal);
        let later = Entry { at: first.at + 1, user: "aaa", ..entry(MovementKind::Claim) };
        assert!(record(&first) < record(&later));
        assert!(record(&entry(MovementKind::Claim)) < record(&entry(MovementKind::Deposit)), "as the API orders ties");
    }

    proptest! {
        #[test]
        fn an_entry_comes_back_from_its_bytes(
            at: u64, kind in 0_usize..5, user in "[!-~]{1,128}", id in "[A-Za-z0-9_-]{1,64}", amount: u64,
        ) {
            let entry = Entry { at, kind: KINDS[kind], user: &user, id: id.into(), amount };
            let mut record = vec![7];
            entry.write(&mut record);
            prop_assert_eq!(Entry::read(&record), Some(entry));
        }

        #[test]
        fn the_classes_of_any_movements_are_balanced(amounts in proptest::collection::vec((0_usize..5, 0_u64..1 << 60), 0..50)) {
            let mut movements = Movements::default();
            for (kind, amount) in amounts {
                movements[KINDS[kind]] += Sum::new(1, amount);
            }
            let Classes { external, wallets, packets } = Classes::of(&movements);
            prop_assert_eq!(external + wallets + packets, 0);
        }
    }
}
