//! Runs a command beside a server of `PostgreSQL`, which ends with it:
//! `beside-postgres COMMAND …`.
//!
//! The command finds the server's address in `HONGBAO_TEST_POSTGRES_URL`. Programs that speak the protocol of `DynamoDB` find one at
//! `HONGBAO_TEST_DYNAMODB_URL`, whose tables are the ledger's own ones in `PostgreSQL`, with a schema for each table and access key. It knows
//! the requests of the ledger, the audit and the tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api;
mod expressions;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tests::postgres::{Postgres, URL_VARIABLE};
use tokio::net::TcpListener;

use api::Api;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    shared::redis::install_crypto_provider();
    // The tests kill processes, and never the machine.
    let server = Postgres::start(&["fsync=off"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let api = Arc::new(Api::new(&server.url()));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let api = Arc::clone(&api);
            let answer = service_fn(move |request| {
                let api = Arc::clone(&api);
                async move { Ok::<_, Infallible>(api.answer(request).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), answer));
        }
    });
    let mut command = tokio::process::Command::new(arguments.first().expect("a command"));
    command.args(arguments[1..].iter().map(|argument| argument.replace("{url}", &url)));
    command.env(local::dynamodb::SERVER_VARIABLE, url).env(URL_VARIABLE, server.url());
    let status = command.status().await.unwrap();
    drop(server);
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
