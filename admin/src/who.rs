//! Which user the logs mean by a name.

use std::collections::BTreeSet;

use ::audit::{Only, key_of};
use futures::TryStreamExt;
use shared::domain::UserId;
use shared::logs::name_under;

use crate::deployment::{Failed, SEGMENTS, Table, in_file};
use crate::options::Who;
use crate::{Exit, Outcome};

/// Looks for the user in a file of ids, or else among all who have an item in the ledger.
pub async fn run(table: &Table, options: &Who, json: bool) -> Result<Outcome, Failed> {
    let Who { name, log_key, ids } = options;
    let is_meant = |id: &UserId| name_under(log_key, id) == *name;
    let found = match ids {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(in_file(file))?;
            text.lines().filter_map(|line| line.trim().parse().ok()).filter(is_meant).collect()
        }
        None => in_ledger(table, is_meant).await?,
    };
    let exit = if found.is_empty() { Exit::Wrong } else { Exit::Good };
    let text = || match found.is_empty() {
        true if ids.is_some() => "none of them: is --log-key the log's key?".to_owned(),
        true => "nobody in the ledger: look among your own users' ids, with --ids".to_owned(),
        false => found.iter().map(UserId::as_str).collect::<Vec<_>>().join("\n"),
    };
    Ok(Outcome::new(json, &found, text, exit))
}

async fn in_ledger(table: &Table, is_meant: impl Fn(&UserId) -> bool) -> Result<BTreeSet<UserId>, Failed> {
    table.announce();
    let source = table.source();
    let mut pages = source.all(SEGMENTS.into(), Only::Keys(None));
    let user = |item: &_| key_of(item)?.pk.strip_prefix("USER#")?.parse().ok();
    let mut found = BTreeSet::new();
    while let Some(items) = pages.try_next().await? {
        found.extend(items.iter().filter_map(user).filter(&is_meant));
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}
