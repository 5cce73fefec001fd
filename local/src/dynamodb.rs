//! `DynamoDB` inside the process: dynoxide, in memory or in a file.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use dynoxide::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

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
    /// Opens the database in `file`, or an empty one in memory, and serves it on a free port.
    pub async fn start(file: Option<&Path>) -> Result<Self, DynamoDbError> {
        let file = file.map(Path::to_owned);
        let (started, start) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("dynamodb".to_owned()).spawn(move || {
            run(file.as_deref(), started, stopped);
            let _ = end.send(());
        })?;
        let address = start.await.map_err(|_| DynamoDbError::Ended)??;
        Ok(Self { address, stop, ended })
    }

    /// The endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
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
fn run(
    file: Option<&Path>,
    started: oneshot::Sender<Result<SocketAddr, DynamoDbError>>,
    stopped: oneshot::Receiver<()>,
) {
    let opened = open(file).and_then(|database| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        Ok((database, runtime, listener, address))
    });
    match opened {
        Err(error) => {
            let _ = started.send(Err(error));
        }
        Ok((database, runtime, listener, address)) => {
            let _ = started.send(Ok(address));
            let stop = async {
                let _ = stopped.await;
            };
            if let Err(error) = runtime.block_on(dynoxide::server::serve_with_shutdown(listener, database, stop)) {
                tracing::error!(error, "the embedded DynamoDB ended");
            }
        }
    }
}

fn open(file: Option<&Path>) -> Result<Database, DynamoDbError> {
    let name = file.map_or_else(|| "memory".to_owned(), |file| file.display().to_string());
    let opened = match file {
        None => Database::memory(),
        Some(_) => Database::new(&name),
    };
    opened.map_err(|error| DynamoDbError::Open { file: name, reason: error.to_string() })
}
