//! The file of all claims of a sender's packets that belong together, for finance.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use serde_json::json;
use shared::domain::Selection;
use shared::service::{CampaignReports, SheetError, sheet_name, write_sheet};
use tempfile::NamedTempFile;

use crate::deployment::{Failed, Table, in_file};
use crate::options::Report;
use crate::{Exit, Outcome};

/// Writes the file under its name once all is in it. It replaces one of before.
pub async fn run(table: &Table, options: &Report, as_json: bool) -> Result<Outcome, Failed> {
    let Report { sender, reference, limit_key, day_zone, output } = options;
    let of = Selection { sender: sender.clone(), reference: reference.clone(), limit_key: limit_key.clone() };
    let reports = CampaignReports::new(Arc::new(table.ledger()));
    let packets: Vec<_> = reports.packets(&of, None).try_collect().await.map_err(Failed::Store)?;
    let Some(first) = packets.first() else {
        return Err(Failed::Refused("this sender has no such packet".to_owned()));
    };
    let is_provisional = packets.iter().any(|packet| packet.settled.is_none());
    let path = output.clone().unwrap_or_else(|| PathBuf::from(sheet_name(&of, is_provisional)));
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = BufWriter::new(NamedTempFile::new_in(parent).map_err(in_file(parent))?);
    let currency = first.terms.currency.as_str();
    let written = write_sheet(file, reports.claims_of(&packets), currency, day_zone, is_provisional).await;
    let file = match written {
        Ok(mut file) => {
            file.flush().map_err(in_file(&path))?;
            file.into_inner().map_err(|error| in_file(&path)(error.into_error()))?
        }
        Err(SheetError::Read(failure)) => return Err(Failed::Store(failure)),
        Err(error) => return Err(Failed::Refused(format!("{}: {error}", path.display()))),
    };
    file.as_file().sync_all().map_err(in_file(&path))?;
    file.persist(&path).map_err(|error| in_file(&path)(error.error))?;
    let report = json!({"file": path, "packets": packets.len(), "provisional": is_provisional});
    let words = || {
        let state =
            if is_provisional { "provisional: claims of packets that are not settled may follow" } else { "final" };
        let packets = if packets.len() == 1 { "1 packet".to_owned() } else { format!("{} packets", packets.len()) };
        format!("{}: claims of {packets}, {state}", path.display())
    };
    Ok(Outcome::new(as_json, &report, words, Exit::Good))
}
