//! `DynamoDB`'s full export of a table to S3, in its JSON format, as it lies in a folder.
//!
//! `manifest-summary.json` describes the export, `manifest-files.json` has a line for each data file, and each data file
//! is gzip with a line `{"Item": {...}}` for each item.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use shared::domain::Timestamp;

use super::fact::Attributes;
use super::tally::Tally;
use crate::deployment::{Failed, in_file};

const BUFFER_BYTES: usize = 256 * 1024;
/// Files that are read at once, at most.
const READERS_MAX: usize = 4;

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

/// A line of a data file.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "Item", borrow)]
    item: Attributes<'a>,
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

    /// Reads all items into tallies whose files are in `sorting`, each by a thread of its own, and adds these up.
    pub fn read(&self, tally: &(dyn Fn() -> Tally + Sync), sorting: &Path) -> Result<Tally, Failed> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
        let next = AtomicUsize::new(0);
        let reader = || {
            let mut tally = tally();
            while let Some(file) = self.files.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.read_file(file, &mut tally, sorting)?;
            }
            Ok::<Tally, Failed>(tally)
        };
        let tallies: Vec<Result<Tally, Failed>> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..threads).map(|_| scope.spawn(reader)).collect();
            let ended = |reader: std::thread::ScopedJoinHandle<'_, _>| {
                reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            readers.into_iter().map(ended).collect()
        });
        let mut all = tally();
        for tally in tallies {
            all.append(tally?).map_err(in_file(sorting))?;
        }
        Ok(all)
    }

    /// Reads a data file. Its gzip checksum and its number of items show that it is whole.
    fn read_file(&self, file: &DataFile, tally: &mut Tally, sorting: &Path) -> Result<(), Failed> {
        let DataFile { item_count, key } = file;
        // A key has the bucket's folders, which the copy may lack.
        let name = key.rsplit('/').next().unwrap_or_default();
        let path = self.folder.join("data").join(name);
        let file = File::open(&path).map_err(in_file(&path))?;
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut count = 0;
        // An empty partition has an empty file, which is not gzip.
        if !file.fill_buf().map_err(in_file(&path))?.is_empty() {
            let mut lines = BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file));
            let mut line = Vec::new();
            while read_line(&mut lines, &mut line).map_err(in_file(&path))? {
                count += 1;
                let Line { item } = serde_json::from_slice(&line)
                    .map_err(|error| unreadable(&path, format!("line {count}: {error}")))?;
                tally.enter(&item).map_err(in_file(sorting))?;
            }
        }
        if count == *item_count {
            Ok(())
        } else {
            Err(unreadable(&path, format!("it has {count} items, but the manifest has {item_count}")))
        }
    }
}

/// Reads the next line that is not empty. Returns whether there is one.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        line.clear();
        if lines.read_until(b'\n', line)? == 0 {
            return Ok(false);
        }
        if !line.trim_ascii().is_empty() {
            return Ok(true);
        }
    }
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failed {
    Failed::Unverifiable(format!("{}: {why}", path.display()))
}
