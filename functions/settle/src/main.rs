//! The settle function on AWS Lambda: wiring only.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent, run_concurrent, service_fn};
use settle::Event;
use shared::config::Config;
use shared::ports::{Clock, System};
use shared::wiring::{self, Wiring};
use tokio::time::Instant;

/// How long before the function's timeout a run ends: longer than the ledger's timeout for one transaction.
const MARGIN: Duration = Duration::from_secs(10);

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let config = Config::for_both_stores(|name| std::env::var(name).ok())?;
    let table: Arc<str> = config.table.clone().into();
    let wiring = Wiring::new(config, wiring::dynamodb(&wiring::environment()))?;
    wiring.connect().await;
    let settle = Arc::new(wiring.settle());
    run_concurrent(service_fn(move |event: LambdaEvent<Event>| {
        let (settle, table) = (Arc::clone(&settle), Arc::clone(&table));
        async move {
            let left = event.context.deadline().duration_since(std::time::SystemTime::now()).unwrap_or_default();
            let deadline = Instant::now() + left.saturating_sub(MARGIN);
            let report = settle::handle(&settle, event.payload, deadline).await?;
            writeln!(std::io::stdout(), "{}", settle::metric(&report, &table, System.now()))?;
            Ok::<_, Error>(report)
        }
    }))
    .await
}
