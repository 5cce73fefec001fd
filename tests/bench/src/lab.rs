//! The lab: a Redis, a `DynamoDB`, the time for each cell, and the cells so far.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use local::dynamodb::DynamoDb;
use redis::cmd;
use shared::redis::test_server::{TestServer, TestTls, free_port};
use shared::redis::{Authorities, RedisConfig};

use crate::cell::Cell;
use crate::clients::{self, Grabs};
use crate::designs::Design;
use crate::rush::{Heat, Rush};
use crate::{BoxError, RESPONSE_TIMEOUT};

/// Some of the machine's processors, as `taskset` takes them.
///
/// In production Redis has a machine of its own. Here it shares one with its clients. Without one processor for Redis and the
/// others for the clients, the scheduler's choice of processors would decide more than the designs do.
pub struct Processors(String);

impl Processors {
    /// Takes the last of `cores` processors from this process. Returns it, for Redis, and all of them. `None` if it can't: there is
    /// only one, or no `taskset`.
    pub fn split(cores: usize) -> Option<(Self, Self)> {
        let last = cores.checked_sub(1).filter(|last| *last > 0)?;
        let is_split = Self(format!("0-{}", last - 1)).take(std::process::id());
        is_split.then(|| (Self(last.to_string()), Self(format!("0-{last}"))))
    }

    /// Moves a process to them. Returns whether that succeeded.
    pub fn take(&self, process: u32) -> bool {
        let moved = Command::new("taskset").args(["-a", "-c", "-p", &self.0, &process.to_string()]).output();
        moved.is_ok_and(|moved| moved.status.success())
    }
}

/// The servers and the figures so far.
pub struct Lab {
    server: TestServer,
    dynamodb: DynamoDb,
    redis: redis::Client,
    tls: Option<(TestTls, u16)>,
    /// Rounds of each cell.
    pub rounds: usize,
    /// The time of a round, and the time after which a rush is broken off.
    pub time: Duration,
    schemes: Vec<String>,
    cells: Vec<Cell>,
}

impl Lab {
    /// Starts servers, Redis with these arguments and on the given processors. Only schemes whose names contain one of `schemes` will be
    /// measured.
    pub async fn open(
        rounds: usize,
        time: Duration,
        schemes: Vec<String>,
        redis: &[&str],
        processors: Option<&Processors>,
    ) -> Result<Self, BoxError> {
        let tls = TestTls::for_server("TLS").map(|tls| (tls, free_port()));
        let tls_args = tls.as_ref().map(|(tls, port)| tls.args(*port)).unwrap_or_default();
        let args: Vec<&str> = tls_args.iter().map(String::as_str).chain(redis.iter().copied()).collect();
        let server = TestServer::start(&args).await;
        let dynamodb = DynamoDb::start(None).await?;
        let redis = redis::Client::open(server.url())?;
        let lab = Self { server, dynamodb, redis, tls, rounds, time, schemes, cells: Vec::new() };
        if let Some(processors) = processors {
            processors.take(lab.info("process_id").await?.parse()?);
        }
        Ok(lab)
    }

    /// A field of Redis' `INFO server`. Empty if it has none of this name.
    async fn info(&self, name: &str) -> Result<String, BoxError> {
        let info: String = self.server.command(cmd("INFO").arg("server")).await;
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(value.unwrap_or_default().trim().to_owned())
    }

    /// The server's name and version, such as "Valkey 9.1.2". Valkey also has a `redis_version`, that of the Redis it is compatible
    /// with.
    pub async fn server(&self) -> Result<String, BoxError> {
        match &*self.info("valkey_version").await? {
            "" => Ok(format!("Redis {}", self.info("redis_version").await?)),
            version => Ok(format!("Valkey {version}")),
        }
    }

    /// How to reach its Redis.
    pub fn redis_config(&self) -> RedisConfig {
        patient(RedisConfig::new(self.server.url()))
    }

    /// How to reach the same Redis over TLS. `None` if it was built without.
    pub fn tls_config(&self) -> Option<RedisConfig> {
        let (tls, port) = self.tls.as_ref()?;
        let config = RedisConfig::new(format!("rediss://127.0.0.1:{port}"));
        Some(patient(RedisConfig { ca: Authorities::File(tls.ca_file()), ..config }))
    }

    /// The address of its `DynamoDB`.
    pub fn dynamodb_url(&self) -> String {
        self.dynamodb.url()
    }

    /// Stops the servers.
    pub async fn close(self) -> Vec<Cell> {
        self.dynamodb.stop().await;
        self.cells
    }

    /// A round of a design with its published client.
    pub async fn threads(&mut self, workload: &'static str, design: &dyn Design, rush: &Rush) -> Result<(), BoxError> {
        let (redis, time) = (self.redis.clone(), self.time);
        let heat = async || Ok(tokio::task::block_in_place(|| clients::threads(design, &redis, rush, time))?);
        self.round(workload, design.name(), rush, heat).await
    }

    /// A round of a design with many requests in flight.
    pub async fn concurrent<G: Grabs>(
        &mut self,
        workload: &'static str,
        name: &str,
        design: &Arc<G>,
        rush: &Arc<Rush>,
        in_flight: usize,
    ) -> Result<(), BoxError> {
        let (redis, time) = (self.redis.clone(), self.time);
        let heat = async || clients::concurrent(design, &redis, rush, in_flight, time).await;
        self.round(workload, name, rush, heat).await
    }

    /// A round of a cell: rushes until its time is over. The cells of a workload take turns, round by round, so that each meets the
    /// machine's good and bad moments.
    pub async fn round(
        &mut self,
        workload: &'static str,
        scheme: &str,
        rush: &Rush,
        heat: impl AsyncFn() -> Result<Heat, BoxError>,
    ) -> Result<(), BoxError> {
        if !self.schemes.iter().any(|wanted| scheme.contains(wanted)) {
            return Ok(());
        }
        let known = self.cells.iter().position(|cell| cell.workload == workload && cell.scheme == scheme);
        let place = known.unwrap_or_else(|| {
            self.cells.push(Cell::new(workload, scheme));
            self.cells.len() - 1
        });
        let cell = &mut self.cells[place];
        cell.begin_round();
        while cell.round_took() < self.time {
            cell.add(rush, &heat().await?);
        }
        eprintln!("{workload} {scheme}: {:.0}/s", cell.per_s().median);
        Ok(())
    }
}

fn patient(config: RedisConfig) -> RedisConfig {
    RedisConfig { connect_timeout: RESPONSE_TIMEOUT, response_timeout: RESPONSE_TIMEOUT, ..config }
}
