//! What the embedded ledger's files must hold at a start, and that they stay in their place.
//!
//! `SQLite` takes a cut write-ahead log for the end of an older one, and a missing file for a new one. Redis would go on
//! answering beside such a ledger. So `ledger.mark` remembers how far the log had come when a request was last answered. The
//! log may be ahead of the mark, never behind it. The database empties the log when it opens or closes the file, so the mark
//! says "nothing" before either.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio::time::sleep;

const LEDGER: &str = "dynamodb.sqlite";
const LOG: &str = "dynamodb.sqlite-wal";
/// The index of the log, which all connections to the ledger share.
const INDEX: &str = "dynamodb.sqlite-shm";
const MARK: &str = "ledger.mark";
const REDIS: &str = "redis";
/// Where Redis keeps its data.
const REDIS_DATA: &str = "redis/appendonlydir";

/// How often an idle stack looks after its files.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// The index holds its header twice, so that a reader notices a write that is under way. The layout is `SQLite`'s documented
/// "WAL-index format".
const HEADER_BYTES: usize = 48;
const FRAMES_AT: usize = 16;
const SALT_AT: usize = 32;
/// A write of the header takes nanoseconds.
const HEADER_READS_MAX: usize = 10_000;

/// Why the ledger can't be served.
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
    /// Its log lacks something that was there when a request was answered.
    #[error(
        "the ledger {ledger} is older than the last answer, because its write-ahead log is cut or missing: put back the files \
         as they were, or remove {mark} and {redis} to accept it as it is"
    )]
    Older {
        /// The file.
        ledger: PathBuf,
        /// The file that remembers more.
        mark: PathBuf,
        /// Redis' folder, which knows more too.
        redis: PathBuf,
    },
    /// The mark can't be understood.
    #[error("{mark} is damaged: remove it to accept the ledger as it is")]
    Mark {
        /// The file.
        mark: PathBuf,
    },
    /// `SQLite` can't work with the file.
    #[error("the ledger {ledger} can't be used: {reason}")]
    Unusable {
        /// The file.
        ledger: PathBuf,
        /// What `SQLite` says.
        reason: String,
    },
    /// The files can't be read or written.
    #[error("the files of the ledger in {folder} can't be used")]
    System {
        /// The data folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The embedded ledger's file in the data folder.
#[must_use]
pub fn ledger_file(folder: &Path) -> PathBuf {
    folder.join(LEDGER)
}

/// Checks the ledger in `folder`, before the database opens it. With `has_redis`, the folder has Redis' data too.
///
/// This reads the whole ledger. A refused one stays as it was found.
pub fn check(folder: &Path, has_redis: bool) -> Result<(), LedgerFileError> {
    let system = |source| LedgerFileError::System { folder: folder.to_owned(), source };
    let (ledger, mark) = (ledger_file(folder), folder.join(MARK));
    let marked = read_mark(&mark)?;
    if !has_content(&ledger) {
        let has_redis_data = has_redis && folder.join(REDIS_DATA).exists();
        let was_used = marked.is_some() || has_content(&folder.join(LOG)) || has_redis_data;
        let missing = LedgerFileError::Missing { ledger, folder: folder.to_owned() };
        return if was_used { Err(missing) } else { Ok(()) };
    }
    // A ledger that can't be written would refuse every request.
    File::options().append(true).open(&ledger).map_err(system)?;
    check_database(&ledger)?;
    let log = match File::open(folder.join(INDEX)) {
        Ok(index) => log_end(&index).map_err(system)?,
        // A database without a log.
        Err(error) if error.kind() == io::ErrorKind::NotFound => LogEnd::default(),
        Err(error) => return Err(system(error)),
    };
    if marked.is_some_and(|marked| !log.reaches(marked)) {
        return Err(LedgerFileError::Older { ledger, mark, redis: folder.join(REDIS) });
    }
    reset_mark(&mark).map(drop).map_err(system)
}

/// Checks the database as a whole. This leaves an index, which shows what `SQLite` found in the log.
fn check_database(ledger: &Path) -> Result<(), LedgerFileError> {
    let verdict = || {
        let connection = Connection::open(ledger)?;
        // The last connection would empty the log.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    };
    let ledger = ledger.to_owned();
    match verdict() {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(verdict) => {
            // The first line only names the database.
            let reason = verdict.lines().last().unwrap_or_default().to_owned();
            Err(LedgerFileError::Damaged { ledger, reason })
        }
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Err(LedgerFileError::Damaged { ledger, reason: error.to_string() })
            }
            _ => Err(LedgerFileError::Unusable { ledger, reason: error.to_string() }),
        },
    }
}

/// The watch over a ledger that the database has open.
#[derive(Debug)]
pub struct LedgerWatch {
    folder: PathBuf,
    in_place: Vec<(PathBuf, Place)>,
    /// It stays open until the database is closed: as `SQLite` says, closing it would end the locks that this process has on it.
    index: File,
    mark: File,
    /// What the mark says.
    marked: Mutex<Marked>,
}

/// Device and number of a file.
type Place = (u64, u64);

#[derive(Debug)]
enum Marked {
    Log(LogEnd),
    /// The end has begun, and the mark stays as it is.
    Released,
}

impl LedgerWatch {
    /// Watches the ledger in `folder`, and with `has_redis` that Redis' folder stays too.
    pub fn start(folder: &Path, has_redis: bool) -> Result<Self, LedgerFileError> {
        let open = || {
            let mark = reset_mark(&folder.join(MARK))?;
            let mut in_place = Vec::new();
            for name in [LEDGER, LOG, MARK].into_iter().chain(has_redis.then_some(REDIS)) {
                let path = folder.join(name);
                let place = place(&std::fs::metadata(&path)?);
                in_place.push((path, place));
            }
            let index = File::open(folder.join(INDEX))?;
            let marked = Mutex::new(Marked::Log(LogEnd::default()));
            Ok(Self { folder: folder.to_owned(), in_place, index, mark, marked })
        };
        open().map_err(|source| LedgerFileError::System { folder: folder.to_owned(), source })
    }

    /// Makes sure that the next start notices if what is committed by now is lost. No answer may leave before.
    pub fn confirm(&self) -> Result<(), String> {
        for (path, known) in &self.in_place {
            if !std::fs::metadata(path).is_ok_and(|found| place(&found) == *known) {
                return Err(format!("{} was removed or replaced while the stack ran", path.display()));
            }
        }
        self.mark_log().map_err(|error| self.unusable(&error))
    }

    fn mark_log(&self) -> io::Result<()> {
        // The lock orders the writes: a later one never says less.
        let mut marked = lock(&self.marked);
        if let Marked::Log(before) = &mut *marked {
            let log = log_end(&self.index)?;
            if *before != log {
                // Without a sync: the mark outlives the process, and may lag after a power failure.
                self.mark.write_all_at(log.line().as_bytes(), 0)?;
                *before = log;
            }
        }
        Ok(())
    }

    /// Waits until the ledger can't be served any more, and says why.
    pub async fn failed(&self) -> String {
        loop {
            if let Err(failure) = self.confirm() {
                return failure;
            }
            sleep(CHECK_EVERY).await;
        }
    }

    /// Allows the database to close the file and to empty its log.
    pub fn release(&self) {
        let mut marked = lock(&self.marked);
        if matches!(*marked, Marked::Released) {
            return;
        }
        *marked = Marked::Released;
        if let Err(error) = write_reset(&self.mark) {
            tracing::error!("{}", self.unusable(&error));
        }
    }

    fn unusable(&self, error: &io::Error) -> String {
        format!("the files of the ledger in {} can't be used: {error}", self.folder.display())
    }
}

impl Drop for LedgerWatch {
    fn drop(&mut self) {
        self.release();
    }
}

/// How far the log has come. A log that begins anew has the next salt.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct LogEnd {
    salt: [u8; 8],
    frames: u32,
}

impl LogEnd {
    /// Whether this log, as it was found, holds all that one up to `other` held.
    fn reaches(self, other: Self) -> bool {
        if other.frames == 0 || self.salt == other.salt {
            return self.frames >= other.frames;
        }
        // The first half counts how often the log began anew, which it does once the ledger holds all of it. A log without
        // a sound header has no salt.
        let count = |salt: [u8; 8]| u32::from_be_bytes([salt[0], salt[1], salt[2], salt[3]]);
        let ahead = count(self.salt).wrapping_sub(count(other.salt));
        self.salt != [0; 8] && (1..=u32::MAX / 2).contains(&ahead)
    }

    /// The mark's content. It always has the same length, because it is written over.
    fn line(self) -> String {
        format!("{} {:010}\n", hex::encode(self.salt), self.frames)
    }

    fn parse(line: &str) -> Option<Self> {
        let (salt, frames) = line.strip_suffix('\n')?.split_once(' ')?;
        let mut log = Self { frames: frames.parse().ok()?, ..Self::default() };
        hex::decode_to_slice(salt, &mut log.salt).ok()?;
        Some(log)
    }
}

/// How far the log has come, from the index.
fn log_end(index: &File) -> io::Result<LogEnd> {
    for _ in 0..HEADER_READS_MAX {
        let mut headers = [0; 2 * HEADER_BYTES];
        index.read_exact_at(&mut headers, 0)?;
        let (header, twin) = headers.split_at(HEADER_BYTES);
        if header == twin {
            let (mut frames, mut salt) = ([0; 4], [0; 8]);
            frames.copy_from_slice(&header[FRAMES_AT..FRAMES_AT + 4]);
            salt.copy_from_slice(&header[SALT_AT..SALT_AT + 8]);
            return Ok(LogEnd { salt, frames: u32::from_ne_bytes(frames) });
        }
        std::thread::yield_now();
    }
    Err(io::Error::other("the index of the log does not come to rest"))
}

/// What the mark says; `None` if there is none yet.
fn read_mark(mark: &Path) -> Result<Option<LogEnd>, LedgerFileError> {
    let damaged = || LedgerFileError::Mark { mark: mark.to_owned() };
    match std::fs::read_to_string(mark) {
        // A start was interrupted before it wrote the first one.
        Ok(text) if text.is_empty() => Ok(Some(LogEnd::default())),
        Ok(text) => LogEnd::parse(&text).map(Some).ok_or_else(damaged),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(damaged()),
    }
}

/// Opens or creates a mark that expects nothing of the log.
fn reset_mark(mark: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(mark)?;
    write_reset(&file)?;
    Ok(file)
}

fn write_reset(mark: &File) -> io::Result<()> {
    mark.write_all_at(LogEnd::default().line().as_bytes(), 0)?;
    // It must not come back after a power failure that finds the log empty.
    mark.sync_all()
}

fn has_content(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|file| file.len() > 0)
}

fn place(file: &Metadata) -> Place {
    (file.dev(), file.ino())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(count: u32, frames: u32) -> LogEnd {
        let mut salt = [7; 8];
        salt[..4].copy_from_slice(&count.to_be_bytes());
        LogEnd { salt, frames }
    }

    #[test]
    fn a_log_may_be_ahead_of_its_mark_and_never_behind() {
        for (found, marked) in [
            (log(5, 3), log(5, 3)),
            (log(5, 4), log(5, 3)),
            (log(6, 1), log(5, 3)),
            // Killed after the log began anew, before its first commit.
            (log(6, 0), log(5, 3)),
            (log(0, 1), log(u32::MAX, 3)),
            (LogEnd::default(), LogEnd::default()),
            (LogEnd::default(), log(6, 0)),
            (log(5, 3), log(6, 0)),
        ] {
            assert!(found.reaches(marked), "{found:?} {marked:?}");
        }
        for (found, marked) in [
            (log(5, 2), log(5, 3)),
            (log(5, 0), log(5, 3)),
            (log(5, 9), log(6, 3)),
            (LogEnd::default(), log(5, 3)),
            (LogEnd::default(), log(u32::MAX, 3)),
        ] {
            assert!(!found.reaches(marked), "{found:?} {marked:?}");
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        for log in [LogEnd::default(), log(9, u32::MAX)] {
            assert_eq!(LogEnd::parse(&log.line()), Some(log));
            assert_eq!(log.line().len(), LogEnd::default().line().len());
        }
        assert_eq!(LogEnd::parse(""), None);
        assert_eq!(LogEnd::parse("0000 1\n"), None);
    }
}
