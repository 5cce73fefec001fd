use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::pending;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use shared::domain::{Amount, PacketId, PartId, Partition, Terms, Timestamp, UserId};
use shared::memory::{Keyspace, MemoryHot, MemoryServer, MemoryTable};
use shared::ports::{Clock, Entropy, Item, Key};
use shared::redis::{PartKeys, partition_of};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};

use crate::faults::{Chance, Fault, Rates, Struck};
use crate::gate::{Call, Gate};
use crate::mutants::Mutant;
use crate::trace::{Kind, Trace, Violation};

/// The time at which every run begins, in milliseconds since the epoch.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// Older states of the hot store that are kept for a rollback.
pub const SNAPSHOTS: usize = 48;
/// How much rarer a process is killed at a message than other faults strike there.
const CALLS_PER_KILL: u32 = 20;
/// How far the clock of the second primary is ahead.
pub const SECOND_PRIMARY_AHEAD: Duration = Duration::from_millis(700);

/// A clock that is ahead of the world's, or behind it.
#[derive(Debug)]
pub struct SkewedClock {
    start: Instant,
    skew_ms: i64,
    /// In an enumeration: the time since the start, which only a choice changes.
    chosen_ms: Option<Arc<AtomicU64>>,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let elapsed = match &self.chosen_ms {
            Some(chosen_ms) => chosen_ms.load(Ordering::SeqCst),
            None => u64::try_from(self.start.elapsed().as_millis()).unwrap(),
        };
        Timestamp::from_ms((EPOCH_MS + elapsed).saturating_add_signed(self.skew_ms))
    }
}

/// Whether a process lives. Calls of a dead process have no effect and never return.
#[derive(Debug, Default)]
pub struct Life {
    is_over: AtomicBool,
    // Wakes its waiters in order; a `watch` wakes them in a random one.
    end: Notify,
}

impl Life {
    /// Ends the process.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.end.notify_waiters();
    }

    /// Waits for the process's end.
    pub async fn ended(&self) {
        let end = self.end.notified();
        if !self.is_over() {
            end.await;
        }
    }

    /// Whether the process has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Everything that all processes of a run share: stores, time and faults.
pub struct World {
    /// The only source of randomness.
    pub chance: Arc<Chance>,
    /// The ledger's table.
    pub table: MemoryTable,
    /// The mutant that runs, if any.
    pub mutant: Option<Mutant>,
    /// What lets calls pass, in an enumeration.
    pub gate: Option<Gate>,
    start: Instant,
    chosen_ms: Option<Arc<AtomicU64>>,
    primaries: [MemoryHot; 2],
    state: Mutex<State>,
}

struct State {
    rates: Rates,
    struck: Struck,
    /// `None`: not even its hash is wanted.
    trace: Option<Trace>,
    /// Number of events so far; orders events.
    tick: u64,
    operations: u64,
    violations: Vec<Violation>,
    /// Older states of the first primary.
    older: VecDeque<Keyspace>,
    /// The most that a user may send on a day.
    daily_max: Option<Amount>,
    /// During a split: one bit per slot, set if its process reaches the second primary.
    split: Option<u32>,
    has_lost: bool,
    /// When each slip was last seen held: the tick and the time.
    held: BTreeMap<(PacketId, u32), (u64, Timestamp)>,
    /// The tick at which each slip was first seen held for a user.
    holds: BTreeMap<(PacketId, u32, UserId), u64>,
    /// Each decision as it was first written, and its tick.
    decisions: BTreeMap<Key, (Item, u64)>,
    /// The users who may not grab, or could not for a time.
    banned: BTreeSet<UserId>,
    /// The packets that the operator has asked to close, and the tick at which that was answered.
    closing: BTreeSet<PacketId>,
    closed: BTreeMap<PacketId, u64>,
    /// Who waits for the next load of an open part, by the packet's sender.
    loads: BTreeMap<UserId, oneshot::Sender<PacketId>>,
    /// Packets whose send may have reached the table.
    known: BTreeMap<PacketId, Known>,
    /// The amounts that the hot store named for held slips. Only a mutant uses them.
    said: BTreeMap<(PacketId, String), u64>,
    /// The packets that each process is refunding, by slot. Only a mutant uses them.
    refunding: BTreeMap<u32, BTreeSet<PacketId>>,
}

/// A packet that a user tried to send.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its terms.
    pub terms: Arc<Terms>,
    /// The tick at which it was committed.
    pub committed: Option<u64>,
}

impl World {
    /// A new world for a seed.
    pub fn new(seed: u64, mutant: Option<Mutant>, readable: bool) -> Arc<Self> {
        let chance = Chance::new(seed);
        let rates = Rates::draw(&chance);
        Self::build(chance, rates, mutant, Some(Trace::new(readable)), None)
    }

    /// A new world without faults or passing time of its own, whose calls pass through `gate`.
    pub fn gated(gate: Gate, mutant: Option<Mutant>, readable: bool) -> Arc<Self> {
        Self::build(Chance::new(0), Rates::default(), mutant, readable.then(|| Trace::new(true)), Some(gate))
    }

    fn build(
        chance: Chance,
        rates: Rates,
        mutant: Option<Mutant>,
        trace: Option<Trace>,
        gate: Option<Gate>,
    ) -> Arc<Self> {
        let start = Instant::now();
        let chosen_ms = gate.as_ref().map(|_| Arc::default());
        let primary =
            |skew_ms| MemoryHot::in_memory(Arc::new(SkewedClock { start, skew_ms, chosen_ms: chosen_ms.clone() }));
        let state = State {
            rates,
            struck: Struck::default(),
            trace,
            tick: 0,
            operations: 0,
            violations: Vec::new(),
            older: VecDeque::new(),
            daily_max: None,
            split: None,
            has_lost: false,
            held: BTreeMap::new(),
            holds: BTreeMap::new(),
            decisions: BTreeMap::new(),
            banned: BTreeSet::new(),
            closing: BTreeSet::new(),
            closed: BTreeMap::new(),
            loads: BTreeMap::new(),
            known: BTreeMap::new(),
            said: BTreeMap::new(),
            refunding: BTreeMap::new(),
        };
        let primaries = [primary(0), primary(i64::try_from(SECOND_PRIMARY_AHEAD.as_millis()).unwrap())];
        let (chance, table, state) = (Arc::new(chance), MemoryTable::default(), Mutex::new(state));
        Arc::new(Self { chance, table, mutant, gate, start, chosen_ms, primaries, state })
    }

    /// A clock that is `skew_ms` ahead of the world's.
    pub fn clock(&self, skew_ms: i64) -> SkewedClock {
        SkewedClock { start: self.start, skew_ms, chosen_ms: self.chosen_ms.clone() }
    }

    /// In an enumeration: the time is now `ms` after the start.
    pub fn set_time(&self, ms: u64) {
        self.chosen_ms.as_ref().expect("an enumeration").store(ms, Ordering::SeqCst);
    }

    /// The randomness of the process in `slot`. In an enumeration it does not depend on what others draw.
    pub fn entropy(&self, slot: u32) -> Arc<dyn Entropy> {
        if self.gate.is_some() { Arc::new(Chance::new(slot.into())) } else { Arc::clone(&self.chance) as _ }
    }

    /// The world's own time.
    pub fn now(&self) -> Timestamp {
        self.clock(0).now()
    }

    /// Notes an event and returns its number, which is larger than all before.
    pub fn note(&self, what: fmt::Arguments<'_>) -> u64 {
        let mut state = self.state();
        state.tick += 1;
        if let Some(trace) = &mut state.trace {
            trace.note(self.start.elapsed().as_millis(), what);
        }
        state.tick
    }

    /// Notes a violation.
    pub fn violated(&self, kind: Kind, what: String) {
        self.note(format_args!("VIOLATION {kind:?}: {what}"));
        self.state().violations.push(Violation { kind, what });
    }

    /// Whether `fault` strikes now.
    pub fn strikes(&self, fault: Fault) -> bool {
        let strikes = if let Some(gate) = &self.gate {
            gate.strikes(fault)
        } else {
            let rate = self.state().rates.of(fault);
            rate > 0 && self.chance.happens(rate)
        };
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

    /// How often `fault` has struck.
    pub fn times(&self, fault: Fault) -> u64 {
        self.state().struck.of(fault)
    }

    /// The rate of `fault` in this run, per mille.
    pub fn rate(&self, fault: Fault) -> u32 {
        self.state().rates.of(fault)
    }

    /// Whether something is wrong.
    pub fn is_violated(&self) -> bool {
        !self.state().violations.is_empty()
    }

    /// Whether the hot store has lost or falsified data that it had acknowledged.
    pub fn has_lost(&self) -> bool {
        self.state().has_lost
    }

    /// No new faults from now on; earlier messages may still arrive late.
    pub fn heal(&self) {
        self.join_primaries();
        self.state().rates = Rates::default();
        self.note(format_args!("no more faults"));
    }

    /// Waits while the request of a call travels, or until the call is chosen.
    pub async fn depart(&self, life: &Life, slot: u32, call: Call) {
        let Some(gate) = &self.gate else { return self.travel(life).await };
        if life.is_over() || !gate.pass(slot, call).await {
            pending::<()>().await;
        }
    }

    /// In an enumeration: notes what the process in `slot` has been answered.
    pub fn hear<A: Hash>(&self, slot: u32, answer: impl FnOnce() -> A) {
        if let Some(gate) = &self.gate {
            gate.hear(slot, answer);
        }
    }

    /// Waits until a late call arrives, after this pause or when it is chosen.
    pub async fn arrive_late(&self, slot: u32, pause: Duration) {
        match &self.gate {
            None => sleep(pause).await,
            Some(gate) if gate.pass(slot, Call::Late).await => {}
            Some(_) => pending().await,
        }
    }

    /// Waits while a message travels. A message from or to a dead process never arrives. In an enumeration answers take no time.
    pub async fn travel(&self, life: &Life) {
        if self.gate.is_some() {
            return;
        }
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

    /// How long after its caller's timeout a late call is executed; usually soon.
    pub fn late(&self) -> Duration {
        if self.chance.happens(600) { self.chance.millis(1..=300) } else { self.chance.millis(300..=20_000) }
    }

    /// Counts a store operation.
    pub fn operated(&self) {
        self.state().operations += 1;
    }

    /// Limits what a user may send on a day.
    pub fn limit(&self, daily_max: Option<Amount>) {
        self.state().daily_max = daily_max;
    }

    /// The most that a user may send on a day.
    pub fn daily_max(&self) -> Option<Amount> {
        self.state().daily_max
    }

    /// The primary that a process reaches.
    pub fn primary(&self, slot: u32) -> &MemoryHot {
        &self.primaries[usize::from(self.state().split.is_some_and(|second| second >> slot & 1 == 1))]
    }

    /// Runs before a script: keeps the state for rollbacks, and notes which slips are held.
    pub fn before_script(&self, part: PartId) {
        let snapshot = self.primaries[0].server().snapshot();
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
            let seen = primary.server().holds(part);
            let mut state = self.state();
            let tick = state.tick;
            for (slip, user) in seen {
                state.held.insert((part.packet, slip), (tick, now));
                state.holds.entry((part.packet, slip, user)).or_insert(tick);
            }
        }
    }

    /// The slips that were free, neither decided nor held, at every moment since `tick` and for at least `moment`.
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

    /// The hot store, or one node of it, loses everything.
    pub fn wipe(&self) {
        self.struck(Fault::Wiped);
        self.see_all_held();
        self.restore(&Keyspace::default());
    }

    /// The hot store, or one node of it, goes back by some operations.
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

    /// All of the hot store goes back to an earlier state, or one node of it, or all keys of one kind or two.
    fn restore(&self, earlier: &Keyspace) {
        let server = self.primaries[0].server();
        match self.chance.between(0..=9) {
            0..=4 => server.restore(earlier),
            5..=7 => {
                let (nodes, lost) = (self.chance.between(2..=3), self.chance.between(0..=2));
                server.restore_some(earlier, |key| partition_of(key).index() % nodes == lost);
            }
            _ => {
                let kind = || self.chance.pick(&["part", "free", "known", "pending", "tries"]).as_bytes();
                let lost = [kind(), kind()];
                let is_lost = |kind: &[u8]| lost.contains(&kind);
                server.restore_some(earlier, |key| key.split(|byte| *byte == b':').nth(2).is_some_and(is_lost));
                self.requeue();
            }
        }
    }

    /// Puts parts with holds back into their queues, as an operator's rebuild does. No server loses only a queue, or only a hash.
    fn requeue(&self) {
        let server = self.primaries[0].server();
        let known = self.known();
        for part in known.into_iter().flat_map(|known| known.terms.id.parts()) {
            if !server.holds(part).is_empty() && !server.is_pending(part) {
                let keys = PartKeys::of(part);
                server.command(&["ZADD", &keys.pending, "1", &keys.name]).unwrap();
            }
        }
    }

    /// The server of the hot store.
    pub fn server(&self) -> &MemoryServer {
        self.primaries[0].server()
    }

    /// The hot store, or what it has in one partition, goes back to an earlier state.
    pub fn lose(&self, fault: Fault, partition: Option<Partition>, earlier: &Keyspace) {
        self.struck(fault);
        self.see_all_held();
        self.server().restore_some(earlier, |key| partition.is_none_or(|partition| partition_of(key) == partition));
    }

    /// The hot store loses everything, and nothing was in it that the ledger does not have.
    pub fn forget_all(&self) {
        self.see_all_held();
        self.note(format_args!("the hot store forgets everything"));
        self.primaries[0].server().restore(&Keyspace::default());
    }

    /// The operator asks to close a packet.
    pub fn closing(&self, id: PacketId) {
        self.state().closing.insert(id);
    }

    /// A user may not grab for a time.
    pub fn ban(&self, user: &UserId) {
        self.state().banned.insert(user.clone());
    }

    /// Whether a user may not grab, or could not for a time.
    pub fn was_banned(&self, user: &UserId) -> bool {
        self.state().banned.contains(user)
    }

    /// Whether the operator has asked to close a packet.
    pub fn is_closing(&self, id: PacketId) -> bool {
        self.state().closing.contains(&id)
    }

    /// The operator was answered that a packet is closed.
    pub fn closed(&self, id: PacketId) {
        id.parts().for_each(|part| self.see_held(part));
        let mut state = self.state();
        let tick = state.tick;
        state.closed.entry(id).or_insert(tick);
        if state.rates.is_quiet() {
            // What was lost before does not count any more: the close has reached what is there.
            state.closed.insert(id, tick);
        }
    }

    /// Checks that the hot store has given out no slip of a packet since the operator was answered that it is closed. A rollback
    /// can take the close back, and so can a loader that stalled since before it, if the hot store loses the part. So this holds where
    /// nothing was lost, or where the close came after all faults.
    pub fn judge_closed(&self, id: PacketId, is_quiet: bool) {
        if self.has_lost() && !is_quiet {
            return;
        }
        id.parts().for_each(|part| self.see_held(part));
        let Some(closed) = self.state().closed.get(&id).copied() else { return };
        for (slip, user, since) in self.holds(id) {
            if since > closed {
                self.violated(Kind::Closed, format!("{user} got slip {slip} of {id} after it was closed"));
            }
        }
    }

    /// The packet of this sender of which a process is about to load a part as open. That process stalls. `None`: there was none for
    /// this time.
    pub async fn next_load(&self, sender: &UserId, wait: Duration) -> Option<PacketId> {
        let (told, load) = oneshot::channel();
        self.state().loads.insert(sender.clone(), told);
        timeout(wait, load).await.ok()?.ok()
    }

    /// A process is about to load a part as open. It stalls if somebody waits for that.
    pub async fn before_load(&self, terms: &Terms) {
        let waiting = self.state().loads.remove(&terms.sender);
        if waiting.is_some_and(|told| told.send(terms.id).is_ok()) {
            sleep(self.chance.millis(50..=1_500)).await;
        }
    }

    /// From now on some processes reach a second primary, which starts with the state of the first.
    pub fn split_primaries(&self) {
        self.struck(Fault::Split);
        self.join_primaries();
        self.primaries[1].server().restore(&self.primaries[0].server().snapshot());
        let second = self.chance.between(1..=6);
        self.state().split = Some(second);
    }

    /// Ends a split: one of two primaries wins.
    pub fn join_primaries(&self) {
        if self.state().split.take().is_none() {
            return;
        }
        self.see_all_held();
        let second_wins = self.chance.happens(500);
        self.note(format_args!("the split ends; the second primary wins: {second_wins}"));
        if second_wins {
            self.primaries[0].server().restore(&self.primaries[1].server().snapshot());
        }
        self.primaries[1].server().restore(&Keyspace::default());
    }

    fn see_all_held(&self) {
        let known: Vec<PacketId> = self.state().known.keys().copied().collect();
        known.into_iter().flat_map(PacketId::parts).for_each(|part| self.see_held(part));
    }

    /// Notes a packet whose send has reached the network.
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

    /// Notes a new decision. Checks that an earlier decision of the slip is the same.
    pub fn decided(&self, key: &Key, decision: &Item) {
        let changed = {
            let mut state = self.state();
            let tick = state.tick;
            state.decisions.entry(key.clone()).or_insert_with(|| (decision.clone(), tick)).0 != *decision
        };
        if changed {
            self.violated(Kind::Decision, format!("the decision {} {} has changed", key.pk, key.sk));
        }
    }

    /// The tick at which each slip of a packet was decided.
    pub fn decided_at(&self, packet: PacketId) -> BTreeMap<u32, u64> {
        let (state, pk) = (self.state(), format!("SLIPS#{packet}#"));
        let of_packet = state.decisions.iter().filter(|(key, _)| key.pk.starts_with(&pk));
        of_packet.map(|(key, (_, tick))| (key.sk.parse().unwrap(), *tick)).collect()
    }

    /// The packets that users tried to send.
    pub fn known(&self) -> Vec<Known> {
        self.state().known.values().cloned().collect()
    }

    /// The terms of a packet that a user tried to send.
    pub fn terms(&self, id: PacketId) -> Option<Arc<Terms>> {
        self.state().known.get(&id).map(|known| Arc::clone(&known.terms))
    }

    /// Whether a packet was in the table before `tick`.
    pub fn committed_before(&self, id: PacketId, tick: u64) -> bool {
        self.state().known.get(&id).and_then(|known| known.committed).is_some_and(|committed| committed < tick)
    }

    /// Notes the amount that the hot store named for the slip that it holds for a user.
    pub fn say(&self, packet: PacketId, user: &str, amount: u64) {
        self.state().said.insert((packet, user.to_owned()), amount);
    }

    /// See [`Self::say`].
    pub fn said(&self, packet: PacketId, user: &str) -> Option<u64> {
        self.state().said.get(&(packet, user.to_owned())).copied()
    }

    /// All holds of a packet ever seen: slip, user and first tick.
    pub fn holds(&self, packet: PacketId) -> Vec<(u32, UserId, u64)> {
        let state = self.state();
        let of_packet = state.holds.iter().filter(|((id, ..), _)| *id == packet);
        of_packet.map(|((_, slip, user), tick)| (*slip, user.clone(), *tick)).collect()
    }

    /// The pending parts, and all parts with a non-empty outbox.
    pub fn left_in_outboxes(&self) -> Vec<String> {
        let parts = self.known().into_iter().flat_map(|known| known.terms.id.parts());
        let hot = self.primaries[0].server();
        let left = parts.filter(|part| hot.is_pending(*part) || !hot.holds(*part).is_empty());
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

    /// The tally of the run so far.
    pub fn tally(&self) -> Tally {
        let mut state = self.state();
        let trace = state.trace.take().unwrap_or_default();
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

/// What happened in a run.
#[derive(Debug)]
pub struct Tally {
    /// The hash of all events.
    pub hash: u64,
    /// The faults that struck.
    pub struck: Struck,
    /// Store calls that were executed.
    pub operations: u64,
    /// The violations, in order.
    pub violations: Vec<Violation>,
    /// All events, if they were kept.
    pub lines: Vec<String>,
}
