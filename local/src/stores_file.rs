//! A file with the stores' addresses, for other programs.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::stack::Settings;

/// The file's name in the data folder.
const NAME: &str = "stores.env";

/// A file of environment variables that exists while the stack runs. `hongbao-admin` finds the stores by it.
#[derive(Debug)]
pub struct StoresFile {
    path: PathBuf,
}

impl StoresFile {
    /// Writes the stores' addresses into `folder`. A given address may contain a password, so nobody else may read the file.
    pub fn write(folder: &Path, settings: &Settings) -> io::Result<Self> {
        let mut text = String::new();
        for (name, value) in [
            ("TABLE_NAME", &*settings.table),
            ("REDIS_URL", &settings.redis_url),
            ("REDIS_CLUSTER", if settings.redis_cluster { "true" } else { "false" }),
            ("AWS_ENDPOINT_URL_DYNAMODB", &settings.dynamodb_url),
        ] {
            // Writing to a `String` can't fail. The value is quoted because a table's name is user input.
            let _ = writeln!(text, "{name}='{}'", value.replace('\'', r"'\''"));
        }
        let path = folder.join(NAME);
        // A killed stack leaves its file behind, perhaps with other permissions.
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        File::options().write(true).create_new(true).mode(0o600).open(&path)?.write_all(text.as_bytes())?;
        Ok(Self { path })
    }
}

impl Drop for StoresFile {
    /// A file that can't be removed stays. Its addresses then lead to no server.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
