//! A file with the stores' addresses, for other programs.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// The file's name in the data folder.
const NAME: &str = "stores.env";

/// A file of environment variables that exists while the stack runs. `hongbao-admin` finds the stores by it.
#[derive(Debug)]
pub struct StoresFile {
    path: PathBuf,
}

impl StoresFile {
    /// Writes the addresses of the stores that were started here into `folder`. Given stores are left out, because
    /// their addresses may contain passwords.
    pub fn write(folder: &Path, table: &str, redis_url: Option<&str>, dynamodb_url: Option<&str>) -> io::Result<Self> {
        let mut text = String::new();
        let variables = [
            ("TABLE_NAME", Some(table)),
            ("REDIS_URL", redis_url),
            ("REDIS_CLUSTER", redis_url.map(|_| "false")),
            ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_url),
        ];
        for (name, value) in variables.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            // Writing to a `String` can't fail. The value is quoted because a table's name is user input.
            let _ = writeln!(text, "{name}='{}'", value.replace('\'', r"'\''"));
        }
        let path = folder.join(NAME);
        std::fs::write(&path, text)?;
        Ok(Self { path })
    }
}

impl Drop for StoresFile {
    /// A file that can't be removed stays. Its addresses then lead to no server.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
