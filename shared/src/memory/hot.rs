use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::part::{Part, Queue};
use crate::domain::{Decision, Hold, PacketId, PartId, Partition, Terms, Timestamp};
use crate::lock;
use crate::ports::{
    Backlog, Clock, Doubt, GrabAnswer, Grabber, Help, HotStore, HotStoreError, Loaded, OutboxEntry, PartReport,
    Reconciled, SnapshotResult,
};

/// The most decisions in one execution of `reconcile`, as in the real store.
const DECISIONS_PER_CALL: usize = 500;

/// A hot store in memory: one server with its own clock. Each call is one step.
pub struct MemoryHot {
    clock: Arc<dyn Clock>,
    state: Mutex<HotSnapshot>,
}

/// All that a [`MemoryHot`] held at one moment. A clone costs little: it shares the parts until they change.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HotSnapshot {
    parts: BTreeMap<Name, Arc<Part>>,
    /// The pending parts by partition, each with the time since when it is pending.
    pending: BTreeMap<u32, BTreeMap<Name, u64>>,
    /// The load leases: the parts that are being loaded, each with the end of its lease.
    loading: BTreeMap<Name, u64>,
    /// The help leases, each with its end; or why the last help was in vain, and for how long that counts.
    helping: BTreeMap<Name, (u64, Option<Doubt>)>,
}

type Name = (PacketId, u32);

const fn name(part: PartId) -> Name {
    (part.packet, part.index)
}

impl MemoryHot {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// All that it holds now.
    pub fn snapshot(&self) -> HotSnapshot {
        lock(&self.state).clone()
    }

    /// Restores an earlier state.
    pub fn restore(&self, snapshot: &HotSnapshot) {
        lock(&self.state).clone_from(snapshot);
    }

    /// Restores only the partitions that `lies_here` selects: what one node of a cluster has.
    pub fn restore_some(&self, snapshot: &HotSnapshot, lies_here: impl Fn(Partition) -> bool) {
        let mut state = lock(&self.state);
        let is_here = |name: &Name| lies_here(PartId { packet: name.0, index: name.1 }.partition());
        replace(&mut state.parts, &snapshot.parts, is_here);
        replace(&mut state.loading, &snapshot.loading, is_here);
        replace(&mut state.helping, &snapshot.helping, is_here);
        replace(&mut state.pending, &snapshot.pending, |partition| lies_here(Partition::wrapping(*partition)));
    }

    /// A part as it is; empty if there is none.
    pub fn part(&self, part: PartId) -> Part {
        self.with(part, |part, _| part.clone())
    }

    /// Changes a part in a way that no script would.
    pub fn tamper(&self, part: PartId, change: impl FnOnce(&mut Part)) {
        self.with(part, |part, _| change(part));
    }

    /// Whether a part is in the queue of pending parts.
    pub fn is_pending(&self, part: PartId) -> bool {
        let state = lock(&self.state);
        state.pending.get(&part.partition().index()).is_some_and(|parts| parts.contains_key(&name(part)))
    }

    fn with<R>(&self, id: PartId, run: impl FnOnce(&mut Part, u64) -> R) -> R {
        let now = self.clock.now().ms();
        let mut state = lock(&self.state);
        let part = Arc::make_mut(state.parts.entry(name(id)).or_default());
        part.expire(now);
        run(part, now)
    }

    /// Runs a script that may change the queue.
    fn script<R>(&self, id: PartId, run: impl FnOnce(&mut Part, u64) -> (R, Queue)) -> R {
        let (result, now, queue) = self.with(id, |part, now| {
            let (result, queue) = run(part, now);
            (result, now, queue)
        });
        let mut state = lock(&self.state);
        let pending = state.pending.entry(id.partition().index()).or_default();
        match queue {
            Queue::AsBefore => {}
            Queue::In => drop(pending.entry(name(id)).or_insert(now)),
            Queue::Out => drop(pending.remove(&name(id))),
        }
        result
    }
}

/// Puts what another map has of the selected keys into the place of what this one has of them.
fn replace<K: Clone + Ord, V: Clone>(
    map: &mut BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
    is_selected: impl Fn(&K) -> bool,
) {
    map.retain(|key, _| !is_selected(key));
    map.extend(other.iter().filter(|(key, _)| is_selected(key)).map(|(key, value)| (key.clone(), value.clone())));
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for MemoryHot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryHot").field("state", &*lock(&self.state)).finish_non_exhaustive()
    }
}

impl HotStore for MemoryHot {
    async fn grab(&self, part: PartId, grabbers: &[Grabber]) -> Result<Option<Vec<GrabAnswer>>, HotStoreError> {
        Ok(self.script(part, |part, now| part.grab(grabbers, now)))
    }

    async fn reconcile(
        &self,
        part: PartId,
        count: u32,
        decisions: &[Decision],
        resolved: &[Hold],
    ) -> Result<Reconciled, HotStoreError> {
        let slips = part.slips(count);
        let mut chunks = decisions.chunks(DECISIONS_PER_CALL);
        let first = chunks.next().unwrap_or_default();
        let mut reconciled = self.script(part, |part, now| part.reconcile(&slips, first, resolved, now));
        for decisions in chunks {
            reconciled = self.script(part, |part, now| part.reconcile(&slips, decisions, resolved, now));
        }
        Ok(reconciled)
    }

    async fn load(
        &self,
        part: PartId,
        terms: &Terms,
        is_closed: bool,
        decisions: &[Decision],
    ) -> Result<Loaded, HotStoreError> {
        let slips = part.slips(terms.count);
        Ok(self.script(part, |part, now| part.load(&slips, terms, is_closed, decisions, now)))
    }

    async fn close(&self, part: PartId) -> Result<bool, HotStoreError> {
        Ok(self.with(part, |part, _| part.close()))
    }

    async fn acquire_load_lease(&self, part: PartId, lease: Duration) -> Result<bool, HotStoreError> {
        let now = self.clock.now().ms();
        let mut state = lock(&self.state);
        if state.loading.get(&name(part)).is_some_and(|until| now <= *until) {
            return Ok(false);
        }
        state.loading.insert(name(part), now.saturating_add(ms(lease)));
        Ok(true)
    }

    async fn release_load_lease(&self, part: PartId) -> Result<(), HotStoreError> {
        lock(&self.state).loading.remove(&name(part));
        Ok(())
    }

    async fn help(
        &self,
        part: PartId,
        least_age: Duration,
        most: usize,
        lease: Duration,
    ) -> Result<Help, HotStoreError> {
        let (now, helped) = self.with(part, |part, now| (now, part.help(now, ms(least_age))));
        let Some((mut holds, too_young)) = helped else { return Ok(Help::ProbeAgain) };
        let mut state = lock(&self.state);
        if let Some((until, doubt)) = state.helping.get(&name(part)).filter(|(until, _)| now <= *until) {
            let left = Duration::from_millis(until - now);
            return Ok(doubt.map_or(Help::Wait(left), |doubt| Help::InVain(doubt, left)));
        }
        if let Some(left) = too_young.filter(|_| holds.is_empty()) {
            return Ok(Help::Wait(Duration::from_millis(left)));
        }
        state.helping.insert(name(part), (now.saturating_add(ms(lease)), None));
        holds.truncate(most);
        Ok(Help::Acquired { holds, now: Timestamp::from_ms(now) })
    }

    async fn end_help(&self, part: PartId, doubt: Option<(Doubt, Duration)>) -> Result<(), HotStoreError> {
        let now = self.clock.now().ms();
        let mut state = lock(&self.state);
        match doubt {
            Some((doubt, left)) => {
                state.helping.insert(name(part), (now.saturating_add(ms(left)), Some(doubt)));
            }
            None => drop(state.helping.remove(&name(part))),
        }
        Ok(())
    }

    async fn snapshot(&self, part: PartId, only_final: bool) -> Result<SnapshotResult, HotStoreError> {
        Ok(self.with(part, |part, now| part.snapshot(now, only_final)))
    }

    async fn report(&self, part: PartId) -> Result<Option<PartReport>, HotStoreError> {
        Ok(self.with(part, |part, now| part.report(now)))
    }

    async fn pending_parts(&self, partition: Partition) -> Result<Vec<PartId>, HotStoreError> {
        let state = lock(&self.state);
        let parts = state.pending.get(&partition.index()).into_iter().flatten();
        let mut parts: Vec<(u64, PartId)> =
            parts.map(|((packet, index), at)| (*at, PartId { packet: *packet, index: *index })).collect();
        parts.sort_by_key(|(at, part)| (*at, part.to_string()));
        Ok(parts.into_iter().map(|(_, part)| part).collect())
    }

    async fn backlog(&self, partition: Partition) -> Result<Backlog, HotStoreError> {
        let state = lock(&self.state);
        let pending = state.pending.get(&partition.index());
        let holds = |name: &Name| state.parts.get(name).map_or(0, |part| part.holds().count() as u64);
        Ok(Backlog {
            holds: pending.into_iter().flatten().map(|(name, _)| holds(name)).sum(),
            oldest: pending.and_then(|pending| pending.values().min()).map(|at| Timestamp::from_ms(*at)),
        })
    }

    async fn outbox(&self, part: PartId, least_age: Duration) -> Result<Vec<OutboxEntry>, HotStoreError> {
        Ok(self.with(part, |part, now| part.outbox(least_age, now)))
    }

    async fn park(&self, part: PartId, hold: &Hold, reason: &str) -> Result<(), HotStoreError> {
        self.with(part, |part, _| part.park(hold, reason));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
