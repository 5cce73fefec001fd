use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use shared::domain::{Owner, PARTITIONS, PacketId, PartId, Partition, Signer, Timestamp};
use shared::ports::OutboxEntry;
use shared::service::{Failure, Replay, Replayed};

use crate::deployment::{Deployed, Failed};
use crate::options::Replay as Asked;
use crate::text::{columns, moment};
use crate::{Exit, Outcome};

/// Partitions that are read at once.
const PARTITIONS_AT_ONCE: usize = 16;

/// A parked hold, with the outcome if it was tried again.
#[derive(Debug, Serialize)]
struct Row {
    packet_id: PacketId,
    part: u32,
    slip: u32,
    user_id: String,
    held_since_ms: Timestamp,
    /// The reason why it is parked, or stays parked after a replay.
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

/// Lists all parked holds.
pub async fn list(deployed: &Deployed, json: bool) -> Result<Outcome, Failed> {
    let replay = Replay::new(deployed.stores.clone(), None);
    let parked = all_parked(&replay).await?;
    let rows: Vec<Row> = parked.into_iter().map(|(part, held)| Row::new(part, &held)).collect();
    Ok(Outcome::new(json, &rows, || in_words(&rows), Exit::Good))
}

/// Tries parked holds again, in the name of `by`.
pub async fn replay(deployed: &Deployed, asked: &Asked, by: Option<Signer>, json: bool) -> Result<Outcome, Failed> {
    let replay = Replay::new(deployed.stores.clone(), by);
    let is_asked = |(part, held): &(PartId, OutboxEntry)| {
        asked.packet.is_none_or(|packet| packet == part.packet)
            && (asked.slips.is_empty() || asked.slips.contains(&held.hold.slip))
    };
    let mut rows = Vec::new();
    let mut exit = Exit::Good;
    for (part, held) in all_parked(&replay).await?.into_iter().filter(is_asked) {
        let mut row = Row::new(part, &held);
        // A failed replay does not stop the others.
        let (reason, outcome) = match replay.replay(part, &held.hold).await {
            Ok(Replayed::StillParked(reason)) => {
                exit = Exit::Wrong;
                (Some(reason), "still parked".to_owned())
            }
            Ok(replayed) => (None, describe(&replayed, &held)),
            Err(failure) => {
                exit = Exit::Unfinished;
                (row.reason.take(), format!("not tried: {}", shared::error_chain(&failure)))
            }
        };
        rows.push(Row { reason, outcome: Some(outcome), ..row });
        if matches!(exit, Exit::Unfinished) {
            break;
        }
    }
    Ok(Outcome::new(json, &rows, || in_words(&rows), exit))
}

async fn all_parked<T, H>(replay: &Replay<T, H>) -> Result<Vec<(PartId, OutboxEntry)>, Failure>
where
    T: shared::ports::Table,
    H: shared::ports::HotStore,
{
    let partitions: Vec<Vec<(PartId, OutboxEntry)>> = stream::iter(0..PARTITIONS)
        .map(|index| replay.parked(Partition::wrapping(index)))
        .buffered(PARTITIONS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(partitions.into_iter().flatten().collect())
}

fn describe(replayed: &Replayed, held: &OutboxEntry) -> String {
    match replayed {
        Replayed::Committed(claim) => format!("committed: {}", claim.amount),
        Replayed::HadClaim(claim) if claim.slip == held.hold.slip => format!("was committed before: {}", claim.amount),
        Replayed::HadClaim(claim) => format!("void: the user has slip {} of this packet", claim.slip),
        Replayed::Taken(decision) => match &decision.owner {
            Owner::User(user) => format!("void: the slip is {user}'s"),
            Owner::Refunded => "void: the slip was refunded".to_owned(),
        },
        Replayed::StillParked(_) => "still parked".to_owned(),
    }
}

impl Row {
    fn new(part: PartId, held: &OutboxEntry) -> Self {
        Self {
            packet_id: part.packet,
            part: part.index,
            slip: held.hold.slip,
            user_id: held.hold.user.to_string(),
            held_since_ms: held.hold.at,
            reason: held.parked.clone(),
            outcome: None,
        }
    }
}

fn in_words(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no parked holds".to_owned();
    }
    let row = |row: &Row| {
        let what = [row.outcome.clone(), row.reason.clone()].into_iter().flatten().collect::<Vec<_>>().join(": ");
        vec![row.packet_id.to_string(), row.slip.to_string(), row.user_id.clone(), moment(row.held_since_ms), what]
    };
    columns(&["packet", "slip", "user", "held since", ""], rows.iter().map(row))
}
