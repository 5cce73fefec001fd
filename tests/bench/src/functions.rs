//! The functions as they are deployed: their size, and their start, calls and memory under the Lambda runtime interface
//! emulator.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use local::dynamodb::DynamoDb;
use serde::Serialize;
use serde_json::{Value, json};
use shared::domain::{Amount, Claim, Terms, Timestamp, UserId};
use shared::redis::test_server::TestServer;
use tests::emulator::Function;

use crate::BoxError;
use crate::cell::Spread;
use crate::goals::{Goal, Ratio};
use crate::lab::Lab;
use crate::ours::Engine;
use crate::over_tls::{self, OverTls};

const NAMES: [&str; 6] = ["send", "grab", "view", "wallet", "settle", "audit"];
const TABLE: &str = "functions";
/// The packet of the sample events, which does not exist.
pub const PLACEHOLDER: &str = "38FS4S83HF3Y07WMYNH727QYT0";
const STARTS: usize = 20;
const STARTS_QUICK: usize = 3;
/// Warm calls, on a packet of one part.
const CALLS: u32 = 200;
/// Connections that are opened at once.
const AT_ONCE: u32 = 300;
/// Calls of a function before its memory and its durations are read.
const WARM_UP: u32 = 10;

/// The figures of one function.
#[derive(Debug, Serialize)]
pub struct Measured {
    name: &'static str,
    /// The program in a deployment package, in MB.
    zipped_mb: f64,
    /// From its start until it asks for its first event, in milliseconds.
    init_ms: Spread,
    /// The peak memory of its process, in MB.
    memory_mb: f64,
}

/// All functions, and a warm grab beside the calls that it waits for.
#[derive(Debug, Serialize)]
pub struct Functions {
    all: Vec<Measured>,
    /// A warm grab that wins, in milliseconds as the emulator reports them.
    warm_ms: f64,
    /// A call that asks no store, in milliseconds.
    empty_ms: f64,
    /// The round trips of a winning grab, in milliseconds: the script, the transaction, and the script that reconciles.
    bare_ms: f64,
    /// The grab function over TLS. Nothing if the server was built without TLS.
    over_tls: Option<OverTls>,
}

/// Measures the functions' programs: those of a release build, which this function makes, or in a rehearsal those beside this
/// program. The sizes are of those in `deployed`, which are for another processor; cargo-lambda puts each into a folder of
/// its own.
pub async fn run(lab: &Lab, deployed: Option<&Path>) -> Result<Functions, BoxError> {
    let beside = std::env::current_exe()?.parent().ok_or("no folder")?.to_owned();
    // A rehearsal runs a debug build, whose programs are large.
    let (programs, compression) = if lab.time.divisor > 1 {
        (beside, Compression::fast())
    } else {
        build()?;
        (beside.with_file_name("release"), Compression::best())
    };
    let starts = if lab.time.rounds > 1 { STARTS } else { STARTS_QUICK };
    let calls = lab.scaled(CALLS);
    let (redis, dynamodb) = (TestServer::start(&[]).await, DynamoDb::start(None).await?);
    let engine = Engine::new(&redis.url(), &dynamodb.url(), TABLE, "ledger").await?;
    let stores = Stores { redis: redis.url(), dynamodb: dynamodb.url(), programs };
    let mut functions = Vec::new();
    for name in NAMES {
        let program = deployed.map_or_else(|| stores.program(name), |folder| folder.join(name).join("bootstrap"));
        let zipped_mb = zipped_mb(&program, compression)?;
        functions.push(stores.measure(name, starts, zipped_mb).await?);
    }
    let grab = stores.function("grab").await?;
    let [warm_ms, empty_ms, bare_ms] = warm(&grab, &engine, calls).await?;
    // Its caches after many grabs count as well.
    if let Some(measured) = functions.iter_mut().find(|function| function.name == "grab") {
        measured.memory_mb = measured.memory_mb.max(peak_mb(grab.process().ok_or("no process")?)?);
    }
    drop(grab);
    dynamodb.stop().await;
    let over_tls = over_tls::run(&stores.program("grab"), starts, lab.scaled(AT_ONCE).try_into()?).await?;
    Ok(Functions { all: functions, warm_ms, empty_ms, bare_ms, over_tls })
}

impl Functions {
    /// The goals of the functions.
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
        let name = "grab: a warm call ÷ an empty call and the bare round trips";
        ratios.push(Ratio::new(name, Goal::AtMost(1.3), self.warm_ms / waited));
        ratios.extend(self.over_tls.iter().flat_map(OverTls::ratios));
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
        let Self { warm_ms, empty_ms, bare_ms, over_tls, .. } = self;
        writeln!(
            f,
            "\nA warm grab that wins takes {warm_ms:.2} ms, a call that asks no store {empty_ms:.2} ms, the bare round \
             trips {bare_ms:.2} ms.\n"
        )?;
        match over_tls {
            Some(over_tls) => write!(f, "{over_tls}"),
            None => writeln!(f, "The first grab over TLS was not measured: the server was built without TLS."),
        }
    }
}

struct Stores {
    redis: String,
    dynamodb: String,
    /// The folder with the functions' programs.
    programs: PathBuf,
}

impl Stores {
    fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

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
        Ok(Function::start(self.program(name), &variables).await)
    }

    async fn measure(&self, name: &'static str, starts: usize, zipped_mb: f64) -> Result<Measured, BoxError> {
        let sample = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../events/{name}.json")))?;
        let mut init_ms = Vec::new();
        let mut memory_mb = 0.0_f64;
        for _ in 0..starts {
            let function = self.function(name).await?;
            for _ in 0..WARM_UP {
                function.invoke(&sample).await;
            }
            init_ms.push(reported(&function.log(), "INIT REPORT(durationMs: ").next().ok_or("no report of the start")?);
            memory_mb = memory_mb.max(peak_mb(function.process().ok_or("no process")?)?);
        }
        Ok(Measured { name, zipped_mb, init_ms: Spread::of(init_ms), memory_mb })
    }
}

/// Median milliseconds of a winning grab, of a call that asks no store, and of the bare round trips of such a grab. The three
/// take turns, so that other load on the machine affects all of them.
async fn warm(grab: &Function, engine: &Engine, calls: u32) -> Result<[f64; 3], BoxError> {
    let (id, bare) = (engine.send(calls + WARM_UP).await?, engine.send(calls + WARM_UP).await?);
    let bare = engine.stores().packets.terms(bare).await?.ok_or("a packet that was sent")?;
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/grab.json"))?;
    let mut event: Value = serde_json::from_str(&text.replace(PLACEHOLDER, &id.to_string()))?;
    let mut nowhere = event.clone();
    nowhere["rawPath"] = json!("/nowhere");
    let nowhere = nowhere.to_string();
    let mut bare_ms = Vec::new();
    for slip in 0..calls + WARM_UP {
        event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = json!(format!("warm-{slip}"));
        let answer = grab.invoke(event.to_string().as_bytes()).await;
        if answer["statusCode"] != 200 {
            return Err(format!("a warm grab was answered {answer}").into());
        }
        grab.invoke(nowhere.as_bytes()).await;
        bare_ms.push(round_trips(engine, &bare, slip).await?);
    }
    let log = grab.log();
    let durations: Vec<f64> = reported(&log, "\tDuration: ").collect();
    let median = |first: usize| Spread::of(durations.iter().skip(first).step_by(2).copied().collect()).median;
    let warm_up = WARM_UP as usize;
    Ok([median(2 * warm_up), median(2 * warm_up + 1), Spread::of(bare_ms.split_off(warm_up)).median])
}

/// Milliseconds of the round trips of a winning grab, one after the other.
async fn round_trips(engine: &Engine, terms: &Terms, slip: u32) -> Result<f64, BoxError> {
    let ping = || shared::redis::Call::from(redis::cmd("PING"));
    let user: UserId = format!("bare-{slip}").parse()?;
    let claim = Claim { slip, amount: Amount::new(1), at: Timestamp::from_ms(1) };
    let begun = Instant::now();
    engine.connection().run::<String>(&ping()).await?;
    engine.stores().ledger.claim(terms, &user, &claim).await?;
    engine.connection().run::<String>(&ping()).await?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

fn zipped_mb(program: &Path, compression: Compression) -> Result<f64, BoxError> {
    let mut deflated = DeflateEncoder::new(Vec::new(), compression);
    deflated.write_all(&std::fs::read(program)?)?;
    Ok(float(u64::try_from(deflated.finish()?.len())?) / 1e6)
}

/// The numbers after a label in a log.
pub fn reported<'a>(log: &'a str, label: &'a str) -> impl Iterator<Item = f64> + 'a {
    log.split(label).skip(1).filter_map(|rest| rest.split([' ', ')']).next()?.parse().ok())
}

/// The peak memory of a process, in MB.
fn peak_mb(process: u32) -> Result<f64, BoxError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

/// Builds the functions with the profile that they are deployed with.
fn build() -> Result<(), BoxError> {
    eprintln!("functions: building them as they are deployed: about 5 minutes the first time, seconds later");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = NAMES.iter().flat_map(|name| ["--bin", name]);
    let status = Command::new("cargo").args(["build", "--release"]).args(programs).current_dir(root).status()?;
    if status.success() { Ok(()) } else { Err("the functions can't be built".into()) }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub const fn float(count: u64) -> f64 {
    count as f64
}
