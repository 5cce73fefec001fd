use std::sync::LazyLock;

use serde::Serialize;
use shared::domain::{PacketId, PartId};
use shared::redis::{Connection, PartKeys, RedisError, Script};
use shared::service::Rebuild;

use crate::deployment::{Deployed, Failed};
use crate::hot::{HotCounts, HotPart};
use crate::text::columns;
use crate::{Exit, Outcome};

static MEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("mend.lua")));

/// A part before and after the rebuild. Under traffic other processes change it too.
#[derive(Debug, Serialize)]
struct Rebuilt {
    part: u32,
    /// Keys that were deleted, because another program had given them another type.
    deleted_keys: u32,
    before: HotCounts,
    after: HotCounts,
}

/// Reconciles Redis with all decisions of a packet.
pub async fn run(deployed: &Deployed, id: PacketId, json: bool) -> Result<Outcome, Failed> {
    let packet = deployed.stores.ledger.packet(id).await?.ok_or(Failed::NoPacket(id))?;
    let rebuild = Rebuild::new(deployed.stores.clone());
    let mut parts = Vec::new();
    for part in id.parts() {
        let read = async || HotPart::read(&deployed.connection, part, &packet.terms).await.map(|hot| hot.counts());
        let deleted_keys = mend(&deployed.connection, part).await?;
        let before = read().await?;
        rebuild.part(part, &packet.terms, packet.closed.is_some()).await?;
        parts.push(Rebuilt { part: part.index, deleted_keys, before, after: read().await? });
    }
    Ok(Outcome::new(json, &parts, || in_words(&parts), Exit::Good))
}

/// Deletes keys of the wrong type, which no script can work with. Returns how many there were.
async fn mend(connection: &Connection, part: PartId) -> Result<u32, RedisError> {
    let PartKeys { name, part, known, pending, tries, loading } = PartKeys::of(part);
    connection.run(&MEND.call(&[part, known, tries, loading, pending]).arg(name)).await
}

fn in_words(parts: &[Rebuilt]) -> String {
    let loaded = |counts: HotCounts| if counts.loaded { "yes" } else { "no" }.to_owned();
    let change = |before: String, after: String| {
        if before == after { after } else { format!("{before} -> {after}") }
    };
    let number = |before: usize, after: usize| change(before.to_string(), after.to_string());
    let row = |Rebuilt { part, before, after, .. }: &Rebuilt| {
        vec![
            part.to_string(),
            change(loaded(*before), loaded(*after)),
            number(before.free, after.free),
            number(before.held, after.held),
            number(before.known, after.known),
        ]
    };
    let table = columns(&["part", "loaded", "free", "held", "known"], parts.iter().map(row));
    match parts.iter().map(|part| part.deleted_keys).sum::<u32>() {
        0 if parts.iter().all(|part| part.before == part.after) => format!("{table}\n\nnothing changed"),
        0 => table,
        1 => format!("{table}\n\ndeleted 1 key of the wrong type"),
        keys => format!("{table}\n\ndeleted {keys} keys of the wrong type"),
    }
}
