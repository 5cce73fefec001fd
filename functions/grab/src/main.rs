//! The grab function on AWS Lambda: wiring only.

use std::convert::Infallible;
use std::sync::Arc;

use grab::Telemetry;
use lambda_http::{Error, run_concurrent, service_fn};
use shared::config::Config;
use shared::parts::{self, Parts};

#[tokio::main]
async fn main() -> Result<(), Error> {
    shared::start();
    let config = Config::for_both_stores(|name| std::env::var(name).ok())?;
    let table = config.table.clone();
    let grab = Arc::new(Parts::new(config, parts::dynamodb().await)?.grab_slip());
    let telemetry = Arc::new(Telemetry::new(Arc::clone(grab.meter()), table));
    let is_concurrent = Telemetry::is_concurrent();
    if is_concurrent {
        let telemetry = Arc::clone(&telemetry);
        tokio::spawn(async move { telemetry.tell_regularly().await });
    }
    run_concurrent(service_fn(move |request| {
        let (grab, telemetry) = (Arc::clone(&grab), Arc::clone(&telemetry));
        async move {
            let response = grab::handle(&grab, request).await;
            if !is_concurrent {
                telemetry.tell();
            }
            Ok::<_, Infallible>(response)
        }
    }))
    .await
}
