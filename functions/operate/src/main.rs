//! The operate function on AWS Lambda: wiring only.

// All commands are one future.
#![recursion_limit = "256"]

use std::sync::Arc;
use std::time::SystemTime;

use admin::{Deployed, Event};
use lambda_runtime::{Error, LambdaEvent, run_concurrent, service_fn};
use shared::config::Config;
use shared::wiring;

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let config = Config::for_both_stores(|name| std::env::var(name).ok())?;
    let right = operate::right(&config);
    let deployed = Arc::new(Deployed::over(config, wiring::dynamodb(&wiring::environment()))?);
    run_concurrent(service_fn(move |event: LambdaEvent<Event>| {
        let deployed = Arc::clone(&deployed);
        async move {
            let left = event.context.deadline().duration_since(SystemTime::now()).unwrap_or_default();
            Ok::<_, Error>(operate::handle(&deployed, right, event.payload, left).await)
        }
    }))
    .await
}
