//! The reads behind a view: the parts' states, the packet's own item, and groups of 64 slips, which are cached.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, timeout};

use super::rules::{Group, Groups, JointState, Need, Shared};
use crate::batching::{Cache, FreshSingleFlight, cache};
use crate::domain::{AckMode, End, PacketId, PartId, Terms, Timestamp};
use crate::ledger::Packet;
use crate::ledger::keys::SLIPS_PER_KEY;
use crate::ports::{HotStore, HotStoreError, Table};
use crate::service::own_claims::OwnClaims;
use crate::service::packets::PacketAmounts;
use crate::service::{Failure, Stores};

/// The time that a view waits for the hot store. Then the ledger answers for the parts that are missing.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a process believes, while every part says so too, that a packet is neither closed nor settled. A close and a settlement reach
/// all parts before they are answered. So only a hot store that was rolled back can be silent about them.
const OPEN_LIFE: Duration = Duration::from_secs(1);
/// How long a process uses what it read of a group with undecided slips.
const GROUP_LIFE: Duration = Duration::from_secs(1);
/// Groups of one packet that views read again in [`GROUP_LIFE`]. Of more groups, each is used for longer.
const GROUPS_A_SECOND: usize = 64;
/// Groups of one packet that a request reads at once.
const GROUPS_AT_ONCE: usize = 16;
/// The decisions that a process keeps, in their groups. Each takes some 90 bytes, or 200 if its user's id is as long as can be.
const DECISIONS_MAX: u64 = 150_000;
/// The packets of which a process keeps what never changes again, or when it saw them open.
const PACKETS_MAX: u64 = 10_000;

/// What a process reads of packets for their viewers, and what it keeps of that by the rule of the [module](super).
pub struct Reads<T: Table, H> {
    pub(super) stores: Stores<T, H>,
    /// The viewers' own claims.
    pub(super) own_claims: OwnClaims<T>,
    in_flight: FreshSingleFlight<PacketId, Result<Arc<Shared>, Failure>>,
    groups_in_flight: FreshSingleFlight<(PacketId, u32), Result<Arc<Group>, Failure>>,
    groups: Cache<(PacketId, u32), Arc<Group>>,
    /// Packets of which every slip is decided.
    decided: Cache<PacketId, Arc<Shared>>,
    /// When the ledger was asked last that said neither closed nor settled.
    open_at: Cache<PacketId, Instant>,
}

impl<T: Table, H: HotStore> Reads<T, H> {
    /// Reads from these stores. Nothing is known yet.
    pub fn new(stores: Stores<T, H>) -> Self {
        Self {
            own_claims: OwnClaims::new(Arc::clone(&stores.ledger)),
            stores,
            in_flight: FreshSingleFlight::default(),
            groups_in_flight: FreshSingleFlight::default(),
            groups: cache(DECISIONS_MAX, 64, |group| group.decided_count()),
            decided: cache(PACKETS_MAX, 1, |_| 1),
            open_at: cache(PACKETS_MAX, 1, |_| 1),
        }
    }

    /// What all viewers see of the packet with these terms. Those who ask at the same time share the reads.
    pub async fn shared(self: &Arc<Self>, terms: &Arc<Terms>) -> Result<Arc<Shared>, Failure> {
        if let Some(cached) = self.decided.get(&terms.id).filter(|cached| cached.end.is_settled) {
            return Ok(cached);
        }
        let (this, of) = (Arc::clone(self), Arc::clone(terms));
        self.in_flight
            .run(terms.id, move || async move { this.read(&of, None).await })
            .await
            .unwrap_or_else(|| Err(lost()))
    }

    /// Reads this without sharing. `item`: the packet's own item, if the caller has read it already.
    pub async fn read(self: &Arc<Self>, terms: &Terms, item: Option<Packet>) -> Result<Arc<Shared>, Failure> {
        // This comes before all other reads, so that a packet shown as over was read after its end.
        let now = self.stores.clock.now();
        let cached = self.decided.get(&terms.id).map(|cached| cached.summary.clone());
        let is_settled = item.as_ref().is_some_and(|item| item.settled.is_some());
        let joint = if cached.is_some() || is_settled { JointState::unknown() } else { self.ask(terms, now).await };
        let is_past = now >= terms.expires_at || joint.is_past;
        let was_open = || self.open_at.get(&terms.id).is_some_and(|at| at.elapsed() < OPEN_LIFE);
        let item = match item {
            None if !is_past && joint.is_open() && was_open() => None,
            None => Some(self.item(terms.id).await?),
            item => item,
        };
        let end = item.as_ref().map_or(End { is_past, ..End::default() }, |item| item.end(is_past));
        if let Some(summary) = item.and_then(|item| item.settled).or(cached) {
            return Ok(self.keep(terms.id, Shared::decided(end, summary)));
        }
        let (joint, need) = if end.is_over() || joint.may_be_all(terms.count) {
            (joint.with_ledger_for_all(), Need::Each)
        } else {
            (joint, Need::Sums)
        };
        let numbers = joint.groups_to_read(terms, &(0..terms.count), need);
        let groups = self.groups(terms, &joint, numbers, need).await?;
        let is_enough = joint.beyond(&groups).is_empty();
        let amounts = if is_enough { PacketAmounts::default() } else { self.stores.packets.all_amounts(terms).await? };
        let shared = Shared::of(terms, end, joint, &groups, |slip| amounts.get(slip));
        Ok(if shared.is_decided { self.keep(terms.id, shared) } else { Arc::new(shared) })
    }

    fn keep(&self, id: PacketId, shared: Shared) -> Arc<Shared> {
        let shared = Arc::new(shared);
        self.decided.insert(id, Arc::clone(&shared));
        shared
    }

    /// The packet's own item, which tells whether it is closed or settled.
    async fn item(&self, id: PacketId) -> Result<Packet, Failure> {
        let asked_at = Instant::now();
        let item = self.stores.ledger.packet(id).await?;
        let item = item.ok_or_else(|| Failure::defect(format!("{id}: it existed a moment ago")))?;
        if item.closed.is_none() && item.settled.is_none() {
            self.open_at.insert(id, asked_at);
        }
        Ok(item)
    }

    /// Asks each part what it knows, all at once: those that answer do not wait for those that don't, or not for long.
    async fn ask(&self, terms: &Terms, now: Timestamp) -> JointState {
        let ask = async |part: PartId| {
            let (hot, ack) = (Arc::clone(&self.stores.hot), terms.ack);
            let call = async move {
                let state = hot.part_state(part).await?;
                // A part that has lost its bitmap may still have holds.
                let may_hold = state.as_ref().is_none_or(|state| state.held_count > 0);
                let has_promises = ack == AckMode::Redis && may_hold;
                let promises = if has_promises { hot.outbox(part).await? } else { Vec::new() };
                Ok::<_, HotStoreError>((state, promises))
            };
            // It goes on in a task of its own, because a connection that is dead is only found out by a call that comes to its end.
            let slips = part.slips(terms.count);
            let error = match timeout(ANSWER_TIMEOUT, tokio::spawn(call)).await {
                Ok(Ok(Ok((state, promises)))) => return ((slips, state), promises),
                Ok(Ok(Err(error))) => crate::error_chain(&error),
                Ok(Err(_)) | Err(_) => "no answer in time".to_owned(),
            };
            tracing::warn!(%part, error, "the ledger answers in place of the hot store");
            ((slips, None), Vec::new())
        };
        let (parts, promises): (Vec<_>, Vec<_>) = join_all(terms.id.parts().map(ask)).await.into_iter().unzip();
        JointState::of(terms, now, parts, promises.into_iter().flatten().map(|entry| entry.hold).collect())
    }

    /// These groups. Those that the process has not read, or that are not usable, are read now.
    pub async fn groups(
        self: &Arc<Self>,
        terms: &Terms,
        joint: &JointState,
        numbers: Vec<u32>,
        need: Need,
    ) -> Result<Groups, Failure> {
        let life = GROUP_LIFE * u32::try_from(numbers.len().div_ceil(GROUPS_A_SECOND)).unwrap_or(u32::MAX);
        let group = |number| async move {
            let (key, known_bits) = ((terms.id, number), joint.known.group(number));
            if let Some(group) = self.groups.get(&key).filter(|group| group.is_usable(known_bits, need, life)) {
                return Ok::<_, Failure>((number, group));
            }
            let (this, size) = (Arc::clone(self), SLIPS_PER_KEY.min(terms.count - number * SLIPS_PER_KEY));
            let read = move || async move {
                let read_at = Instant::now();
                let decisions = this.stores.ledger.decisions_of_group(key.0, number).await?;
                let group = Arc::new(Group::new(decisions, size, known_bits, read_at));
                this.groups.insert(key, Arc::clone(&group));
                Ok(group)
            };
            Ok((number, self.groups_in_flight.run(key, read).await.unwrap_or_else(|| Err(lost()))?))
        };
        stream::iter(numbers).map(group).buffered(GROUPS_AT_ONCE).try_collect().await
    }
}

fn lost() -> Failure {
    Failure::defect("reading a packet was lost")
}
