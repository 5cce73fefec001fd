//! What TLS costs Redis, one user a call: the script of A over plain connections and over TLS in turn, on one server that serves both.
//!
//! A sends all calls over one connection, so that a read or a write of the server has many of them. An execution of Lambda has a
//! connection of its own with one call in flight on it. Then each call is a read and a write by itself, and a record of TLS.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use shared::redis::test_server::{TestServer, TestTls, free_port};
use shared::redis::{Authorities, Connection, RedisConfig, RedisStore};

use crate::cell::{Spread, float};
use crate::concurrent::{self, Grabs};
use crate::lab::Lab;
use crate::ours::{Engine, one_user_a_call};
use crate::redis_apart::RedisApart;
use crate::report::grouped;
use crate::rush::{Got, Rush};
use crate::{BoxError, RESPONSE_TIMEOUT};

/// Winners of a rush.
const SLIPS: u32 = 100_000;
/// Pairs of rushes, if the run has several rounds.
const PAIRS: usize = 9;
/// Connections, and calls in flight on each.
const SHAPES: [(usize, usize); 2] = [(1, 1_000), (200, 1)];
const RUSH_TIMEOUT: Duration = Duration::from_mins(2);

/// The figures of each shape.
#[derive(Debug, Serialize)]
pub struct OverTls {
    shapes: Vec<Shape>,
}

/// The same calls over plain connections and over TLS.
#[derive(Clone, Copy, Debug, Serialize)]
struct Shape {
    connections: usize,
    in_flight: usize,
    plain: Figures,
    tls: Figures,
    /// Redis' processor time over TLS ÷ plain, of rushes that ran one after the other.
    ratio: Spread,
}

/// Medians of the rushes.
#[derive(Clone, Copy, Debug, Serialize)]
struct Figures {
    grabs_per_s: f64,
    /// Redis' processor time of a grab, in microseconds.
    redis_cpu_us: f64,
}

/// What a rush showed.
#[derive(Clone, Copy)]
struct Rushed {
    per_s: f64,
    cpu_us: f64,
}

/// Measures both, in turn. Leaves it out if the server has no TLS.
pub async fn run(lab: &mut Lab, redis_apart: Option<&RedisApart>) -> Result<(), BoxError> {
    let Some(tls) = TestTls::for_server("tls") else { return Ok(()) };
    let port = free_port();
    let args = tls.args(port);
    let server = TestServer::start(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let redis = redis::Client::open(server.url())?;
    if let Some(apart) = redis_apart {
        apart.take_there(&redis)?;
    }
    let engine = Arc::new(Engine::new(&server.url(), &lab.dynamodb_url(), "tls", "redis").await?);
    let plain = RedisConfig::new(server.url());
    let secure =
        RedisConfig { ca: Authorities::File(tls.ca_file()), ..RedisConfig::new(format!("rediss://127.0.0.1:{port}")) };
    let rush = Arc::new(Rush::all_win(lab.scaled(SLIPS)));
    let pairs = if lab.time.rounds > 1 { PAIRS } else { lab.time.rounds };
    let mut shapes = Vec::new();
    for (connections, in_flight) in SHAPES {
        let plain = Connections::open(&engine, &plain, connections, in_flight).await?;
        let secure = Connections::open(&engine, &secure, connections, in_flight).await?;
        let rush_over = async |over: &Arc<Connections>| -> Result<Rushed, BoxError> {
            let under_way = connections * in_flight;
            let heat = concurrent::heat(over, &redis, &rush, under_way, RUSH_TIMEOUT).await?;
            let answers = float(heat.answers.len() as u64);
            Ok(Rushed { per_s: answers / heat.elapsed.as_secs_f64(), cpu_us: float(heat.cpu_us) / answers })
        };
        let (mut of_plain, mut of_tls) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            // Neither always comes first.
            if pair % 2 == 0 {
                of_plain.push(rush_over(&plain).await?);
                of_tls.push(rush_over(&secure).await?);
            } else {
                of_tls.push(rush_over(&secure).await?);
                of_plain.push(rush_over(&plain).await?);
            }
        }
        let ratios = of_tls.iter().zip(&of_plain).map(|(tls, plain)| tls.cpu_us / plain.cpu_us);
        let ratio = Spread::of(ratios.collect());
        eprintln!("tls, {connections} connections: {:.2} of the CPU without", ratio.median);
        let (plain, tls) = (Figures::of(&of_plain), Figures::of(&of_tls));
        shapes.push(Shape { connections, in_flight, plain, tls, ratio });
    }
    lab.report.add_tls(OverTls { shapes });
    Ok(())
}

impl Figures {
    fn of(rushes: &[Rushed]) -> Self {
        let median = |figure: fn(&Rushed) -> f64| Spread::of(rushes.iter().map(figure).collect()).median;
        Self { grabs_per_s: median(|rush| rush.per_s), redis_cpu_us: median(|rush| rush.cpu_us) }
    }

    /// Grabs a second that one core of Redis would do by itself.
    fn of_a_core(&self) -> f64 {
        1e6 / self.redis_cpu_us
    }
}

/// The script with one user a call, over several connections.
struct Connections {
    engine: Arc<Engine>,
    /// Each connection as often as it may take another call.
    free: Mutex<Vec<Arc<RedisStore>>>,
}

impl Connections {
    async fn open(
        engine: &Arc<Engine>,
        config: &RedisConfig,
        connections: usize,
        in_flight: usize,
    ) -> Result<Arc<Self>, BoxError> {
        let config =
            RedisConfig { connect_timeout: RESPONSE_TIMEOUT, response_timeout: RESPONSE_TIMEOUT, ..config.clone() };
        let mut free = Vec::new();
        for _ in 0..connections {
            let store = Arc::new(RedisStore::new(Connection::new(&config)?));
            store.connect().await?;
            free.extend(std::iter::repeat_n(store, in_flight));
        }
        Ok(Arc::new(Self { engine: Arc::clone(engine), free: Mutex::new(free) }))
    }
}

impl Grabs for Connections {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.engine.fill(rush).await
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let store = free().pop().ok_or("more calls than the connections take")?;
        let got = one_user_a_call(&store, self.engine.packet(packet), user).await;
        free().push(store);
        got
    }
}

impl fmt::Display for OverTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Over TLS: one user a call, one node, everybody wins\n")?;
        writeln!(
            f,
            "| connections × calls in flight on each | plain, grabs/s | TLS, grabs/s | plain, Redis CPU µs | TLS, Redis CPU µs | \
             TLS ÷ plain (min–max) | plain, grabs/s of a core | TLS, grabs/s of a core |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|")?;
        for Shape { connections, in_flight, plain, tls, ratio } in &self.shapes {
            writeln!(
                f,
                "| {connections} × {in_flight} | {} | {} | {:.1} | {:.1} | {:.2} ({:.2}–{:.2}) | {} | {} |",
                grouped(plain.grabs_per_s),
                grouped(tls.grabs_per_s),
                plain.redis_cpu_us,
                tls.redis_cpu_us,
                ratio.median,
                ratio.min,
                ratio.max,
                grouped(plain.of_a_core()),
                grouped(tls.of_a_core()),
            )?;
        }
        Ok(())
    }
}
