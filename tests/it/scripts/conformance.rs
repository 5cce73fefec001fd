//! The in-memory hot store answers every call like the real one, and leaves the same keys.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use shared::domain::Partition;
use shared::memory::{Entry, MemoryHot, Part};
use shared::ports::{Clock, Doubt, Help, PartReport, SnapshotResult};

use super::*;

const SEQUENCES: u64 = 150;
/// For one change of a script of many.
const SEQUENCES_FOR_A_CHANGE: u64 = 30;
const STEPS: usize = 40;
const USERS: [&str; 6] = ["}", "h0:1", "3", "ann", "g1:2:3", "bob"];
const LEASE: Duration = Duration::from_mins(1);

/// Redis' time, as it was last read.
#[derive(Debug, Default)]
struct ReadClock(AtomicU64);

impl Clock for ReadClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::SeqCst))
    }
}

/// A real and an in-memory hot store that receive the same calls.
struct Twins<'a> {
    rig: &'a Rig,
    memory: MemoryHot,
    clock: Arc<ReadClock>,
    random: StdRng,
    parts: Vec<Packet>,
    /// The decisions that the ledger may have for each packet's slips.
    decisions: Vec<Vec<Decision>>,
    /// Every hold that was ever answered, with its part.
    holds: Vec<(usize, Hold)>,
}

impl<'a> Twins<'a> {
    fn new(rig: &'a Rig, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let clock = Arc::new(ReadClock::default());
        let memory = MemoryHot::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let (mut parts, mut decisions) = (Vec::new(), Vec::new());
        // All in one partition, so that its queue has an order.
        let partition: u8 = random.random();
        for _ in 0..2 {
            let packet = draw_packet(&mut random, partition);
            let known = draw_decisions(&mut random, packet.terms.count);
            for part in packet.terms.id.parts() {
                parts.push(Packet { part, ..packet.clone() });
                decisions.push(known.clone());
            }
        }
        Self { rig, memory, clock, random, parts, decisions, holds: Vec::new() }
    }

    /// Makes the same call on both stores. The real store runs it between two readings of its clock. At one of these
    /// milliseconds the in-memory store must give the same answer and the same state.
    async fn ask<V: PartialEq + std::fmt::Debug>(
        &mut self,
        index: usize,
        what: String,
        real: impl AsyncFnOnce(&RedisStore) -> V,
        memory: impl AsyncFn(&MemoryHot) -> V,
    ) -> V {
        let part = self.parts[index].part;
        let last = self.clock.now().ms();
        let from = loop {
            let now = self.rig.time(part).await;
            if now > last {
                break now;
            }
        };
        let expected = real(&self.rig.store).await;
        let mut state = self.rig.state(part).await;
        let until = self.rig.time(part).await;
        forget_free_after_expiry(&mut state, until);
        let before = self.memory.snapshot();
        let mut seen = Vec::new();
        for moment in from..=until {
            self.memory.restore(&before);
            self.clock.0.store(moment, Ordering::SeqCst);
            let answer = memory(&self.memory).await;
            // The real state was read a little later. Something may have expired in between.
            for shown_at in [moment, until] {
                self.clock.0.store(shown_at, Ordering::SeqCst);
                let mut left = self.state(part);
                forget_free_after_expiry(&mut left, until);
                if answer == expected && left == state {
                    self.clock.0.store(until, Ordering::SeqCst);
                    return expected;
                }
                seen.push((format!("{answer:?}"), left));
            }
        }
        panic!("{what}:\n{expected:?}\n{state:?}\nin memory:\n{seen:#?}");
    }

    /// A part of the in-memory store, as the keys of the real one would show it.
    fn state(&self, part: PartId) -> State {
        let Part { terms, claims, tries, free, decisions } = self.memory.part(part);
        let mut stored = BTreeMap::new();
        let first = self.parts.iter().find(|packet| packet.part == part).unwrap();
        let first = first.part.slips(first.terms.count).start;
        if let Some(terms) = terms {
            stored.insert(fields::EXPIRES_AT.to_owned(), terms.expires.to_string());
            stored.insert(fields::KNOWN_COUNT.to_owned(), decisions.len().to_string());
            stored.insert(fields::SLIP_COUNT.to_owned(), terms.count.to_string());
            stored.insert(
                fields::ACK_MODE.to_owned(),
                if terms.ack == AckMode::Redis { "redis" } else { "ledger" }.to_owned(),
            );
            let digest = |digest: PassphraseDigest| {
                let (high, low) = digest.0.split_at(16);
                let number = |half: &[u8]| u128::from_be_bytes(half.try_into().unwrap());
                format!("{:032x}{:032x}", number(high), number(low))
            };
            let Guard { starts_at, passphrase, recipients } = &terms.guard;
            let r = if recipients.is_some() { "r" } else { "" };
            let p = if passphrase.is_some() || starts_at.is_some() { "p" } else { "" };
            let start = starts_at.map(|start| format!("@{}", start.ms())).unwrap_or_default();
            let guard = if terms.is_closed {
                format!("{r}pclosed")
            } else {
                format!("{r}{p}{}{start}", passphrase.map(digest).unwrap_or_default())
            };
            if !guard.is_empty() {
                stored.insert(fields::GUARD.to_owned(), guard);
            }
            stored.extend(
                terms
                    .guard
                    .recipients
                    .iter()
                    .flatten()
                    .map(|user| (format!("{}{user}", fields::RECIPIENT), String::new())),
            );
        }
        let mut counts = BTreeMap::new();
        if let Some((end, tries)) = tries {
            counts.insert(fields::TRIES_END.to_owned(), end.to_string());
            counts.extend(tries.into_iter().map(|(user, count)| (user.to_string(), count.to_string())));
        }
        let reason = |parked: Option<String>| parked.map(|reason| format!(":{reason}")).unwrap_or_default();
        let claim = |entry| match entry {
            Entry::Confirmed(Claim { slip, amount, at }) => format!("g{slip}:{amount}:{}", at.ms()),
            Entry::Held { slip, at, parked } => format!("h{slip}:{}{}", at.ms(), reason(parked)),
        };
        let claims: BTreeMap<String, String> =
            claims.into_iter().map(|(user, entry)| (user.to_string(), claim(entry))).collect();
        let outbox = claims.iter().filter_map(|(user, claim)| held(user, claim));
        State {
            terms: stored,
            tries: counts,
            held: outbox.map(|held| (held.hold.slip, held)).collect(),
            claims,
            free: free.into(),
            decided: decisions.into_iter().map(|slip| slip - first).collect(),
            is_pending: self.memory.is_pending(part),
        }
    }

    async fn step(&mut self) {
        let index = self.random.random_range(0..self.parts.len());
        match self.random.random_range(0..100) {
            0..36 => self.grab(index).await,
            36..40 => self.help(index).await,
            40..60 => self.reconcile(index).await,
            60..75 => self.load(index).await,
            75..80 => self.park(index).await,
            80..84 => self.acquire_load_lease(index).await,
            84..90 => self.compare_views(index).await,
            90..94 => self.compare_outboxes(index).await,
            94..97 => self.forget(index).await,
            97 => self.close(index).await,
            _ => self.expire(index).await,
        }
    }

    async fn grab(&mut self, index: usize) {
        let packet = self.parts[index].clone();
        let mut users = USERS.to_vec();
        users.shuffle(&mut self.random);
        users.truncate(self.random.random_range(1..=USERS.len()));
        let words = ["open", "open", "shut", ""];
        let grabbers: Vec<Grabber> = users
            .into_iter()
            .map(|user| match *words.choose(&mut self.random).unwrap() {
                "" => grabber(user),
                words => packet.saying(user, words),
            })
            .collect();
        let part = packet.part;
        let found = self
            .ask(
                index,
                format!("grab {grabbers:?}"),
                async |real| real.grab(part, &grabbers).await.unwrap(),
                async |memory| memory.grab(part, &grabbers).await.unwrap(),
            )
            .await;
        for (Grabber { user, .. }, found) in grabbers.iter().zip(found.into_iter().flatten()) {
            if let GrabAnswer::Held { slip, at, .. } = found {
                self.holds.push((index, Hold { slip, user: user.clone(), at }));
            }
        }
    }

    async fn reconcile(&mut self, index: usize) {
        let (decisions, decided) = (self.some_decisions(index), self.some_holds(index));
        let (part, count) = (self.parts[index].part, self.parts[index].terms.count);
        self.ask(
            index,
            format!("reconcile {decisions:?} {decided:?}"),
            async |real| real.reconcile(part, count, &decisions, &decided).await.unwrap(),
            async |memory| memory.reconcile(part, count, &decisions, &decided).await.unwrap(),
        )
        .await;
    }

    async fn load(&mut self, index: usize) {
        let (decisions, packet) = (self.some_decisions(index), self.parts[index].clone());
        let is_closed = self.random.random_bool(0.1);
        self.ask(
            index,
            format!("load {decisions:?}, closed: {is_closed}"),
            async |real| real.load(packet.part, &packet.terms, is_closed, &decisions).await.unwrap(),
            async |memory| memory.load(packet.part, &packet.terms, is_closed, &decisions).await.unwrap(),
        )
        .await;
    }

    async fn close(&mut self, index: usize) {
        let part = self.parts[index].part;
        self.ask(
            index,
            "close".to_owned(),
            async |real| real.close(part).await.unwrap(),
            async |memory| memory.close(part).await.unwrap(),
        )
        .await;
    }

    async fn park(&mut self, index: usize) {
        let Some(hold) = self.some_holds(index).pop() else { return };
        let part = self.parts[index].part;
        self.ask(
            index,
            format!("park {hold:?}"),
            async |real| real.park(part, &hold, "no luck, no; slip").await.unwrap(),
            async |memory| memory.park(part, &hold, "no luck, no; slip").await.unwrap(),
        )
        .await;
    }

    async fn acquire_load_lease(&mut self, index: usize) {
        let part = self.parts[index].part;
        let releases = self.random.random();
        self.ask(
            index,
            format!("load lease, released: {releases}"),
            async |real| {
                let has_lease = real.acquire_load_lease(part, LEASE).await.unwrap();
                if releases {
                    real.release_load_lease(part).await.unwrap();
                }
                has_lease
            },
            async |memory| {
                let has_lease = memory.acquire_load_lease(part, LEASE).await.unwrap();
                if releases {
                    memory.release_load_lease(part).await.unwrap();
                }
                has_lease
            },
        )
        .await;
    }

    /// Asks for the help lease, and perhaps ends it.
    async fn help(&mut self, index: usize) {
        let part = self.parts[index].part;
        let least_age = Duration::from_millis(self.random.random_range(0..20));
        let doubts = [None, Some((Doubt::Blocked, LEASE)), Some((Doubt::Unavailable, LEASE))];
        let end = (self.random.random_bool(0.7), *doubts.choose(&mut self.random).unwrap());
        self.ask(
            index,
            format!("help from {least_age:?}, ended by: {end:?}"),
            async |real| helped(real, part, least_age, end).await,
            async |memory| helped(memory, part, least_age, end).await,
        )
        .await;
    }

    /// Makes calls that change nothing.
    async fn compare_views(&mut self, index: usize) {
        let part = self.parts[index].part;
        // Other tests use the server too.
        let ours: Vec<PartId> = self.parts.iter().map(|packet| packet.part).collect();
        // One snapshot at a time: the packet may expire between two.
        for only_final in [false, true] {
            self.ask(
                index,
                "view".to_owned(),
                async |real| shown(real, part, &ours, only_final).await,
                async |memory| shown(memory, part, &ours, only_final).await,
            )
            .await;
        }
    }

    /// Holds of an age that some of them have by now.
    async fn compare_outboxes(&mut self, index: usize) {
        let part = self.parts[index].part;
        let least_age = Duration::from_millis(self.random.random_range(0..30));
        self.ask(
            index,
            format!("outbox from {least_age:?} on"),
            async |real| real.outbox(part, least_age).await.unwrap(),
            async |memory| memory.outbox(part, least_age).await.unwrap(),
        )
        .await;
    }

    async fn forget(&mut self, index: usize) {
        let part = self.parts[index].part;
        self.rig.forget(part).await;
        self.memory.tamper(part, |part| *part = Part::default());
        self.compare_views(index).await;
    }

    /// Lets a part expire, as if it had always had this expiry.
    async fn expire(&mut self, index: usize) {
        let part = self.parts[index].part;
        let at = self.rig.time(part).await;
        self.parts[index].terms.expires_at = Timestamp::from_ms(at);
        let keys = PartKeys::of(part);
        if self.memory.part(part).terms.is_some() {
            self.rig.let_expire(&keys, at).await;
            self.rig.lose_free(&keys).await;
        }
        self.memory.tamper(part, |part| {
            if let Some(terms) = &mut part.terms {
                terms.expires = at;
                part.free.clear();
            }
        });
        self.compare_views(index).await;
    }

    fn some_decisions(&mut self, index: usize) -> Vec<Decision> {
        let mut decisions = self.decisions[index].clone();
        decisions.shuffle(&mut self.random);
        decisions.truncate(self.random.random_range(0..=decisions.len()));
        decisions
    }

    fn some_holds(&mut self, index: usize) -> Vec<Hold> {
        let of_part = self.holds.iter().filter(|(part, _)| *part == index);
        let mut holds: Vec<Hold> = of_part.map(|(_, hold)| hold.clone()).collect();
        holds.shuffle(&mut self.random);
        holds.truncate(self.random.random_range(0..=3));
        holds
    }
}

/// Removes the free slips of an expired part. No call takes them, and each store drops them in its own time.
fn forget_free_after_expiry(state: &mut State, now: u64) {
    let expires = state.terms.get(fields::EXPIRES_AT).and_then(|expires| expires.parse().ok());
    if expires.is_some_and(|expires: u64| expires <= now) {
        state.free.clear();
    }
}

/// What a store answers a process that wants to help, and then perhaps ends its lease.
async fn helped(
    store: &impl HotStore,
    part: PartId,
    least_age: Duration,
    (ends, doubt): (bool, Option<(Doubt, Duration)>),
) -> Help {
    let mut help = store.help(part, least_age, USERS.len(), LEASE).await.unwrap();
    match &mut help {
        // Holds of the same millisecond have no order.
        Help::Acquired { holds, .. } => holds.sort_by_key(|hold| hold.slip),
        // The stores read their clocks one after the other.
        Help::InVain(_, left) | Help::Wait(left) => *left = LEASE,
        Help::ProbeAgain => {}
    }
    if ends {
        store.end_help(part, doubt).await.unwrap();
    }
    help
}

/// Everything that a store shows of a part: outbox, queue, snapshot and view.
async fn shown(
    store: &impl HotStore,
    part: PartId,
    ours: &[PartId],
    only_final: bool,
) -> (Vec<OutboxEntry>, Vec<PartId>, String, Option<PartReport>) {
    let snapshot = match store.snapshot(part, only_final).await.unwrap() {
        // The stores read their clocks one after the other.
        SnapshotResult::Exhausted(snapshot) => {
            let has: BTreeMap<&UserId, &GrabAnswer> = snapshot.by_user.iter().collect();
            format!("final {}, {:?}, {has:?}", snapshot.is_final, snapshot.others)
        }
        other => format!("{other:?}"),
    };
    let partition: Partition = part.partition();
    let mut queue = store.pending_parts(partition).await.unwrap();
    queue.retain(|part| ours.contains(part));
    // The stores read their clocks one after the other.
    let report = store.report(part).await.unwrap();
    let report = report.map(|report| PartReport { now: Timestamp::default(), ..report });
    (store.outbox(part, Duration::ZERO).await.unwrap(), queue, snapshot, report)
}

fn draw_packet(random: &mut StdRng, partition: u8) -> Packet {
    let parts = random.random_range(1..=2);
    let mut packet = Packet::in_parts(parts, random.random_range(parts..=6));
    let mut bytes: [u8; 10] = rand::rng().random();
    bytes[9] = partition;
    packet.terms.id = PacketId::new(now(), parts, bytes);
    packet.part.packet = packet.terms.id;
    // Some expire during the test.
    if random.random_ratio(1, 4) {
        packet.terms.expires_at = now().after(Duration::from_millis(random.random_range(10..200)));
    }
    // Some start during the test.
    if random.random_ratio(1, 4) {
        packet = packet.starting_at(now().after(Duration::from_millis(random.random_range(0..200))));
    }
    if random.random_ratio(1, 4) {
        packet = packet.acknowledged_by_redis();
    }
    if random.random_ratio(1, 4) {
        packet = packet.for_recipients(&USERS[..4]);
    }
    if random.random_ratio(1, 4) {
        packet = packet.with_passphrase("open");
    }
    packet
}

/// A decision for each slip. Each user has at most one.
fn draw_decisions(random: &mut StdRng, count: u32) -> Vec<Decision> {
    let mut users = USERS.to_vec();
    users.shuffle(random);
    (0..count)
        .map(|slip| match users.pop() {
            Some(user) if random.random_ratio(2, 3) => won(slip, user),
            _ => refunded(slip),
        })
        .collect()
}

async fn compare(rig: &Rig, seed: u64, sequences: u64) {
    for number in 0..sequences {
        println!("sequence {number} of seed {seed}");
        let mut twins = Twins::new(rig, seed.wrapping_add(number));
        for _ in 0..STEPS {
            twins.step().await;
        }
    }
}

#[tokio::test]
async fn the_in_memory_hot_store_answers_like_the_real_one() {
    let (seed, sequences) =
        judging_seed().map_or_else(|| (rand::random(), SEQUENCES), |seed| (seed, SEQUENCES_FOR_A_CHANGE));
    compare(&Rig::on_one_node().await, seed, sequences).await;
}
