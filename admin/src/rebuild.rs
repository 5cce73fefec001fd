use std::sync::LazyLock;

use serde::Serialize;
use shared::domain::{PacketId, PartId};
use shared::ports::{Clock, System};
use shared::redis::{Connection, PartKeys, RedisError, Script};
use shared::service::Rebuild;

use crate::deployment::{Deployed, Failed};
use crate::hot::{HotCounts, HotPart};
use crate::text::table;
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
    let packet = deployed.stores.ledger.packet(id).await?.ok_or_else(|| Failed::no_packet(id))?;
    let rebuild = Rebuild::new(deployed.stores.clone());
    let mut parts = Vec::new();
    for part in id.parts() {
        let read = async || HotPart::read(&deployed.connection, part, &packet.terms).await.map(|hot| hot.counts());
        let deleted_keys = mend(&deployed.connection, part).await?;
        let before = read().await?;
        rebuild.part(part, &packet.terms, packet.closed.is_some()).await?;
        parts.push(Rebuilt { part: part.index, deleted_keys, before, after: read().await? });
    }
    Ok(Outcome::new(json, &parts, || table(&parts, "part deleted_keys before after"), Exit::Good))
}

/// Deletes keys of the wrong type, which no script can work with. Returns how many there were.
async fn mend(connection: &Connection, part: PartId) -> Result<u32, RedisError> {
    let PartKeys { name, part, free, known, pending, tries, loading } = PartKeys::of(part);
    let call = MEND.call(&[part, known, free, tries, loading, pending]).arg(name).arg(System.now().ms());
    connection.run(&call).await
}
