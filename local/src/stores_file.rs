//! A file with the stores' addresses, for other programs.

use std::io::{self, Write};
use std::path::Path;

use shared::config::Config;
use tempfile::NamedTempFile;

use crate::request_log;
use crate::stack::{Stores, log_key};
use crate::webhooks::sqs;

/// The file's name in the data folder, and its ending.
const NAME: [&str; 2] = ["stores", ".env"];

/// Writes the stores' addresses into `folder`, as variables of the environment: `hongbao-admin` finds the stores by them. A given address may
/// contain a password, so nobody else may read the file. It exists until it is dropped. `gateway` is the stack's own address if it has
/// webhooks, whose queues are there.
pub fn write(folder: &Path, config: &Config, stores: &Stores, gateway: Option<&str>) -> io::Result<NamedTempFile> {
    let is_cluster = config.redis.as_ref().is_some_and(|redis| redis.cluster);
    let mut values = vec![
        ("TABLE_NAME", config.table.clone()),
        ("CURRENCY", config.policy.currency.clone()),
        ("REDIS_URL", stores.redis_url.clone()),
        ("REDIS_CLUSTER", is_cluster.to_string()),
        ("AWS_ENDPOINT_URL_DYNAMODB", stores.dynamodb_url.clone()),
        ("LOG_KEY", log_key()),
        ("LOG_FOLDER", folder.join(request_log::FOLDER).display().to_string()),
    ];
    let queues =
        [("AWS_ENDPOINT_URL_SQS", sqs::PATH), ("WEBHOOK_QUEUE", sqs::WAITING), ("WEBHOOK_DEAD_LETTERS", sqs::DEAD)];
    values.extend(gateway.into_iter().flat_map(|url| queues.map(|(name, path)| (name, format!("{url}{path}")))));
    // A killed stack leaves its file behind, perhaps with other permissions.
    match std::fs::remove_file(folder.join(NAME.concat())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = tempfile::Builder::new().prefix(NAME[0]).suffix(NAME[1]).rand_bytes(0).tempfile_in(folder)?;
    for (name, value) in values {
        // The value is quoted because a table's name is user input.
        writeln!(file, "{name}='{}'", value.replace('\'', r"'\''"))?;
    }
    Ok(file)
}
