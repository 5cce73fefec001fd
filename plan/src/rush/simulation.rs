//! The simulation: each request on its way, and each client with its tries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::packet::{Packet, Probe};
use super::pool::{Pool, Start};
use super::{Rush, Times};
use crate::inputs::Inputs;
use crate::outcome::{Answer, Limit, Outcome};
use crate::station::{Bucket, Core, Nanos, Seconds, millis};

/// What happens next, and to whom: a user, or the execution that serves them.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    /// A user's try reaches API Gateway.
    Arrive(u32),
    /// An execution has started, and connects to Redis.
    Connect(u32),
    /// A call of the function begins.
    Begin(u32),
    /// It asks for the next part.
    Probe(u32),
    /// It tries the transaction of the claim.
    Commit(u32),
    /// Redis receives the claim.
    Reconcile(u32),
    /// The call ends.
    End(u32, Ending),
}

/// How a call of the function ends.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Ending {
    Slip,
    SoldOut,
    RedisTooSlow,
    TableRefuses,
}

/// A call of the function.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    user: u32,
    /// Bit by bit the parts to ask: all of them, then once more those in doubt.
    asks: u32,
    /// Those that it has passed in the user's order.
    passed: u32,
    /// Bit by bit the parts that have no slip for it, but are not decided.
    in_doubt: u32,
    asks_again: bool,
    /// The part of its slip.
    part: u32,
    /// When it first tried its transaction.
    commits_since: Nanos,
    /// Its next pause after a throttled transaction.
    pause: Nanos,
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
    writes: Seconds,
    table_reads: Bucket,
    reads: Seconds,
    outcome: Outcome,
    /// Half of the way from a user to API Gateway and back, and of that from a function to Redis and back.
    half_network: Nanos,
    half_redis: Nanos,
    /// The function's own time before and after its calls of the stores, each.
    half_own: Nanos,
}

/// Pauses after a throttled transaction: see `shared/src/ledger/commit.rs`.
const PAUSE_FIRST: Nanos = 5_000_000;
const PAUSE_MOST: Nanos = 400_000_000;

impl<'a> Simulation<'a> {
    pub fn new(inputs: &'a Inputs, times: &'a Times, rush: &Rush) -> Self {
        let mut rng = StdRng::seed_from_u64(rush.seed);
        let mut first: Vec<Nanos> = (0..rush.users).map(|_| rng.random_range(0..=rush.within)).collect();
        first.sort_unstable();
        let half_redis = millis(inputs.redis_ms / 2.0);
        Self {
            inputs,
            times,
            rng,
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            users: first.into_iter().map(|first| User { first, tries: 0 }).collect(),
            calls: Vec::new(),
            packet: Packet::new(rush.slips, rush.users),
            route: Bucket::new(inputs.grab_rate, inputs.grab_burst),
            account: Bucket::new(inputs.api_rate, inputs.api_burst),
            pool: Pool::new(inputs),
            shards: vec![Core::default(); inputs.redis_shards as usize],
            table: Bucket::new(inputs.table_rate(), inputs.table_rate()),
            writes: Seconds::default(),
            table_reads: Bucket::new(inputs.reads_rate(), inputs.reads_rate()),
            reads: Seconds::default(),
            outcome: Outcome::default(),
            half_network: millis(inputs.network_ms / 2.0),
            half_redis,
            half_own: times.loser.saturating_sub(2 * half_redis) / 2,
        }
    }

    pub fn run(mut self) -> Outcome {
        let mut next = 0;
        loop {
            // First tries are in order already, so they need no place among the events.
            let arrival = self.users.get(next).map(|user| user.first + self.half_network);
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
        self.outcome.redis_busiest = self.shards.iter().map(Core::busiest).fold(0.0, f64::max);
        self.outcome.write_units = self.writes.most();
        self.outcome.read_units = self.reads.most();
        self.outcome.executions = self.pool.most();
        let (decided, held) = self.packet.owned();
        let is_in_ledger = self.inputs.grab_ack_ledger > 0.0;
        (self.outcome.committed, self.outcome.held) = if is_in_ledger { (decided, held) } else { (0, decided + held) };
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
            Event::End(id, ending) => self.end(id, ending),
        }
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// The shard of a part.
    fn shard(&self, part: u32) -> usize {
        part as usize * self.shards.len() / self.packet.parts() as usize % self.shards.len()
    }

    fn arrive(&mut self, user: u32) {
        self.users[user as usize].tries += 1;
        self.outcome.tries += 1;
        if !self.route.has(self.now, 1.0) {
            return self.refuse(user, Limit::GrabRate, Answer::TooManyRequests, 0);
        }
        if !self.account.take(self.now, 1.0) {
            return self.refuse(user, Limit::ApiRate, Answer::TooManyRequests, 0);
        }
        self.route.take(self.now, 1.0);
        self.outcome.accepted += 1;
        let id = match self.pool.start(self.now) {
            Ok(Start::Warm(id)) => {
                self.at(self.now, Event::Begin(id));
                id
            }
            Ok(Start::Cold(id)) => {
                self.outcome.cold_starts += 1;
                self.at(self.now + millis(self.inputs.cold_ms), Event::Connect(id));
                id
            }
            Err(limit) => return self.refuse(user, limit, Answer::Unavailable, 0),
        };
        self.outcome.invocations += 1;
        if self.calls.len() <= id as usize {
            self.calls.resize(id as usize + 1, Call::default());
        }
        self.calls[id as usize] = Call { user, asks: u32::MAX, pause: PAUSE_FIRST, ..Call::default() };
    }

    /// One handshake with each shard, on the cores that also run the scripts.
    fn connect(&mut self, id: u32) {
        let work = millis(self.inputs.handshake_us / 1e3);
        let connected = self.shards.iter_mut().map(|shard| shard.serve(self.now, work)).max().unwrap_or(self.now);
        self.at(connected + 2 * self.half_redis, Event::Begin(id));
    }

    fn begin(&mut self, id: u32) {
        if self.pool.remembers(id, self.now) {
            return self.read_claim(id);
        }
        self.at(self.now + self.half_own + self.half_redis, Event::Probe(id));
    }

    /// The user's own claim item has the answer. That takes about as long as a losing call.
    fn read_claim(&mut self, id: u32) {
        let end = self.now + self.times.loser;
        if !self.table_reads.take(self.now, 1.0) {
            return self.at(end, Event::End(id, Ending::TableRefuses));
        }
        self.outcome.claim_reads += 1;
        self.reads.add(self.now, 1.0);
        let is_owner = self.packet.is_owner(self.calls[id as usize].user);
        self.at(end, Event::End(id, if is_owner { Ending::Slip } else { Ending::SoldOut }));
    }

    /// Asks for the next part.
    fn probe(&mut self, id: u32) {
        let call = &mut self.calls[id as usize];
        let parts = self.packet.parts();
        while call.passed < parts && call.asks >> self.packet.part_of(call.user, call.passed) & 1 == 0 {
            call.passed += 1;
        }
        if call.passed == parts {
            return self.found_none(id);
        }
        let (user, part) = (call.user, self.packet.part_of(call.user, call.passed));
        call.passed += 1;
        self.outcome.redis_calls += 1;
        let shard = self.shard(part);
        let work = if self.packet.has_slip_for(user, part) { self.times.win } else { self.times.lose };
        let done = self.shards[shard].serve(self.now, work);
        let timeout = millis(self.inputs.redis_timeout_ms);
        if done - self.now > timeout {
            // The call is repeated once. Redis does the work of both, though nobody waits for it. That such a call takes no slip is a
            // simplification: in the engine it may, and the user's next try finds it.
            self.shards[shard].serve(self.now, work);
            return self.at(self.now + 2 * timeout, Event::End(id, Ending::RedisTooSlow));
        }
        let back = done + self.half_redis;
        match self.packet.probe(user, part) {
            Probe::Held => {
                let call = &mut self.calls[id as usize];
                (call.part, call.commits_since) = (part, back + self.times.sync);
                self.at(back + self.times.sync, Event::Commit(id));
            }
            Probe::Claimed => self.at(back + self.half_own, Event::End(id, Ending::Slip)),
            Probe::Certain => self.at(back + self.half_redis, Event::Probe(id)),
            Probe::InDoubt => {
                self.calls[id as usize].in_doubt |= 1 << part;
                self.at(back + self.half_redis, Event::Probe(id));
            }
        }
    }

    /// All parts were asked. In doubt, those that have holds are asked once more; then the claim item is read.
    fn found_none(&mut self, id: u32) {
        let call = &mut self.calls[id as usize];
        let Call { in_doubt, asks_again, .. } = *call;
        if in_doubt == 0 {
            if self.packet.parts() > 1 && self.inputs.grab_ack_ledger > 0.0 {
                self.pool.remember(id, self.now + millis(self.inputs.final_ms));
            }
            return self.at(self.now + self.half_own, Event::End(id, Ending::SoldOut));
        }
        if asks_again {
            return self.read_claim(id);
        }
        *call = Call { asks: in_doubt, passed: 0, in_doubt: 0, asks_again: true, ..*call };
        let pause = millis(self.inputs.doubt_ms * self.rng.random_range(0.5..=1.0));
        self.at(self.now + pause, Event::Probe(id));
    }

    fn commit(&mut self, id: u32) {
        let Call { user, commits_since, pause, .. } = self.calls[id as usize];
        if self.inputs.grab_ack_ledger <= 0.0 {
            self.packet.decide(user);
            return self.at(self.now + self.half_own, Event::End(id, Ending::Slip));
        }
        let units = self.times.claim_units;
        if self.table.take(self.now, units) {
            self.writes.add(self.now, units);
            // What a winning call takes beyond a losing one, and beyond the round trip that reconciles.
            let transaction = self.times.winner.saturating_sub(self.times.loser + 2 * self.half_redis);
            return self.at(self.now + transaction + self.half_redis, Event::Reconcile(id));
        }
        if self.now + pause >= commits_since + millis(self.inputs.claim_ms) {
            return self.at(self.now + self.half_own, Event::End(id, Ending::TableRefuses));
        }
        let jittered = (pause as f64 * self.rng.random_range(0.5..=1.0)) as Nanos;
        self.calls[id as usize].pause = (2 * pause).min(PAUSE_MOST);
        self.at(self.now + jittered, Event::Commit(id));
    }

    fn reconcile(&mut self, id: u32) {
        let Call { user, part, .. } = self.calls[id as usize];
        self.outcome.redis_calls += 1;
        let shard = self.shard(part);
        let done = self.shards[shard].serve(self.now, self.times.reconcile);
        self.packet.decide(user);
        // The claim stands, so the winner waits for Redis no longer than for any call.
        let done = done.min(self.now + millis(self.inputs.redis_timeout_ms));
        self.at(done + self.half_redis + self.times.sync + self.half_own, Event::End(id, Ending::Slip));
    }

    fn end(&mut self, id: u32, ending: Ending) {
        self.pool.end(id);
        let user = self.calls[id as usize].user;
        let retry_after = millis(self.inputs.retry_after_ms);
        match ending {
            Ending::Slip => self.answer(user, Answer::Slip),
            Ending::SoldOut => self.answer(user, Answer::SoldOut),
            Ending::RedisTooSlow => self.refuse(user, Limit::Redis, Answer::Unavailable, retry_after),
            Ending::TableRefuses => self.refuse(user, Limit::Table, Answer::Unavailable, retry_after),
        }
    }

    fn answer(&mut self, user: u32, answer: Answer) {
        self.outcome.answer(answer, self.users[user as usize].first, self.now + self.half_network);
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
        self.at(self.now + 2 * self.half_network + retry_after + jitter, Event::Arrive(user));
    }
}
