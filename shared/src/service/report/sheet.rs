//! The file of all claims for finance: CSV by RFC 4180, with a BOM, so that spreadsheets read it as UTF-8.
//!
//! Where a spreadsheet's list separator is a semicolon, it splits lines there, also inside of quotes. So no piece of a text that follows one
//! may be a formula, a date or a number either.

use std::io::{self, ErrorKind, Write};

use csv::{Terminator, Writer, WriterBuilder};
use futures::{Stream, TryStreamExt};

use super::ReportedClaim;
use crate::domain::{Amount, DayZone, Selection};
use crate::service::Failure;

const BOM: &str = "\u{feff}";
/// What precedes each text. A spreadsheet would compute the id `=1+1`, round one of digits, and take the round `1/5` for a date.
const MARK: char = '\'';
/// The columns. While a claim may still come, another one follows, with the name [`PROVISIONAL`].
const COLUMNS: [&str; 10] = [
    "packet_id",
    "round",
    "slip",
    "user_id",
    "amount_minor",
    "amount",
    "currency",
    "grabbed_at",
    "local_time",
    "metadata",
];
const PROVISIONAL: &str = "provisional";
/// What may part cells or lines where commas do not.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];
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

/// Writes all `claims`, and a last line with their sums. `zone` is that of the column `local_time`. Once every packet is settled, the same
/// packets make the same bytes each time.
///
/// # Errors
/// See [`SheetError`].
pub async fn write_sheet<W: Write + Send>(
    mut output: W,
    claims: impl Stream<Item = Result<ReportedClaim, Failure>> + Send,
    currency: &str,
    zone: &DayZone,
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
        let round = metadata.and_then(|metadata| metadata.get(ROUND)).map(|round| text_cell(round));
        let metadata = metadata.map(|metadata| serde_json::to_string(metadata).unwrap_or_default());
        let cells = [
            text_cell(&terms.id.to_string()),
            round.unwrap_or_default(),
            claim.slip.to_string(),
            text_cell(user.as_str()),
            claim.amount.to_string(),
            claim.amount.major(&terms.currency),
            terms.currency.clone(),
            claim.at.to_string(),
            zone.clock_at(claim.at),
            // JSON may spell a character so wherever it is.
            metadata.unwrap_or_default().replace(';', "\\u003b"),
        ];
        record(&mut sheet, &cells, provisional)?;
    }
    drop(claims);
    let sums = ["sum", "", &count.to_string(), "", &sum.to_string(), &sum.major(currency), currency, "", "", ""];
    record(&mut sheet, &sums.map(str::to_owned), provisional)?;
    Ok(sheet.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
}

fn record<W: Write>(sheet: &mut Writer<W>, cells: &[String], provisional: Option<&str>) -> csv::Result<()> {
    sheet.write_record(cells.iter().map(String::as_str).chain(provisional))
}

/// The cell of a text that stays a text in every spreadsheet: a mark precedes it, and each piece of it that could get a cell of its own.
#[must_use]
pub fn text_cell(text: &str) -> String {
    let marked = |char: char| std::iter::once(char).chain(SEPARATORS.contains(&char).then_some(MARK));
    std::iter::once(MARK).chain(text.chars().flat_map(marked)).collect()
}

/// The text of such a cell; none if it has no mark.
#[must_use]
pub fn text_of_cell(cell: &str) -> Option<String> {
    let mut chars = cell.strip_prefix(MARK)?.chars();
    let mut text = String::new();
    while let Some(char) = chars.next() {
        text.push(char);
        if SEPARATORS.contains(&char) && chars.next() != Some(MARK) {
            return None;
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::stream;

    use super::*;
    use crate::domain::{Claim, Labels, Terms, Timestamp};

    #[tokio::test]
    async fn a_file_that_its_output_can_not_take_is_too_large() {
        let write = async |count: u32| {
            let claims = (0..count).map(|slip| {
                let terms = Terms::sample();
                let claim = Claim { slip, amount: Amount::new(10), at: terms.created_at };
                Ok(ReportedClaim { terms: Arc::new(terms), user: "bob".parse().unwrap(), claim })
            });
            let claims = stream::iter(claims);
            let sheet = write_sheet(Bounded::new(1_000), claims, "CNY", &DayZone::UTC, false).await;
            sheet.map(|sheet| sheet.into_bytes().len())
        };
        assert!((200..1_000).contains(&write(3).await.unwrap()));
        assert!(matches!(write(30).await, Err(SheetError::TooLarge)));
        assert!(matches!(write(3_000).await, Err(SheetError::TooLarge)), "before the last one is written");
    }

    /// The rows of a file as a spreadsheet reads it that goes by this separator. Quotes count only where a cell begins with one.
    fn cells(file: &str, separator: u8) -> Vec<String> {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            .flexible(true)
            .has_headers(false)
            .from_reader(file.as_bytes());
        let rows = reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect::<Vec<_>>());
        rows.skip(1).flatten().collect()
    }

    #[tokio::test]
    async fn texts_stay_texts_whatever_the_separator_is() {
        let texts = ["bob;=1+1;x", "=1+1", "a;;-1", "';@SUM(1)", "1/5", "1E3", "0012", "2026-11-26", "a,\"b;\"=1", ";"];
        let claims = texts.map(|text| {
            let metadata = [(ROUND.to_owned(), text.to_owned()), ("k".to_owned(), format!("{text};=2+2\t=3"))].into();
            let labels = Labels { metadata: Some(metadata), ..Labels::default() };
            let terms = Terms { labels, ..Terms::sample() };
            let claim = Claim { slip: 1, amount: Amount::new(10), at: Timestamp::from_ms(1_795_181_400_120) };
            Ok(ReportedClaim { terms: Arc::new(terms), user: text.parse().unwrap_or("u".parse().unwrap()), claim })
        });
        let zone = DayZone::DEFAULT.parse().unwrap();
        let file = write_sheet(Vec::new(), stream::iter(claims), "CNY", &zone, false).await.unwrap();
        let file = String::from_utf8(file).unwrap();
        assert!(file.contains(",2026-11-20T13:30:00.120Z,2026-11-20 21:30:00,"), "{file}");
        for separator in *b",;" {
            for cell in cells(&file, separator) {
                let begins = |signs: &[char]| cell.trim_start().starts_with(signs);
                assert!(!begins(&['=', '+', '-', '@']), "{cell:?}, {:?}", char::from(separator));
                assert!(separator == b',' || cell.is_empty() || begins(&['\'', 's', '"', '\u{feff}']), "{cell:?}");
            }
        }
        let rows = cells(&file, b',');
        for (row, text) in rows.chunks(COLUMNS.len()).zip(texts) {
            assert_eq!(text_of_cell(&row[1]).as_deref(), Some(text));
            let metadata: serde_json::Value = serde_json::from_str(&row[9]).unwrap();
            assert_eq!(metadata["k"], format!("{text};=2+2\t=3"));
        }
        assert_eq!((text_of_cell("bob"), text_of_cell("'a;b")), (None, None));
    }
}
