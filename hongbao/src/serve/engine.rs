//! What answers requests: the functions' handlers, and what API Gateway and IAM do for them on AWS.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grab::Telemetry;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use lambda_http::aws_lambda_events::apigw::ApiGatewayRequestAuthorizer;
use lambda_http::{Body, Request};
use local::functions::Functions;
use local::gateway::routes::is_operators;
use local::gateway::sign_in::SignIn;
use local::gateway::{Arrival, Entry, Invoke, Settings, event};
use metrics_exporter_prometheus::PrometheusHandle;
use postgres_ledger::{Database, PostgresTable};
use serde_json::json;
use shared::config::Config;
use shared::http::Function;
use shared::ledger::Ledger;
use shared::ports::{Clock, System};
use shared::redis::Connection;
use shared::service::RunReport;
use shared::wiring::Environment;
use tokio::time::{Instant, timeout};

use super::metrics;
use super::operators::Operators;

/// How long a store may take to answer before the process counts as not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// The engine behind the gateway.
pub struct Engine {
    functions: Functions<PostgresTable, Connection>,
    sign_in: SignIn,
    operators: Operators,
    telemetry: Telemetry,
    prometheus: PrometheusHandle,
    is_draining: AtomicBool,
    settings: Settings,
    /// The ledger's database.
    pub database: Database,
    /// The ledger, for what is no request.
    pub ledger: Arc<Ledger<PostgresTable>>,
    /// The name in metrics.
    pub table: String,
}

impl Engine {
    /// The engine over both stores.
    pub fn new(
        config: Config,
        database: Database,
        redis: Connection,
        sign_in: SignIn,
        proxies: Vec<IpAddr>,
    ) -> anyhow::Result<Self> {
        let settings =
            Settings { entry: Entry::Public, proxies, base_path: config.base_path.clone(), ..Settings::default() };
        let table = PostgresTable::new(database.clone());
        let ledger = Arc::new(Ledger::new(table.clone(), Arc::new(System)));
        let name = config.table.clone();
        let functions = Functions::new(table, redis, config, Environment::default());
        Ok(Self {
            telemetry: Telemetry::new(functions.meter(), name.clone()),
            functions,
            sign_in,
            operators: Operators::new(Arc::clone(&ledger)),
            prometheus: metrics::install()?,
            is_draining: AtomicBool::new(false),
            settings,
            database,
            ledger,
            table: name,
        })
    }

    /// From now on this process is not ready: a proxy sends requests to others.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
    }

    /// Forgets what was only of use for a while.
    pub fn forget(&self) {
        self.operators.forget();
        self.prometheus.run_upkeep();
    }

    async fn is_ready(&self) -> Response<Body> {
        let asked = async { tokio::join!(self.functions.reach_redis(), self.database.reach()) };
        let (redis, database) = match timeout(READY_WITHIN, asked).await {
            Ok((redis, database)) => (redis.is_ok(), database.is_ok()),
            Err(_) => (false, false),
        };
        let is_draining = self.is_draining.load(Ordering::SeqCst);
        let is_ready = redis && database && !is_draining;
        let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = json!({"ready": is_ready, "redis": redis, "database": database, "draining": is_draining});
        answer(status, "application/json", body.to_string())
    }

    fn metrics(&self) -> Response<Body> {
        self.telemetry.take(System.now()).iter().for_each(metrics::record);
        answer(StatusCode::OK, "text/plain; version=0.0.4", self.prometheus.render())
    }
}

fn answer(status: StatusCode, kind: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::Text(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

impl Invoke for Engine {
    async fn call(&self, function: Function, request: Request) -> Response<Body> {
        let begun = Instant::now();
        let response = self.functions.call(function, request).await;
        metrics::answered(function.name(), response.status().as_u16(), begun.elapsed());
        response
    }

    async fn authorize(&self, arrival: Arrival<'_>) -> Result<Option<ApiGatewayRequestAuthorizer>, Response<Body>> {
        if is_operators(arrival.path) {
            return self.operators.authorize(arrival).await;
        }
        Ok(self.sign_in.subject(&arrival.parts.headers).await.map(event::of_user))
    }

    async fn own(&self, path: &str, is_forwarded: bool) -> Option<Response<Body>> {
        match path {
            "/healthz" => Some(answer(StatusCode::OK, "application/json", json!({"status": "ok"}).to_string())),
            "/readyz" => Some(self.is_ready().await),
            // Strangers need not know how much is grabbed.
            "/metrics" if !is_forwarded => Some(self.metrics()),
            _ => None,
        }
    }

    async fn settle(&self) -> anyhow::Result<RunReport> {
        Ok(self.functions.settle().await?)
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }
}
