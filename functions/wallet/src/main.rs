//! The wallet function on AWS Lambda: wiring only.

use std::convert::Infallible;
use std::sync::Arc;

use lambda_http::{Error, service_fn};
use shared::config::Config;
use shared::http::{self, Edge};
use shared::wiring::{self, LedgerWiring};

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let config = Config::for_the_ledger(|name| std::env::var(name).ok())?;
    let edge = Edge::new(&config.base_path, config.user_rates, None, http::steady());
    let wallet = Arc::new(LedgerWiring::new(config, wiring::dynamodb(&wiring::environment())).wallets());
    http::run(service_fn(move |request| {
        let request = edge.receive(request);
        let wallet = Arc::clone(&wallet);
        async move { Ok::<_, Infallible>(wallet::handle(&wallet, request).await) }
    }))
    .await
}
