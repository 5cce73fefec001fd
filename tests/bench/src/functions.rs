//! The functions as they are deployed: their size, and their start and memory under the Lambda runtime interface emulator.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use local::dynamodb::DynamoDb;
use shared::dynamodb::create_table;
use shared::redis::test_server::TestServer;
use shared::wiring::dynamodb_at;
use tests::emulator::Function;

use crate::BoxError;
use crate::cell::Spread;

const NAMES: [&str; 6] = ["send", "grab", "view", "wallet", "settle", "audit"];
const TABLE: &str = "functions";
const STARTS: usize = 20;
/// Calls of a function before its memory is read.
const WARM_UP: u32 = 10;

/// The figures of one function.
#[derive(Debug)]
pub struct Measured {
    /// Its name.
    pub name: &'static str,
    /// The program in a deployment package, in MB.
    pub zipped_mb: f64,
    /// From its start until it asks for its first event, in milliseconds.
    pub init_ms: Spread,
    /// The peak memory of its process, in MB.
    pub memory_mb: f64,
}

/// Measures the functions. The sizes are of those in `deployed`, which are for another processor; cargo-lambda puts each into a
/// folder of its own. Starts and memory are of a release build, which this function makes.
pub async fn run(deployed: &Path) -> Result<Vec<Measured>, BoxError> {
    if !cfg!(target_os = "linux") {
        return Err("the Lambda runtime interface emulator runs on Linux only".into());
    }
    build()?;
    let (redis, dynamodb) = (TestServer::start(&[]).await, DynamoDb::start(None).await?);
    create_table(&dynamodb_at(&dynamodb.url()), TABLE).await?;
    let (redis_url, dynamodb_url) = (redis.url(), dynamodb.url());
    let variables = [
        ("TABLE_NAME", TABLE),
        ("AWS_ENDPOINT_URL_DYNAMODB", &*dynamodb_url),
        ("AWS_REGION", "local"),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        // Last, because not all functions have it.
        ("REDIS_URL", &*redis_url),
    ];
    let mut functions = Vec::new();
    for name in NAMES {
        let variables = if ["wallet", "audit"].contains(&name) { &variables[..5] } else { &variables };
        let sample = std::fs::read(root().join(format!("events/{name}.json")))?;
        let (mut init_ms, mut memory_mb) = (Vec::new(), 0.0_f64);
        for _ in 0..STARTS {
            let program = std::env::current_exe()?.with_file_name("../release").join(name).canonicalize()?;
            let function = Function::start(program, variables).await;
            for _ in 0..WARM_UP {
                function.invoke(&sample).await;
            }
            let log = function.log();
            let report = log.split_once("INIT REPORT(durationMs: ").ok_or("no report of the start")?.1;
            init_ms.push(report.split([' ', ')']).next().unwrap_or_default().parse()?);
            memory_mb = memory_mb.max(peak_mb(function.process().ok_or("no process")?)?);
        }
        let zipped_mb = zipped_mb(&deployed.join(name).join("bootstrap"))?;
        functions.push(Measured { name, zipped_mb, init_ms: Spread::of(init_ms), memory_mb });
    }
    dynamodb.stop().await;
    Ok(functions)
}

fn zipped_mb(program: &Path) -> Result<f64, BoxError> {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(&std::fs::read(program)?)?;
    Ok(deflated.finish()?.len() as f64 / 1e6)
}

/// The peak memory of a process, in MB.
fn peak_mb(process: u32) -> Result<f64, BoxError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the functions with the profile that they are deployed with.
fn build() -> Result<(), BoxError> {
    eprintln!("functions: building them as they are deployed: about 5 minutes the first time, seconds later");
    let programs = NAMES.iter().flat_map(|name| ["--bin", name]);
    let status = Command::new("cargo").args(["build", "--release"]).args(programs).current_dir(root()).status()?;
    if status.success() { Ok(()) } else { Err("the functions can't be built".into()) }
}
