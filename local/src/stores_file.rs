//! Where the stores are, for other programs.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// The file's name in the data folder.
const NAME: &str = "stores.env";

/// A file of environment variables that is there while the stack runs: `hongbao-admin` finds the stores by it.
#[derive(Debug)]
pub struct StoresFile {
    path: PathBuf,
}

impl StoresFile {
    /// Writes into `folder` where the stores are that were started here. Those that were given are left out: their
    /// addresses may hold passwords.
    pub fn write(folder: &Path, table: &str, redis_url: Option<&str>, dynamodb_url: Option<&str>) -> io::Result<Self> {
        let mut text = String::new();
        let variables = [
            ("TABLE_NAME", Some(table)),
            ("REDIS_URL", redis_url),
            ("REDIS_CLUSTER", redis_url.map(|_| "false")),
            ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_url),
        ];
        for (name, value) in variables.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            // Writing to a `String` can't fail. Quoted, for a table's name comes from outside.
            let _ = writeln!(text, "{name}='{}'", value.replace('\'', r"'\''"));
        }
        let path = folder.join(NAME);
        std::fs::write(&path, text)?;
        Ok(Self { path })
    }
}

impl Drop for StoresFile {
    /// Where it can't be removed it stays, and whoever reads it finds nobody at its addresses.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
