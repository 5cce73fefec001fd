//! The simulation: each request on its way, and each client with its tries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::packet::{HELPED_MOST, Packet, Probe};
use super::pool::{Pool, Start};
use super::{Rush, Times};
use crate::inputs::Inputs;
use crate::outcome::{Answer, Limit, Outcome};
use crate::station::{Bucket, Core, Nanos, SECOND, millis};

/// What happens next, and to whom: a user, or the execution that serves them.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    /// A user's try reaches API Gateway.
    Arrive(u32),
    /// An execution has started, and connects to Redis.
    Connect(u32),
    /// A call of the function begins.
    Begin(u32),
    /// It reaches the next part that it has to ask for.
    Probe(u32),
    /// It tries the transaction of the claim.
    Commit(u32),
    /// Redis receives the claim.
    Reconcile(u32),
    /// A loser in doubt helps.
    Help(u32),
    /// The help has ended.
    Helped(u32),
    /// The call ends.
    End(u32, Ending),
}

/// How a call of the function ends.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Ending {
    Slip,
    SoldOut,
    Failed(Refusing),
}

/// The store that let a call fail.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Refusing {
    Redis,
    Table,
}

/// A call of the function.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    user: u32,
    /// The parts that it has asked for, or knew about.
    probes: u32,
    /// Bit by bit the parts that have no slip for it, but are not final.
    in_doubt: u64,
    /// When it first tried its transaction.
    commits_since: Nanos,
    /// Its next pause after a throttled transaction.
    pause: Nanos,
    part: u32,
}

/// A client.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    first: Nanos,
    tries: u8,
}

pub struct Simulation<'a> {
    inputs: &'a Inputs,
    times: &'a Times,
    rng: StdRng,
    now: Nanos,
    /// The order of events at the same time.
    sequence: u64,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    users: Vec<User>,
    calls: Vec<Call>,
    packet: Packet,
    route: Bucket,
    account: Bucket,
    pool: Pool,
    shards: Vec<Core>,
    table: Bucket,
    table_doubles_at: Nanos,
    units: Vec<f64>,
    reads: Bucket,
    read_units: Vec<f64>,
    /// Until then losers in doubt are answered from the ledger.
    blocked_until: Nanos,
    outcome: Outcome,
}

/// Polls of a part while a loser waits for its last holds: see `POLL_FIRST` in `shared/src/service/grab/exhausted.rs`.
const POLLS: Nanos = 5;

/// Pauses after a throttled transaction: see `shared/src/ledger/commit.rs`.
const PAUSE_FIRST: Nanos = 5_000_000;
const PAUSE_MOST: Nanos = 400_000_000;

impl<'a> Simulation<'a> {
    pub fn new(inputs: &'a Inputs, times: &'a Times, rush: &Rush) -> Self {
        let mut rng = StdRng::seed_from_u64(rush.seed);
        let mut first: Vec<Nanos> = (0..rush.users).map(|_| rng.random_range(0..=rush.within)).collect();
        first.sort_unstable();
        let users = first.into_iter().map(|first| User { first, tries: 0 }).collect();
        let table_rate = inputs.table_rate();
        Self {
            inputs,
            times,
            rng,
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            users,
            calls: Vec::new(),
            packet: Packet::new(rush.slips, rush.users, inputs.redis_shards as usize),
            route: Bucket::new(inputs.grab_rate, inputs.grab_burst),
            account: Bucket::new(inputs.api_rate, inputs.api_burst),
            pool: Pool::new(inputs),
            shards: vec![Core::default(); inputs.redis_shards as usize],
            table: Bucket::new(table_rate, table_rate),
            table_doubles_at: millis(inputs.table_doubling_min * 60_000.0),
            units: Vec::new(),
            reads: Bucket::new(inputs.reads_rate(), inputs.reads_rate()),
            read_units: Vec::new(),
            blocked_until: 0,
            outcome: Outcome::default(),
        }
    }

    pub fn run(mut self) -> Outcome {
        let half = self.half_network();
        let mut next = 0;
        loop {
            // First tries are in order already, so they need no place among the events.
            let arrival = self.users.get(next).map(|user| user.first + half);
            match (arrival, self.events.peek()) {
                (Some(at), event) if event.is_none_or(|Reverse((other, ..))| at <= *other) => {
                    self.now = at;
                    self.arrive(next as u32);
                    next += 1;
                }
                (_, Some(_)) => {
                    let Some(Reverse((at, _, event))) = self.events.pop() else { break };
                    self.now = at;
                    self.happen(event);
                }
                (_, None) => break,
            }
        }
        let busiest = self.shards.iter().map(Core::busiest);
        self.outcome.redis_busiest = busiest.fold(0.0, f64::max);
        self.outcome.write_units = self.units.iter().copied().fold(0.0, f64::max);
        self.outcome.read_units = self.read_units.iter().copied().fold(0.0, f64::max);
        self.outcome.executions = self.pool.most();
        (self.outcome.committed, self.outcome.held) = self.packet.owned();
        self.outcome.finish();
        self.outcome
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(user) => self.arrive(user),
            Event::Connect(id) => self.connect(id),
            Event::Begin(id) => self.begin(id),
            Event::Probe(id) => self.probe(id),
            Event::Commit(id) => self.commit(id),
            Event::Reconcile(id) => self.reconcile(id),
            Event::Help(id) => self.help(id),
            Event::Helped(id) => self.helped(id),
            Event::End(id, ending) => self.end(id, ending),
        }
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn half_network(&self) -> Nanos {
        millis(self.inputs.network_ms / 2.0)
    }

    fn half_redis(&self) -> Nanos {
        millis(self.inputs.redis_ms / 2.0)
    }

    /// The function's own time before and after its calls of the stores, each.
    fn half_own(&self) -> Nanos {
        (self.times.loser.saturating_sub(2 * self.half_redis())) / 2
    }

    /// A transaction: what a winning call takes beyond a losing one, and beyond the round trip that reconciles.
    fn transaction(&self) -> Nanos {
        self.times.winner.saturating_sub(self.times.loser + 2 * self.half_redis())
    }

    fn sync(&self) -> Nanos {
        if self.inputs.redis_sync > 0.0 { self.times.sync } else { 0 }
    }

    fn arrive(&mut self, user: u32) {
        self.users[user as usize].tries += 1;
        self.outcome.tries += 1;
        if !self.route.has(self.now, 1.0) {
            return self.refuse(user, Limit::GrabRate, Answer::TooMany, 0);
        }
        if !self.account.take(self.now, 1.0) {
            return self.refuse(user, Limit::ApiRate, Answer::TooMany, 0);
        }
        self.route.take(self.now, 1.0);
        self.outcome.accepted += 1;
        match self.pool.start(self.now) {
            Ok(start) => self.call(user, start),
            Err(limit) => self.refuse(user, limit, Answer::Unavailable, 0),
        }
    }

    fn call(&mut self, user: u32, start: Start) {
        self.outcome.invocations += 1;
        let (Start::Warm(id) | Start::Cold(id)) = start;
        if self.calls.len() <= id as usize {
            self.calls.resize(id as usize + 1, Call::default());
        }
        self.calls[id as usize] = Call { user, pause: PAUSE_FIRST, ..Call::default() };
        match start {
            Start::Warm(id) => self.begin(id),
            Start::Cold(id) => {
                self.outcome.cold_starts += 1;
                self.at(self.now + millis(self.inputs.cold_ms), Event::Connect(id));
            }
        }
    }

    /// One handshake with each shard, on the cores that also run the scripts.
    fn connect(&mut self, id: u32) {
        let work = millis(self.inputs.handshake_us / 1e3);
        let connected = self.shards.iter_mut().map(|shard| shard.serve(self.now, work)).max().unwrap_or(self.now);
        self.at(connected + 2 * self.half_redis(), Event::Begin(id));
    }

    fn begin(&mut self, id: u32) {
        let user = self.calls[id as usize].user;
        if self.pool.knows_all(id, self.now) && !self.packet.has_slip(user) {
            if self.reads.take(self.now, 1.0) {
                self.outcome.claim_reads += 1;
                add(&mut self.read_units, self.now, 1.0);
                return self.answer_from_ledger(id);
            }
            self.pool.pause(id, self.now + millis(self.inputs.unread_ms));
        }
        self.at(self.now + self.half_own() + self.half_redis(), Event::Probe(id));
    }

    /// Asks for the next part that this process does not know to be final.
    fn probe(&mut self, id: u32) {
        let Call { user, mut probes, .. } = self.calls[id as usize];
        while probes < self.packet.parts() {
            let part = self.packet.part_of(user, probes);
            // A user with a slip of a part is not among its losers, whatever the process knows.
            if self.packet.has_slip_of(user, part) || !self.pool.knows(id, part, self.now) {
                self.calls[id as usize].probes = probes;
                return self.ask(id, part);
            }
            probes += 1;
        }
        // It asked nobody this time, so nothing had to travel.
        if self.calls[id as usize].in_doubt == 0 {
            if !self.reads_owners() && !self.pool.is_paused(id, self.now) {
                self.pool.remember_all(id, self.now + millis(self.inputs.final_ms));
            }
            return self.at(self.now + self.half_own(), Event::End(id, Ending::SoldOut));
        }
        if self.now < self.blocked_until {
            return self.answer_from_ledger(id);
        }
        self.at(self.now + millis(self.inputs.help_after_ms), Event::Help(id));
    }

    fn ask(&mut self, id: u32, part: u32) {
        let user = self.calls[id as usize].user;
        let shard = self.packet.shard(part);
        self.outcome.redis_calls += 1;
        let is_won = self.packet.has_slip_of(user, part) || self.packet.is_free(user, part);
        let work = if is_won { self.times.win } else { self.times.lose };
        let done = self.shards[shard].serve(self.now, work);
        let timeout = millis(self.inputs.redis_timeout_ms);
        if done - self.now > timeout {
            // The call is repeated once. Redis does the work of both, though nobody waits for it. That such a call takes no slip is a
            // simplification: in the engine it may, and the user's next try finds it.
            self.shards[shard].serve(self.now, work);
            return self.at(self.now + 2 * timeout, Event::End(id, Ending::Failed(Refusing::Redis)));
        }
        let back = done + self.half_redis();
        match self.packet.probe(user, part) {
            Probe::Held => {
                let call = &mut self.calls[id as usize];
                call.part = part;
                let sync = self.sync();
                self.calls[id as usize].commits_since = back + sync;
                self.at(back + sync, Event::Commit(id));
            }
            Probe::Claimed => self.at(back + self.half_own(), Event::End(id, Ending::Slip)),
            Probe::Final => {
                self.read_owners(id, part);
                self.next_part(id, back);
            }
            Probe::InDoubt => {
                self.calls[id as usize].in_doubt |= 1 << part;
                self.next_part(id, back);
            }
        }
    }

    /// Whether this process answers losers from the owners of final parts, or from the losers' claims.
    fn reads_owners(&self) -> bool {
        !self.inputs.reads_claims(self.packet.parts())
    }

    /// Reads the owners of a final part, for later losers of this process. Nobody waits for them.
    fn read_owners(&mut self, id: u32, part: u32) {
        if !self.reads_owners() {
            return;
        }
        self.outcome.redis_calls += 1;
        let owners = f64::from(self.packet.slips(part)) * self.inputs.owner_ns;
        self.shards[self.packet.shard(part)].serve(self.now, self.times.lose + owners as Nanos);
        self.pool.remember(id, part, self.now, millis(self.inputs.final_ms));
    }

    fn next_part(&mut self, id: u32, back: Nanos) {
        self.calls[id as usize].probes += 1;
        self.at(back + self.half_redis(), Event::Probe(id));
    }

    fn commit(&mut self, id: u32) {
        let Call { user, part, commits_since, pause, .. } = self.calls[id as usize];
        if self.inputs.grab_ack_ledger <= 0.0 {
            self.packet.promised(user);
            return self.at(self.now + self.half_own(), Event::End(id, Ending::Slip));
        }
        if self.take_units() {
            return self.at(self.now + self.transaction() + self.half_redis(), Event::Reconcile(id));
        }
        if self.now + pause >= commits_since + millis(self.inputs.claim_ms) {
            self.packet.abandon(user, part);
            return self.at(self.now + self.half_own(), Event::End(id, Ending::Failed(Refusing::Table)));
        }
        let jittered = (pause as f64 * self.rng.random_range(0.5..=1.0)) as Nanos;
        self.calls[id as usize].pause = (2 * pause).min(PAUSE_MOST);
        self.at(self.now + jittered, Event::Commit(id));
    }

    /// Takes the write units of a claim, if the table has them.
    fn take_units(&mut self) -> bool {
        let units = self.times.claim_units;
        let takes = self.table.take(self.now, units);
        if takes {
            add(&mut self.units, self.now, units);
        } else if self.now >= self.table_doubles_at {
            self.table.double(self.inputs.table_most());
            self.table_doubles_at = self.now + millis(self.inputs.table_doubling_min * 60_000.0);
        }
        takes
    }

    fn reconcile(&mut self, id: u32) {
        let Call { user, part, .. } = self.calls[id as usize];
        let shard = self.packet.shard(part);
        self.outcome.redis_calls += 1;
        let done = self.shards[shard].serve(self.now, self.times.reconcile);
        self.packet.claim(user, part);
        // The claim stands, so the winner waits for Redis no longer than for any call.
        let done = done.min(self.now + millis(self.inputs.redis_timeout_ms));
        let end = done + self.half_redis() + self.sync() + self.half_own();
        self.at(end, Event::End(id, Ending::Slip));
    }

    fn help(&mut self, id: u32) {
        if self.still_in_doubt(id) == 0 {
            return self.at(self.now + self.half_own(), Event::End(id, Ending::SoldOut));
        }
        if self.now < self.blocked_until {
            return self.answer_from_ledger(id);
        }
        let in_doubt = self.calls[id as usize].in_doubt;
        for part in parts_of(in_doubt) {
            self.outcome.redis_calls += POLLS;
            self.shards[self.packet.shard(part)].serve(self.now, POLLS * self.times.lose);
            for _ in 0..HELPED_MOST {
                let Some(user) = self.packet.abandoned(part) else { break };
                if !self.take_units() {
                    self.packet.abandon(user, part);
                    break;
                }
                self.packet.claim(user, part);
            }
        }
        self.at(self.now + millis(self.inputs.help_ms), Event::Helped(id));
    }

    fn helped(&mut self, id: u32) {
        if self.still_in_doubt(id) == 0 {
            return self.at(self.now + self.half_own(), Event::End(id, Ending::SoldOut));
        }
        self.blocked_until = self.now + millis(self.inputs.blocked_ms);
        self.answer_from_ledger(id);
    }

    /// The parts that kept this call in doubt and still do. A poll that finds one final reads its owners.
    fn still_in_doubt(&mut self, id: u32) -> u64 {
        let doubted = self.calls[id as usize].in_doubt;
        let left = self.packet.not_final(doubted);
        self.calls[id as usize].in_doubt = left;
        parts_of(doubted & !left).for_each(|part| self.read_owners(id, part));
        left
    }

    /// A loser's own claim item is read, which takes about as long as a losing call.
    fn answer_from_ledger(&mut self, id: u32) {
        self.at(self.now + self.times.loser + self.half_own(), Event::End(id, Ending::SoldOut));
    }

    fn end(&mut self, id: u32, ending: Ending) {
        self.pool.end(id);
        let user = self.calls[id as usize].user;
        match ending {
            Ending::Slip => self.answer(user, Answer::Slip),
            Ending::SoldOut => self.answer(user, Answer::SoldOut),
            Ending::Failed(refusing) => {
                self.outcome.failed_calls += 1;
                let limit = match refusing {
                    Refusing::Redis => Limit::Redis,
                    Refusing::Table => Limit::Table,
                };
                self.refuse(user, limit, Answer::Unavailable, millis(self.inputs.retry_after_ms));
            }
        }
    }

    fn answer(&mut self, user: u32, answer: Answer) {
        let seen = self.now + self.half_network();
        self.outcome.answer(answer, self.users[user as usize].first, seen);
    }

    /// A try failed. The client tries again after a pause, or gives up.
    fn refuse(&mut self, user: u32, limit: Limit, answer: Answer, retry_after: Nanos) {
        self.outcome.refused[limit as usize] += 1;
        let tries = self.users[user as usize].tries;
        if f64::from(tries) >= self.inputs.tries {
            return self.answer(user, answer);
        }
        let pause_most = self.inputs.pause_first_ms * f64::from(1_u32 << (tries - 1).min(16));
        let jitter = millis(pause_most.min(self.inputs.pause_max_ms) * self.rng.random::<f64>());
        // There and back.
        let at = self.now + 2 * self.half_network() + retry_after + jitter;
        self.at(at, Event::Arrive(user));
    }
}

/// The parts whose bits are set.
fn parts_of(bits: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |part| bits >> part & 1 == 1)
}

/// Counts units in the second in which they are taken.
fn add(seconds: &mut Vec<f64>, now: Nanos, units: f64) {
    let second = (now / SECOND) as usize;
    if seconds.len() <= second {
        seconds.resize(second + 1, 0.0);
    }
    seconds[second] += units;
}
