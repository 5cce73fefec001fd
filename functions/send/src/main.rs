//! The send function on AWS Lambda: wiring only.

use std::convert::Infallible;
use std::sync::Arc;

use lambda_http::{Error, service_fn};
use shared::config::Config;
use shared::http;
use shared::wiring::{self, Wiring};

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let config = Config::for_both_stores(|name| std::env::var(name).ok())?;
    let entrance = Arc::new(config.entrance(http::steady()));
    let wiring = Wiring::new(config, wiring::dynamodb(&wiring::environment()))?;
    wiring.connect().await;
    let (send, close) = (Arc::new(wiring.send_packet()), Arc::new(wiring.close_packet()));
    let wallets = Arc::new(wiring.ledger_wiring().wallets());
    http::run(service_fn(move |request| {
        let (entrance, send, close) = (Arc::clone(&entrance), Arc::clone(&send), Arc::clone(&close));
        let wallets = Arc::clone(&wallets);
        async move {
            let response = entrance.serve(request, |request| send::handle(&send, &close, &wallets, request)).await;
            Ok::<_, Infallible>(response)
        }
    }))
    .await
}
