//! The folder with a stack's data, used by one stack at a time.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::time::Instant;

/// How long a start waits for a stack that is just ending, for example after a SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);

/// Nobody else may look into a data folder.
const OWN_FOLDER: u32 = 0o700;

/// A data folder, which is ours until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// A lock that ends with the process.
    _lock: Option<File>,
    /// The guard of a temporary folder.
    temporary: Option<TempDir>,
}

/// What a start needs at least: the index of the ledger's log, and a little more.
const ROOM_BYTES: usize = 64 * 1024;

impl DataDir {
    /// Opens the folder at `path`, creates it if it is absent, and locks it.
    pub async fn open(path: &Path) -> anyhow::Result<Self> {
        let unusable = || unusable(path);
        DirBuilder::new().recursive(true).mode(OWN_FOLDER).create(path).with_context(unusable)?;
        let path = path.canonicalize().with_context(unusable)?;
        let file = lock_file(&path.join("lock")).with_context(unusable)?;
        if !lock_within(&file, GRACE).await.with_context(unusable)? {
            bail!(
                "the data folder {} is in use by another stack: stop that one, or give another --data-dir",
                path.display()
            );
        }
        // On a full disk the database would only speak of an I/O error.
        tempfile::tempfile_in(&path)
            .and_then(|mut file| file.write_all(&vec![0; ROOM_BYTES]))
            .with_context(unusable)?;
        Ok(Self { path, _lock: Some(file), temporary: None })
    }

    /// Creates a folder that is removed with the stack.
    pub fn temporary() -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("hongbao-").tempdir().context("a temporary folder can't be created")?;
        let path = folder.path().canonicalize()?;
        Ok(Self { path, _lock: None, temporary: Some(folder) })
    }

    /// The folder's absolute path, without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder is removed with the stack.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

/// What an error says of a data folder.
pub(crate) fn unusable(path: &Path) -> String {
    format!("the data folder {} can't be used", path.display())
}

/// Opens a file for a lock without changing its content.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).read(true).append(true).open(path)
}

/// Locks `file`. Waits up to `limit` while another process has the lock. Returns whether it is now ours.
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
