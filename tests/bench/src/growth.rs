//! What must not grow: a grab's cost with the size and the number of packets; how long a large packet keeps Redis busy.

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
const FEW: u32 = 10;

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

/// Measures it.
pub async fn run(engine: &Arc<Engine>, lab: &Lab) -> Result<Growth, BoxError> {
    let [grabs, large, many] = [GRABS, LARGE, MANY].map(|count| lab.scaled(count));
    let here = Place::new(engine, lab.redis());
    let in_empty = async |rush: Arc<Rush>| {
        let most = lab.time.rush_most;
        cost(&flights::heat(&here.grabs, &here.redis, &rush, UNDER_WAY, most).await?)
    };
    let (small, of_large) = (Arc::new(Rush::spread(grabs / 10, 10)), Arc::new(Rush::all_win(large)));
    let by_slips =
        ratio(lab.time, async || in_empty(Arc::clone(&small)).await, async || in_empty(Arc::clone(&of_large)).await);
    let by_slips = by_slips.await?;

    // A Redis for each number of packets, which are loaded once: what comes right after that work of seconds is dearer.
    let server = TestServer::start(&[]).await;
    let elsewhere = Arc::new(Engine::new(&server.url(), &lab.dynamodb_url(), "growth", "redis").await?);
    let there = Place::new(&elsewhere, &redis::Client::open(server.url())?);
    empty(&mut here.redis.get_connection()?)?;
    load_others(engine, FEW).await?;
    load_others(&elsewhere, many).await?;
    let rush = Arc::new(Rush::all_win(grabs));
    let beside_others = async |place: &Place| {
        let most = lab.time.rush_most;
        cost(&flights::one_more(&place.grabs, &place.redis, &rush, UNDER_WAY, most).await?)
    };
    let by_packets = ratio(lab.time, async || beside_others(&here).await, async || beside_others(&there).await).await?;

    let (send_ms, blocked_ms) = send(engine, lab.redis(), large).await?;
    Ok(Growth { by_slips, by_packets, send_ms, blocked_ms })
}

/// A Redis with an engine over it.
struct Place {
    grabs: Arc<OneByOne>,
    redis: redis::Client,
}

impl Place {
    fn new(engine: &Arc<Engine>, redis: &redis::Client) -> Self {
        Self { grabs: Arc::new(OneByOne::new(Arc::clone(engine))), redis: redis.clone() }
    }
}

/// Redis' processor time a grab, in microseconds.
fn cost(heat: &Heat) -> Result<f64, BoxError> {
    match heat.answers.len() {
        0 => Err("no grab was answered".into()),
        answers => Ok(float(heat.cpu_us) / float(answers as u64)),
    }
}

/// What `other` costs, of what `one` costs: the middle of many pairs in turn, so that both meet the machine's good and bad
/// moments.
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

/// Loads so many live packets, of the terms of one that was sent.
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
