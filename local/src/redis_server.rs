//! A Redis or Valkey server as a child process that never outlives its parent.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use shared::redis::server_program;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::data_dir::{DataDir, lock_file, lock_within};

const SUPERVISOR: &str = include_str!("redis_server.sh");

/// How long a server may take until it answers, including the read of its append-only file.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// How long the server of a killed stack may take to end.
const PREVIOUS_ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How long the supervisor may take to end: it waits 5 s before it kills the server.
const STOPS_WITHIN: Duration = Duration::from_secs(8);
const POLL: Duration = Duration::from_millis(3);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// A free port is found by binding one and releasing it, so another process may take it first.
const PORTS_TRIED: usize = 5;
const LOG_FILE: &str = "redis.log";
/// The log line of Redis and Valkey when the port is taken.
const PORT_TAKEN: &str = "Address already in use";
const LOG_LINES_SHOWN: usize = 8;
const NOT_STARTED: &str = "the Redis server can't be started";

/// A running server.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    /// The server lives as long as this stays open.
    lifeline: ChildStdin,
    ended: watch::Receiver<Option<String>>,
}

impl RedisServer {
    /// Starts a server on its own free port with its data in `data`, and waits until it answers.
    pub async fn start(data: &DataDir) -> anyhow::Result<Self> {
        let Some(program) = server_program::find() else {
            let variable = server_program::VARIABLE;
            bail!(
                "no redis-server or valkey-server was found: run scripts/install-tools.sh, name one in {variable}, or give \
                 --redis-url"
            );
        };
        let folder = data.path().join("redis");
        std::fs::create_dir_all(&folder).context(NOT_STARTED)?;
        let lock = lock_file(&folder.join("lock")).context(NOT_STARTED)?;
        if !lock_within(&lock, PREVIOUS_ENDS_WITHIN).await.context(NOT_STARTED)? {
            bail!("an earlier Redis server still runs on {}", folder.display());
        }
        let mut tries_left = PORTS_TRIED;
        loop {
            tries_left -= 1;
            let port = free_port().context(NOT_STARTED)?;
            let log_start = std::fs::metadata(folder.join(LOG_FILE)).map_or(0, |log| log.len());
            let mut server = Self::spawn(&program, data, &folder, port, &lock).context(NOT_STARTED)?;
            match server.ready(&folder, log_start).await {
                Ok(()) => return Ok(server),
                Err(error) if tries_left > 0 && error.to_string().contains(PORT_TAKEN) => server.stop().await,
                Err(error) => return Err(error),
            }
        }
    }

    fn spawn(program: &Path, data: &DataDir, folder: &Path, port: u16, lock: &File) -> io::Result<Self> {
        let log = folder.join(LOG_FILE);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SUPERVISOR, "redis-supervisor"]);
        command.arg(if data.is_temporary() { data.path().as_os_str() } else { OsStr::new("") });
        command.arg(program).arg("--dir").arg(folder).arg("--logfile").arg(&log);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
        // Only this server has the claims that settle has yet to persist, so full memory must be an error, never an
        // eviction.
        command.args(["--save", "", "--maxmemory-policy", "noeviction"]);
        command.args(["--appendonly", if data.is_temporary() { "no" } else { "yes" }, "--appendfsync", "everysec"]);
        command.stdin(Stdio::piped());
        // The server inherits the lock, so the lock outlasts a killed stack until its server ends.
        command.stdout(lock.try_clone()?);
        command.stderr(File::options().create(true).append(true).open(&log)?);
        // A terminal sends Ctrl-C to the whole process group. The stack must end first, and needs Redis until then.
        command.process_group(0);
        let mut child = command.spawn()?;
        let lifeline = child.stdin.take().ok_or_else(|| io::Error::other("the child has no standard input"))?;
        let (end, ended) = watch::channel(None);
        tokio::spawn(async move {
            let how = match child.wait().await {
                Ok(status) => format!("ended by itself ({status})"),
                Err(error) => format!("can't be waited for ({error})"),
            };
            end.send_replace(Some(how));
        });
        Ok(Self { port, lifeline, ended })
    }

    /// Waits until the server on `folder` answers. Another server might have its port.
    async fn ready(&mut self, folder: &Path, log_start: u64) -> anyhow::Result<()> {
        let not_ready = |what: String| {
            let log = log_end(&folder.join(LOG_FILE), log_start);
            bail!("the Redis server {what}; the end of its log:\n{log}")
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline {
            if let Some(how) = self.ended.borrow().clone() {
                return not_ready(how);
            }
            if answers_for(address, folder).await {
                return Ok(());
            }
            sleep(POLL).await;
        }
        not_ready(format!("did not answer within {READY_WITHIN:?}"))
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Waits for the server's end and returns how it ended.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "is no longer watched".to_owned(),
        }
    }

    /// Ends the server after it has written its file, and waits until it is gone.
    pub async fn stop(self) {
        let Self { lifeline, mut ended, .. } = self;
        drop(lifeline);
        if timeout(STOPS_WITHIN, ended.wait_for(Option::is_some)).await.is_err() {
            tracing::warn!("the Redis server did not end in time");
        }
    }
}

/// Asks the server at `address` whether it is ready and keeps its data in `folder`.
async fn answers_for(address: SocketAddr, folder: &Path) -> bool {
    let ask = async {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(b"CONFIG GET dir\r\nPING\r\n").await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"+PONG\r\n") {
            // An error such as LOADING means that it is not ready yet.
            let refused = answer.starts_with(b"-") || answer.windows(3).any(|bytes| bytes == b"\r\n-");
            if refused || socket.read_buf(&mut answer).await? == 0 {
                return Ok(false);
            }
        }
        let dir = format!("\r\n{}\r\n", folder.display());
        Ok::<_, io::Error>(String::from_utf8_lossy(&answer).contains(&dir))
    };
    matches!(timeout(ANSWER_WITHIN, ask).await, Ok(Ok(true)))
}

fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The last log lines since `start`.
fn log_end(log: &Path, start: u64) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let since = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or(&bytes);
    let text = String::from_utf8_lossy(since);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}
