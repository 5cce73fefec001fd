//! Costs that must not grow: a grab's with the size and the number of packets, and Redis' time for a large packet.

use std::sync::Arc;
use std::time::Instant;

use futures::stream::{self, StreamExt, TryStreamExt};
use redis::cmd;
use shared::domain::PacketId;
use shared::ports::{HotStore, Loaded};
use shared::redis::test_server::TestServer;

use crate::cell::{Spread, float};
use crate::goals::{Goal, Ratio};
use crate::heat::{Heat, empty};
use crate::lab::{Lab, TimeBox};
use crate::ours::{Engine, OneByOne};
use crate::rush::Rush;
use crate::{BoxError, concurrent};

const UNDER_WAY: usize = 20;
/// Loads of packets in flight at once.
const LOADS: usize = 64;
/// Grabs of each compared rush.
const GRABS: u32 = 10_000;
/// Slips of a large packet.
const LARGE: u32 = 100_000;
/// Live packets, many and few.
const MANY: u32 = 100_000;
const FEW: u32 = 10;

/// The measured costs.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Redis' processor time per grab with packets of 100,000 slips ÷ that with packets of 10.
    pub by_slips: f64,
    /// The same with 100,000 live packets ÷ 10.
    pub by_packets: f64,
    /// Milliseconds of the send of 100,000 slips.
    pub send_ms: Spread,
    /// Milliseconds of its longest command in Redis.
    pub blocked_ms: f64,
}

impl Growth {
    /// The goals of these costs.
    #[must_use]
    pub fn ratios(&self) -> Vec<Ratio> {
        let either_way = |what: &str, ratio: f64| {
            Ratio::new(format!("{what}, or its inverse"), Goal::AtMost(1.1), ratio.max(1.0 / ratio))
        };
        vec![
            either_way("Redis CPU per grab: 100,000 slips ÷ 10 slips", self.by_slips),
            either_way("Redis CPU per grab: 100,000 live packets ÷ 10", self.by_packets),
            Ratio::new("Send of 100,000 slips, ms", Goal::AtMost(500.0), self.send_ms.median),
            Ratio::new("Longest command of that send in Redis, ms", Goal::AtMost(5.0), self.blocked_ms),
        ]
    }
}

/// Measures all of them.
pub async fn run(engine: &Arc<Engine>, lab: &Lab) -> Result<Growth, BoxError> {
    let [grabs, large, many] = [GRABS, LARGE, MANY].map(|count| lab.scaled(count));
    let here = Place::new(engine, lab.redis());
    let in_empty = async |rush: Arc<Rush>| {
        let most = lab.time.rush_most;
        cost(&concurrent::heat(&here.grabs, &here.redis, &rush, UNDER_WAY, most).await?)
    };
    let (small, of_large) = (Arc::new(Rush::spread(grabs / 10, 10)), Arc::new(Rush::all_win(large)));
    let by_slips =
        ratio(lab.time, async || in_empty(Arc::clone(&small)).await, async || in_empty(Arc::clone(&of_large)).await);
    let by_slips = by_slips.await?;

    // A Redis for each number of packets, which are loaded once: grabs right after a load of seconds cost more.
    let server = TestServer::start(&[]).await;
    let elsewhere = Arc::new(Engine::new(&server.url(), &lab.dynamodb_url(), "growth", "redis").await?);
    let there = Place::new(&elsewhere, &redis::Client::open(server.url())?);
    empty(&mut here.redis.get_connection()?)?;
    load_others(engine, FEW).await?;
    load_others(&elsewhere, many).await?;
    let rush = Arc::new(Rush::all_win(grabs));
    let beside_others = async |place: &Place| {
        let most = lab.time.rush_most;
        cost(&concurrent::one_more(&place.grabs, &place.redis, &rush, UNDER_WAY, most).await?)
    };
    let by_packets = ratio(lab.time, async || beside_others(&here).await, async || beside_others(&there).await).await?;

    let (send_ms, blocked_ms) = send(engine, lab.redis(), large).await?;
    Ok(Growth { by_slips, by_packets, send_ms, blocked_ms })
}

/// An engine and its Redis.
struct Place {
    grabs: Arc<OneByOne>,
    redis: redis::Client,
}

impl Place {
    fn new(engine: &Arc<Engine>, redis: &redis::Client) -> Self {
        Self { grabs: Arc::new(OneByOne::new(Arc::clone(engine))), redis: redis.clone() }
    }
}

/// Redis' processor time per grab, in microseconds.
fn cost(heat: &Heat) -> Result<f64, BoxError> {
    match heat.answers.len() {
        0 => Err("no grab was answered".into()),
        answers => Ok(float(heat.cpu_us) / float(answers as u64)),
    }
}

/// The cost of `other` ÷ that of `one`: the median of many pairs. The two take turns, so that both meet the machine's good and
/// bad moments.
async fn ratio(
    time: TimeBox,
    one: impl AsyncFn() -> Result<f64, BoxError>,
    other: impl AsyncFn() -> Result<f64, BoxError>,
) -> Result<f64, BoxError> {
    let mut ratios = Vec::new();
    for _ in 0..time.pairs {
        let before = one().await?;
        ratios.push(other().await? / before);
    }
    Ok(Spread::of(ratios).median)
}

/// Loads `live` packets, with the terms of one that was sent.
async fn load_others(engine: &Engine, live: u32) -> Result<(), BoxError> {
    let id = engine.send(10).await?;
    let terms = engine.stores().packets.terms(id).await?.ok_or("a packet that was just sent")?;
    let load = |n: u32| {
        let mut terms = (*terms).clone();
        async move {
            let mut random = [0; shared::domain::PACKET_ID_RANDOM_BYTES];
            random[..8].copy_from_slice(&u64::from(n).to_le_bytes());
            terms.id = PacketId::new(terms.created_at, 1, random);
            for part in terms.id.parts() {
                match engine.stores().hot.load(part, &terms, false, &[]).await? {
                    Loaded::Yes => {}
                    Loaded::Expired => return Err("a new packet is expired".into()),
                }
            }
            Ok::<_, BoxError>(())
        }
    };
    stream::iter(0..live).map(load).buffer_unordered(LOADS).try_collect().await
}

/// Milliseconds of sends of so many slips, and of Redis' slowest command meanwhile.
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
