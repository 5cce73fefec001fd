//! Real Redis or Valkey servers for tests: the program that [`server_program::find`] finds, on free local ports, gone with the
//! value.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test that cannot start its servers has failed.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, Value, cmd};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server_program;

/// How long a server may take for anything.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// How often to look whether it is ready.
const POLL: Duration = Duration::from_millis(10);

/// A port that nothing listens on, outside the range that outgoing connections take theirs from.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    const PORTS: std::ops::Range<u16> = 10_000..32_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test binaries that run side by side begin at different places.
    let start = std::process::id().wrapping_mul(7919);
    (0..PORTS.len())
        .map(|_| {
            let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).into());
            PORTS.start + u16::try_from(offset % u32::from(PORTS.end - PORTS.start)).unwrap()
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port")
}

/// Calls `attempt` until it returns something.
///
/// # Panics
/// If it does not within 20 seconds.
pub async fn poll<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(start.elapsed() < START_TIMEOUT, "gave up waiting for {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// One Redis server without persistence.
#[derive(Debug)]
pub struct TestServer {
    process: Option<Child>,
    port: u16,
    dir: TempDir,
    args: Vec<String>,
}

impl TestServer {
    /// Starts a server with these further arguments, and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(args: &[&str]) -> Self {
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        for _ in 0..5 {
            let dir = TempDir::new().unwrap();
            let mut server = Self { process: None, port: free_port(), dir, args: args.clone() };
            server.spawn();
            if server.is_up().await {
                return server;
            }
            // Another program has taken its port meanwhile.
        }
        panic!("{} does not start with {args:?}", program().display());
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its URL, without a password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends the process at once, as a crash would.
    ///
    /// # Panics
    /// If it cannot be ended.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Starts it again on the same port and directory, and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&mut self) {
        self.kill();
        self.spawn();
        assert!(self.is_up().await, "the server does not start again");
    }

    /// Starts it again with other arguments, on the same port and directory, and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart_with(&mut self, args: &[&str]) {
        self.args = args.iter().map(ToString::to_string).collect();
        self.restart().await;
    }

    /// Where its files are.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Freezes the process: it keeps its connections and answers nothing.
    ///
    /// # Panics
    /// If it does not run.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    /// Lets a frozen process go on.
    ///
    /// # Panics
    /// If it does not run.
    pub fn cont(&self) {
        self.signal("-CONT");
    }

    /// The server's answer to a command, on a connection of its own.
    ///
    /// # Panics
    /// If there is none.
    pub async fn command<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let client = redis::Client::open(self.url()).unwrap();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(START_TIMEOUT))
            .set_response_timeout(Some(START_TIMEOUT));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        command.query_async(&mut connection).await.unwrap()
    }

    /// How many connections it has accepted. Each call of this makes one more.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn accepted(&self) -> u64 {
        let stats: String = self.command(cmd("INFO").arg("stats")).await;
        let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.expect("a count").trim().parse().unwrap()
    }

    fn spawn(&mut self) {
        let process = Command::new(program())
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(self.dir.path())
            // A serverless Redis may refuse it in scripts, so nothing may need it.
            .args(["--rename-command", "TIME", ""])
            .args(&self.args)
            .stdout(Stdio::null())
            .spawn()
            .expect("a server that can be run");
        self.process = Some(process);
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("a running server");
        assert!(Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap().success());
    }

    /// Waits until the server answers. Returns false if it ends instead.
    async fn is_up(&mut self) -> bool {
        let port = self.port;
        let process = self.process.as_mut().expect("a started server");
        poll("the server to answer", async || {
            if process.try_wait().unwrap().is_some() {
                return Some(false);
            }
            answers(port).await.then_some(true)
        })
        .await
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether a server there serves commands, or at least asks for a password.
async fn answers(port: u16) -> bool {
    let ping = async {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
        socket.write_all(b"PING\r\n").await.ok()?;
        let mut answer = [0; 16];
        let len = socket.read(&mut answer).await.ok()?;
        Some(answer[..len].starts_with(b"+PONG") || answer[..len].starts_with(b"-NOAUTH"))
    };
    tokio::time::timeout(Duration::from_secs(1), ping).await.ok().flatten().unwrap_or(false)
}

fn program() -> PathBuf {
    let program = server_program::find();
    program.expect("a Redis or Valkey server: scripts/install-tools.sh installs one, HONGBAO_REDIS_SERVER names one")
}

/// Whether the server was built with TLS. Without a certificate it can't serve TLS and ends at once, and says why. A build without TLS
/// has the same settings, so they tell nothing.
///
/// # Panics
/// If it can't be run.
#[must_use]
pub fn serves_tls() -> bool {
    let port = free_port().to_string();
    let options = ["--port", "0", "--bind", "127.0.0.1", "--save", "", "--tls-port", &port];
    let output = Command::new(program()).args(options).output().expect("a server that can be run");
    !String::from_utf8_lossy(&output.stdout).contains("Failed finding TLS support")
}

/// A certificate authority, and a certificate of it for servers on this machine.
#[derive(Debug)]
pub struct TestTls {
    dir: TempDir,
}

impl TestTls {
    /// Makes both.
    ///
    /// # Panics
    /// If they can't be made or written.
    #[must_use]
    pub fn new() -> Self {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With the same name as its authority, a certificate would count as signed by itself.
        ca.distinguished_name.push(DnType::CommonName, "authority");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &ca).unwrap();
        let dir = TempDir::new().unwrap();
        let files = [("ca.pem", ca.pem()), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())];
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self { dir }
    }

    /// Makes both for a server. Returns nothing if the server was built without TLS, and says in one line that `what` is skipped.
    /// The line goes to standard error itself: the test harness hides all other output of a test that passes.
    ///
    /// # Panics
    /// If they can't be made or written, or if no server can be run.
    #[must_use]
    pub fn for_server(what: &str) -> Option<Self> {
        if serves_tls() {
            return Some(Self::new());
        }
        let program = program();
        let _ = writeln!(std::io::stderr(), "{what}: skipped, since {} was built without TLS", program.display());
        None
    }

    /// The authority's certificate (PEM).
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// The arguments of a server that also serves TLS on `port`.
    #[must_use]
    pub fn args(&self, port: u16) -> Vec<String> {
        let file = |name: &str| self.dir.path().join(name).to_string_lossy().into_owned();
        let (port, [cert, key, ca]) = (port.to_string(), ["cert.pem", "key.pem", "ca.pem"].map(file));
        let options = [
            ["--tls-port", &port],
            ["--tls-auth-clients", "no"],
            ["--tls-cert-file", &cert],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &ca],
        ];
        options.as_flattened().iter().map(ToString::to_string).collect()
    }
}

impl Default for TestTls {
    fn default() -> Self {
        Self::new()
    }
}

/// A cluster.
#[derive(Debug)]
pub struct TestCluster {
    /// Its primaries, each with an equal share of the slots, in their order.
    pub nodes: Vec<TestServer>,
    /// Its replicas, one for each primary, or none.
    pub replicas: Vec<TestServer>,
    /// The ports for TLS of the primaries, then of the replicas; none: it serves no TLS.
    tls_ports: Vec<u16>,
}

impl TestCluster {
    const SLOTS: usize = 16_384;

    /// Starts a cluster of `size` primaries without replicas, and waits until all of them serve.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(size: usize) -> Self {
        Self::start_of(size, 0, None).await
    }

    /// Starts a cluster of `size` primaries with a replica each, and waits until all of them serve.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_with_replicas(size: usize, tls: Option<&TestTls>) -> Self {
        Self::start_of(size, size, tls).await
    }

    async fn start_of(size: usize, replicas: usize, tls: Option<&TestTls>) -> Self {
        let (mut nodes, mut tls_ports) = (Vec::new(), Vec::new());
        for _ in 0..size + replicas {
            // By default the bus takes a port that may be beyond the last, or another test's. The shards that live go on
            // serving when one is dead, as a managed cluster's do.
            let bus = free_port().to_string();
            let options = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-require-full-coverage", "no"];
            let mut options = options.map(str::to_owned).to_vec();
            // The topology lists a replica only once it has got something: a ping is enough.
            let replication = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
            options.extend(replication.map(str::to_owned));
            if let Some(tls) = tls {
                let port = free_port();
                options.extend(tls.args(port));
                options.extend(["--tls-cluster", "yes", "--tls-replication", "yes"].map(str::to_owned));
                tls_ports.push(port);
            }
            let options: Vec<_> = options.iter().map(String::as_str).collect();
            nodes.push((TestServer::start(&options).await, bus));
        }
        let (first, first_bus) = &nodes[0];
        let port = tls_ports.first().copied().unwrap_or(first.port());
        for (i, (node, _)) in nodes.iter().enumerate() {
            if i < size {
                let (from, to) = (Self::SLOTS * i / size, Self::SLOTS * (i + 1) / size - 1);
                let () = node.command(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(from).arg(to)).await;
            }
            if i > 0 {
                let () = node.command(cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(port).arg(first_bus)).await;
            }
        }
        let mut nodes: Vec<_> = nodes.into_iter().map(|(node, _)| node).collect();
        let replicas = nodes.split_off(size);
        let cluster = Self { nodes, replicas, tls_ports };
        for (primary, replica) in cluster.nodes.iter().zip(&cluster.replicas) {
            let id: String = primary.command(cmd("CLUSTER").arg("MYID")).await;
            poll("the replica to know its primary", async || {
                let known: String = replica.command(cmd("CLUSTER").arg("NODES")).await;
                known.contains(&id).then_some(())
            })
            .await;
            let () = replica.command(cmd("CLUSTER").arg("REPLICATE").arg(&id)).await;
        }
        cluster.ready().await;
        cluster
    }

    /// Waits until every node says that the cluster is whole, and every replica follows its primary.
    ///
    /// # Panics
    /// If one does not.
    pub async fn ready(&self) {
        let size = self.nodes.len() + self.replicas.len();
        for node in self.nodes.iter().chain(&self.replicas) {
            poll("the cluster", async || {
                let info: String = node.command(cmd("CLUSTER").arg("INFO")).await;
                let is_whole = info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_slots_ok:{}\r", Self::SLOTS))
                    && info.contains(&format!("cluster_known_nodes:{size}\r"));
                is_whole.then_some(())
            })
            .await;
        }
        for replica in &self.replicas {
            poll("the replica", async || {
                let info: String = replica.command(cmd("INFO").arg("replication")).await;
                info.contains("master_link_status:up").then_some(())
            })
            .await;
        }
        for node in &self.nodes {
            poll("the topology to list the replicas", async || {
                let ranges: Vec<Vec<Value>> = node.command(cmd("CLUSTER").arg("SLOTS")).await;
                let replicas: usize = ranges.iter().map(|range| range.len() - 3).sum();
                (replicas == self.replicas.len()).then_some(())
            })
            .await;
        }
    }

    /// How many connections each node has accepted: the primaries, then the replicas.
    ///
    /// # Panics
    /// If one does not answer.
    pub async fn accepted(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for node in self.nodes.iter().chain(&self.replicas) {
            all.push(node.accepted().await);
        }
        all
    }

    /// How many they have accepted since [`Self::accepted`] said `before`.
    ///
    /// # Panics
    /// If one does not answer.
    pub async fn accepted_since(&self, before: &[u64]) -> Vec<u64> {
        // One of them is that of the question itself.
        self.accepted().await.iter().zip(before).map(|(after, before)| after - before - 1).collect()
    }

    /// The URLs of all its primaries.
    #[must_use]
    pub fn url(&self) -> String {
        self.nodes.iter().map(TestServer::url).collect::<Vec<_>>().join(",")
    }

    /// The URL of its first primary, over TLS.
    ///
    /// # Panics
    /// If it serves no TLS.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_ports[0])
    }
}
