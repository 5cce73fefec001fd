//! A server of `PostgreSQL` as a process of its own, with its data in a temporary folder.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres_ledger::Database;
use rustix::process::{Pid, Signal, kill_process};
use shared::redis::Authorities;
use tempfile::TempDir;

/// The environment variable with the address of a server that tests share. `beside-postgres` sets it.
pub const URL_VARIABLE: &str = "HONGBAO_TEST_POSTGRES_URL";

const STARTS_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// A ledger's tables in a schema with this beginning: on the server that is given, or else on one that is started for it.
pub async fn database(name: &str) -> (Option<Postgres>, Database) {
    shared::redis::install_crypto_provider();
    let given = std::env::var(URL_VARIABLE).ok();
    let own = given.is_none().then(|| Postgres::start(&["fsync=off"]));
    let url = own.as_ref().map(Postgres::url).or(given).unwrap();
    let schema = format!("{name}{:x}", rand::random::<u64>());
    let database = Database::new(&url, &Authorities::System).unwrap().in_schema(&schema);
    database.migrate().await.unwrap();
    (own, database)
}

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub struct Postgres {
    process: Child,
    settings: Vec<String>,
    port: u16,
    folder: TempDir,
}

/// The folder of the server's programs: the newest of Debian's packages or of Homebrew's, or else one in the path.
pub fn programs() -> PathBuf {
    let has_all = |bin: &PathBuf| ["initdb", "pg_basebackup", "pg_isready"].iter().all(|name| bin.join(name).is_file());
    let homes = ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt"];
    let packages = homes.iter().filter_map(|home| std::fs::read_dir(home).ok()).flatten().filter_map(Result::ok);
    let newest = packages.map(|entry| entry.path().join("bin")).filter(has_all).max();
    let in_path = || std::env::var_os("PATH").and_then(|path| std::env::split_paths(&path).find(has_all));
    newest.or_else(in_path).expect("PostgreSQL is not installed: run scripts/install-tools.sh postgres")
}

/// The user that a package makes for the server, which refuses to run as root.
fn servant() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let postgres = users.lines().find(|line| line.starts_with("postgres:")).expect("a user named postgres");
    let ids: Vec<u32> = postgres.split(':').skip(2).take(2).map(|id| id.parse().unwrap()).collect();
    Some((ids[0], ids[1]))
}

fn program(name: &str) -> Command {
    let mut command = Command::new(programs().join(name));
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    if let Some((user, group)) = servant() {
        command.uid(user).gid(group).current_dir("/");
    }
    command
}

/// A folder that the server may write.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("hongbao-postgres").tempdir().unwrap();
    own(folder.path());
    folder
}

fn own(path: &Path) {
    if let Some((user, group)) = servant() {
        std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
    }
}

fn run(mut command: Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Postgres {
    /// Starts a new server with these settings, such as `fsync=off`.
    pub fn start(settings: &[&str]) -> Self {
        let folder = folder();
        let mut initdb = program("initdb");
        initdb.args(["--username", "hongbao", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"]);
        initdb.arg("--pgdata").arg(folder.path().join("data"));
        run(initdb);
        Self::serve(folder, free_port(), settings.iter().map(|&one| one.to_owned()).collect())
    }

    /// Starts a standby that follows this server. Once it does, this server can wait for it.
    #[must_use]
    pub fn standby(&self, name: &str) -> Self {
        let folder = folder();
        let mut copy = program("pg_basebackup");
        copy.args(["--dbname", &format!("{} application_name={name}", self.connection())]).arg("--write-recovery-conf");
        copy.args(["--checkpoint", "fast", "--no-sync"]).arg("--pgdata").arg(folder.path().join("data"));
        run(copy);
        Self::serve(folder, free_port(), Vec::new())
    }

    fn serve(folder: TempDir, port: u16, settings: Vec<String>) -> Self {
        let process = spawn(folder.path(), port, &settings);
        let mut server = Self { process, settings, port, folder };
        server.wait_until_ready();
        server
    }

    fn wait_until_ready(&mut self) {
        let begun = Instant::now();
        loop {
            let ready = program("pg_isready").args(["--dbname", &self.connection()]).stdout(Stdio::null()).status();
            if ready.unwrap().success() {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < STARTS_WITHIN, "PostgreSQL did not start: {}", log());
            // It refuses to start as long as a process of the killed one has not ended.
            if self.process.try_wait().unwrap().is_some() {
                self.process = spawn(self.folder.path(), self.port, &self.settings);
            }
            std::thread::sleep(POLL);
        }
    }

    /// The address of its database.
    pub fn url(&self) -> String {
        format!("postgres://hongbao@127.0.0.1:{}/postgres", self.port)
    }

    /// The server's port, on the loopback interface.
    pub const fn port(&self) -> u16 {
        self.port
    }

    fn connection(&self) -> String {
        format!("host=127.0.0.1 port={} user=hongbao dbname=postgres", self.port)
    }

    /// Kills the server and all its processes at once.
    pub fn kill(&mut self) {
        let children = Command::new("pgrep").args(["-P", &self.process.id().to_string()]).output().unwrap();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        for child in String::from_utf8(children.stdout).unwrap().lines() {
            // It may have ended with its parent.
            let _ = kill_process(Pid::from_raw(child.parse().unwrap()).unwrap(), Signal::KILL);
        }
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        self.process = spawn(self.folder.path(), self.port, &self.settings);
        self.wait_until_ready();
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        let mut promote = program("pg_ctl");
        promote.args(["promote", "--wait", "--pgdata"]).arg(self.folder.path().join("data"));
        run(promote);
    }

    /// Runs statements of SQL, and returns what `psql` prints of their rows.
    pub fn psql(&self, statements: &str) -> String {
        psql(&self.connection(), statements)
    }
}

/// Runs statements of SQL in the database with this address, and returns what `psql` prints of their rows.
pub fn psql(database: &str, statements: &str) -> String {
    let mut psql = program("psql");
    psql.args([
        "--no-psqlrc",
        "--quiet",
        "--tuples-only",
        "--no-align",
        "--set",
        "ON_ERROR_STOP=1",
        "--dbname",
        database,
    ]);
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(statements.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{statements}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A port that nothing uses now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(folder: &Path, port: u16, settings: &[String]) -> Child {
    let data = folder.join("data");
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut server = program("postgres");
    server.arg("-D").arg(data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    server.args(["-c", "unix_socket_directories=", "-c", "max_connections=300", "-c", "shared_buffers=128MB"]);
    server.args(settings.iter().flat_map(|setting| ["-c", setting]));
    server.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
