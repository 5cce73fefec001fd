//! `DynamoDB` inside the process: dynoxide, in memory or in a file. Tests can put Amazon's `DynamoDB` Local in its place.

mod own_database;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
enum Source {
    Memory,
    File(PathBuf),
    /// A database of its own on the server at this address.
    Server(String),
}

/// Why the database can't run.
#[derive(Debug, thiserror::Error)]
pub enum DynamoDbError {
    /// The file can't be opened as a database.
    #[error("the embedded DynamoDB can't open {file}: {reason}")]
    Open {
        /// The file, or "memory".
        file: String,
        /// dynoxide's error.
        reason: String,
    },
    /// The thread, the runtime or the socket can't be created.
    #[error("the embedded DynamoDB can't be started")]
    System(#[from] io::Error),
    /// The thread ended before the database was ready.
    #[error("the embedded DynamoDB ended while it started")]
    Ended,
}

impl DynamoDb {
    /// Opens the database in `file`, or an empty one in memory, and serves it on a free port. With [`SERVER_VARIABLE`] the empty
    /// one is a new one on that server.
    pub async fn start(file: Option<&Path>) -> Result<Self, DynamoDbError> {
        let source = match (file, std::env::var(SERVER_VARIABLE)) {
            (Some(file), _) => Source::File(file.to_owned()),
            (None, Ok(url)) if !url.is_empty() => Source::Server(url.trim_start_matches("http://").to_owned()),
            (None, _) => Source::Memory,
        };
        Self::serve(source).await
    }

    /// An empty database in memory, whatever [`SERVER_VARIABLE`] says.
    pub async fn start_embedded() -> Result<Self, DynamoDbError> {
        Self::serve(Source::Memory).await
    }

    async fn serve(source: Source) -> Result<Self, DynamoDbError> {
        let is_embedded = !matches!(source, Source::Server(_));
        let (started, start) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("dynamodb".to_owned()).spawn(move || {
            run(source, started, stopped);
            let _ = end.send(());
        })?;
        let address = start.await.map_err(|_| DynamoDbError::Ended)??;
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

/// The thread's main function: opens the database, reports the result, and serves until it is stopped.
fn run(source: Source, started: oneshot::Sender<Result<SocketAddr, DynamoDbError>>, stopped: oneshot::Receiver<()>) {
    let opened = open(source).and_then(|database| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        Ok((database, runtime, listener, address))
    });
    match opened {
        Err(error) => {
            let _ = started.send(Err(error));
        }
        Ok((opened, runtime, listener, address)) => {
            let _ = started.send(Ok(address));
            let stop = async {
                let _ = stopped.await;
            };
            let served = runtime.block_on(async {
                match opened {
                    Opened::Database(database) => dynoxide::server::serve_with_shutdown(listener, database, stop).await,
                    Opened::Server(address) => tokio::select! {
                        () = stop => Ok(()),
                        ended = own_database::serve(listener, &address) => ended.map_err(|error| error.to_string()),
                    },
                }
            });
            if let Err(error) = served {
                tracing::error!(error, "the embedded DynamoDB ended");
            }
        }
    }
}

enum Opened {
    Database(Database),
    Server(String),
}

fn open(source: Source) -> Result<Opened, DynamoDbError> {
    let (file, opened) = match source {
        Source::Memory => ("memory".to_owned(), Database::memory()),
        Source::File(file) => {
            let file = file.display().to_string();
            let opened = Database::new(&file);
            (file, opened)
        }
        Source::Server(address) => return Ok(Opened::Server(address)),
    };
    opened.map(Opened::Database).map_err(|error| DynamoDbError::Open { file, reason: error.to_string() })
}
