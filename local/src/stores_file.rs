//! A file with the stores' addresses, for other programs.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::stack::Settings;
use crate::webhooks::sqs;

/// The file's name in the data folder.
const NAME: &str = "stores.env";

/// A file of environment variables that exists while the stack runs. `hongbao-admin` finds the stores by it.
#[derive(Debug)]
pub struct StoresFile {
    path: PathBuf,
}

impl StoresFile {
    /// Writes the stores' addresses into `folder`. A given address may contain a password, so nobody else may read the file. `gateway` is the
    /// stack's own address if it has webhooks, whose queues are there.
    pub fn write(folder: &Path, settings: &Settings, gateway: Option<&str>) -> io::Result<Self> {
        let mut text = String::new();
        let mut values = vec![
            ("TABLE_NAME", settings.table.clone()),
            ("REDIS_URL", settings.redis_url.clone()),
            ("REDIS_CLUSTER", settings.redis_cluster.to_string()),
            ("AWS_ENDPOINT_URL_DYNAMODB", settings.dynamodb_url.clone()),
        ];
        let queues =
            [("AWS_ENDPOINT_URL_SQS", sqs::PATH), ("WEBHOOK_QUEUE", sqs::WAITING), ("WEBHOOK_DEAD_LETTERS", sqs::DEAD)];
        values.extend(gateway.into_iter().flat_map(|url| queues.map(|(name, path)| (name, format!("{url}{path}")))));
        for (name, value) in values {
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
