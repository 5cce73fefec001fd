//! What happened to one user in a time: what they asked and were answered, what moved, and which events tell it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use shared::domain::{Movement, MovementFilter, MovementKind, PacketId, Timestamp};
use shared::logs::name_under;

use crate::deployment::{Failed, in_file, ledger};
use crate::options::{Deployment, Story};
use crate::text::table;
use crate::{Exit, Outcome};

/// Something that happened.
#[derive(Debug, Serialize)]
struct Row {
    at: String,
    what: String,
    packet_id: Option<String>,
    slip: Option<u64>,
    amount: Option<i64>,
    /// The id of the request, or that of the event.
    id: Option<String>,
    /// Why it was refused or not answered.
    why: Option<String>,
}

/// Tells the story from the ledger, and from the logs if there are some.
pub async fn run(deployment: &Deployment, options: &Story, json: bool) -> Result<Outcome, Failed> {
    if options.log_key.is_none() && !options.log.is_empty() {
        return Err(Failed::Refused("--log needs --log-key".to_owned()));
    }
    if options.from > options.to {
        return Err(Failed::Refused("--to is before --from".to_owned()));
    }
    let mut rows = Vec::new();
    let slips = moved(deployment, options, &mut rows).await?;
    let of_ledger = rows.len();
    for file in options.log.iter().map(|path| files(path)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let text = std::fs::read_to_string(&file).map_err(in_file(&file))?;
        rows.extend(lines(&text).filter_map(|line| row_of(&line, options, &slips)));
    }
    rows.sort_by(|one, other| one.at.cmp(&other.at));
    let exit = if rows.is_empty() { Exit::Wrong } else { Exit::Good };
    let text = || {
        let text = if rows.is_empty() { "nothing happened".to_owned() } else { table(&rows, NAMES) };
        match rows.len() == of_ledger {
            true if options.log.is_empty() => format!("{text}\nwithout a log: --log names one"),
            true => format!("{text}\nthe log has no line of this user: is it that time's, and is --log-key its key?"),
            false => text,
        }
    };
    Ok(Outcome::new(json, &rows, text, exit))
}

/// The columns of the text.
const NAMES: &str = "at what packet_id slip amount id why";
/// The movements of a read.
const PAGE: u32 = 100;

/// The movements of the user's wallet, with their events. Returns the slips that they claimed.
async fn moved(
    deployment: &Deployment,
    options: &Story,
    rows: &mut Vec<Row>,
) -> Result<BTreeSet<(PacketId, u32)>, Failed> {
    let (ledger, place) = ledger(deployment).await;
    let filter = MovementFilter { from: Some(options.from), to: Some(options.to), kind: None };
    let (mut slips, mut after) = (BTreeSet::new(), None);
    loop {
        let page = ledger.movements(&options.user, filter, after, PAGE).await;
        let page = page.map_err(|error| Failed::from(error).in_table(&place))?;
        for movement in page.rows {
            let slip = match (movement.kind, movement.packet_id) {
                (MovementKind::Claim, Some(id)) => ledger.claim_of(&options.user, id).await?.map(|claim| claim.slip),
                _ => None,
            };
            slips.extend(movement.packet_id.zip(slip));
            rows.push(of_movement(&movement, slip));
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(slips),
        }
    }
}

fn of_movement(movement: &Movement, slip: Option<u32>) -> Row {
    let event = match (movement.kind, movement.packet_id, slip) {
        (MovementKind::Sent, Some(id), _) => Some(format!("evt_{id}_sent")),
        (MovementKind::Claim, Some(id), Some(slip)) => Some(format!("evt_{id}_claimed_{slip}")),
        (MovementKind::Refund, Some(id), _) => Some(format!("evt_{id}_refunded")),
        _ => Some(movement.id.clone()),
    };
    Row {
        at: movement.at.to_string(),
        what: match movement.status {
            Some(status) => format!("moved: {}, {status} now", movement.kind.name()),
            None => format!("moved: {}", movement.kind.name()),
        },
        packet_id: movement.packet_id.map(|id| id.to_string()),
        slip: slip.map(u64::from),
        amount: Some(movement.amount),
        id: event,
        why: movement.by.as_ref().map(|by| format!("by {by}")),
    }
}

/// The files of a log: the path itself, or all files in the folder.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failed> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(in_file(path))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(in_file(path))).collect()
}

/// The lines of a log: JSON as the functions print it, perhaps behind a time, as a query of Logs Insights shows them.
fn lines(text: &str) -> impl Iterator<Item = Value> {
    let json = |line: &str| line.find('{').and_then(|start| serde_json::from_str(&line[start..]).ok());
    text.lines().filter_map(json)
}

/// What a line tells about the user: a request of theirs, or what became of a hold of a slip that they claimed.
fn row_of(line: &Value, options: &Story, slips: &BTreeSet<(PacketId, u32)>) -> Option<Row> {
    let at: Timestamp = line["timestamp"].as_str()?.parse().ok()?;
    let fields = &line["fields"];
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    let key = options.log_key.as_deref()?;
    let is_theirs = fields["user"] == name_under(key, &options.user);
    let slip = fields["slip"].as_u64();
    let place = text("packet_id").and_then(|id| id.parse().ok()).zip(slip.and_then(|slip| u32::try_from(slip).ok()));
    // A void hold of their slip was another user's.
    let is_void = text("message").is_some_and(|message| message.contains("void"));
    let of_their_slip = fields["user"].is_null() && !is_void && place.is_some_and(|place| slips.contains(&place));
    if !(is_theirs || of_their_slip) || at < options.from || at >= options.to {
        return None;
    }
    let what = match (text("operation"), text("outcome")) {
        (Some(operation), Some(outcome)) => format!("answered: {operation}, {outcome}"),
        (None, Some(outcome)) => format!("answered: {outcome}"),
        (_, None) => text("message")?,
    };
    let by = text("by").map(|by| format!("by {by}"));
    Some(Row {
        at: at.to_string(),
        what,
        packet_id: text("packet_id"),
        slip,
        amount: None,
        id: text("request_id"),
        why: text("cause").or(by),
    })
}
