use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use shared::domain::{PacketId, PartId, Partition, Terms, Timestamp, UserId};
use shared::memory::{HotSnapshot, MemoryHot, MemoryTable};
use shared::ports::Clock;
use shared::ports::{Item, Key};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::chance::Chance;
use crate::faults::{Fault, Rates, Struck};
use crate::mutants::Mutant;
use crate::trace::Trace;
use crate::violation::{Kind, Violation};

/// The time at which every run begins, in milliseconds since the epoch.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// States of the hot store that it can be rolled back to.
const SNAPSHOTS: usize = 48;
/// A process is killed at a message so many times more rarely than other things go wrong there.
const CALLS_PER_KILL: u32 = 20;
/// How far the clock of the second primary is ahead.
const SECOND_PRIMARY_AHEAD_MS: i64 = 700;

/// A clock that is ahead of the world's, or behind it.
#[derive(Debug)]
pub struct SkewedClock {
    start: Instant,
    skew_ms: i64,
}

impl SkewedClock {
    /// A clock that showed the beginning of the run, and `skew_ms`, at `start`.
    pub const fn new(start: Instant, skew_ms: i64) -> Self {
        Self { start, skew_ms }
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap();
        Timestamp::from_ms((EPOCH_MS + elapsed).saturating_add_signed(self.skew_ms))
    }
}

/// Whether a process lives. A dead one's calls have no effect any more, and never return.
#[derive(Debug, Default)]
pub struct Life {
    is_over: AtomicBool,
    // It wakes who waits in order; a `watch` does so in one that it draws itself.
    end: Notify,
}

impl Life {
    /// Ends it.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.end.notify_waiters();
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        let end = self.end.notified();
        if !self.is_over() {
            end.await;
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// What all processes of a run share: the stores, time, and bad luck.
pub struct World {
    /// Where all randomness comes from.
    pub chance: Arc<Chance>,
    /// The ledger's table.
    pub table: MemoryTable,
    /// What is broken on purpose.
    pub mutant: Option<Mutant>,
    start: Instant,
    primaries: [MemoryHot; 2],
    state: Mutex<State>,
}

struct State {
    rates: Rates,
    struck: Struck,
    trace: Trace,
    /// Events so far: what came before what.
    tick: u64,
    operations: u64,
    violations: Vec<Violation>,
    /// Older states of the first primary.
    older: VecDeque<HotSnapshot>,
    /// Which processes, by slot, reach the second primary.
    split: Option<u32>,
    has_lost: bool,
    /// When each slip was last seen to be held: the tick and the time.
    held: BTreeMap<(PacketId, u32), (u64, Timestamp)>,
    /// When each slip was first seen to be held for a user.
    holds: BTreeMap<(PacketId, u32, UserId), u64>,
    /// The decisions as they were first written, and when.
    decisions: BTreeMap<Key, (Item, u64)>,
    /// Packets whose send has reached the table or may have, with what is known of them, and when they were committed.
    known: BTreeMap<PacketId, Known>,
    /// What the hot store said is in the slip that it holds for a user: the word that only a mutant believes.
    said: BTreeMap<(PacketId, String), u64>,
    /// Which packets each process is refunding, by slot: only a mutant looks at it.
    refunding: BTreeMap<u32, BTreeSet<PacketId>>,
}

/// A packet that somebody tried to send.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its terms.
    pub terms: Arc<Terms>,
    /// The tick at which it was committed.
    pub committed: Option<u64>,
}

impl World {
    /// A world of its own for a seed.
    pub fn new(seed: u64, mutant: Option<Mutant>, readable: bool) -> Arc<Self> {
        let chance = Arc::new(Chance::new(seed));
        let start = Instant::now();
        let rates = Rates::draw(&chance);
        let primary = |skew| MemoryHot::new(Arc::new(SkewedClock::new(start, skew)));
        let state = State {
            rates,
            struck: Struck::default(),
            trace: Trace::new(readable),
            tick: 0,
            operations: 0,
            violations: Vec::new(),
            older: VecDeque::new(),
            split: None,
            has_lost: false,
            held: BTreeMap::new(),
            holds: BTreeMap::new(),
            decisions: BTreeMap::new(),
            known: BTreeMap::new(),
            said: BTreeMap::new(),
            refunding: BTreeMap::new(),
        };
        let primaries = [primary(0), primary(SECOND_PRIMARY_AHEAD_MS)];
        Arc::new(Self { chance, table: MemoryTable::default(), mutant, start, primaries, state: Mutex::new(state) })
    }

    /// When the run began.
    pub const fn start(&self) -> Instant {
        self.start
    }

    /// The world's own time.
    pub fn now(&self) -> Timestamp {
        SkewedClock::new(self.start, 0).now()
    }

    /// Notes what happened, and counts it: the number is larger than that of all before.
    pub fn note(&self, what: fmt::Arguments<'_>) -> u64 {
        let mut state = self.state();
        state.tick += 1;
        state.trace.note(self.start.elapsed().as_millis(), what);
        state.tick
    }

    /// Notes what must not happen.
    pub fn violated(&self, kind: Kind, what: String) {
        self.note(format_args!("VIOLATION {kind:?}: {what}"));
        self.state().violations.push(Violation { kind, what });
    }

    /// Whether `fault` strikes here and now.
    pub fn strikes(&self, fault: Fault) -> bool {
        let rate = self.state().rates.of(fault);
        let strikes = rate > 0 && self.chance.happens(rate);
        if strikes {
            self.struck(fault);
        }
        strikes
    }

    /// Counts a fault that strikes.
    pub fn struck(&self, fault: Fault) {
        self.note(format_args!("fault {fault:?}"));
        let mut state = self.state();
        state.struck.add(fault);
        state.has_lost |= fault.loses();
    }

    /// How often `fault` strikes in this run, per mille.
    pub fn rate(&self, fault: Fault) -> u32 {
        self.state().rates.of(fault)
    }

    /// Whether the hot store has lost or falsified anything that it had acknowledged.
    pub fn has_lost(&self) -> bool {
        self.state().has_lost
    }

    /// Nothing goes wrong from now on, but what is under way.
    pub fn heal(&self) {
        self.join_primaries();
        self.state().rates = Rates::default();
        self.note(format_args!("no more faults"));
    }

    /// A message is under way. One from or to a dead process never arrives.
    pub async fn travel(&self, life: &Life) {
        let rate = self.rate(Fault::Killed) / CALLS_PER_KILL;
        if rate > 0 && !life.is_over() && self.chance.happens(rate) {
            self.struck(Fault::Killed);
            life.end();
        }
        let pause = if self.strikes(Fault::Slow) { self.chance.millis(500..=6_000) } else { self.chance.millis(0..=3) };
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            sleep(pause).await;
        }
        if life.is_over() {
            pending::<()>().await;
        }
    }

    /// How long after its caller has given up something is executed: mostly soon.
    pub fn late(&self) -> Duration {
        if self.chance.happens(600) { self.chance.millis(1..=300) } else { self.chance.millis(300..=20_000) }
    }

    /// Counts an operation of a store.
    pub fn operated(&self) {
        self.state().operations += 1;
    }

    /// The primary that a process reaches.
    pub fn primary(&self, slot: u32) -> &MemoryHot {
        let is_second = self.state().split.is_some_and(|second| second >> slot & 1 == 1);
        &self.primaries[usize::from(is_second)]
    }

    /// Before a script runs: what may be rolled back to, and what is held.
    pub fn before_script(&self, part: PartId) {
        let snapshot = self.primaries[0].snapshot();
        let mut state = self.state();
        if state.older.len() == SNAPSHOTS {
            state.older.pop_front();
        }
        state.older.push_back(snapshot);
        drop(state);
        self.see_held(part);
    }

    /// Notes which slips of a part are held.
    pub fn see_held(&self, part: PartId) {
        let now = self.now();
        for primary in &self.primaries {
            let seen = primary.part(part);
            let mut state = self.state();
            let tick = state.tick;
            for (slip, user) in seen.holds() {
                state.held.insert((part.packet, slip), (tick, now));
                state.holds.entry((part.packet, slip, user.clone())).or_insert(tick);
            }
        }
    }

    /// The slips of a packet that were to be had at every moment since `tick`, and for `moment` at least: neither decided nor held.
    pub fn free_since(&self, terms: &Terms, tick: u64, moment: Duration) -> Vec<u32> {
        let now = self.now();
        terms.id.parts().for_each(|part| self.see_held(part));
        let state = self.state();
        let decided = |slip: u32| {
            let sk = format!("{slip:06}");
            state.decisions.contains_key(&Key { pk: format!("SLIPS#{}#{}", terms.id, slip / 64), sk })
        };
        let was_held = |slip: u32| {
            state.held.get(&(terms.id, slip)).is_some_and(|(seen, at)| *seen >= tick || now < at.after(moment))
        };
        (0..terms.count).filter(|slip| !decided(*slip) && !was_held(*slip)).collect()
    }

    /// The hot store loses everything, or one node of it does.
    pub fn wipe(&self) {
        self.struck(Fault::Wiped);
        self.see_all_held();
        self.restore(&HotSnapshot::default());
    }

    /// The hot store goes back by some operations, or one node of it does.
    pub fn roll_back(&self) {
        self.struck(Fault::RolledBack);
        self.see_all_held();
        let older = {
            let state = self.state();
            let most = state.older.len().saturating_sub(1);
            if most == 0 {
                return;
            }
            let steps = self.chance.between(1..=u32::try_from(most).unwrap()) as usize;
            state.older[most - steps].clone()
        };
        self.restore(&older);
    }

    fn restore(&self, snapshot: &HotSnapshot) {
        if self.chance.happens(500) {
            self.primaries[0].restore(snapshot);
        } else {
            let (nodes, lost) = (self.chance.between(2..=3), self.chance.between(0..=2));
            self.primaries[0].restore_some(snapshot, |partition: Partition| partition.index() % nodes == lost);
        }
    }

    /// From now on some processes reach another primary, which knows what the first one knows now.
    pub fn split_primaries(&self) {
        self.struck(Fault::Split);
        self.join_primaries();
        self.primaries[1].restore(&self.primaries[0].snapshot());
        let second = self.chance.between(1..=6);
        self.state().split = Some(second);
    }

    /// One of two primaries wins.
    pub fn join_primaries(&self) {
        if self.state().split.take().is_none() {
            return;
        }
        self.see_all_held();
        let second_wins = self.chance.happens(500);
        self.note(format_args!("one primary: the second one wins: {second_wins}"));
        if second_wins {
            self.primaries[0].restore(&self.primaries[1].snapshot());
        }
        self.primaries[1].restore(&HotSnapshot::default());
    }

    fn see_all_held(&self) {
        let known: Vec<PacketId> = self.state().known.keys().copied().collect();
        known.into_iter().flat_map(PacketId::parts).for_each(|part| self.see_held(part));
    }

    /// Enters a packet whose send has reached the network.
    pub fn enter(&self, terms: Terms) {
        let known = Known { terms: Arc::new(terms), committed: None };
        self.state().known.entry(known.terms.id).or_insert(known);
    }

    /// Notes that a packet is in the table.
    pub fn committed(&self, id: PacketId) {
        let mut state = self.state();
        let tick = state.tick;
        if let Some(known) = state.known.get_mut(&id) {
            known.committed.get_or_insert(tick);
        }
    }

    /// Notes a decision that was just written; one that was written before says the same.
    pub fn decided(&self, key: &Key, decision: &Item) {
        let changed = {
            let mut state = self.state();
            let tick = state.tick;
            let first = state.decisions.entry(key.clone()).or_insert_with(|| (decision.clone(), tick));
            first.0 != *decision
        };
        if changed {
            self.violated(Kind::Decision, format!("the decision {} {} has changed", key.pk, key.sk));
        }
    }

    /// The packets that somebody tried to send.
    pub fn known(&self) -> Vec<Known> {
        self.state().known.values().cloned().collect()
    }

    /// The terms of a packet that somebody tried to send.
    pub fn terms(&self, id: PacketId) -> Option<Arc<Terms>> {
        self.state().known.get(&id).map(|known| Arc::clone(&known.terms))
    }

    /// Whether a packet was in the table before `tick`.
    pub fn committed_before(&self, id: PacketId, tick: u64) -> bool {
        self.state().known.get(&id).and_then(|known| known.committed).is_some_and(|committed| committed < tick)
    }

    /// When each decision of a packet was written, by slip.
    pub fn decisions(&self, packet: PacketId) -> BTreeMap<u32, u64> {
        let state = self.state();
        let prefix = format!("SLIPS#{packet}#");
        let of_packet = state.decisions.iter().filter(|(key, _)| key.pk.starts_with(&prefix));
        of_packet.map(|(key, (_, tick))| (key.sk.parse().unwrap(), *tick)).collect()
    }

    /// What the hot store says is in the slip it holds for a user.
    pub fn say(&self, packet: PacketId, user: &str, amount: u64) {
        self.state().said.insert((packet, user.to_owned()), amount);
    }

    /// See [`Self::say`].
    pub fn said(&self, packet: PacketId, user: &str) -> Option<u64> {
        self.state().said.get(&(packet, user.to_owned())).copied()
    }

    /// Who was ever seen to hold which slip of a packet, and since when.
    pub fn holds(&self, packet: PacketId) -> Vec<(u32, UserId, u64)> {
        let state = self.state();
        let of_packet = state.holds.iter().filter(|((id, ..), _)| *id == packet);
        of_packet.map(|((_, slip, user), tick)| (*slip, user.clone(), *tick)).collect()
    }

    /// The parts that hold something, or are said to.
    pub fn left_in_outboxes(&self) -> Vec<String> {
        let parts = self.known().into_iter().flat_map(|known| known.terms.id.parts());
        let hot = &self.primaries[0];
        let left = parts.filter(|part| hot.is_pending(*part) || hot.part(*part).holds_something());
        left.map(|part| part.to_string()).collect()
    }

    /// The process in `slot` begins to settle.
    pub fn settling(&self, slot: u32) {
        self.state().refunding.remove(&slot);
    }

    /// The process in `slot` is about to refund these packets.
    pub fn refunding(&self, slot: u32, packets: impl IntoIterator<Item = PacketId>) {
        self.state().refunding.entry(slot).or_default().extend(packets);
    }

    /// See [`Self::refunding`].
    pub fn is_refunding(&self, slot: u32, packet: PacketId) -> bool {
        self.state().refunding.get(&slot).is_some_and(|packets| packets.contains(&packet))
    }

    /// What came of the run so far.
    pub fn tally(&self) -> Tally {
        let mut state = self.state();
        let trace = std::mem::take(&mut state.trace);
        Tally {
            hash: trace.hash(),
            struck: state.struck.clone(),
            operations: state.operations,
            violations: std::mem::take(&mut state.violations),
            lines: trace.into_lines(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Tally {
    /// The hash of all that happened.
    pub hash: u64,
    /// The faults that struck.
    pub struck: Struck,
    /// Calls of the stores that were executed.
    pub operations: u64,
    /// What must not have happened, in order.
    pub violations: Vec<Violation>,
    /// All that happened, if it was kept.
    pub lines: Vec<String>,
}
