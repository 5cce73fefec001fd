//! The send function on AWS Lambda: wiring only.

use std::convert::Infallible;
use std::sync::Arc;

use lambda_http::{Error, run_concurrent, service_fn};
use shared::config::Config;
use shared::http::Edge;
use shared::wiring::{self, Wiring};

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let config = Config::for_both_stores(|name| std::env::var(name).ok())?;
    let edge = Edge::new(&config.base_path, config.user_rates, config.edge_key.as_deref());
    let wiring = Wiring::new(config, wiring::dynamodb(&wiring::environment()))?;
    wiring.connect().await;
    let (send, close) = (Arc::new(wiring.send_packet()), Arc::new(wiring.close_packet()));
    run_concurrent(service_fn(move |request| {
        let request = edge.receive(request);
        let (send, close) = (Arc::clone(&send), Arc::clone(&close));
        async move { Ok::<_, Infallible>(send::handle(&send, &close, request).await) }
    }))
    .await
}
