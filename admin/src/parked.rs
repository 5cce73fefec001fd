use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use shared::domain::{Owner, PARTITIONS, PacketId, PartId, Partition, Signer};
use shared::ledger::ClaimRefusal;
use shared::ports::{HotStore, HotStoreError, OutboxEntry};
use shared::service::{Failure, Replay, Replayed};

use crate::deployment::{Deployed, Failed};
use crate::options::Replay as Asked;
use crate::text::table;
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
    held_since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// The reason why it is parked, or stays parked after a replay.
    reason: Option<String>,
}

/// Lists all parked holds.
pub async fn list(deployed: &Deployed, json: bool) -> Result<Outcome, Failed> {
    let parked = all_parked(deployed).await?;
    let rows: Vec<Row> = parked.into_iter().map(|(part, held)| Row::new(part, &held)).collect();
    Ok(answer(&rows, json, Exit::Good))
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
    for (part, held) in all_parked(deployed).await?.into_iter().filter(is_asked) {
        let row = Row::new(part, &held);
        let (outcome, reason) = match replay.replay(part, &held.hold).await {
            Ok(Replayed::StillParked(reason)) => {
                exit = Exit::Wrong;
                ("still parked".to_owned(), Some(reason))
            }
            Ok(Replayed::Committed(claim)) => (format!("committed: {}", claim.amount), None),
            Ok(Replayed::Refused(ClaimRefusal::Suspended)) => ("void: the user is suspended".to_owned(), None),
            Ok(Replayed::Refused(ClaimRefusal::LimitReached)) => {
                ("void: the user has won as much as the packet's limit allows".to_owned(), None)
            }
            Ok(Replayed::HadClaim(claim)) if claim.slip == held.hold.slip => {
                (format!("was committed before: {}", claim.amount), None)
            }
            Ok(Replayed::HadClaim(claim)) => (format!("void: the user has slip {} of this packet", claim.slip), None),
            Ok(Replayed::Taken(decision)) => match decision.owner {
                Owner::User(user) => (format!("void: the slip is {user}'s"), None),
                Owner::Refunded => ("void: the slip was refunded".to_owned(), None),
            },
            Err(failure) => {
                // Without a store the others would fail too.
                let outcome = format!("not tried: {}", shared::error_chain(&failure));
                rows.push(Row { outcome: Some(outcome), ..row });
                exit = Exit::Unfinished;
                break;
            }
        };
        rows.push(Row { outcome: Some(outcome), reason, ..row });
    }
    Ok(answer(&rows, json, exit))
}

async fn all_parked(deployed: &Deployed) -> Result<Vec<(PartId, OutboxEntry)>, Failure> {
    Ok(all_held(deployed).await?.into_iter().filter(|(_, held)| held.parked.is_some()).collect())
}

/// All holds that wait to be persisted, by part and then by time.
pub async fn all_held(deployed: &Deployed) -> Result<Vec<(PartId, OutboxEntry)>, Failure> {
    let hot = &deployed.stores.hot;
    let of_partition = async |index| {
        let mut held = Vec::new();
        for part in hot.pending_parts(Partition::wrapping(index)).await? {
            held.extend(hot.outbox(part).await?.into_iter().map(|entry| (part, entry)));
        }
        Ok::<_, HotStoreError>(held)
    };
    let partitions: Vec<Vec<(PartId, OutboxEntry)>> =
        stream::iter(0..PARTITIONS).map(of_partition).buffered(PARTITIONS_AT_ONCE).try_collect().await?;
    Ok(partitions.into_iter().flatten().collect())
}

impl Row {
    fn new(part: PartId, held: &OutboxEntry) -> Self {
        Self {
            packet_id: part.packet,
            part: part.index,
            slip: held.hold.slip,
            user_id: held.hold.user.to_string(),
            held_since: held.hold.at.to_string(),
            outcome: None,
            reason: held.parked.clone(),
        }
    }
}

fn answer(rows: &[Row], json: bool, exit: Exit) -> Outcome {
    let in_words = || match rows {
        [] => "no parked holds".to_owned(),
        rows => table(&rows, "packet_id slip user_id held_since outcome reason"),
    };
    Outcome::new(json, &rows, in_words, exit)
}
