//! What must not grow: a grab's cost with the size and the number of packets; how long a large packet keeps Redis busy.

use std::sync::Arc;
use std::time::Instant;

use futures::stream::{self, StreamExt, TryStreamExt};
use redis::cmd;
use shared::domain::PacketId;
use shared::service::{HotStore, Loaded};

use crate::cell::{Collector, Spread};
use crate::goals::{Goal, Ratio};
use crate::lab::{Lab, TimeBox};
use crate::ours::{Engine, OneByOne};
use crate::rush::Rush;
use crate::{BoxError, flights};

const UNDER_WAY: usize = 20;
/// Loads of packets under way at once.
const LOADS: usize = 64;
/// Grabs of a rush whose cost is compared.
const GRABS: u32 = 10_000;
/// Slips of a large packet.
const LARGE: u32 = 100_000;
/// Live packets.
const MANY: u32 = 100_000;
const FEW: usize = 10;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Redis' processor time a grab with packets of 100,000 slips, over that with packets of 10.
    pub by_slips: f64,
    /// The same with 100,000 live packets, over 10.
    pub by_packets: f64,
    /// How long sending 100,000 slips takes, in milliseconds.
    pub send_ms: Spread,
    /// The longest that one command of it kept Redis busy, in milliseconds.
    pub blocked_ms: f64,
}

impl Growth {
    /// Beside the bounds.
    #[must_use]
    pub fn ratios(&self) -> Vec<Ratio> {
        let either_way = |what: &str, ratio: f64| {
            Ratio::new(format!("{what} (or the other way round)"), Goal::AtMost(1.1), ratio.max(1.0 / ratio))
        };
        vec![
            either_way("Redis CPU a grab with 100,000 slips, of that with 10", self.by_slips),
            either_way("Redis CPU a grab with 100,000 live packets, of that with 10", self.by_packets),
            Ratio::new("Sending 100,000 slips, ms", Goal::AtMost(500.0), self.send_ms.median),
            Ratio::new("The longest that this keeps Redis busy, ms", Goal::AtMost(5.0), self.blocked_ms),
        ]
    }
}

/// Measures it.
pub async fn run(engine: &Arc<Engine>, lab: &Lab) -> Result<Growth, BoxError> {
    let (redis, time) = (lab.redis(), lab.time);
    let (grabs, large, many) = (lab.scaled(GRABS), lab.scaled(LARGE), lab.scaled(MANY) as usize);
    let one_by_one = Arc::new(OneByOne::new(Arc::clone(engine)));
    let mut by_slips = Vec::new();
    let mut by_packets = Vec::new();
    for _ in 0..time.rounds {
        let small = cost(&one_by_one, redis, Rush::spread(grabs / 10, 10), 0, time).await?;
        let of_large = cost(&one_by_one, redis, Rush::all_win(large), 0, time).await?;
        by_slips.push(of_large / small);
        let few = cost(&one_by_one, redis, Rush::all_win(grabs), FEW, time).await?;
        let with_many = cost(&one_by_one, redis, Rush::all_win(grabs), many, time).await?;
        by_packets.push(with_many / few);
    }
    let (send_ms, blocked_ms) = send(engine, redis, large).await?;
    let middle = |ratios| Spread::of(ratios).median;
    Ok(Growth { by_slips: middle(by_slips), by_packets: middle(by_packets), send_ms, blocked_ms })
}

/// Redis' processor time a grab, in microseconds, with so many other packets there.
async fn cost(
    grabs: &Arc<OneByOne>,
    redis: &redis::Client,
    rush: Rush,
    live: usize,
    time: TimeBox,
) -> Result<f64, BoxError> {
    let rush = Arc::new(rush);
    grabs.set_live(live);
    let mut rounds = Collector::new(&rush);
    rounds.begin_round();
    loop {
        rounds.add(&flights::heat(grabs, redis, &rush, UNDER_WAY, time.rush_most).await?);
        if rounds.round_took() >= time.time {
            break;
        }
    }
    grabs.set_live(0);
    Ok(rounds.cell("growth", "").redis_cpu_us)
}

/// Loads so many live packets, of the terms of one that was sent.
pub async fn load_others(engine: &Engine, live: usize) -> Result<(), BoxError> {
    if live == 0 {
        return Ok(());
    }
    let id = engine.send(10).await?;
    let terms = engine.stores().packets.terms(id).await?.ok_or("a packet that was just sent")?;
    let load = |n: usize| {
        let mut terms = (*terms).clone();
        async move {
            let mut random = [0; shared::domain::PACKET_ID_RANDOM_BYTES];
            random[..8].copy_from_slice(&(n as u64).to_le_bytes());
            terms.id = PacketId::new(terms.created_at, 1, random);
            for part in terms.id.parts() {
                match engine.stores().hot.load(part, &terms, &[]).await? {
                    Loaded::Yes => {}
                    Loaded::Expired => return Err("a new packet is expired".into()),
                }
            }
            Ok::<_, BoxError>(())
        }
    };
    stream::iter(0..live).map(load).buffer_unordered(LOADS).try_collect().await
}

/// How long sends of 100,000 slips take, and the slowest command of Redis meanwhile.
async fn send(engine: &Engine, redis: &redis::Client, slips: u32) -> Result<(Spread, f64), BoxError> {
    const SENDS: usize = 11;
    let mut control = redis.get_connection()?;
    cmd("CONFIG").arg("SET").arg("slowlog-log-slower-than").arg(500).exec(&mut control)?;
    cmd("SLOWLOG").arg("RESET").exec(&mut control)?;
    let mut millis = Vec::new();
    for _ in 0..SENDS {
        let begun = Instant::now();
        engine.send_only(slips).await?;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let log: Vec<Vec<redis::Value>> = cmd("SLOWLOG").arg("GET").arg(128).query(&mut control)?;
    let micros = log.into_iter().filter_map(|entry| redis::from_redis_value::<u32>(entry.into_iter().nth(2)?).ok());
    Ok((Spread::of(millis), f64::from(micros.max().unwrap_or(0)) / 1e3))
}
