//! The differences between a journal and transfers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::deployment::{Failed, in_file};

/// Differences that are printed; further ones are only counted.
const LISTED_MAX: usize = 50;

/// The kinds of differences.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A transfer of the journal's day without an entry.
    MissingInLedger,
    /// An entry without a transfer.
    MissingInTransfers,
    /// A transfer of another day than the journal's, without an entry.
    OutsideDay,
    /// An entry and its transfer have different amounts.
    AmountDiffers,
    /// The amounts differ by a factor of 10, 100 or 1,000: one is not in minor units.
    UnitDiffers,
    /// An entry and its transfer have different currencies.
    CurrencyDiffers,
    /// An entry of the same id, user and amount moved money the other way.
    DirectionDiffers,
    /// An entry of the same id, kind and amount is another user's.
    UserDiffers,
    /// A transfer of another day than its entry.
    DayDiffers,
    /// A transfer that is listed again, with the same amount.
    DuplicateTransfer,
    /// A transfer whose id, kind and user are listed again, with another amount or currency.
    IdReused,
    /// A row that can't be parsed.
    MalformedRow,
    /// A row of a kind that is not compared.
    #[serde(rename = "unknown-kind")]
    NotCompared,
    /// The sums of a kind differ.
    SumDiffers,
    /// The journal itself has problems.
    JournalProblems,
}

impl Kind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingInLedger => "missing-in-ledger",
            Self::MissingInTransfers => "missing-in-transfers",
            Self::OutsideDay => "outside-day",
            Self::AmountDiffers => "amount-differs",
            Self::UnitDiffers => "unit-differs",
            Self::CurrencyDiffers => "currency-differs",
            Self::DirectionDiffers => "direction-differs",
            Self::UserDiffers => "user-differs",
            Self::DayDiffers => "day-differs",
            Self::DuplicateTransfer => "duplicate-transfer",
            Self::IdReused => "id-reused",
            Self::MalformedRow => "malformed-row",
            Self::NotCompared => "unknown-kind",
            Self::SumDiffers => "sum-differs",
            Self::JournalProblems => "journal-problems",
        }
    }
}

/// A difference.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Difference {
    pub kind: Kind,
    /// The movement, such as `deposit first of ann`, or what else differs.
    pub subject: String,
    /// What the journal says.
    pub ledger: String,
    /// What the transfers say.
    pub transfers: String,
    /// The row of the transfer in its file.
    pub row: Option<u64>,
}

/// All differences: counted by kind, and the first ones.
#[derive(Debug, Default, Serialize)]
pub struct Differences {
    pub difference_count: u64,
    pub by_kind: BTreeMap<Kind, u64>,
    #[serde(rename = "differences")]
    pub listed: Vec<Difference>,
    #[serde(skip)]
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl Differences {
    /// No differences; all that are added go to a new file at `path`, too.
    pub fn new(path: Option<&Path>) -> Result<Self, Failed> {
        let create = |path: &Path| {
            let file = File::create_new(path).map_err(in_file(path))?;
            Ok::<_, Failed>((path.to_owned(), BufWriter::new(file)))
        };
        Ok(Self { file: path.map(create).transpose()?, ..Self::default() })
    }

    pub fn add(&mut self, difference: Difference) -> Result<(), Failed> {
        self.difference_count += 1;
        *self.by_kind.entry(difference.kind).or_default() += 1;
        if let Some((path, file)) = &mut self.file {
            let text = serde_json::to_string(&difference).unwrap_or_default();
            writeln!(file, "{text}").map_err(in_file(path))?;
        }
        if self.listed.len() < LISTED_MAX {
            self.listed.push(difference);
        }
        Ok(())
    }

    /// Completes the file.
    pub fn close(&mut self) -> Result<(), Failed> {
        self.file.take().map_or(Ok(()), |(path, mut file)| file.flush().map_err(in_file(&path)))
    }
}
