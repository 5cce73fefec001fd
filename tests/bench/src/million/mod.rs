//! Beyond one core of Redis: a million requests, each of another user, for one packet. Three nodes serve them, and four processes
//! of this engine. The clock says how fast this machine is; the counts say where the next limit is.

mod next_limit;
mod page;
mod process;
mod shares;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redis::{cmd, from_redis_value};
use serde::{Deserialize, Serialize};
use shared::domain::{PacketId, part_count};
use shared::ports::{Clock, GrabAnswer, Grabber, HotStore, System};
use shared::redis::test_server::TestCluster;
use shared::redis::{PartKeys, RedisStore, fields};

use self::next_limit::{LIMITS, Limit, Resource, Taken, next};
use self::shares::{Owned, check};
pub use self::worker::main as work;
use self::worker::{Done, Job, Worker};
use crate::BoxError;
use crate::cell::float;
use crate::heat::{Usage, empty, number};
use crate::lab::Lab;
use crate::spread::{NODES, clients, usage};

/// Processes of this engine.
const PROCESSES: u32 = 4;
/// How often a process that knows nothing reads the packet's owners, for the average.
const NEWCOMERS: u32 = 5;

/// The size of a rush.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// Users, with one request each.
    pub users: u32,
    /// Slips of the packet: fewer than users.
    pub slips: u32,
}

impl Size {
    /// A million users for a hundred thousand slips.
    pub const FULL: Self = Self { users: 1_000_000, slips: 100_000 };
}

/// How a process serves requests.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Many at once, whose calls are collected: a process that lives long.
    Collected,
    /// One after the other, as an execution of Lambda does by default.
    OneUser,
}

impl Mode {
    const ALL: [Self; 2] = [Self::Collected, Self::OneUser];

    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collected => "collected",
            Self::OneUser => "one user a call",
        }
    }
}

/// The rush in each mode.
#[derive(Debug, Serialize)]
pub struct Million {
    size: Size,
    rushes: Vec<Rushed>,
}

/// What came of a rush.
#[derive(Debug, Serialize)]
pub struct Rushed {
    mode: Mode,
    /// Answers a second, until the last.
    answers_per_s: f64,
    /// Winners' answers a second, until the last of them.
    winners_per_s: f64,
    winners: Latency,
    losers: Latency,
    /// What each node did.
    nodes: Vec<Usage>,
    /// Microseconds of processor time of each process.
    processes_us: Vec<u64>,
    /// Every resource that an answer takes.
    limits: [Limit; LIMITS],
    /// What a process asks of each node that knows nothing of the sold-out packet, on average. It asks again when it forgets.
    newcomer: Vec<Usage>,
}

/// Milliseconds until an answer, by the workers' clocks.
#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    p50_ms: f64,
    p99_ms: f64,
}

impl Latency {
    fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let within = |percent: usize| {
            let place = (nanos.len() * percent).div_ceil(100).saturating_sub(1);
            nanos.get(place).map_or(0.0, |nanos| float(*nanos) / 1e6)
        };
        Self { p50_ms: within(50), p99_ms: within(99) }
    }
}

/// Runs the rush in each mode. An error if an answer is wrong.
pub async fn run(lab: &mut Lab, size: Size) -> Result<(), BoxError> {
    if size.slips >= size.users {
        return Err("--users must be more than --slips".into());
    }
    let cluster = TestCluster::start(NODES).await;
    let mut rushes = Vec::new();
    for mode in Mode::ALL {
        let of_mode = rush(&cluster, mode, size).await?;
        eprintln!("million {}: {:.0}/s", mode.name(), of_mode.answers_per_s);
        rushes.push(of_mode);
    }
    lab.report.add_million(Million { size, rushes });
    Ok(())
}

async fn rush(cluster: &TestCluster, mode: Mode, size: Size) -> Result<Rushed, BoxError> {
    let nodes = clients(cluster)?;
    for node in &nodes {
        empty(&mut node.get_connection()?)?;
    }
    let hot = process::redis(&cluster.url()).await?;
    let sent_at = System.now();
    let packet = process::send(Arc::clone(&hot), size.slips, sent_at).await?.1.id;

    let job = |first| {
        let Size { users, slips } = size;
        Job { mode, urls: cluster.url(), slips, sent_at: sent_at.ms(), first, step: PROCESSES, users }
    };
    let (all, used) = tokio::task::block_in_place(|| -> Result<_, BoxError> {
        let mut workers = (0..PROCESSES).map(|first| Worker::start(&job(first))).collect::<Result<Vec<_>, _>>()?;
        workers.iter_mut().try_for_each(Worker::ready)?;
        let before = usage(&nodes)?;
        workers.iter_mut().try_for_each(Worker::go)?;
        let all = workers.iter_mut().map(Worker::done).collect::<Result<Vec<_>, _>>()?;
        Ok((all, since(&nodes, &before)?))
    })?;
    let won: Vec<Owned> = all.iter().flat_map(|done| &done.won).copied().collect();
    check(size, &won, all.iter().map(|done| done.lost).sum(), &owners(&hot, packet).await?)?;
    let newcomer = newcomer(mode, &nodes, &hot, packet).await?;
    Ok(rushed(mode, size, &all, used, newcomer))
}

fn rushed(mode: Mode, size: Size, all: &[Done], nodes: Vec<Usage>, newcomer: Vec<Usage>) -> Rushed {
    let slowest = |time: fn(&Done) -> Duration| all.iter().map(time).max().unwrap_or_default().as_secs_f64();
    let processes_us: Vec<u64> = all.iter().map(|done| done.cpu_us).collect();
    let limits = Taken { answers: size.users.into(), nodes: &nodes, processes_us: &processes_us }.limits();
    Rushed {
        mode,
        answers_per_s: f64::from(size.users) / slowest(|done| done.elapsed),
        winners_per_s: f64::from(size.slips) / slowest(|done| done.last_win),
        limits,
        winners: Latency::of(all.iter().flat_map(|done| &done.won_nanos).copied().collect()),
        losers: Latency::of(all.iter().flat_map(|done| &done.lost_nanos).copied().collect()),
        nodes,
        processes_us,
        newcomer,
    }
}

impl Rushed {
    fn taken(&self, size: Size) -> Taken<'_> {
        Taken { answers: size.users.into(), nodes: &self.nodes, processes_us: &self.processes_us }
    }
}

/// What each node did since `before`.
fn since(nodes: &[redis::Client], before: &[Usage]) -> Result<Vec<Usage>, BoxError> {
    Ok(usage(nodes)?.iter().zip(before).map(|(after, before)| after.since(before)).collect())
}

/// Each slip that Redis knows to be won, and its owner.
async fn owners(hot: &RedisStore, packet: PacketId) -> Result<BTreeSet<Owned>, BoxError> {
    let mut owners = BTreeSet::new();
    for part in packet.parts() {
        let mut all = cmd("HGETALL");
        all.arg(PartKeys::of(part).part);
        let all: BTreeMap<String, String> = from_redis_value(hot.server().run(&all.into()).await?)?;
        for (user, entry) in all.iter().filter(|(name, _)| !name.starts_with(fields::PREFIX)) {
            let slip = entry.get(1..).and_then(|entry| entry.split(':').next()).ok_or("no claim and no hold")?;
            owners.insert((slip.parse()?, number(user)?));
        }
    }
    Ok(owners)
}

/// What a process asks that knows nothing of a packet that is sold out: each part for a slip, and if it lives long, for its owners.
async fn newcomer(
    mode: Mode,
    nodes: &[redis::Client],
    hot: &RedisStore,
    packet: PacketId,
) -> Result<Vec<Usage>, BoxError> {
    let before = usage(nodes)?;
    for newcomer in 0..NEWCOMERS {
        for part in packet.parts() {
            let newcomer = Grabber { user: format!("newcomer-{newcomer}").parse()?, passphrase: None };
            let found = hot.grab(part, &[newcomer]).await?.unwrap_or_default();
            let is_final = matches!(found[..], [GrabAnswer::Nothing { certain: true, .. }]);
            if mode == Mode::Collected && !is_final {
                return Err(format!("{part} is not final after the rush").into());
            }
        }
    }
    let of_one = |count: u64| count / u64::from(NEWCOMERS);
    let each = |all: Usage| Usage {
        cpu_us: of_one(all.cpu_us),
        calls: of_one(all.calls),
        received: of_one(all.received),
        sent: of_one(all.sent),
    };
    Ok(since(nodes, &before)?.into_iter().map(each).collect())
}

/// A user's name.
fn user(number: u32) -> String {
    format!("user-{number:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_those_of_the_ranks() {
        let latency = Latency::of((1..=1_000).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!((latency.p50_ms, latency.p99_ms), (500.0, 990.0));
        let latency = Latency::of(vec![7_000_000]);
        assert_eq!((latency.p50_ms, latency.p99_ms), (7.0, 7.0));
        let latency = Latency::of(Vec::new());
        assert_eq!((latency.p50_ms, latency.p99_ms), (0.0, 0.0));
    }
}
