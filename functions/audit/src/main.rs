//! The audit function on AWS Lambda: wiring only.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use audit::Auditor;
use audit_function::Event;
use lambda_runtime::{Error, LambdaEvent, run_concurrent, service_fn};
use shared::config::Config;
use shared::ports::{Clock, System};
use shared::wiring;
use tokio::time::Instant;

/// How long before the function's timeout a run ends, so that its answer arrives.
const MARGIN: Duration = Duration::from_secs(10);

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let config = Config::for_the_ledger(|name| std::env::var(name).ok())?;
    let table: Arc<str> = config.table.clone().into();
    let auditor = Arc::new(Auditor::new(wiring::dynamodb(&wiring::environment()), config.table));
    run_concurrent(service_fn(move |event: LambdaEvent<Event>| {
        let (auditor, table) = (Arc::clone(&auditor), Arc::clone(&table));
        async move {
            let (begun, now) = (Instant::now(), System.now());
            let left = event.context.deadline().duration_since(SystemTime::now()).unwrap_or_default();
            let answer =
                audit_function::handle(&auditor, event.payload, now.ms(), begun + left.saturating_sub(MARGIN)).await?;
            writeln!(std::io::stdout(), "{}", audit_function::metric(&answer, &table, now, begun.elapsed()))?;
            Ok::<_, Error>(answer)
        }
    }))
    .await
}
