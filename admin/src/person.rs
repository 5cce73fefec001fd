//! A person's data: all that the ledger finds under their name, and the end of what they wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ::audit::{Range, Source, key_of, shown};
use futures::TryStreamExt;
use serde_dynamo::AttributeValue;
use serde_json::{Map, Value, json};
use shared::domain::{Mandate, PacketId, Signer, Timestamp, UserId};
use shared::ledger::{SETTLED, Unfinished, keys};
use shared::ports::{Clock, Item, Key, System};
use shared::service::text_cell;

use crate::deployment::{Failed, Table, in_file};
use crate::options::PersonCommand;
use crate::{Exit, Outcome};

/// What no key of the table leads to from a user.
const NOT_SEARCHED: [&str; 3] = [
    "packets of others that name them as a recipient, and of which they have no claim",
    "texts in which somebody else wrote their id",
    "logs, backups, events that were delivered, and files that were written before",
];
/// What the ledger keeps for itself: the place in the index, and the secret of a passphrase.
const LEFT_OUT: [&str; 5] = [keys::PK, keys::SK, keys::DUE_SHARD, keys::DUE_AT, "passphrase_digest"];
/// What a packet of somebody else says to those who claimed a slip.
const OF_OTHERS: [&str; 6] = ["packet_id", "sender_id", "greeting", "status", "created_at", "expires_at"];
/// The copies in the timeline, which say what their movements say. What a withdrawal gave back is no copy.
const COPIES: [&str; 3] = [keys::DEPOSIT_AT, keys::REFUND_AT, keys::WITHDRAWAL_AT];

/// Runs a command on a person's data.
pub async fn run(table: &Table, command: PersonCommand, by: Option<Signer>, json: bool) -> Result<Outcome, Failed> {
    match command {
        PersonCommand::Export { user, output } => export(&*table.source(), &user, output, json).await,
        PersonCommand::Erase { user, reason } => {
            let mandate = Mandate { by: by.as_ref(), reason: reason.as_ref(), key: None };
            erase(table, &user, mandate, json).await
        }
    }
}

/// Writes all that names the user into a new folder.
async fn export(source: &dyn Source, user: &UserId, output: Option<PathBuf>, as_json: bool) -> Result<Outcome, Failed> {
    let path = output.unwrap_or_else(|| PathBuf::from(format!("person-{user}")));
    if path.exists() {
        return Err(Failed::Refused(format!("{} exists already", path.display())));
    }
    let own = partition(source, keys::user(user)).await?;
    let packets_with = |prefix: &str| -> Vec<Key> {
        let ids = own.keys().filter_map(|key| key.sk.strip_prefix(prefix)?.parse::<PacketId>().ok());
        ids.map(keys::packet).collect()
    };
    let sent: BTreeMap<Key, Item> = source.batch(packets_with(keys::SENT)).await?.into_iter().collect();
    let mut named: BTreeMap<Key, Item> = source.batch(packets_with(keys::CLAIM)).await?.into_iter().collect();
    named.retain(|key, item| !sent.contains_key(key) && names(item, user));
    let references: BTreeSet<&str> = sent.values().filter_map(|packet| text(packet, "reference")).collect();
    let mut orders = BTreeMap::new();
    for reference in references.into_iter().filter_map(|reference| reference.parse().ok()) {
        let pk = keys::close_order(user, &reference, Timestamp::from_ms(0)).pk;
        orders.extend(partition(source, pk).await?);
    }
    let is_copy = |key: &Key| COPIES.iter().any(|prefix| key.sk.starts_with(prefix));
    let rows = |items: &BTreeMap<Key, Item>| -> Result<Vec<Value>, Failed> {
        items.iter().filter(|(key, _)| !is_copy(key)).map(|(key, item)| row(key, item, user)).collect()
    };
    let lists = [
        ("items", rows(&own)?),
        ("packets_sent", rows(&sent)?),
        ("packets_that_name_them", rows(&named)?),
        ("orders_to_close", rows(&orders)?),
    ];
    let mut all = json!({"user_id": user, "exported_at": System.now().to_string(), "not_searched": NOT_SEARCHED});
    for (name, rows) in &lists {
        all[*name] = json!(rows);
    }
    write(&path, &all, &lists)?;
    let counts: Map<String, Value> = lists.iter().map(|(name, rows)| ((*name).to_owned(), rows.len().into())).collect();
    let report = json!({"folder": path, "rows": counts, "not_searched": NOT_SEARCHED});
    let words = || {
        let counts = lists.iter().map(|(name, rows)| format!("{name} {}", rows.len())).collect::<Vec<_>>().join(", ");
        format!("{}: {counts}\nnot searched: {}", path.display(), NOT_SEARCHED.join("; "))
    };
    Ok(Outcome::new(as_json, &report, words, Exit::Good))
}

/// The items under a partition key.
async fn partition(source: &dyn Source, pk: String) -> Result<BTreeMap<Key, Item>, Failed> {
    let items = source.pages(Range::Partition { pk, prefix: String::new() }).try_concat().await?;
    Ok(items.into_iter().filter_map(|item| Some((key_of(&item)?, item))).collect())
}

fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    if let Some(AttributeValue::S(text)) = item.get(name) { Some(text) } else { None }
}

/// Whether a packet of somebody else names the user: as a recipient, or as the one with the best slip.
fn names(packet: &Item, user: &UserId) -> bool {
    let is_user = |value: &AttributeValue| matches!(value, AttributeValue::S(text) if text == user.as_str());
    let recipients = packet.get("recipients");
    let is_recipient = matches!(recipients, Some(AttributeValue::L(users)) if users.iter().any(is_user));
    is_recipient || packet.get("best_user").is_some_and(is_user)
}

/// An item as people read it: without its secrets, and with its times spelled out.
fn row(key: &Key, item: &Item, user: &UserId) -> Result<Value, Failed> {
    let unread = |error: serde_dynamo::Error| Failed::Refused(format!("{} does not read: {error}", shown(key)));
    let fields: Map<String, Value> = serde_dynamo::from_item(item.clone()).map_err(unread)?;
    let is_packet = keys::packet_of(&key.pk).is_some();
    let is_others = is_packet && fields.get("sender_id") != Some(&json!(user));
    let is_open = is_packet && fields.get("status") != Some(&json!(SETTLED));
    let is_secret =
        |name: &str| LEFT_OUT.contains(&name) || is_open && name == "seed" || is_others && !OF_OTHERS.contains(&name);
    let place = if keys::user_of(&key.pk).is_some() { key.sk.clone() } else { key.pk.clone() };
    let fields = fields.into_iter().filter(|(name, _)| !is_secret(name)).map(|(name, value)| {
        let value = with_times(&name, value);
        (name, value)
    });
    Ok(std::iter::once(("item".to_owned(), place.into())).chain(fields).collect::<Map<_, _>>().into())
}

/// A field with its time, and those in it, as RFC 3339.
fn with_times(name: &str, value: Value) -> Value {
    match value {
        Value::Number(ms) if name == "at" || name.ends_with("_at") => {
            ms.as_u64().map_or(Value::Number(ms), |ms| Timestamp::from_ms(ms).to_string().into())
        }
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| {
                let value = with_times(&name, value);
                (name, value)
            })
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}

/// Writes the folder, whole or not at all. Only its owner may read it.
fn write(path: &Path, all: &Value, lists: &[(&str, Vec<Value>)]) -> Result<(), Failed> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new()
        .prefix(".person-")
        .permissions(of_owner())
        .tempdir_in(parent)
        .map_err(in_file(parent))?;
    let draft = folder.path();
    let file = |name| File::create(draft.join(name)).map_err(in_file(draft));
    let mut whole = file("person.json")?;
    writeln!(whole, "{}", serde_json::to_string_pretty(all).unwrap_or_default()).map_err(in_file(draft))?;
    let rows = || lists.iter().flat_map(|(list, rows)| rows.iter().map(move |row| (list, row)));
    let names: BTreeSet<&str> =
        rows().filter_map(|(_, row)| row.as_object()).flat_map(|row| row.keys().map(String::as_str)).collect();
    // By RFC 4180.
    let mut sheet = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(file("person.csv")?);
    sheet.write_record(std::iter::once("list").chain(names.iter().copied())).map_err(in_file(draft))?;
    for (list, row) in rows() {
        let cells = names.iter().map(|name| cell(&row[*name]));
        sheet.write_record(std::iter::once((*list).to_owned()).chain(cells)).map_err(in_file(draft))?;
    }
    let sheet = sheet.into_inner().map_err(|error| in_file(draft)(error.into_error()))?;
    for file in [whole, sheet] {
        file.sync_all().map_err(in_file(draft))?;
    }
    std::fs::rename(draft, path).map_err(in_file(path))?;
    // Under its new name it is no temporary folder any more.
    let _ = folder.keep();
    Ok(())
}

/// The mode of a folder that only its owner may enter.
fn of_owner() -> Permissions {
    Permissions::from_mode(0o700)
}

/// A cell that no spreadsheet computes.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::String(text) => text_cell(text),
        lists => text_cell(&lists.to_string()),
    }
}

/// Empties what the user wrote.
async fn erase(table: &Table, user: &UserId, mandate: Mandate<'_>, as_json: bool) -> Result<Outcome, Failed> {
    let erased = match table.ledger().erase_texts(user, mandate, System.now()).await? {
        Ok(erased) => erased,
        Err(Unfinished { packets, withdrawals }) => {
            let packets = packets.iter().map(|id| format!("packet {id} is not settled"));
            let withdrawals = withdrawals.iter().map(|id| format!("withdrawal {} is pending", id.as_str()));
            let what = packets.chain(withdrawals).collect::<Vec<_>>().join(", ");
            return Err(Failed::Refused(format!("nothing is erased: {what}")));
        }
    };
    let words = || {
        let shared::ledger::Erased { packets, claims, withdrawals } = erased;
        format!(
            "emptied: the texts of {packets} packets, their greetings in {claims} claims, the notes of {withdrawals} withdrawals"
        )
    };
    Ok(Outcome::new(as_json, &erased, words, Exit::Good))
}
