//! The file of all claims for finance: CSV by RFC 4180, with a BOM, so that spreadsheets read it as UTF-8.

use std::io::{self, ErrorKind, Write};

use csv::{Terminator, Writer, WriterBuilder};
use futures::{Stream, TryStreamExt};

use super::ReportedClaim;
use crate::domain::{Amount, Selection};
use crate::service::Failure;

const BOM: &str = "\u{feff}";
/// What precedes each id. A spreadsheet would compute the id `=1+1`, and round one of digits.
const MARK: &str = "'";
/// The columns. While a claim may still come, another one follows, with the name [`PROVISIONAL`].
const COLUMNS: [&str; 9] =
    ["packet_id", "round", "slip", "user_id", "amount_minor", "amount", "currency", "grabbed_at", "metadata"];
const PROVISIONAL: &str = "provisional";
/// The key of a packet's metadata that the column `round` shows.
const ROUND: &str = "round";

/// Why no file was written.
#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    /// The claims were not read.
    #[error("{0}")]
    Read(#[from] Failure),
    /// The file was not written.
    #[error("{0}")]
    Write(csv::Error),
    /// It would be larger than its output may be.
    #[error("it would be too large")]
    TooLarge,
}

impl From<csv::Error> for SheetError {
    fn from(error: csv::Error) -> Self {
        match error.kind() {
            csv::ErrorKind::Io(cause) if cause.kind() == ErrorKind::FileTooLarge => Self::TooLarge,
            _ => Self::Write(error),
        }
    }
}

/// An output in memory that takes at most so many bytes.
#[derive(Debug)]
pub struct Bounded {
    written: Vec<u8>,
    most: usize,
}

impl Bounded {
    /// An empty one, for at most `most` bytes.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { written: Vec::new(), most }
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.written
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written.len() + bytes.len() > self.most {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The name of the file: `claims-spring-2027.csv`, or `claims-spring-2027-provisional.csv`.
#[must_use]
pub fn sheet_name(of: &Selection, is_provisional: bool) -> String {
    let key = of.limit_key.as_ref().map(crate::domain::LimitKey::as_str);
    let name = of.reference.as_ref().map(crate::domain::Reference::as_str).or(key).unwrap_or_default();
    // No file begins with a dot, and no system takes a colon.
    format!("claims-{}{}.csv", name.replace(':', "_"), if is_provisional { "-provisional" } else { "" })
}

/// Writes all `claims`, and a last line with their sums. Once every packet is settled, the same packets make the same
/// bytes each time.
///
/// # Errors
/// See [`SheetError`].
pub async fn write_sheet<W: Write + Send>(
    mut output: W,
    claims: impl Stream<Item = Result<ReportedClaim, Failure>> + Send,
    currency: &str,
    is_provisional: bool,
) -> Result<W, SheetError> {
    output.write_all(BOM.as_bytes()).map_err(csv::Error::from)?;
    let mut sheet = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(output);
    let provisional = is_provisional.then_some("yes");
    sheet.write_record(COLUMNS.into_iter().chain(is_provisional.then_some(PROVISIONAL)))?;
    let (mut count, mut sum) = (0_usize, Amount::ZERO);
    let mut claims = Box::pin(claims);
    while let Some(ReportedClaim { terms, user, claim }) = claims.try_next().await? {
        (count, sum) = (count + 1, [sum, claim.amount].into_iter().sum());
        let metadata = terms.labels.metadata.as_ref();
        let round = metadata.and_then(|metadata| metadata.get(ROUND)).map(|round| harmless(round));
        let metadata = metadata.map(|metadata| serde_json::to_string(metadata).unwrap_or_default());
        let cells = [
            format!("{MARK}{}", terms.id),
            round.unwrap_or_default(),
            claim.slip.to_string(),
            format!("{MARK}{user}"),
            claim.amount.to_string(),
            claim.amount.major(&terms.currency),
            terms.currency.clone(),
            claim.at.to_string(),
            metadata.unwrap_or_default(),
        ];
        record(&mut sheet, &cells, provisional)?;
    }
    drop(claims);
    let sums = ["sum", "", &count.to_string(), "", &sum.to_string(), &sum.major(currency), currency, "", ""];
    record(&mut sheet, &sums.map(str::to_owned), provisional)?;
    Ok(sheet.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
}

fn record<W: Write>(sheet: &mut Writer<W>, cells: &[String], provisional: Option<&str>) -> csv::Result<()> {
    sheet.write_record(cells.iter().map(String::as_str).chain(provisional))
}

/// A text that no spreadsheet computes.
fn harmless(text: &str) -> String {
    let is_formula = text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    format!("{}{text}", if is_formula { MARK } else { "" })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::stream;

    use super::*;
    use crate::domain::{Claim, Terms};

    #[tokio::test]
    async fn a_file_that_its_output_can_not_take_is_too_large() {
        let write = async |count: u32| {
            let claims = (0..count).map(|slip| {
                let terms = Terms::sample();
                let claim = Claim { slip, amount: Amount::new(10), at: terms.created_at };
                Ok(ReportedClaim { terms: Arc::new(terms), user: "bob".parse().unwrap(), claim })
            });
            let sheet = write_sheet(Bounded::new(1_000), stream::iter(claims), "CNY", false).await;
            sheet.map(|sheet| sheet.into_bytes().len())
        };
        assert!((200..1_000).contains(&write(3).await.unwrap()));
        assert!(matches!(write(30).await, Err(SheetError::TooLarge)));
        assert!(matches!(write(3_000).await, Err(SheetError::TooLarge)), "before the last one is written");
    }
}
