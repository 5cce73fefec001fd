//! What the embedded ledger's file must be at a start: absent in a new folder, or a sound database of this stack.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::bail;
use rusqlite::{Connection, ErrorCode, OpenFlags};

const LEDGER: &str = "dynamodb.sqlite";
const LOG: &str = "dynamodb.sqlite-wal";
/// Where Redis keeps its data.
const REDIS_DATA: &str = "redis/appendonlydir";

/// Whether the database has tables, and not those of the embedded `DynamoDB`.
const IS_FOREIGN: &str = "SELECT count(*) > 0 AND NOT max(name = '_config') FROM sqlite_schema WHERE type = 'table'";

/// The embedded ledger's file in the data folder.
#[must_use]
pub fn ledger_file(folder: &Path) -> PathBuf {
    folder.join(LEDGER)
}

/// Checks the ledger in `folder`, before the database opens it. With `has_redis`, the folder has Redis' data too.
///
/// This reads the whole ledger, and leaves one that it refuses as it is. The embedded database itself refuses one of a newer version.
pub fn check(folder: &Path, has_redis: bool) -> anyhow::Result<()> {
    let ledger = ledger_file(folder);
    let refused = |why: String| bail!("the ledger {} {why}", ledger.display());
    if !has_content(&ledger) {
        let was_used = has_content(&folder.join(LOG)) || has_redis && folder.join(REDIS_DATA).exists();
        if !was_used {
            return Ok(());
        }
        return refused(format!(
            "is missing or empty: put it back, or remove {} to start with nothing",
            folder.display()
        ));
    }
    // A ledger that can't be written would refuse every request.
    if let Err(error) = File::options().append(true).open(&ledger) {
        return refused(format!("can't be used: {error}"));
    }
    match verdict(&ledger) {
        Ok((verdict, false)) if verdict == "ok" => Ok(()),
        Ok((verdict, true)) if verdict == "ok" => {
            refused("is the database of another program: give another --data-dir".to_owned())
        }
        // The first line only names the database.
        Ok((verdict, _)) => {
            refused(format!("is damaged ({}): put back a copy", verdict.lines().last().unwrap_or_default()))
        }
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                refused(format!("is damaged ({error}): put back a copy"))
            }
            _ => refused(format!("can't be used: {error}")),
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
