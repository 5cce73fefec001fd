//! A local stack, and in front of it a stand-in for API Gateway that checks signatures and rights. `hongbao-admin console` runs there twice: for
//! somebody who may only read, and for somebody who may do everything. It prints where, and ends with SIGTERM:
//! `cargo run -p tests --bin signed-stack`

#![allow(clippy::unwrap_used)]

use std::path::Path;

use local::{Local, Options, request_log};
use tests::api_gateway::{ApiGateway, BOSS, READER};
use tests::console::Console;
use tests::lambda_api::LambdaApi;
use tests::program::beside;
use tokio::signal::unix::{SignalKind, signal};

/// The stack's name, for repairs.
const STACK: &str = "signed";

#[tokio::main]
async fn main() {
    shared::redis::install_crypto_provider();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    request_log::start("error");
    let local = Local::start(Options::ephemeral()).await.unwrap();
    let folder = local.folder().unwrap();
    request_log::write_in(folder).unwrap();
    let gateway = ApiGateway::start(&local, vec![READER, BOSS]).await;
    let denied = ["read", "repair"].map(|right| (READER.key, format!("{STACK}-operate-{right}")));
    let aws = LambdaApi::start(Vec::new(), denied.into()).await;
    let admin = beside("hongbao-admin");
    let admin = Path::new(admin.get_program());
    let stores = [
        ("REDIS_URL", local.redis_url().to_owned()),
        ("AWS_ENDPOINT_URL_DYNAMODB", local.dynamodb_url().to_owned()),
        ("LOG_FOLDER", folder.join(request_log::FOLDER).display().to_string()),
        ("LOG_KEY", "local".to_owned()),
    ];
    let (reader, boss) = tokio::join!(
        Console::signed(admin, &gateway, &aws, READER, stores.clone(), &["--via", STACK]),
        Console::signed(admin, &gateway, &aws, BOSS, stores, &[]),
    );
    for (who, Console { url, token, .. }) in [("reader", &reader), ("boss", &boss)] {
        println!("{who} {url}/console/#token={token}");
    }
    println!("hongbao is ready at {}", local.url());
    terminate.recv().await;
    local.stop().await;
}
