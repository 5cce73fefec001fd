//! What happened to one user: what they asked and were answered, what moved, and which events tell it. Or what happened to a packet, or what
//! became of a request.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use serde::Serialize;
use serde_json::Value;
use shared::domain::{Movement, MovementFilter, MovementKind, PacketId, Timestamp, UserId};
use shared::ledger::{Ledger, LedgerError, Packet};
use shared::logs::name_under;

use crate::any_table::AnyTable;
use crate::deployment::{Failed, Table, in_file};
use crate::options::Story;
use crate::text;
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
pub async fn run(table: &Table, options: &Story, json: bool) -> Result<Outcome, Failed> {
    if options.user.is_some() && options.log_key.is_none() && !options.log.is_empty() {
        return Err(Failed::Refused("--log needs --log-key".to_owned()));
    }
    for (name, is_asked) in [("--request", options.request.is_some()), ("--refused", options.refused)] {
        if is_asked && options.log.is_empty() {
            return Err(Failed::Refused(format!("{name} needs --log")));
        }
    }
    if options.from.zip(options.to).is_some_and(|(from, to)| from > to) {
        return Err(Failed::Refused("--to is before --from".to_owned()));
    }
    let mut rows = Vec::new();
    let slips = of_ledger(&table.ledger(), options, &mut rows).await?;
    let of_ledger = rows.len();
    let names = names(options, &slips)?;
    for file in options.log.iter().map(|path| files(path)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let mut lines = BufReader::new(File::open(&file).map_err(in_file(&file))?);
        // As a compressed file has, or one in UTF-16.
        if lines.fill_buf().map_err(in_file(&file))?.contains(&0) {
            return Err(Failed::Refused(format!("{} is no text in UTF-8", file.display())));
        }
        for line in lines.split(b'\n') {
            let line = line.map_err(in_file(&file))?;
            if names.is_match(&line) {
                rows.extend(fields_of(&line).and_then(|line| row_of(&line, options, &slips)));
            }
        }
    }
    rows.sort_by(|one, other| one.at.cmp(&other.at));
    let exit = if rows.is_empty() { Exit::Wrong } else { Exit::Good };
    let text = || {
        let text = if rows.is_empty() { "nothing happened".to_owned() } else { text::table(&rows, NAMES) };
        match rows.len() == of_ledger {
            true if options.log.is_empty() => format!("{text}\nwithout a log: --log names one"),
            true => format!("{text}\nthe log has no such line: is it that time's, and is --log-key its key?"),
            false => text,
        }
    };
    Ok(Outcome::new(json, &rows, text, exit))
}

/// The columns of the text.
const NAMES: &str = "at what packet_id slip amount id why";
/// The movements of a read.
const PAGE: u32 = 100;
/// What became of the requests that were not refused.
const DONE: [&str; 3] = ["ok", "grabbed", "replayed"];
/// How the names of operations begin that change nothing.
const READS: [&str; 4] = ["get", "list", "find", "report"];

/// What the ledger has: the movements of the user's wallet, or else what was done with the packet. It has no requests. Returns the slips that
/// the user claimed.
async fn of_ledger(
    ledger: &Ledger<AnyTable>,
    options: &Story,
    rows: &mut Vec<Row>,
) -> Result<BTreeSet<(PacketId, u32)>, Failed> {
    if options.request.is_some() || options.refused {
        return Ok(BTreeSet::new());
    }
    match (&options.user, options.packet) {
        (Some(user), _) => Ok(moved(ledger, user, options, rows).await?),
        (None, Some(id)) => {
            rows.extend(done_with(&ledger.packet(id).await?.ok_or_else(|| Failed::no_packet(id))?));
            Ok(BTreeSet::new())
        }
        (None, None) => Ok(BTreeSet::new()),
    }
}

/// The movements of the user's wallet, with their events. Returns the slips that they claimed.
async fn moved(
    ledger: &Ledger<AnyTable>,
    user: &UserId,
    options: &Story,
    rows: &mut Vec<Row>,
) -> Result<BTreeSet<(PacketId, u32)>, LedgerError> {
    // Nothing of a packet is older than the packet.
    let from = options.from.max(options.packet.map(PacketId::created_at));
    let filter = MovementFilter { from, to: options.to, kind: None };
    let (mut slips, mut after) = (BTreeSet::new(), None);
    loop {
        let page = ledger.movements(user, filter, after, PAGE).await?;
        for movement in page.rows {
            if options.packet.is_some_and(|id| movement.packet_id != Some(id)) {
                continue;
            }
            let slip = match (movement.kind, movement.packet_id) {
                (MovementKind::Claim, Some(id)) => ledger.claim_of(user, id).await?.map(|claim| claim.slip),
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

/// The send of a packet, and its close.
fn done_with(packet: &Packet) -> Vec<Row> {
    let id = packet.terms.id;
    let row = |at: Timestamp, what: &str, why: Option<String>| Row {
        at: at.to_string(),
        what: format!("packet: {what}"),
        packet_id: Some(id.to_string()),
        slip: None,
        amount: None,
        id: Some(format!("evt_{id}_{what}")),
        why,
    };
    let closed = packet.closed.as_ref().map(|closing| {
        let by = closing.by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
        row(closing.at, "closed", Some(format!("{}{by}", closing.reason.as_str())))
    });
    std::iter::once(row(packet.terms.created_at, "sent", None)).chain(closed).collect()
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

/// The names of which a line has one if the story has it. To look for them is much faster than to parse all lines.
fn names(options: &Story, slips: &BTreeSet<(PacketId, u32)>) -> Result<AhoCorasick, Failed> {
    let names: BTreeSet<String> = match (&options.user, &options.log_key) {
        (Some(user), Some(key)) => {
            slips.iter().map(|(packet, _)| packet.to_string()).chain([name_under(key, user)]).collect()
        }
        _ => options.packet.iter().map(PacketId::to_string).chain(options.request.clone()).collect(),
    };
    AhoCorasick::new(names).map_err(|error| Failed::Refused(error.to_string()))
}

/// A line of a log: JSON as the functions print it, perhaps behind a time, as a query of Logs Insights shows them.
fn fields_of(line: &[u8]) -> Option<Value> {
    let start = line.iter().position(|byte| *byte == b'{')?;
    serde_json::from_slice(&line[start..]).ok()
}

/// What a line tells of the user, the packet or the request: a request of theirs, or what became of a hold of a slip that they claimed. What the
/// operator's staff read of them is no part of it.
fn row_of(line: &Value, options: &Story, slips: &BTreeSet<(PacketId, u32)>) -> Option<Row> {
    let at: Timestamp = line["timestamp"].as_str()?.parse().ok()?;
    let fields = &line["fields"];
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    let is_theirs = match (&options.user, &options.log_key) {
        (Some(user), Some(key)) => fields["user"] == name_under(key, user),
        (user, _) => user.is_none(),
    };
    let is_other = |asked: Option<String>, name: &str| asked.is_some_and(|asked| text(name).as_ref() != Some(&asked));
    let is_of_request =
        |asked: &String| ["request_id", "trace_id"].iter().any(|name| text(name).as_ref() == Some(asked));
    if is_other(options.packet.map(|id| id.to_string()), "packet_id")
        || !options.request.as_ref().is_none_or(is_of_request)
    {
        return None;
    }
    let is_read = |operation: &str| READS.iter().any(|verb| operation.starts_with(verb));
    if options.request.is_none() && text("by").is_some() && text("operation").is_some_and(|name| is_read(&name)) {
        return None;
    }
    let slip = fields["slip"].as_u64();
    let place = text("packet_id").and_then(|id| id.parse().ok()).zip(slip.and_then(|slip| u32::try_from(slip).ok()));
    // A void hold of their slip was another user's.
    let is_void = text("message").is_some_and(|message| message.contains("void"));
    let of_their_slip = fields["user"].is_null() && !is_void && place.is_some_and(|place| slips.contains(&place));
    let is_then = options.from.is_none_or(|from| at >= from) && options.to.is_none_or(|to| at < to);
    if !(is_theirs || of_their_slip) || !is_then {
        return None;
    }
    let is_refused = |outcome: String| !DONE.contains(&&*outcome);
    if options.refused && !text("outcome").is_some_and(is_refused) {
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
