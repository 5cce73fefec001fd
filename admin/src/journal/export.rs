//! `DynamoDB`'s full export of a table to S3, in its JSON format, as it lies in a folder.
//!
//! `manifest-summary.json` describes the export, `manifest-files.json` has a line for each data file, and each data file
//! is gzip with a line `{"Item": {...}}` for each item.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde_json::Value;
use shared::domain::Timestamp;

use super::tally::Tally;
use crate::deployment::{Failed, in_file};

const BUFFER_BYTES: usize = 256 * 1024;

/// What the summary manifest says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    export_arn: String,
    export_time: String,
    item_count: u64,
    output_format: String,
    /// Absent in exports from before there were incremental ones.
    export_type: Option<String>,
}

/// A line of the files manifest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataFile {
    item_count: u64,
    #[serde(rename = "dataFileS3Key")]
    key: String,
}

/// An export: its manifests are read, its data files are not.
pub struct Export {
    pub arn: String,
    /// The moment whose data it has.
    pub at: Timestamp,
    folder: PathBuf,
    files: Vec<DataFile>,
}

impl Export {
    /// The export in `folder`.
    pub fn open(folder: &Path) -> Result<Self, Failed> {
        let path = folder.join("manifest-summary.json");
        let text = std::fs::read(&path).map_err(in_file(&path))?;
        let summary: Summary = serde_json::from_slice(&text).map_err(|error| unreadable(&path, &error))?;
        if summary.output_format != "DYNAMODB_JSON" || summary.export_type.is_some_and(|name| name != "FULL_EXPORT") {
            return Err(unreadable(&path, "the journal needs a full export in the format DYNAMODB_JSON"));
        }
        let path = folder.join("manifest-files.json");
        let text = std::fs::read_to_string(&path).map_err(in_file(&path))?;
        let lines = text.lines().filter(|line| !line.is_empty()).map(serde_json::from_str::<DataFile>);
        let files = lines.collect::<Result<Vec<_>, _>>().map_err(|error| unreadable(&path, &error))?;
        let listed: u64 = files.iter().map(|file| file.item_count).sum();
        if listed != summary.item_count {
            let what = format!("its files have {listed} items, but the summary has {}", summary.item_count);
            return Err(unreadable(&path, what));
        }
        let at = summary.export_time.parse().map_err(|()| unreadable(&path, "its exportTime is not RFC 3339"))?;
        Ok(Self { arn: summary.export_arn, at, folder: folder.to_owned(), files })
    }

    /// Reads all items into `tally`.
    pub fn read(&self, tally: &mut Tally) -> Result<(), Failed> {
        self.files.iter().try_for_each(|file| self.read_file(file, tally))
    }

    /// Reads a data file. Its gzip checksum and its number of items show that it is whole.
    fn read_file(&self, DataFile { item_count, key }: &DataFile, tally: &mut Tally) -> Result<(), Failed> {
        // A key has the bucket's folders, which the copy may lack.
        let name = key.rsplit('/').next().unwrap_or_default();
        let path = self.folder.join("data").join(name);
        let file = File::open(&path).map_err(in_file(&path))?;
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut count = 0;
        // An empty partition has an empty file, which is not gzip.
        if !file.fill_buf().map_err(in_file(&path))?.is_empty() {
            for line in BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file)).split(b'\n') {
                count += 1;
                let line = line.map_err(in_file(&path))?;
                let line: Value = serde_json::from_slice(&line)
                    .map_err(|error| unreadable(&path, format!("line {count}: {error}")))?;
                tally.enter(&line["Item"])?;
            }
        }
        if count == *item_count {
            Ok(())
        } else {
            Err(unreadable(&path, format!("it has {count} items, but the manifest has {item_count}")))
        }
    }
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failed {
    Failed::Unverifiable(format!("{}: {why}", path.display()))
}
