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
use shared::ports::Item;

use super::tally::Tally;
use crate::deployment::{Failed, in_file};

/// A line of a data file.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "Item")]
    item: Item,
}

const BUFFER_BYTES: usize = 256 * 1024;

/// An export: its manifests are read, its data files are not.
pub struct Export {
    pub arn: String,
    /// The moment whose data it has.
    pub at: Timestamp,
    folder: PathBuf,
    /// The data files, each with its number of items.
    files: Vec<(String, u64)>,
}

impl Export {
    /// The export in `folder`.
    pub fn open(folder: &Path) -> Result<Self, Failed> {
        let path = folder.join("manifest-summary.json");
        let text = std::fs::read(&path).map_err(in_file(&path))?;
        let summary: Value = serde_json::from_slice(&text).map_err(|error| unreadable(&path, &error))?;
        let said = |name: &str| summary[name].as_str().unwrap_or_default();
        // Exports from before there were incremental ones have no type.
        if said("outputFormat") != "DYNAMODB_JSON" || !["", "FULL_EXPORT"].contains(&said("exportType")) {
            return Err(unreadable(&path, "the journal needs a full export in the format DYNAMODB_JSON"));
        }
        let at = said("exportTime").parse().map_err(|()| unreadable(&path, "its exportTime is not RFC 3339"))?;
        let path = folder.join("manifest-files.json");
        let text = std::fs::read_to_string(&path).map_err(in_file(&path))?;
        let mut files = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let file: Value = serde_json::from_str(line).map_err(|error| unreadable(&path, &error))?;
            // A key has the bucket's folders, which the copy may lack.
            let name = file["dataFileS3Key"].as_str().and_then(|key| key.rsplit('/').next()).unwrap_or_default();
            files.push((name.to_owned(), file["itemCount"].as_u64().unwrap_or_default()));
        }
        let listed: u64 = files.iter().map(|(_, items)| items).sum();
        if summary["itemCount"] != listed {
            let what = format!("its files have {listed} items, but the summary has {}", summary["itemCount"]);
            return Err(unreadable(&path, what));
        }
        Ok(Self { arn: said("exportArn").to_owned(), at, folder: folder.to_owned(), files })
    }

    /// Reads all items into `tally`.
    pub fn read(&self, tally: &mut Tally) -> Result<(), Failed> {
        self.files.iter().try_for_each(|(name, items)| self.read_file(name, *items, tally))
    }

    /// Reads a data file. Its gzip checksum and its number of items show that it is whole.
    fn read_file(&self, name: &str, items: u64, tally: &mut Tally) -> Result<(), Failed> {
        let path = self.folder.join("data").join(name);
        let file = File::open(&path).map_err(in_file(&path))?;
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut count = 0;
        // An empty partition has an empty file, which is not gzip.
        if !file.fill_buf().map_err(in_file(&path))?.is_empty() {
            for line in BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file)).split(b'\n') {
                count += 1;
                let line = line.map_err(in_file(&path))?;
                let line: Line = serde_json::from_slice(&line)
                    .map_err(|error| unreadable(&path, format!("line {count}: {error}")))?;
                tally.enter(&line.item)?;
            }
        }
        if count == items {
            Ok(())
        } else {
            Err(unreadable(&path, format!("it has {count} items, but the manifest has {items}")))
        }
    }
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failed {
    Failed::Refused(format!("{}: {why}", path.display()))
}
