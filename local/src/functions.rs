//! The functions' handlers in one process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use http::Response;
use lambda_http::{Body, Request};
use settle::SettleError;
use shared::config::Config;
use shared::domain::Partition;
use shared::error_chain;
use shared::http::{Entrance, Function};
use shared::ports::{HotStore, Table};
use shared::redis::{RedisStore, Server};
use shared::service::{CampaignReports, ClosePacket, GrabSlip, RunReport, SendPacket, Settle, ViewPackets, Wallets};
use shared::telemetry::Meter;
use shared::wiring::{Environment, Wiring};
use tokio::time::Instant;

/// How long a run of settle may take. One run follows another here, and a packet that expires during a run waits for the next.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The functions that answer requests, and settle.
pub struct Functions<T: Table, S: Server> {
    /// It counts what each user asks.
    entrance: Entrance,
    send: SendPacket<T, RedisStore<S>>,
    close: ClosePacket<T, RedisStore<S>>,
    grab: GrabSlip<T, RedisStore<S>>,
    view: ViewPackets<T, RedisStore<S>>,
    reports: CampaignReports<T>,
    wallet: Wallets<T>,
    settle: Settle<T, RedisStore<S>>,
    hot: Arc<RedisStore<S>>,
}

impl<T: Table, S: Server> Functions<T, S> {
    /// New ones, which remember nothing yet.
    pub fn new(table: T, server: S, config: Config, environment: Environment) -> Self {
        let clock = Arc::clone(&environment.clock);
        let entrance = config.entrance(Arc::new(move || clock.now()));
        let wiring = Wiring::over(table, server, config, environment);
        Self {
            entrance,
            send: wiring.send_packet(),
            close: wiring.close_packet(),
            grab: wiring.grab_slip().never_frozen(),
            view: wiring.view_packets(),
            reports: wiring.ledger_wiring().campaign_reports(),
            wallet: wiring.ledger_wiring().wallets(),
            settle: wiring.settle(),
            hot: Arc::clone(&wiring.stores().hot),
        }
    }

    /// These, but what `before` counted goes on.
    #[must_use]
    pub fn counting_on(self, before: &Self) -> Self {
        Self { entrance: before.entrance.clone(), ..self }
    }

    /// Answers a request.
    pub async fn call(&self, function: Function, request: Request) -> Response<Body> {
        let handle = async |request| match function {
            Function::Send => send::handle(&self.send, &self.close, &self.wallet, request).await,
            Function::Grab => grab::handle(&self.grab, request).await,
            Function::View => view::handle(&self.view, &self.reports, &self.wallet, request).await,
            Function::Wallet => wallet::handle(&self.wallet, request).await,
        };
        self.entrance.serve(request, handle).await
    }

    /// Runs settle over all partitions.
    pub async fn settle(&self) -> Result<RunReport, SettleError> {
        settle::handle(&self.settle, settle::Event::default(), Instant::now() + SETTLE_TIMEOUT).await
    }

    /// Asks Redis for an answer.
    pub async fn reach_redis(&self) -> anyhow::Result<()> {
        let asked = self.hot.pending_parts(Partition::wrapping(0)).await;
        asked.map(drop).map_err(|error| anyhow!("Redis can't be reached: {}", error_chain(&**error.cause())))
    }

    /// What grabs count.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(self.grab.meter())
    }
}
