//! The grab function on AWS Lambda: wiring only.

use std::convert::Infallible;
use std::sync::Arc;

use grab::Telemetry;
use lambda_http::{Error, service_fn};
use shared::config::Config;
use shared::http;
use shared::wiring::{self, Wiring};

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let config = Config::for_both_stores(|name| std::env::var(name).ok())?;
    let (table, entrance) = (config.table.clone(), Arc::new(config.entrance(http::steady())));
    let wiring = Wiring::new(config, wiring::dynamodb(&wiring::environment()))?;
    wiring.connect_and_read_ticket_keys().await;
    let grab = wiring.grab_slip();
    // A process that serves concurrent requests is never frozen. One that serves one request at a time is frozen
    // between them.
    let is_concurrent = shared::is_concurrent();
    let grab = Arc::new(if is_concurrent { grab.never_frozen() } else { grab });
    let telemetry = Arc::new(Telemetry::new(Arc::clone(grab.meter()), table));
    // One set of lines per second for all grabs: a line for each would be most of the process's work.
    if is_concurrent {
        let telemetry = Arc::clone(&telemetry);
        tokio::spawn(async move { telemetry.tell_regularly().await });
    }
    http::run(service_fn(move |request| {
        let (entrance, grab, telemetry) = (Arc::clone(&entrance), Arc::clone(&grab), Arc::clone(&telemetry));
        async move {
            let answer = entrance.serve(request, |request| grab::handle(&grab, request));
            Ok::<_, Infallible>(if is_concurrent { answer.await } else { telemetry.around(answer).await })
        }
    }))
    .await
}
