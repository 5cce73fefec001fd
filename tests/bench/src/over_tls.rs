//! The first grabs of a process, as it starts in a deployment: over TLS, to a cluster of three primaries with a replica each.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use futures::future::try_join_all;
use local::dynamodb::DynamoDb;
use serde::Serialize;
use serde_json::{Value, json};
use shared::redis::test_server::{TestCluster, TestServer, TestTls, free_port};
use shared::redis::{Authorities, Connection, RedisConfig};
use tests::emulator::Function;

use crate::BoxError;
use crate::cell::Spread;
use crate::functions::{PLACEHOLDER, float, reported};
use crate::goals::{Goal, Ratio};
use crate::ours::Engine;

const TABLE: &str = "over-tls";
const PRIMARIES: usize = 3;
/// Calls of each process.
const CALLS: usize = 10;
/// The figures of the grab function.
#[derive(Debug, Serialize)]
pub struct OverTls {
    /// From its start until it asks for its first event, in milliseconds.
    init_ms: Spread,
    /// Its first grab, in milliseconds as the emulator reports it.
    first_ms: Spread,
    /// Its tenth grab.
    tenth_ms: Spread,
    /// The most connections that a process made to one primary.
    to_a_primary: u64,
    /// The most that a process made to replicas.
    to_replicas: u64,
    /// Connections to one server that were opened at once, as by the executions of a rush.
    at_once: usize,
    /// Until all of them were served, in milliseconds.
    at_once_ms: f64,
}

/// Starts `program` so many times, and calls it; then opens so many connections `at_once`. Nothing if the server has no TLS.
pub async fn run(program: &Path, starts: usize, at_once: usize) -> Result<Option<OverTls>, BoxError> {
    let Some(tls) = TestTls::for_server("the first grab over TLS") else { return Ok(None) };
    let cluster = TestCluster::start_with_replicas(PRIMARIES, Some(&tls)).await;
    let dynamodb = DynamoDb::start(None).await?;
    let engine = Engine::on_cluster(cluster.url(), &dynamodb.url(), TABLE, 1).await?;
    let packet = engine.send(u32::try_from(starts * CALLS)?).await?;
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/grab.json"))?;
    let mut event: Value = serde_json::from_str(&text.replace(PLACEHOLDER, &packet.to_string()))?;

    let (url, dynamodb_url, ca) = (cluster.tls_url(), dynamodb.url(), tls.ca_file());
    let ca = ca.to_str().ok_or("a path without a name")?;
    let variables = [
        ("TABLE_NAME", TABLE),
        ("AWS_ENDPOINT_URL_DYNAMODB", &*dynamodb_url),
        ("AWS_REGION", "local"),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("REDIS_URL", &*url),
        ("REDIS_CLUSTER", "true"),
        ("REDIS_CA", ca),
        // A machine that stalls must not count as a server that is mute.
        ("REDIS_CONNECT_TIMEOUT_MS", "10000"),
        ("REDIS_RESPONSE_TIMEOUT_MS", "5000"),
    ];
    let (mut init_ms, mut first_ms, mut tenth_ms) = (Vec::new(), Vec::new(), Vec::new());
    let (mut to_a_primary, mut to_replicas) = (0, 0);
    for start in 0..starts {
        let before = cluster.accepted().await;
        let function = Function::start(program.to_owned(), &variables).await;
        for call in 0..CALLS {
            event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = json!(format!("user-{start}-{call}"));
            let answer = function.invoke(event.to_string().as_bytes()).await;
            if answer["statusCode"] != 200 {
                return Err(format!("a grab was answered {answer}: {}", function.log()).into());
            }
        }
        let log = function.log();
        // The report's own duration of the first call has the start in it.
        let calls = log.split(", duration: ").skip(1);
        let durations: Vec<f64> = calls.filter_map(|rest| rest.split_once("ms)")?.0.parse().ok()).collect();
        init_ms.push(reported(&log, "INIT REPORT(durationMs: ").next().ok_or("no report of the start")?);
        first_ms.push(*durations.first().ok_or("no report of a call")?);
        tenth_ms.push(*durations.last().ok_or("no report of a call")?);
        let made = cluster.accepted_since(&before).await;
        to_a_primary = made[..PRIMARIES].iter().copied().fold(to_a_primary, u64::max);
        to_replicas = to_replicas.max(made[PRIMARIES..].iter().sum());
    }
    dynamodb.stop().await;
    let [init_ms, first_ms, tenth_ms] = [init_ms, first_ms, tenth_ms].map(Spread::of);
    let at_once_ms = served_at_once(&tls, at_once).await?;
    Ok(Some(OverTls { init_ms, first_ms, tenth_ms, to_a_primary, to_replicas, at_once, at_once_ms }))
}

/// Milliseconds until one server has served so many connections that are opened at once. An error if it refuses one.
async fn served_at_once(tls: &TestTls, count: usize) -> Result<f64, BoxError> {
    let port = free_port();
    let args = tls.args(port);
    let _server = TestServer::start(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let url = format!("rediss://127.0.0.1:{port}");
    let config = RedisConfig { ca: Authorities::File(tls.ca_file()), ..RedisConfig::new(url) };
    let connections: Vec<_> = (0..count).map(|_| Connection::new(&config)).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    try_join_all(connections.iter().map(Connection::connect)).await?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

impl OverTls {
    /// The goals.
    #[must_use]
    pub fn ratios(&self) -> Vec<Ratio> {
        let bounded =
            |what: &str, most: f64, value: f64| Ratio::new(format!("grab over TLS: {what}"), Goal::AtMost(most), value);
        vec![
            bounded("first grab ÷ tenth grab", 10.0, self.first_ms.median / self.tenth_ms.median),
            bounded("connections to a primary", 1.0, float(self.to_a_primary)),
            bounded("connections to replicas", 0.0, float(self.to_replicas)),
        ]
    }
}

impl fmt::Display for OverTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to_a_primary, to_replicas, at_once, at_once_ms, .. } = self;
        writeln!(f, "| grab, over TLS to three primaries with a replica each | ms (min–max) |\n|---|---:|")?;
        for (what, Spread { min, median, max }) in
            [("init", &self.init_ms), ("first grab", &self.first_ms), ("tenth grab", &self.tenth_ms)]
        {
            writeln!(f, "| {what} | {median:.1} ({min:.1}–{max:.1}) |")?;
        }
        writeln!(
            f,
            "\nA process made at most {to_a_primary} handshakes with a primary, and {to_replicas} with replicas. One server \
             served {at_once} TLS connections, opened at once, within {at_once_ms:.0} ms."
        )
    }
}
