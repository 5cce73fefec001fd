//! The lab: a Redis, a `DynamoDB`, the time for each cell, and the report.

use std::sync::Arc;
use std::time::Duration;

use local::dynamodb::DynamoDb;
use shared::redis::test_server::TestServer;

use crate::cell::Collector;
use crate::concurrent::Grabs;
use crate::designs::Design;
use crate::heat::{Heat, server_of};
use crate::report::Report;
use crate::rush::Rush;
use crate::{BoxError, concurrent, threads};

/// The time and the amount of data of each cell.
#[derive(Clone, Copy, Debug)]
pub struct TimeBox {
    /// Rounds of each cell.
    pub rounds: usize,
    /// The time of a round, at least.
    pub time: Duration,
    /// The time after which a rush is broken off.
    pub rush_most: Duration,
    /// All amounts are divided by this.
    pub divisor: u32,
    /// Pairs of rushes per ratio of two costs.
    pub pairs: usize,
}

impl TimeBox {
    /// For the report.
    pub const FULL: Self = Self::of(3, Duration::from_secs(3), 41);
    /// One short round of each cell.
    pub const QUICK: Self = Self::of(1, Duration::from_millis(500), 5);
    /// One rush of each cell, small enough to come to its end. It shows that everything works.
    pub const REHEARSAL: Self =
        Self { rounds: 1, time: Duration::ZERO, rush_most: Duration::from_mins(2), divisor: 50, pairs: 1 };

    const fn of(rounds: usize, time: Duration, pairs: usize) -> Self {
        Self { rounds, time, rush_most: time, divisor: 1, pairs }
    }
}

/// The servers and the figures so far.
pub struct Lab {
    server: TestServer,
    dynamodb: DynamoDb,
    redis: redis::Client,
    /// The time and the amount of data of each cell.
    pub time: TimeBox,
    schemes: Vec<String>,
    cells: Vec<Collector>,
    /// The report so far.
    pub report: Report,
}

impl Lab {
    /// Starts servers. Only schemes whose names contain one of `schemes` will be measured and added to the report.
    pub async fn open(time: TimeBox, schemes: Vec<String>, mut report: Report) -> Result<Self, BoxError> {
        let server = TestServer::start(&[]).await;
        let dynamodb = DynamoDb::start(None).await?;
        let redis = redis::Client::open(server.url())?;
        report.served_by(server_of(&redis)?);
        Ok(Self { server, dynamodb, redis, time, schemes, cells: Vec::new(), report })
    }

    /// The address of its Redis.
    pub fn redis_url(&self) -> String {
        self.server.url()
    }

    /// The address of its `DynamoDB`.
    pub fn dynamodb_url(&self) -> String {
        self.dynamodb.url()
    }

    /// A client for its Redis.
    pub const fn redis(&self) -> &redis::Client {
        &self.redis
    }

    /// This many users, slips or packets, divided for a rehearsal.
    pub const fn scaled(&self, count: u32) -> u32 {
        count / self.time.divisor
    }

    /// Stops the servers, and adds the cells to the report.
    pub async fn close(mut self) -> Report {
        self.dynamodb.stop().await;
        self.report.add_cells(self.cells.iter().map(Collector::cell));
        self.report
    }

    /// A round of a design with its published client.
    pub async fn threads(&mut self, workload: &'static str, design: &dyn Design, rush: &Rush) -> Result<(), BoxError> {
        let redis = self.redis.clone();
        let heat = async |time| Ok(tokio::task::block_in_place(|| threads::heat(design, &redis, rush, time))?);
        self.round(workload, design.name(), rush, heat).await
    }

    /// A round of a design with many requests in flight.
    pub async fn concurrent<G: Grabs>(
        &mut self,
        workload: &'static str,
        name: &str,
        design: &Arc<G>,
        rush: &Arc<Rush>,
        under_way: usize,
    ) -> Result<(), BoxError> {
        let redis = self.redis.clone();
        let heat = async |time| concurrent::heat(design, &redis, rush, under_way, time).await;
        self.round(workload, name, rush, heat).await
    }

    /// A round of a cell. `heat` makes its heats, each within the given time. The cells of a workload take turns, round by
    /// round, so that each meets the machine's good and bad moments.
    pub async fn round(
        &mut self,
        workload: &'static str,
        name: &str,
        rush: &Rush,
        heat: impl AsyncFn(Duration) -> Result<Heat, BoxError>,
    ) -> Result<(), BoxError> {
        if !self.schemes.iter().any(|wanted| name.contains(wanted)) {
            return Ok(());
        }
        let known = self.cells.iter().position(|cell| cell.is_of(workload, name));
        let place = known.unwrap_or_else(|| {
            self.cells.push(Collector::new(workload, name));
            self.cells.len() - 1
        });
        let cell = &mut self.cells[place];
        cell.begin_round();
        loop {
            cell.add(rush, &heat(self.time.rush_most).await?);
            if cell.round_took() >= self.time.time {
                eprintln!("{workload} {name}: {:.0}/s", cell.cell().per_s.median);
                return Ok(());
            }
        }
    }
}
