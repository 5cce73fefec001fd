//! The view function on AWS Lambda: wiring only.

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
    wiring.connect_and_read_ticket_keys().await;
    let base = wiring.ledger_wiring();
    let view = Arc::new((wiring.view_packets(), base.campaign_reports(), base.wallets()));
    http::run(service_fn(move |request| {
        let (entrance, view) = (Arc::clone(&entrance), Arc::clone(&view));
        async move {
            let (packets, reports, wallets) = &*view;
            let handle = |request| view::handle(packets, reports, wallets, request);
            Ok::<_, Infallible>(entrance.serve(request, handle).await)
        }
    }))
    .await
}
