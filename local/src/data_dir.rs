//! The folder that a stack keeps its data in, held by one stack at a time.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

/// How long a start waits for a stack that is just ending, as after a SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);

/// A data folder, locked until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// What keeps the folder ours: a lock that ends with the process, or the temporary folder's own guard.
    hold: Hold,
}

#[derive(Debug)]
enum Hold {
    Lock { _file: File },
    Temporary { _folder: TempDir },
}

/// Why a data folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It can't be created or read.
    #[error("the data folder {path} can't be used")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another stack runs on it.
    #[error("the data folder {path} is in use by another stack: stop that one, or give another --data-dir")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// No temporary folder could be made.
    #[error("no temporary folder could be made")]
    Temporary(#[source] io::Error),
}

impl DataDir {
    /// Opens the folder at `path`, making it where it is absent, and locks it.
    pub async fn open(path: &Path) -> Result<Self, DataDirError> {
        let unusable = |source| DataDirError::Unusable { path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        let file = lock_file(&path.join("lock")).map_err(unusable)?;
        if !lock_within(&file, GRACE).await.map_err(unusable)? {
            return Err(DataDirError::InUse { path });
        }
        Ok(Self { path, hold: Hold::Lock { _file: file } })
    }

    /// Makes a folder that goes away with the stack.
    pub fn temporary() -> Result<Self, DataDirError> {
        let folder = tempfile::Builder::new().prefix("hongbao-").tempdir().map_err(DataDirError::Temporary)?;
        let path = folder.path().canonicalize().map_err(DataDirError::Temporary)?;
        Ok(Self { path, hold: Hold::Temporary { _folder: folder } })
    }

    /// The folder's absolute path, without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder goes away with the stack.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self.hold, Hold::Temporary { .. })
    }
}

/// Opens a file to lock, leaving alone what may be in it.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).read(true).append(true).open(path)
}

/// Locks `file`, waiting up to `limit` for whoever holds it. Returns whether it is now ours.
pub(crate) async fn lock_within(file: &File, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(false),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(POLL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_stack_at_a_time_holds_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let held = DataDir::open(&path).await.unwrap();
        let error = DataDir::open(&path).await.unwrap_err();
        assert!(matches!(error, DataDirError::InUse { .. }), "{error}");
        drop(held);
        DataDir::open(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_in_the_way_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(DataDir::open(file.path()).await, Err(DataDirError::Unusable { .. })));
    }
}
