//! `DynamoDB` inside the process: dynoxide, in memory or in a file. Tests can put Amazon's `DynamoDB` Local in its place.

mod embedded;
mod own_database;

use std::fmt::Display;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use dynoxide::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The environment variable with the URL of a server of Amazon's `DynamoDB` Local that takes the place of databases in memory.
/// `scripts/dynamodb-local.py` sets it.
pub const SERVER_VARIABLE: &str = "HONGBAO_TEST_DYNAMODB_URL";

/// How long unfinished requests may take at the end.
const STOPS_WITHIN: Duration = Duration::from_secs(3);

/// A running database.
///
/// It runs on a thread and a runtime of its own. dynoxide never yields during a request, even during the fsync of a
/// write, and would block other tasks on its thread. One thread is enough, since dynoxide handles one request at a
/// time.
#[derive(Debug)]
pub struct DynamoDb {
    address: SocketAddr,
    /// Stops the server when it is sent or dropped.
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
    is_embedded: bool,
}

/// What is served.
enum Served {
    Database(Database),
    /// A database of its own on the server at this address.
    Server(String),
}

impl DynamoDb {
    /// Opens the database in `file`, or an empty one in memory, and serves it on a free port. With [`SERVER_VARIABLE`] the empty
    /// one is a new one on that server.
    pub async fn start(file: Option<&Path>) -> anyhow::Result<Self> {
        match (file, std::env::var(SERVER_VARIABLE)) {
            (None, Ok(url)) if !url.is_empty() => {
                Self::serve(Served::Server(url.trim_start_matches("http://").to_owned())).await
            }
            (Some(file), _) => {
                let file = file.display().to_string();
                Self::serve(opened(&file, Database::new(&file))?).await
            }
            (None, _) => Self::start_embedded().await,
        }
    }

    /// An empty database in memory, whatever [`SERVER_VARIABLE`] says.
    pub async fn start_embedded() -> anyhow::Result<Self> {
        Self::serve(opened("memory", Database::memory())?).await
    }

    async fn serve(served: Served) -> anyhow::Result<Self> {
        Self::try_serve(served).await.context("the embedded DynamoDB can't be started")
    }

    async fn try_serve(served: Served) -> io::Result<Self> {
        let is_embedded = matches!(served, Served::Database(_));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.into_std()?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("dynamodb".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(run(served, listener, stopped)) {
                tracing::error!(%error, "the embedded DynamoDB ended");
            }
            drop(runtime);
            let _ = end.send(());
        })?;
        Ok(Self { address, stop, ended, is_embedded })
    }

    /// The endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether it is dynoxide.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// Finishes open requests and closes the file.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        if timeout(STOPS_WITHIN, self.ended).await.is_err() {
            tracing::warn!("the embedded DynamoDB did not finish in time");
        }
    }
}

/// Serves until it is stopped, or until the stack is gone.
async fn run(served: Served, listener: std::net::TcpListener, stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let stop = async { drop(stopped.await) };
    match served {
        Served::Database(database) => embedded::serve(listener, database, stop).await,
        Served::Server(address) => tokio::select! {
            () = stop => Ok(()),
            ended = own_database::serve(listener, &address) => ended,
        },
    }
}

fn opened<E: Display>(file: &str, opened: Result<Database, E>) -> anyhow::Result<Served> {
    opened.map(Served::Database).map_err(|error| anyhow!("the embedded DynamoDB can't open {file}: {error}"))
}
