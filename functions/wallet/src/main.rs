//! The wallet function on AWS Lambda: wiring only.

use std::convert::Infallible;
use std::sync::Arc;

use lambda_http::{Error, run_concurrent, service_fn};
use shared::config::Config;
use shared::parts::{self, LedgerParts};

#[tokio::main]
async fn main() -> Result<(), Error> {
    shared::start();
    let config = Config::for_the_ledger(|name| std::env::var(name).ok())?;
    let wallet = Arc::new(LedgerParts::new(config, parts::dynamodb().await).wallets());
    run_concurrent(service_fn(move |request| {
        let wallet = Arc::clone(&wallet);
        async move { Ok::<_, Infallible>(wallet::handle(&wallet, request).await) }
    }))
    .await
}
