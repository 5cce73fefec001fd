//! What the embedded ledger's file must be at a start: absent in a new folder, or a sound database of this stack.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

const LEDGER: &str = "dynamodb.sqlite";
const LOG: &str = "dynamodb.sqlite-wal";
/// Where Redis keeps its data.
const REDIS_DATA: &str = "redis/appendonlydir";

/// Whether the database has tables, and not those of the embedded `DynamoDB`.
const IS_FOREIGN: &str = "SELECT count(*) > 0 AND NOT max(name = '_config') FROM sqlite_schema WHERE type = 'table'";

/// Why the ledger can't be served. It is as it was found.
#[derive(Debug, thiserror::Error)]
pub enum LedgerFileError {
    /// There is no ledger, although the data folder was in use.
    #[error("the ledger {ledger} is missing or empty: put it back, or remove {folder} to start with nothing")]
    Missing {
        /// The file.
        ledger: PathBuf,
        /// The data folder.
        folder: PathBuf,
    },
    /// It is no sound database.
    #[error("the ledger {ledger} is damaged ({reason}): put back a copy")]
    Damaged {
        /// The file.
        ledger: PathBuf,
        /// What `SQLite` says.
        reason: String,
    },
    /// It is a database of another program.
    #[error("{ledger} is the database of another program, not a ledger: give another --data-dir")]
    Foreign {
        /// The file.
        ledger: PathBuf,
    },
    /// It can't be read or written.
    #[error("the ledger {ledger} can't be used")]
    Unusable {
        /// The file.
        ledger: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The embedded ledger's file in the data folder.
#[must_use]
pub fn ledger_file(folder: &Path) -> PathBuf {
    folder.join(LEDGER)
}

/// Checks the ledger in `folder`, before the database opens it. With `has_redis`, the folder has Redis' data too.
///
/// This reads the whole ledger. The embedded database itself refuses one of a newer version.
pub fn check(folder: &Path, has_redis: bool) -> Result<(), LedgerFileError> {
    let ledger = ledger_file(folder);
    if !has_content(&ledger) {
        let was_used = has_content(&folder.join(LOG)) || has_redis && folder.join(REDIS_DATA).exists();
        let missing = LedgerFileError::Missing { ledger, folder: folder.to_owned() };
        return if was_used { Err(missing) } else { Ok(()) };
    }
    // A ledger that can't be written would refuse every request.
    if let Err(error) = File::options().append(true).open(&ledger) {
        return Err(LedgerFileError::Unusable { ledger, source: error.into() });
    }
    match verdict(&ledger) {
        Ok((verdict, is_foreign)) if verdict == "ok" && is_foreign => Err(LedgerFileError::Foreign { ledger }),
        Ok((verdict, _)) if verdict == "ok" => Ok(()),
        Ok((verdict, _)) => {
            // The first line only names the database.
            let reason = verdict.lines().last().unwrap_or_default().to_owned();
            Err(LedgerFileError::Damaged { ledger, reason })
        }
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Err(LedgerFileError::Damaged { ledger, reason: error.to_string() })
            }
            _ => Err(LedgerFileError::Unusable { ledger, source: error.into() }),
        },
    }
}

/// What `SQLite` finds, and whether the database is another program's.
fn verdict(ledger: &Path) -> rusqlite::Result<(String, bool)> {
    let database = Connection::open_with_flags(ledger, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let verdict = database.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((verdict, database.query_row(IS_FOREIGN, [], |row| row.get(0))?))
}

fn has_content(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|file| file.len() > 0)
}
