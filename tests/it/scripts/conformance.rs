//! The hot store in memory answers as the real one does, whatever it is asked, and ends up with the same keys.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use shared::domain::Partition;
use shared::memory::{Entry, MemoryHot, Part};
use shared::ports::{Clock, Finality, PartView, ViewResult};

use super::*;

const SEQUENCES: u64 = 150;
const STEPS: usize = 40;
const USERS: [&str; 6] = ["}", "h0:1", "3", "ann", "g1:2:3", "bob"];
const LEASE: Duration = Duration::from_mins(1);

/// Redis' time, as it was read last.
#[derive(Debug, Default)]
struct ReadClock(AtomicU64);

impl Clock for ReadClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::SeqCst))
    }
}

/// A real hot store and one in memory that are asked the same.
struct Twins<'a> {
    rig: &'a Rig,
    memory: MemoryHot,
    clock: Arc<ReadClock>,
    random: StdRng,
    parts: Vec<Packet>,
    /// What the ledger may say of the slips of each packet.
    decisions: Vec<Vec<Decision>>,
    /// Every hold that was ever answered, and its part.
    holds: Vec<(usize, Hold)>,
}

impl<'a> Twins<'a> {
    fn new(rig: &'a Rig, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let clock = Arc::new(ReadClock::default());
        let memory = MemoryHot::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let (mut parts, mut decisions) = (Vec::new(), Vec::new());
        // Of one partition, so that its queue has an order.
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

    /// Asks both stores the same. The real one runs it at some moment between two that are read of its clock: at one of
    /// them the answers, and what is left behind, are the same.
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
            let now = self.time(part).await;
            if now > last {
                break now;
            }
        };
        let expected = real(&self.rig.store).await;
        let mut state = self.rig.state(part).await;
        let until = self.time(part).await;
        forget_free_after_expiry(&mut state, until);
        let before = self.memory.snapshot();
        let mut told = Vec::new();
        for moment in from..=until {
            self.memory.restore(&before);
            self.clock.0.store(moment, Ordering::SeqCst);
            let answer = memory(&self.memory).await;
            // What is left behind was looked at after that: what expires may have done so since.
            for looked in [moment, until] {
                self.clock.0.store(looked, Ordering::SeqCst);
                let mut left = self.state(part);
                forget_free_after_expiry(&mut left, until);
                if answer == expected && left == state {
                    self.clock.0.store(until, Ordering::SeqCst);
                    return expected;
                }
                told.push((format!("{answer:?}"), left));
            }
        }
        panic!("{what}:\n{expected:?}\n{state:?}\nin memory:\n{told:#?}");
    }

    async fn time(&self, part: PartId) -> u64 {
        const TIME: &str = "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)";
        self.rig.run(["EVAL", TIME, "1", &PartKeys::of(part).claims]).await
    }

    /// What the store in memory has of a part, as the real one's keys would show it.
    fn state(&self, part: PartId) -> State {
        let Part { terms, claims, tries, free, decisions } = self.memory.part(part);
        let mut fields = BTreeMap::new();
        let first = self.parts.iter().find(|packet| packet.part == part).unwrap();
        let first = first.part.slips(first.terms.count).start;
        if let Some(terms) = terms {
            fields.insert("#x".to_owned(), terms.expires.to_string());
            fields.insert("#n".to_owned(), decisions.len().to_string());
            fields.insert("#c".to_owned(), terms.count.to_string());
            fields.insert("#a".to_owned(), if terms.ack == AckMode::Redis { "redis" } else { "ledger" }.to_owned());
            let digest = |digest: PassphraseDigest| {
                let (high, low) = digest.0.split_at(16);
                let number = |half: &[u8]| u128::from_be_bytes(half.try_into().unwrap());
                format!("{:032x}{:032x}", number(high), number(low))
            };
            let words = terms.guard.passphrase.map(|words| format!("p{}", digest(words))).unwrap_or_default();
            let guard = if terms.guard.recipients.is_some() { format!("r{words}") } else { words };
            if !guard.is_empty() {
                fields.insert("#g".to_owned(), guard);
            }
            fields.extend(terms.guard.recipients.iter().flatten().map(|user| (format!("#r:{user}"), String::new())));
        }
        let tries = tries.into_iter().map(|(user, (count, since))| (format!("#t:{user}"), format!("{count}:{since}")));
        fields.extend(tries);
        let reason = |parked: Option<String>| parked.map(|reason| format!(":{reason}")).unwrap_or_default();
        let claim = |entry| match entry {
            Entry::Confirmed(Claim { slip, amount, at }) => format!("g{slip}:{amount}:{}", at.ms()),
            Entry::Held { slip, at, parked } => format!("h{slip}:{}{}", at.ms(), reason(parked)),
        };
        let claims: BTreeMap<String, String> =
            claims.into_iter().map(|(user, entry)| (user.to_string(), claim(entry))).collect();
        let outbox = claims.iter().filter_map(|(user, claim)| held(user, claim));
        State {
            terms: fields,
            held: outbox.map(|held| (held.hold.slip, held)).collect(),
            claims,
            free: free.into(),
            decisions: decisions.into_iter().map(|slip| slip - first).collect(),
            is_pending: self.memory.is_pending(part),
        }
    }

    async fn step(&mut self) {
        let index = self.random.random_range(0..self.parts.len());
        match self.random.random_range(0..100) {
            0..40 => self.grab(index).await,
            40..60 => self.reconcile(index).await,
            60..75 => self.load(index).await,
            75..80 => self.park(index).await,
            80..84 => self.acquire_load_lease(index).await,
            84..94 => self.look(index).await,
            94..98 => self.forget(index).await,
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
        self.ask(
            index,
            format!("load {decisions:?}"),
            async |real| real.load(packet.part, &packet.terms, &decisions).await.unwrap(),
            async |memory| memory.load(packet.part, &packet.terms, &decisions).await.unwrap(),
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
        let gives_up = self.random.random();
        self.ask(
            index,
            format!("lead, and give up: {gives_up}"),
            async |real| {
                let leads = real.acquire_load_lease(part, LEASE).await.unwrap();
                if gives_up {
                    real.release_load_lease(part).await.unwrap();
                }
                leads
            },
            async |memory| {
                let leads = memory.acquire_load_lease(part, LEASE).await.unwrap();
                if gives_up {
                    memory.release_load_lease(part).await.unwrap();
                }
                leads
            },
        )
        .await;
    }

    /// Asks what changes nothing.
    async fn look(&mut self, index: usize) {
        let part = self.parts[index].part;
        // Other tests use the server too.
        let ours: Vec<PartId> = self.parts.iter().map(|packet| packet.part).collect();
        self.ask(
            index,
            "view".to_owned(),
            async |real| looked(real, part, &ours).await,
            async |memory| looked(memory, part, &ours).await,
        )
        .await;
    }

    async fn forget(&mut self, index: usize) {
        let part = self.parts[index].part;
        self.rig.forget(part).await;
        self.memory.tamper(part, |part| *part = Part::default());
        self.look(index).await;
    }

    /// Lets a part's time be over: from now on it is as if it had always expired then.
    async fn expire(&mut self, index: usize) {
        let part = self.parts[index].part;
        let at = self.time(part).await;
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
        self.look(index).await;
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

/// Nothing is taken of an expired part, and each store drops what was free when it comes to it.
fn forget_free_after_expiry(state: &mut State, now: u64) {
    let expires = state.terms.get("#x").and_then(|expires| expires.parse().ok());
    if expires.is_some_and(|expires: u64| expires <= now) {
        state.free.clear();
    }
}

/// What a store says of a part: its outbox, its partition's queue, its finality and owners, what grabs would find, what it
/// shows to those who look.
async fn looked(
    store: &impl HotStore,
    part: PartId,
    ours: &[PartId],
) -> (Vec<OutboxEntry>, Vec<PartId>, String, ViewResult) {
    let finality = match store.finality(part).await {
        Ok(Finality::Final(part)) => {
            let owners: BTreeMap<&UserId, &Claim> = part.owners.iter().collect();
            format!("{:?} {owners:?}", part.expires_at)
        }
        Ok(other) => format!("{other:?}"),
        Err(_) => "impossible".to_owned(),
    };
    let rest = store.snapshot(part).await.unwrap().map(|rest| {
        let has: BTreeMap<&UserId, &GrabAnswer> = rest.by_user.iter().collect();
        format!("{:?} {has:?}", rest.others)
    });
    let finality = format!("{finality}, rest {rest:?}");
    let partition: Partition = part.partition();
    let mut queue = store.pending_parts(partition).await.unwrap();
    queue.retain(|part| ours.contains(part));
    let look = match store.view(part, None).await.unwrap() {
        ViewResult::Changed(look) => {
            let same = store.view(part, Some(&look.version)).await.unwrap();
            assert_eq!(same, ViewResult::Unchanged, "{look:?}");
            // Each store counts in its own way.
            ViewResult::Changed(PartView { version: String::new(), ..look })
        }
        other => other,
    };
    (store.outbox(part).await.unwrap(), queue, finality, look)
}

fn draw_packet(random: &mut StdRng, partition: u8) -> Packet {
    let parts = random.random_range(1..=2);
    let mut packet = Packet::in_parts(parts, random.random_range(parts..=6));
    let mut bytes: [u8; 10] = rand::rng().random();
    bytes[9] = partition;
    packet.terms.id = PacketId::new(now(), parts, bytes);
    packet.part.packet = packet.terms.id;
    // Some expire while they are looked at.
    if random.random_ratio(1, 4) {
        packet.terms.expires_at = now().after(Duration::from_millis(random.random_range(10..200)));
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

/// A decision for each slip: some users have one, none two.
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

async fn compare(rig: &Rig, seed: u64) {
    for number in 0..SEQUENCES {
        println!("sequence {number} of seed {seed}");
        let mut twins = Twins::new(rig, seed.wrapping_add(number));
        for _ in 0..STEPS {
            twins.step().await;
        }
    }
}

#[tokio::test]
async fn the_hot_store_in_memory_answers_as_the_real_one_does() {
    compare(&Rig::on_one_node().await, rand::random()).await;
}
