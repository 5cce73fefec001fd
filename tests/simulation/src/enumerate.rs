//! The enumeration: the real use cases and the shipped scripts in a small world, in every order of their calls, with up to so many faults
//! wherever they can strike.
//!
//! A path begins at the start, and makes the same choices as an earlier one up to a point where there were others. It ends once
//! nothing is left to choose, or in a state that another path has met. A state is what is in both stores, what each process has been
//! answered, and which calls wait. In each new state of the stores, all processes die and the packet expires: one run of settle must
//! finish everything, and users who ask must learn the truth.
//!
//! A call and its answer are one step: between them a process does nothing that others notice. Time stands still except where a choice
//! lets it pass, to the next moment at which somebody who pauses wakes.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use shared::domain::{AckMode, Amount, Claim, Labels, PacketId, PartId, Partition, Split, Terms, UserId, WinLimit};
use shared::ledger::{SendOutcome as LedgerSend, keys};
use shared::memory::{Keyspace, TableSnapshot};
use shared::ports::HotStore;
use shared::redis::{PartKeys, fields};
use shared::service::{Failure, GrabOutcome, NewPacket, SendOutcome, Voucher};

use crate::audit::audit;
use crate::faults::Fault;
use crate::gate::{Call, CallId, Gate, at_rest, let_time_pass, runtime};
use crate::history::History;
use crate::hot::now;
use crate::mutants::Mutant;
use crate::process::{Process, Setup, settling};
use crate::table::number;
use crate::trace::{Kind, Violation};
use crate::world::World;

/// How long packets can be grabbed.
const LIFE: Duration = Duration::from_secs(100);
/// When packets have expired and their grace has passed, in milliseconds after the start.
const OVER_MS: u64 = 200_000;
/// Money that the sender has beyond what the packets cost.
const EXTRA: u64 = 500;
/// The slot of a process that comes after all others are dead.
const AFTERWARDS: u32 = 100;

/// A small world.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Instance {
    /// Its name.
    pub name: &'static str,
    /// When winners are answered.
    pub ack: AckMode,
    /// The packet's slips.
    pub slips: u32,
    /// The packet's parts.
    pub parts: u32,
    /// The users of the grabs, each with the number of a packet. The second packet has one slip, and shares the limit with the first.
    pub grabs: &'static [(u32, usize)],
    /// How often each grab is made, one time after another.
    pub tries: u32,
    /// Whether the grabs share a process. Otherwise each has its own.
    pub is_shared: bool,
    /// Whether the packet is not loaded at first.
    pub is_unloaded: bool,
    /// Runs of settle.
    pub settles: u32,
    /// Whether the packet may expire before the end.
    pub expires: bool,
    /// Whether settle's clock is so far ahead that it refunds at once.
    pub is_hasty: bool,
    /// Whether the operator closes the packet.
    pub closes: bool,
    /// Whether a user may win only once.
    pub is_limited: bool,
    /// How many faults may strike.
    pub faults: u32,
}

const PLAIN: Instance = Instance {
    name: "two users, two slips",
    ack: AckMode::Ledger,
    slips: 2,
    parts: 1,
    grabs: &[(0, 0), (1, 0)],
    tries: 1,
    is_shared: false,
    is_unloaded: false,
    settles: 0,
    expires: false,
    is_hasty: false,
    closes: false,
    is_limited: false,
    faults: 1,
};

const THREE: Instance = Instance { slips: 3, grabs: &[(0, 0), (1, 0), (2, 0)], ..PLAIN };
const DEVICES: Instance = Instance { grabs: &[(0, 0), (0, 0), (1, 0)], ..PLAIN };
const SETTLE: Instance = Instance { settles: 1, expires: true, ..PLAIN };
const REDIS: Instance = Instance { ack: AckMode::Redis, ..PLAIN };
const CLOSE: Instance = Instance { closes: true, ..PLAIN };
const LIMIT: Instance = Instance { slips: 1, grabs: &[(0, 0), (0, 1)], is_limited: true, ..PLAIN };

/// The worlds that are enumerated; the first is small enough for a test.
pub const INSTANCES: &[Instance] = &[
    PLAIN,
    Instance { name: "two users, a slip", slips: 1, ..PLAIN },
    Instance { name: "two users grab twice", tries: 2, ..PLAIN },
    Instance { name: "three users, two slips", slips: 2, ..THREE },
    Instance { name: "two devices", ..DEVICES },
    Instance { name: "two devices, a slip", slips: 1, ..DEVICES },
    Instance { name: "two devices, a process", is_shared: true, ..DEVICES },
    Instance { name: "not loaded", is_unloaded: true, ..PLAIN },
    Instance { name: "settle", ..SETTLE },
    Instance { name: "settle twice", settles: 2, grabs: &[(0, 0)], ..SETTLE },
    Instance { name: "settle too early", settles: 1, is_hasty: true, ..PLAIN },
    Instance { name: "two parts", parts: 2, ..PLAIN },
    Instance { name: "two parts, two devices, a process", parts: 2, is_shared: true, ..DEVICES },
    Instance { name: "redis mode", tries: 2, ..REDIS },
    Instance { name: "redis mode, settle", settles: 1, expires: true, ..REDIS },
    Instance { name: "redis mode, two parts", parts: 2, ..REDIS },
    Instance { name: "close", ..CLOSE },
    Instance { name: "close, not loaded", is_unloaded: true, grabs: &[(0, 0)], ..CLOSE },
    Instance { name: "close, settle", settles: 1, grabs: &[(0, 0)], ..CLOSE },
    Instance { name: "close, redis mode, settle", settles: 1, grabs: &[(0, 0)], ack: AckMode::Redis, ..CLOSE },
    Instance { name: "limit", ..LIMIT },
    Instance { name: "limit, two users", slips: 2, grabs: &[(0, 0), (0, 1), (1, 0)], faults: 0, ..LIMIT },
    Instance { name: "limit, settle", settles: 1, faults: 0, ..LIMIT },
    Instance { name: "limit, settle, a fault", settles: 1, grabs: &[(0, 0)], ..LIMIT },
    Instance { name: "three users, three slips, two faults", faults: 2, ..THREE },
];

/// What an enumeration met.
#[derive(Debug, Default)]
pub struct Report {
    /// Paths: orders of calls and faults, each different from all others.
    pub paths: u64,
    /// Those that went on until nothing was left to choose. The others ended in a state that one had met.
    pub complete: u64,
    /// Distinct states.
    pub states: u64,
    /// Distinct states of the stores, from each of which a run of settle was tried.
    pub recoveries: u64,
    /// Calls that were made.
    pub calls: u64,
    /// The time that it took.
    pub time: Duration,
    /// Whether nothing is left to try.
    pub is_all: bool,
    /// The first violation, and the events that lead to it.
    pub violation: Option<(Violation, Vec<String>)>,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// A call passes, perhaps struck by a fault.
    Call(CallId, Option<Fault>),
    /// Time passes until a process that pauses goes on. By then the lease of a load is over.
    Pause,
    /// The packets expire, and their grace passes.
    Expire,
    /// A process dies.
    Kill(u32),
    /// The hot store, or one partition of it, loses everything.
    Wipe(Option<Partition>),
    /// The same goes back to before its last change.
    RollBack(Option<Partition>),
}

/// Both stores, and what was promised from them.
struct Snapshot {
    items: TableSnapshot,
    keys: Keyspace,
    is_over: bool,
    is_closing: bool,
    has_lost: bool,
    promised: BTreeMap<UserId, Claim>,
}

/// Somebody who acts in a world.
struct Actor {
    slot: u32,
    is_done: bool,
    /// The packet and the beginning of the grab that waits for its answer.
    asking: Option<(PacketId, u64)>,
}

struct Scene {
    instance: Instance,
    world: Arc<World>,
    packets: Vec<Arc<Terms>>,
    processes: Vec<Arc<Process>>,
    actors: Vec<Mutex<Actor>>,
    history: History,
    /// What users were answered on the hot store's word.
    promised: Mutex<BTreeMap<UserId, Claim>>,
    /// The hot store before its last change.
    before: Mutex<Keyspace>,
    is_over: AtomicU32,
    faults: AtomicU32,
}

/// The state in which a branch begins, and the choices that lead there, with its own first one.
type Branch = (u64, Vec<u8>);

/// The tree of choices, whose branches all threads share.
struct Tree {
    instance: Instance,
    mutant: Option<Mutant>,
    start: Snapshot,
    packets: Vec<Arc<Terms>>,
    /// The choices that lead to the branches that nobody has taken, and how many paths are under way.
    branches: Mutex<(Vec<Branch>, u32)>,
    seen: Mutex<HashSet<u64>>,
    recovered: Mutex<HashSet<u64>>,
    paths: AtomicU64,
    complete: AtomicU64,
    calls: AtomicU64,
    violation: Mutex<Option<(Violation, Vec<u8>)>>,
}

/// Enumerates an instance with so many threads, at most so many paths of it.
///
/// # Panics
/// If the simulation itself is wrong.
pub fn enumerate(instance: &Instance, mutant: Option<Mutant>, threads: usize, paths_max: u64) -> Report {
    let started = Instant::now();
    let tree = Tree::new(*instance, mutant);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| tree.explore(paths_max));
        }
    });
    let violation = tree.violation.lock().unwrap().take();
    let violation = violation.map(|(violation, choices)| (violation, tree.walk(&(0, choices), true)));
    Report {
        paths: tree.paths.load(Ordering::Relaxed),
        complete: tree.complete.load(Ordering::Relaxed),
        states: tree.seen.lock().unwrap().len() as u64,
        recoveries: tree.recovered.lock().unwrap().len() as u64,
        calls: tree.calls.load(Ordering::Relaxed),
        time: started.elapsed(),
        is_all: violation.is_none() && tree.branches.lock().unwrap().0.is_empty(),
        violation,
    }
}

fn user(number: u32) -> UserId {
    format!("u{number}").parse().unwrap()
}

fn new_packet(instance: &Instance, slips: u32) -> NewPacket {
    NewPacket {
        sender: "sender".parse().unwrap(),
        split: Split::Random,
        total: Amount::new(100 * u64::from(slips)),
        count: slips,
        greeting: String::new(),
        starts_at: None,
        expires_in: LIFE,
        passphrase: None,
        recipients: None,
        wants_ticket: false,
        limit: instance.is_limited.then(|| WinLimit { key: "once".parse().unwrap(), wins: Some(1), amount: None }),
        labels: Labels::default(),
    }
}

/// A path under way, also if it panics: the other threads must not wait for it.
struct UnderWay<'a>(&'a Tree);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.branches.lock().unwrap().1 -= 1;
    }
}

impl Tree {
    fn new(instance: Instance, mutant: Option<Mutant>) -> Self {
        let (start, packets) = runtime().block_on(async {
            // A mutant may be wrong about a packet that nobody has grabbed from yet.
            let world = World::gated(Gate::OPEN, None, false);
            let process = Process::start(&world, AFTERWARDS - 1, setup(&instance));
            let mut packets = Vec::new();
            for (number, slips) in [instance.slips, 1][..=usize::from(instance.is_limited)].iter().enumerate() {
                let (new, key) = (new_packet(&instance, *slips), format!("key-{number}"));
                let (fund, key) = (key.parse().unwrap(), key.parse().unwrap());
                let money = Amount::new(new.total.minor_units() + EXTRA);
                process.wallets.deposit(&new.sender, &fund, money, None).await.unwrap();
                packets.push(if instance.parts == 1 {
                    let SendOutcome::Sent(terms) = process.send.send(new, &key).await.unwrap() else { unreachable!() };
                    terms
                } else {
                    let sent = process.send_in_parts(new, instance.parts, &key, None).await.unwrap();
                    let (terms, LedgerSend::Sent) = sent else { unreachable!() };
                    Arc::new(terms)
                });
            }
            let keys = if instance.is_unloaded { Keyspace::default() } else { world.server().snapshot() };
            let items = world.table.snapshot();
            (
                Snapshot { items, keys, is_over: false, is_closing: false, has_lost: false, promised: BTreeMap::new() },
                packets,
            )
        });
        Self {
            instance,
            mutant,
            start,
            packets,
            branches: Mutex::new((vec![(0, Vec::new())], 0)),
            seen: Mutex::default(),
            recovered: Mutex::default(),
            paths: AtomicU64::default(),
            complete: AtomicU64::default(),
            calls: AtomicU64::default(),
            violation: Mutex::default(),
        }
    }

    /// Takes one branch after another until none is left.
    fn explore(&self, paths_max: u64) {
        loop {
            let next = {
                let mut branches = self.branches.lock().unwrap();
                if self.paths.load(Ordering::Relaxed) >= paths_max || self.violation.lock().unwrap().is_some() {
                    return;
                }
                let next = branches.0.pop();
                branches.1 += u32::from(next.is_some());
                if next.is_none() && branches.1 == 0 {
                    return;
                }
                next
            };
            let Some(branch) = next else {
                thread::yield_now();
                continue;
            };
            let _under_way = UnderWay(self);
            self.walk(&branch, false);
            self.paths.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Repeats these choices, then goes on with the first of each until the path ends. Returns the events if they are wanted; then nothing
    /// counts.
    fn walk(&self, (begins, choices): &Branch, readable: bool) -> Vec<String> {
        let mut news = Vec::new();
        let lines = runtime().block_on(async {
            let scene = Scene::new(self, readable);
            let mut taken = choices.clone();
            at_rest().await;
            for step in 0.. {
                let choices_now = scene.choices();
                if step >= choices.len() && !readable {
                    let (state, stores) = scene.fingerprints();
                    if !self.seen.lock().unwrap().insert(state) {
                        break;
                    }
                    scene.packets.iter().for_each(|terms| scene.world.judge_closed(terms.id, false));
                    if self.recovered.lock().unwrap().insert(stores) {
                        judge_parts(&scene.world, self, scene.world.has_lost());
                        news.push((scene.snapshot(), taken.clone()));
                    }
                    let others = (1..choices_now.len()).rev().map(|other| {
                        let other = u8::try_from(other).expect("few choices");
                        (state, [&taken[..], &[other]].concat())
                    });
                    self.branches.lock().unwrap().0.extend(others);
                }
                if scene.world.is_violated() || readable && step >= choices.len() {
                    break;
                }
                if step + 1 == choices.len() && !readable {
                    assert_eq!(scene.fingerprints().0, *begins, "a path can't be repeated");
                }
                let pick = choices.get(step).copied().unwrap_or_default();
                let Some(choice) = choices_now.get(usize::from(pick)) else {
                    assert!(step >= choices.len(), "a path can't be repeated");
                    self.complete.fetch_add(1, Ordering::Relaxed);
                    break;
                };
                if step >= choices.len() {
                    taken.push(pick);
                }
                scene.take(*choice).await;
            }
            let tally = scene.world.tally();
            if let Some(violation) = tally.violations.into_iter().next() {
                self.violation.lock().unwrap().get_or_insert((violation, taken));
            }
            self.calls.fetch_add(tally.operations, Ordering::Relaxed);
            tally.lines
        });
        for (snapshot, taken) in news {
            if let Err(violation) = runtime().block_on(self.recover(&snapshot)) {
                self.violation.lock().unwrap().get_or_insert((violation, taken));
            }
        }
        lines
    }

    /// A world with these stores.
    fn world(&self, gate: Gate, at: &Snapshot, readable: bool) -> Arc<World> {
        let world = World::gated(gate, self.mutant, readable);
        world.table.restore(&at.items);
        world.server().restore(&at.keys);
        for terms in &self.packets {
            world.enter(Terms::clone(terms));
            world.committed(terms.id);
        }
        for (key, item) in world.table.items().iter().filter(|(key, _)| key.pk.starts_with("SLIPS#")) {
            world.decided(key, item);
        }
        if at.is_over {
            world.set_time(OVER_MS);
        }
        if at.is_closing {
            world.closing(self.packets[0].id);
        }
        world
    }

    /// All processes are dead. Two ways to go on: users ask again and then the packet expires, or only settle runs, before and after it.
    async fn recover(&self, at: &Snapshot) -> Result<(), Violation> {
        let broken = |kind, what: String| Err(Violation { kind, what });
        for asks in [true, false] {
            let world = self.world(Gate::OPEN, at, false);
            let process = Process::start(&world, AFTERWARDS, setup(&self.instance));
            end_leases(&world, &self.packets);
            let told = if asks { self.ask_all(&world, &process).await } else { Vec::new() };
            if !asks {
                let _ = settle(self, &process).await;
                if !world.left_in_outboxes().is_empty() {
                    return broken(Kind::Liveness, format!("settle leaves holds: {:?}", world.left_in_outboxes()));
                }
                judge_parts(&world, self, at.has_lost);
            }
            world.set_time(OVER_MS);
            let report = settle(self, &process).await;
            let is_done = |report: &shared::service::RunReport| {
                (report.outbox_left, report.due_left, report.parked) == (Some(0), 0, 0)
            };
            if !report.as_ref().is_ok_and(is_done) || !world.left_in_outboxes().is_empty() {
                return broken(Kind::Liveness, format!("settle does not finish: {report:?}"));
            }
            let at_last = self.ask_all(&world, &process).await;
            let books = audit(world.table.items(), &world.known()).await?;
            for terms in &self.packets {
                let packet = &books.packets[&terms.id.to_string()];
                if !packet.settled || packet.decisions.len() != terms.count as usize {
                    return broken(Kind::Liveness, format!("{} is not settled: {packet:?}", terms.id));
                }
            }
            let claim_of = |id: PacketId, user: &UserId| {
                books.packets[&id.to_string()].claims.get(user.as_str()).map(|(slip, ..)| *slip)
            };
            let is_sure = self.instance.ack == AckMode::Ledger;
            for (id, user, answer) in told.iter().chain(&at_last) {
                let slip = match answer {
                    Some(GrabOutcome::Grabbed { claim, .. }) => Some(claim.slip),
                    Some(_) => None,
                    None if is_sure => return broken(Kind::Liveness, format!("{user} is not answered")),
                    None => continue,
                };
                // What the hot store promises after a loss, it may not keep.
                if slip != claim_of(*id, user) && (is_sure || slip.is_some() && !at.has_lost) {
                    let has = claim_of(*id, user);
                    return broken(Kind::Promise, format!("{user} has {has:?}, and is answered {answer:?}"));
                }
            }
            for (user, claim) in &at.promised {
                if claim_of(self.packets[0].id, user) != Some(claim.slip) {
                    return broken(Kind::Promise, format!("{user} was promised {claim:?}"));
                }
            }
            if let Some(violation) = world.tally().violations.into_iter().next() {
                return Err(violation);
            }
        }
        Ok(())
    }

    /// Each user asks for the packets of their grabs.
    async fn ask_all(&self, world: &World, process: &Process) -> Vec<(PacketId, UserId, Option<GrabOutcome>)> {
        let (mut answers, history) = (Vec::new(), History::default());
        for (number, packet) in self.instance.grabs {
            let (user, id) = (user(*number), self.packets[*packet].id);
            let asked = history.ask(world, id, &user, true);
            let answer = process.call(process.grab.grab(id, &user, None, &Voucher::Operator)).await;
            let outcome = answer.as_ref().and_then(|answer| answer.as_ref().ok()).cloned();
            history.answer(world, asked, answer, Duration::ZERO);
            answers.push((id, user, outcome));
        }
        answers
    }
}

const fn setup(instance: &Instance) -> Setup {
    Setup { ack: instance.ack, grace: Duration::from_secs(1), skew_ms: 0, is_never_frozen: false, claims_at_once: 8 }
}

/// The leases of loads are over.
fn end_leases(world: &World, packets: &[Arc<Terms>]) {
    for part in packets.iter().flat_map(|terms| terms.id.parts()) {
        world.server().command(&["DEL", &PartKeys::of(part).loading]).unwrap();
    }
}

/// Settles the partitions of the packets.
async fn settle(tree: &Tree, process: &Process) -> Result<shared::service::RunReport, Failure> {
    let partitions = tree.packets.iter().flat_map(|terms| terms.id.parts()).map(|part| part.partition().index());
    let (first, last) = (partitions.clone().min().unwrap(), partitions.max().unwrap());
    settling(process.settle.run(first..=last, tokio::time::Instant::now() + Duration::from_secs(55))).await
}

/// A slip of a loaded part is free, held or known, and without a loss just one of them. Known decisions are true. A claimed slip is free only after a
/// loss.
fn judge_parts(world: &World, tree: &Tree, has_lost: bool) {
    let is_decided = |part: PartId, slip: u32| world.table.read(&keys::decision(part.packet, slip));
    for (terms, part) in tree.packets.iter().flat_map(|terms| terms.id.parts().map(move |part| (terms, part))) {
        let hash = world.server().part(part);
        let is_loaded = hash.contains_key(fields::EXPIRES_AT) && world.now() < terms.expires_at;
        let state = now(world.primary(0).part_state(part)).unwrap();
        let Some(state) = state.filter(|state| is_loaded && !state.is_closed) else { continue };
        let slips = part.slips(terms.count);
        let (free, held) = (world.server().free(part), world.server().holds(part));
        let known: Vec<u32> = state.known_places().map(|place| place + slips.start).collect();
        for slip in slips.clone() {
            let (free_times, is_known) = (free.iter().filter(|free| **free == slip).count(), known.contains(&slip));
            let held_times = held.iter().filter(|(held, _)| *held == slip).count();
            // After a loss, or a refund that is early, a user may keep their hold of a slip that is another's by now.
            let may_be_stale = has_lost || tree.instance.is_hasty;
            let is_stale = may_be_stale && is_known && free_times == 0 && held_times == 1;
            if free_times + held_times + usize::from(is_known) != 1 && !is_stale {
                world.violated(Kind::Answer, format!("slip {slip}: free {free:?}, held {held:?}, known {known:?}"));
            }
            let decision = is_decided(part, slip);
            if is_known && decision.is_none() {
                world.violated(Kind::Decision, format!("slip {slip} is known, and has no decision"));
            }
            // Without promises, a refund does not wait until the hot store knows of it.
            let has_promises = tree.instance.ack == AckMode::Redis;
            let is_gone = decision.is_some_and(|item| has_promises || item.contains_key("user_id"));
            if free_times > 0 && is_gone && !has_lost {
                world.violated(Kind::Decision, format!("slip {slip} is free, and decided"));
            }
        }
    }
}

impl Scene {
    fn new(tree: &Tree, readable: bool) -> Arc<Self> {
        let instance = tree.instance;
        let world = tree.world(Gate::closed(), &tree.start, readable);
        let slot_of = |grab: usize| if instance.is_shared { 0 } else { u32::try_from(grab).unwrap() };
        let first_other = u32::try_from(instance.grabs.len()).unwrap();
        let others = instance.settles + u32::from(instance.closes);
        let slots: Vec<u32> = (0..instance.grabs.len()).map(slot_of).chain(first_other..first_other + others).collect();
        let actor = |slot: &u32| Mutex::new(Actor { slot: *slot, is_done: false, asking: None });
        let scene = Arc::new(Self {
            processes: (0..first_other + others)
                .map(|slot| {
                    let is_ahead = instance.is_hasty && slot >= first_other;
                    let skew_ms = if is_ahead { i64::try_from(OVER_MS).unwrap() } else { 0 };
                    Process::start(&world, slot, Setup { skew_ms, ..setup(&instance) })
                })
                .collect(),
            actors: slots.iter().map(actor).collect(),
            packets: tree.packets.clone(),
            before: Mutex::new(world.server().snapshot()),
            faults: AtomicU32::new(instance.faults),
            history: History::default(),
            promised: Mutex::default(),
            is_over: AtomicU32::default(),
            instance,
            world,
        });
        let partitions: Vec<u32> =
            scene.packets.iter().flat_map(|terms| terms.id.parts()).map(|part| part.partition().index()).collect();
        for (number, slot) in slots.into_iter().enumerate() {
            let (scene, process) = (Arc::clone(&scene), Arc::clone(&scene.processes[slot as usize]));
            let range = *partitions.iter().min().unwrap()..=*partitions.iter().max().unwrap();
            tokio::spawn(async move {
                if number >= scene.instance.grabs.len() && !scene.gate().pass(slot, Call::Begin).await {
                    return;
                }
                if let Some((user, packet)) = scene.instance.grabs.get(number) {
                    scene.grab(number, &process, self::user(*user), scene.packets[*packet].id).await;
                } else if number < scene.instance.grabs.len() + scene.instance.settles as usize {
                    let deadline = tokio::time::Instant::now() + Duration::from_secs(55);
                    let report = process.call(settling(process.settle.run(range, deadline))).await;
                    scene.world.note(format_args!("settle: {report:?}"));
                } else {
                    scene.close(&process).await;
                }
                scene.actors[number].lock().unwrap().is_done = true;
            });
        }
        scene
    }

    async fn grab(&self, number: usize, process: &Process, user: UserId, id: PacketId) {
        for _ in 0..self.instance.tries {
            let asked = self.history.ask(&self.world, id, &user, true);
            self.actors[number].lock().unwrap().asking = Some((id, asked.invoked));
            let answer = process.call(process.grab.grab(id, &user, None, &Voucher::Operator)).await;
            match &answer {
                Some(Ok(GrabOutcome::Grabbed { claim, .. })) => self.judge_promise(&user, id, claim),
                Some(Ok(other)) if self.has_slip(&user, id) => {
                    self.world.violated(Kind::Promise, format!("{user} has a slip, and is answered {other:?}"));
                }
                _ => {}
            }
            self.history.answer(&self.world, asked, answer, Duration::ZERO);
            self.actors[number].lock().unwrap().asking = None;
        }
    }

    /// Whether a user has a slip for good: a claim, or a promise of a hot store that has lost nothing since.
    fn has_slip(&self, user: &UserId, id: PacketId) -> bool {
        self.world.table.read(&keys::claim(user, id)).is_some()
            || !self.world.has_lost() && self.promised.lock().unwrap().contains_key(user)
    }

    fn judge_promise(&self, user: &UserId, id: PacketId, claim: &Claim) {
        if self.instance.ack == AckMode::Redis {
            self.promised.lock().unwrap().insert(user.clone(), claim.clone());
            return;
        }
        let item = self.world.table.read(&keys::claim(user, id)).unwrap_or_default();
        let booked = ["slip", "amount", "at"].map(|name| number(&item, name));
        if item.is_empty() || booked != [claim.slip.into(), claim.amount.minor_units(), claim.at.ms()] {
            self.world.violated(Kind::Promise, format!("{user} was promised {claim:?}, and has {item:?}"));
        }
    }

    async fn close(&self, process: &Process) {
        let id = self.packets[0].id;
        self.world.closing(id);
        let answer = process.call(process.close.close(id, "an enumeration".parse().unwrap(), None)).await;
        self.world.note(format_args!("the operator closes {id}: {answer:?}"));
        if answer.is_some_and(|answer| answer.is_ok_and(|view| view.is_some_and(|view| view.closed_at.is_some()))) {
            self.world.closed(id);
        }
    }

    fn gate(&self) -> &Gate {
        self.world.gate.as_ref().expect("an enumeration")
    }

    /// The processes that have not done their work, each with whether it pauses.
    fn busy(&self) -> Vec<(u32, bool)> {
        let waiting = self.gate().waiting();
        let is_waiting = |slot: u32| waiting.iter().any(|(id, call)| id.0 == slot && *call != Call::Late);
        let works = |slot: u32| {
            self.actors.iter().any(|actor| {
                let actor = actor.lock().unwrap();
                actor.slot == slot && !actor.is_done
            })
        };
        let alive = (0..).zip(&self.processes).filter(|(_, process)| !process.is_dead()).map(|(slot, _)| slot);
        alive.filter(|slot| works(*slot) || is_waiting(*slot)).map(|slot| (slot, !is_waiting(slot))).collect()
    }

    /// What can happen next. Empty: all is done.
    fn choices(&self) -> Vec<Choice> {
        let (waiting, busy) = (self.gate().waiting(), self.busy());
        let mut choices: Vec<Choice> = waiting.iter().map(|(id, _)| Choice::Call(*id, None)).collect();
        if busy.iter().any(|(_, pauses)| *pauses) {
            choices.push(Choice::Pause);
        }
        if choices.is_empty() {
            return choices;
        }
        if self.instance.expires && self.is_over.load(Ordering::Relaxed) == 0 {
            choices.push(Choice::Expire);
        }
        if self.faults.load(Ordering::Relaxed) > 0 {
            let struck = |(id, call): &(CallId, Call)| {
                let id = *id;
                call.faults().iter().map(move |fault| Choice::Call(id, Some(*fault)))
            };
            choices.extend(waiting.iter().flat_map(struck));
            choices.extend(busy.iter().map(|(slot, _)| Choice::Kill(*slot)));
            let parts = self.packets[0].id.parts().map(|part| Some(part.partition()));
            let lost: Vec<_> = if self.instance.parts == 1 { vec![None] } else { parts.chain([None]).collect() };
            let keys = self.world.server().snapshot();
            if keys.keys().next().is_some() {
                choices.extend(lost.iter().map(|lost| Choice::Wipe(*lost)));
            }
            if keys != *self.before.lock().unwrap() {
                choices.extend(lost.iter().map(|lost| Choice::RollBack(*lost)));
            }
        }
        choices
    }

    async fn take(&self, choice: Choice) {
        let keys = self.world.server().snapshot();
        let is_fault = !matches!(choice, Choice::Call(_, None) | Choice::Pause | Choice::Expire);
        self.faults.fetch_sub(u32::from(is_fault), Ordering::Relaxed);
        self.world.note(format_args!("{choice:?}"));
        match choice {
            Choice::Call(id, fault) => self.gate().choose(id, fault),
            Choice::Pause => self.pause().await,
            Choice::Expire => {
                self.is_over.store(1, Ordering::Relaxed);
                self.world.set_time(OVER_MS);
            }
            Choice::Kill(slot) => {
                self.world.struck(Fault::Killed);
                self.processes[slot as usize].kill();
                self.gate().forget(slot);
            }
            Choice::Wipe(partition) => self.world.lose(Fault::Wiped, partition, &Keyspace::default()),
            Choice::RollBack(partition) => {
                let before = self.before.lock().unwrap().clone();
                self.world.lose(Fault::RolledBack, partition, &before);
            }
        }
        at_rest().await;
        if self.world.server().snapshot() != keys {
            *self.before.lock().unwrap() = keys;
        }
    }

    async fn pause(&self) {
        let progress = || (self.gate().waiting().len(), self.busy());
        let before = progress();
        end_leases(&self.world, &self.packets);
        for _ in 0..1_000 {
            let_time_pass().await;
            if progress() != before {
                return;
            }
        }
        self.world.violated(Kind::Liveness, "somebody pauses for ever".to_owned());
    }

    fn snapshot(&self) -> Snapshot {
        let promised = if self.world.has_lost() { BTreeMap::new() } else { self.promised.lock().unwrap().clone() };
        Snapshot {
            items: self.world.table.snapshot(),
            keys: self.world.server().snapshot(),
            is_over: self.is_over.load(Ordering::Relaxed) > 0,
            is_closing: self.world.is_closing(self.packets[0].id),
            has_lost: self.world.has_lost(),
            promised,
        }
    }

    /// What tells this state from others; and what tells the stores and promises from others.
    fn fingerprints(&self) -> (u64, u64) {
        let (world, mut hasher) = (&self.world, DefaultHasher::new());
        (world.table.fingerprint(), world.server().snapshot(), self.is_over.load(Ordering::Relaxed)).hash(&mut hasher);
        (world.has_lost(), world.is_closing(self.packets[0].id)).hash(&mut hasher);
        for (user, claim) in &*self.promised.lock().unwrap() {
            (user, claim.slip).hash(&mut hasher);
        }
        let stores = hasher.finish();
        let faults = self.faults.load(Ordering::Relaxed);
        faults.hash(&mut hasher);
        if faults > 0 {
            Hash::hash(&*self.before.lock().unwrap(), &mut hasher);
        }
        let (waiting, busy) = (self.gate().waiting(), self.busy());
        for ((slot, number), _) in &waiting {
            (slot, number).hash(&mut hasher);
        }
        let mut pausing = Vec::new();
        for (slot, _) in (0..).zip(&self.processes) {
            let is_busy = busy.iter().find(|(busy, _)| *busy == slot);
            if is_busy.is_some() || waiting.iter().any(|(id, _)| id.0 == slot) {
                let heard = self.gate().heard(slot);
                (slot, heard.answers.finish(), heard.calls).hash(&mut hasher);
                if is_busy.is_some_and(|(_, pauses)| *pauses) {
                    pausing.push((heard.turn, slot));
                }
            }
        }
        pausing.sort_unstable();
        for (_, slot) in pausing {
            slot.hash(&mut hasher);
        }
        for actor in &self.actors {
            let actor = actor.lock().unwrap();
            actor.is_done.hash(&mut hasher);
            if let Some((id, invoked)) = actor.asking {
                let terms = self.packets.iter().find(|terms| terms.id == id).unwrap();
                world.free_since(terms, invoked, Duration::ZERO).hash(&mut hasher);
            }
        }
        if self.instance.closes {
            let held: Vec<_> =
                world.holds(self.packets[0].id).into_iter().map(|(slip, user, _)| (slip, user)).collect();
            held.hash(&mut hasher);
        }
        (hasher.finish(), stores)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { paths, complete, states, recoveries, calls, time, is_all, violation } = self;
        let all = if *is_all { "all" } else { "NOT ALL" };
        write!(f, "{all} {paths} paths ({complete} to the end), {states} states, {recoveries} recoveries, ")?;
        write!(f, "{calls} calls, {:.1} s", time.as_secs_f64())?;
        if let Some((violation, lines)) = violation {
            lines.iter().try_for_each(|line| write!(f, "\n{line}"))?;
            write!(f, "\nBROKEN: {violation}")?;
        }
        Ok(())
    }
}
