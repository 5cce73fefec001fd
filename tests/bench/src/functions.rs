//! The functions as they are deployed: their size, and under the Lambda runtime interface emulator their start, their calls and
//! their memory.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use local::dynamodb::DynamoDb;
use serde::Serialize;
use serde_json::{Value, json};
use shared::domain::{Amount, Claim, Timestamp, UserId};
use shared::redis::test_server::TestServer;
use tests::emulator::Function;

use crate::BoxError;
use crate::cell::Spread;
use crate::goals::{Goal, Ratio};
use crate::lab::Lab;
use crate::ours::Engine;

const NAMES: [&str; 6] = ["send", "grab", "view", "wallet", "settle", "audit"];
const TABLE: &str = "functions";
/// The packet of the sample events, which does not exist.
const PLACEHOLDER: &str = "38FS4S83HF3Y07WMYNH727QYT0";
const STARTS: usize = 20;
const STARTS_QUICK: usize = 3;
/// Warm calls. They go on a packet of one part.
const CALLS: u32 = 200;
/// Calls of a function before its figures are read.
const WARM_UP: u32 = 10;

/// One function.
#[derive(Debug, Serialize)]
pub struct Measured {
    name: &'static str,
    /// Of its program in a deployment package.
    zipped_mb: f64,
    /// From its start until it asks for its first event, in milliseconds.
    init_ms: Spread,
    /// The most memory that its process ever took, in MB.
    memory_mb: f64,
}

/// All functions, and a warm grab beside what it has to wait for.
#[derive(Debug, Serialize)]
pub struct Functions {
    all: Vec<Measured>,
    /// A warm grab that wins, in milliseconds, as the emulator reports it.
    warm_ms: f64,
    /// A call that asks no store.
    empty_ms: f64,
    /// The round trips of a grab that wins, one after the other: the script, the transaction, and the script that confirms it.
    bare_ms: f64,
}

/// Measures the programs that lie beside this one.
pub async fn run(lab: &Lab) -> Result<Functions, BoxError> {
    let starts = if lab.time.rounds > 1 { STARTS } else { STARTS_QUICK };
    let calls = lab.scaled(CALLS);
    let (redis, dynamodb) = (TestServer::start(&[]).await, DynamoDb::start(None).await?);
    let engine = Engine::new(&redis.url(), &dynamodb.url(), TABLE, "ledger").await?;
    // A rehearsal is of a debug build, whose programs are large.
    let compression = if lab.time.divisor > 1 { Compression::fast() } else { Compression::best() };
    let stores = Stores { redis: redis.url(), dynamodb: dynamodb.url(), compression };
    let mut functions = Vec::new();
    for name in NAMES {
        functions.push(stores.measure(name, starts).await?);
    }
    let grab = stores.function("grab").await?;
    let (warm_ms, empty_ms) = warm(&grab, &engine, calls).await?;
    let bare_ms = bare(&engine, calls).await?;
    // What it keeps of a rush is its memory too.
    if let Some(measured) = functions.iter_mut().find(|function| function.name == "grab") {
        measured.memory_mb = measured.memory_mb.max(peak_mb(grab.process().ok_or("no process")?)?);
    }
    drop(grab);
    dynamodb.stop().await;
    Ok(Functions { all: functions, warm_ms, empty_ms, bare_ms })
}

impl Functions {
    /// Beside the bounds.
    #[must_use]
    pub fn ratios(&self) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for function in &self.all {
            let bounded = |what: &str, most: f64, value: f64| {
                Ratio::new(format!("{}: {what}", function.name), Goal::AtMost(most), value)
            };
            if function.name == "grab" {
                ratios.push(bounded("cold start, ms", 15.0, function.init_ms.median));
            }
            ratios.push(bounded("peak memory, MB", 40.0, function.memory_mb));
            ratios.push(bounded("zipped, MB", 4.5, function.zipped_mb));
        }
        let waited = self.empty_ms + self.bare_ms;
        let name = "grab: a warm call, of an empty one and the bare round trips";
        ratios.push(Ratio::new(name, Goal::AtMost(1.3), self.warm_ms / waited));
        ratios
    }
}

impl fmt::Display for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| function | zipped MB | init ms (min–max) | peak memory MB |\n|---|---:|---:|---:|")?;
        for Measured { name, zipped_mb, init_ms, memory_mb } in &self.all {
            let Spread { min, median, max } = init_ms;
            writeln!(f, "| {name} | {zipped_mb:.2} | {median:.1} ({min:.1}–{max:.1}) | {memory_mb:.1} |")?;
        }
        let Self { warm_ms, empty_ms, bare_ms, .. } = self;
        writeln!(
            f,
            "\nA warm grab that wins takes {warm_ms:.2} ms, a call that asks no store {empty_ms:.2} ms, the bare round \
             trips {bare_ms:.2} ms."
        )
    }
}

struct Stores {
    redis: String,
    dynamodb: String,
    compression: Compression,
}

impl Stores {
    async fn function(&self, name: &str) -> Result<Function, BoxError> {
        let mut variables = vec![
            ("TABLE_NAME", TABLE),
            ("AWS_ENDPOINT_URL_DYNAMODB", &*self.dynamodb),
            ("AWS_REGION", "local"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
        ];
        if ["send", "grab", "view", "settle"].contains(&name) {
            variables.push(("REDIS_URL", &self.redis));
        }
        Ok(Function::start(program(name)?, &variables).await)
    }

    async fn measure(&self, name: &'static str, starts: usize) -> Result<Measured, BoxError> {
        let sample = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../events/{name}.json")))?;
        let mut init_ms = Vec::new();
        let mut memory_mb = 0.0_f64;
        for _ in 0..starts {
            let function = self.function(name).await?;
            for _ in 0..WARM_UP {
                function.invoke(&sample).await;
            }
            init_ms.push(reported(&function.log(), "Init Duration: ").next().ok_or("no report of the start")?);
            memory_mb = memory_mb.max(peak_mb(function.process().ok_or("no process")?)?);
        }
        let mut deflated = DeflateEncoder::new(Vec::new(), self.compression);
        deflated.write_all(&std::fs::read(program(name)?)?)?;
        let zipped_mb = float(deflated.finish()?.len()) / 1e6;
        Ok(Measured { name, zipped_mb, init_ms: Spread::of(init_ms), memory_mb })
    }
}

/// Medians of a grab that wins and of a call that asks no store, in milliseconds.
async fn warm(grab: &Function, engine: &Engine, calls: u32) -> Result<(f64, f64), BoxError> {
    let id = engine.send(calls + WARM_UP).await?;
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/grab.json"))?;
    let mut event: Value = serde_json::from_str(&text.replace(PLACEHOLDER, &id.to_string()))?;
    for user in 0..calls + WARM_UP {
        event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = json!(format!("warm-{user}"));
        let answer = grab.invoke(event.to_string().as_bytes()).await;
        if answer["statusCode"] != 200 {
            return Err(format!("a warm grab was answered {answer}").into());
        }
    }
    let median = |skip: usize| Spread::of(durations(grab).skip(skip).collect()).median;
    let warm_ms = median(WARM_UP as usize);
    let before = durations(grab).count();
    event["rawPath"] = json!("/nowhere");
    for _ in 0..calls {
        grab.invoke(event.to_string().as_bytes()).await;
    }
    Ok((warm_ms, median(before)))
}

/// The duration of each call, as the emulator reports it.
fn durations(function: &Function) -> impl Iterator<Item = f64> {
    let lines = function.log();
    let reports: Vec<f64> = reported(&lines, "\tDuration: ").collect();
    reports.into_iter()
}

/// The median time of a grab's round trips, one after the other, in milliseconds.
async fn bare(engine: &Engine, calls: u32) -> Result<f64, BoxError> {
    let id = engine.send(calls).await?;
    let terms = engine.stores().packets.terms(id).await?.ok_or("a packet that was sent")?;
    let ping = || shared::redis::Call::from(redis::cmd("PING"));
    let mut millis = Vec::new();
    for slip in 0..calls {
        let user: UserId = format!("bare-{slip}").parse()?;
        let claim = Claim { slip, amount: Amount::new(1), at: Timestamp::from_ms(1) };
        let begun = Instant::now();
        engine.connection().run::<String>(&ping()).await?;
        engine.stores().ledger.claim(&terms, &user, &claim).await?;
        engine.connection().run::<String>(&ping()).await?;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Spread::of(millis).median)
}

/// The numbers after a label.
fn reported<'a>(log: &'a str, label: &'a str) -> impl Iterator<Item = f64> + 'a {
    log.split(label).skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok())
}

/// The most memory that a process has ever taken, in MB.
fn peak_mb(process: u32) -> Result<f64, BoxError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

/// A program of the same build.
fn program(name: &str) -> Result<PathBuf, BoxError> {
    let program = std::env::current_exe()?.with_file_name(name);
    if program.is_file() {
        Ok(program)
    } else {
        Err(format!("{} is missing: make bench builds it", program.display()).into())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
const fn float(count: usize) -> f64 {
    count as f64
}
