//! The program as a process: its start, that nothing is left after any end, and a data folder that was damaged between two runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far above the duration of any step here.
const DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);

/// A started program that has reported readiness.
struct Stack {
    child: Child,
    http: SocketAddr,
    redis: SocketAddr,
    dynamodb: SocketAddr,
}

impl Stack {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut address = |before: &str| {
            let line = lines.find(|line| line.contains(before)).unwrap_or_else(|| panic!("no line with {before}"));
            line.rsplit('/').next().unwrap().parse().unwrap()
        };
        let (http, redis) = (address("ready at"), address("Redis runs at"));
        let dynamodb = address("DynamoDB runs at");
        Self { child, http, redis, dynamodb }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    fn all_gone(&self) {
        for address in [self.http, self.dynamodb, self.redis] {
            until("nothing listens any more", || TcpStream::connect(address).is_err());
        }
    }

    /// One request in Redis' inline form, and the first line of the answer.
    fn redis(&self, request: &str) -> String {
        let socket = TcpStream::connect(self.redis).unwrap();
        (&socket).write_all(format!("{request}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// A request of alice's with its answer, which must be successful.
    async fn http(&self, method: &str, path: &str, body: Value) -> Value {
        let request = reqwest::Client::new()
            .request(method.parse().unwrap(), format!("http://{}{path}", self.http))
            .header("x-user-id", "alice")
            .header("idempotency-key", "k1");
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{method} {path}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// A failed test leaves no process behind: the program's Redis ends with it.
impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(POLL);
    }
}

fn program() -> Command {
    started_as("dev")
}

fn started_as(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hongbao"));
    command.args([subcommand, "--port", "0"]).env_remove("RUST_LOG");
    command
}

fn on(folder: &Path) -> Command {
    let mut command = program();
    command.arg("--data-dir").arg(folder);
    command
}

/// Starts a program that can't start, and returns its output.
fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn after_a_kill_redis_and_temporary_files_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(program().arg("--ephemeral").env("TMPDIR", folder.path()));
    assert_eq!(stack.redis("PING"), "+PONG");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    stack.child.kill().unwrap();
    assert!(!stack.wait().success());
    stack.all_gone();
    until("the temporary folder is gone", || std::fs::read_dir(folder.path()).unwrap().count() == 0);
}

/// A sandbox, and its URL.
fn sandbox(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ready = lines.find(|line| line.contains("ready at ")).unwrap();
    (child, ready.rsplit(' ').next().unwrap().to_owned())
}

/// A killed test ends nothing in order, and nobody else ends what it started.
#[test]
fn a_program_that_exits_with_its_parent_outlives_no_killed_one() {
    for flags in [&["sandbox"][..], &["dev", "--ephemeral"]] {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", r#""$@" & wait"#, "sh", env!("CARGO_BIN_EXE_hongbao")]).args(flags);
        let (mut parent, url) = sandbox(shell.args(["--port", "0", "--exit-with-parent"]));
        let address: SocketAddr = url.rsplit('/').next().unwrap().parse().unwrap();
        assert!(TcpStream::connect(address).is_ok());
        parent.kill().unwrap();
        parent.wait().unwrap();
        until("it ends too", || TcpStream::connect(address).is_err());
    }
}

/// The clock and a reset mean what each user has asked, too.
#[tokio::test]
async fn a_sandbox_counts_what_users_ask_by_its_own_clock() {
    for seed in [None, Some("--seed=7")] {
        let mut command = started_as("sandbox");
        command.args(seed).env("USER_GRABS", "2");
        let (mut child, url) = sandbox(&mut command);
        let client = reqwest::Client::new();
        let grab = async || {
            let grab = client.post(format!("{url}/packets/38FS4S83HF3Y07WMYNH727QYT0/grab")).header("x-user-id", "bob");
            grab.send().await.unwrap().status().as_u16()
        };
        let own = async |path: &str, body: &str| {
            let done = client.post(format!("{url}/_local/{path}")).body(body.to_owned()).send().await.unwrap();
            assert_eq!(done.status(), 200);
        };
        assert_eq!([grab().await, grab().await, grab().await], [404, 404, 429]);
        own("clock", r#"{"advance_s": 0}"#).await;
        assert_eq!(grab().await, 429, "no time has passed");
        own("clock", r#"{"advance_s": 60}"#).await;
        assert_eq!([grab().await, grab().await, grab().await], [404, 404, 429]);
        own("reset", "").await;
        assert_eq!([grab().await, grab().await, grab().await], [404, 404, 429]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A receiver of webhooks that answers each one so. Returns its URL.
fn receiver(status: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            // The whole request is there, or the rest of it counts for nothing.
            let _ = socket.read(&mut vec![0; 65_536]);
            let _ = write!(socket, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    url
}

/// Who answers 410 once gets nothing any more. So each start says it, and how that ends.
#[tokio::test]
async fn a_disabled_receiver_is_said_in_the_log_and_at_each_start_until_it_is_enabled() {
    let folder = tempfile::tempdir().unwrap();
    let url = receiver("410 Gone");
    let start = |errors: &Path| {
        let webhooks = ["--webhook-url", &url, "--webhook-secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
        Stack::start(on(folder.path()).args(webhooks).stderr(File::create(errors).unwrap()))
    };
    let says = |errors: &Path| {
        let text = std::fs::read_to_string(errors).unwrap();
        text.contains("the receiver of webhooks is disabled") && text.contains("PUT /operator/webhooks")
    };
    let [first, second, third] = ["1", "2", "3"].map(|name| folder.path().join(name));
    let mut stack = start(&first);
    deposit(&stack, "d1").await;
    assert_eq!(stack.http("GET", "/operator/webhooks", Value::Null).await["status"], "well");
    stack.http("POST", "/packets", json!({"split": "random", "total_amount": 100, "count": 3})).await;
    until("it is said", || says(&first));
    let known = stack.http("GET", "/operator/webhooks", Value::Null).await;
    assert_eq!(
        (&known["status"], &known["last_answer"]),
        (&json!("disabled"), &json!("the receiver answered 410 Gone"))
    );
    assert!(known["since"].is_string() && known["oldest_waiting_at"].is_string(), "{known}");
    stop(&mut stack);

    let mut stack = start(&second);
    until("it is said again", || says(&second));
    let enabled = stack.http("PUT", "/operator/webhooks", json!({"enabled": true})).await;
    assert_eq!((&enabled["status"], &enabled["since"]), (&json!("well"), &Value::Null));
    assert!(enabled["enabled_at"].is_string(), "{enabled}");
    assert_eq!(stack.http("PUT", "/operator/webhooks", json!({"enabled": false})).await["status"], "disabled");
    assert_eq!(stack.http("PUT", "/operator/webhooks", json!({"enabled": true})).await["status"], "well");
    stop(&mut stack);
    cut(&folder.path().join("webhooks.sqlite"), |_| 0);

    let mut stack = start(&third);
    assert_eq!(stack.http("GET", "/operator/webhooks", Value::Null).await["status"], "well");
    stop(&mut stack);
    assert!(!says(&third));
}

/// What other users of this machine may do with a file or folder.
fn of_others(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o077
}

/// All files and folders below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { [vec![path.clone()], below(&path)].concat() } else { vec![path] })
        .collect()
}

#[tokio::test]
async fn other_users_of_the_machine_can_read_nothing_of_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let webhooks = ["--webhook-url", "http://127.0.0.1:1/", "--webhook-secret", secret];
    let mut stack = Stack::start(on(&data).args(webhooks));
    deposit(&stack, "d1").await;
    let all = below(&data);
    let names: Vec<_> = all.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    for name in [LEDGER, "dynamodb.sqlite-wal", "webhooks.sqlite", "appendonlydir", "redis.log", "stores.env", "log"] {
        assert!(names.contains(&name), "no {name}: {names:?}");
    }
    for path in all.iter().chain([&data]) {
        assert_eq!(of_others(path), 0, "{}", path.display());
    }
    stop(&mut stack);
}

#[tokio::test]
async fn money_and_promises_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(&mut on(folder.path()));
    let deposit = stack.http("PUT", "/wallets/alice/deposits/d1", json!({"amount": 1_000})).await;
    assert_eq!(deposit["balance"], 1_000);
    let body = json!({"split": "random", "total_amount": 100, "count": 3});
    let packet = stack.http("POST", "/packets", body.clone()).await;
    let grab = format!("/packets/{}/grab", packet["packet_id"].as_str().unwrap());
    let mut promised = stack.http("POST", &grab, json!({})).await;
    assert_eq!((&promised["outcome"], &promised["replayed"]), (&json!("grabbed"), &json!(false)));
    stack.child.kill().unwrap();
    stack.wait();

    stack = Stack::start(&mut on(folder.path()));
    promised["replayed"] = json!(true);
    assert_eq!(stack.http("POST", &grab, json!({})).await, promised);
    assert_eq!(stack.http("POST", "/packets", body).await, packet, "the same key sends nothing anew");
    let balance = 900 + promised["amount"].as_i64().unwrap();
    assert_eq!(stack.http("GET", "/me/wallet", Value::Null).await["balance"], balance);
}

#[test]
fn a_signal_stops_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let mut stack = Stack::start(&mut on(folder.path()));
        let mut health = TcpStream::connect(stack.http).unwrap();
        write!(health, "GET /_local/health HTTP/1.1\r\nHost: {}\r\n\r\n", stack.http).unwrap();
        let mut status = [0; 12];
        health.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        // An open idle connection must not delay the end.
        stack.signal(signal);
        assert_eq!(stack.wait().code(), Some(0));
        for address in [stack.http, stack.dynamodb, stack.redis] {
            assert!(TcpStream::connect(address).is_err(), "everything ends before the process");
        }
        let log = std::fs::read_to_string(folder.path().join("redis/redis.log")).unwrap();
        assert!(log.contains("bye bye"), "Redis was not stopped: {log}");
    }
}

#[test]
fn the_program_ends_when_redis_does() {
    let mut stack = Stack::start(program().arg("--ephemeral").stderr(Stdio::piped()));
    let socket = TcpStream::connect(stack.redis).unwrap();
    (&socket).write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    assert_eq!(stack.wait().code(), Some(1));
    let mut error = String::new();
    stack.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(
        error.contains("error: the Redis server ended by itself (exit status: 0), and the local stack with it: "),
        "{error}"
    );
    stack.all_gone();
}

/// On Linux all of 127.0.0.0/8 leads to this machine, and to nowhere else.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_listens_at_the_given_address_and_nowhere_else() {
    let stack = Stack::start(program().args(["--ephemeral", "--listen", "127.0.0.2"]));
    assert_eq!(stack.http.ip().to_string(), "127.0.0.2");
    assert!(stack.http("GET", "/me/wallet", Value::Null).await["balance"].is_number());
    assert!(TcpStream::connect(("127.0.0.1", stack.http.port())).is_err());
    for store in [stack.redis, stack.dynamodb] {
        assert_eq!(store.ip().to_string(), "127.0.0.1", "the stores are for this machine only");
    }
}

#[test]
fn a_failed_start_prints_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let stack = Stack::start(&mut on(folder.path()));
    let error = refused(on(folder.path()));
    assert!(error.starts_with("error: the data folder ") && error.contains("in use"), "{error}");

    let mut same_port = Command::new(env!("CARGO_BIN_EXE_hongbao"));
    same_port.args(["dev", "--ephemeral", "--port", &stack.http.port().to_string()]);
    let error = refused(same_port);
    assert!(error.starts_with(&format!("error: port {} can't be used: ", stack.http.port())), "{error}");
    assert_eq!(error.lines().count(), 1);

    let mut no_server = program();
    no_server.arg("--ephemeral").env("HONGBAO_REDIS_SERVER", "/nonexistent/redis-server");
    let error = refused(no_server);
    assert!(error.starts_with("error: no redis-server or valkey-server was found"), "{error}");

    // One that is not there, and one that never answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [gone, mute.local_addr().unwrap()] {
        let mut unreachable = program();
        unreachable.args(["--ephemeral", "--redis-url", &format!("redis://{address}")]);
        // Tests on slow machines wait longer for Redis.
        unreachable.env_remove("REDIS_CONNECT_TIMEOUT_MS").env_remove("REDIS_RESPONSE_TIMEOUT_MS");
        let error = refused(unreachable);
        assert!(error.starts_with("error: Redis can't be reached: "), "{error}");
        assert_eq!(error.lines().count(), 1);
    }

    let mut no_cluster = program();
    no_cluster.args(["--ephemeral", "--redis-cluster", "--redis-url", &format!("redis://{}", stack.redis)]);
    let error = refused(no_cluster);
    let mends = "is no cluster: leave out --redis-cluster, or set REDIS_CLUSTER=false";
    assert_eq!(error, format!("error: Redis can't be reached: the hot store at {} {mends}\n", stack.redis));

    let mut no_redis = program();
    no_redis.arg("--ephemeral").env("HONGBAO_REDIS_SERVER", env!("CARGO_MANIFEST_PATH"));
    let error = refused(no_redis);
    assert!(error.contains("the Redis server ended by itself") && error.contains("denied"), "{error}");
}

const LEDGER: &str = "dynamodb.sqlite";

type Change = fn(&Path);

async fn deposit(stack: &Stack, id: &str) -> Value {
    stack.http("PUT", &format!("/wallets/alice/deposits/{id}"), json!({"amount": 100})).await
}

async fn balance(stack: &Stack) -> Value {
    stack.http("GET", "/wallets/alice", Value::Null).await["balance"].clone()
}

fn stop(stack: &mut Stack) {
    stack.signal(Signal::TERM);
    assert_eq!(stack.wait().code(), Some(0));
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-R").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

/// A copy of `folder`, changed.
fn changed(folder: &Path, change: impl FnOnce(&Path)) -> TempDir {
    let other = tempfile::tempdir().unwrap();
    copy(folder, other.path());
    change(other.path());
    other
}

/// The one line of a start that is refused.
fn refusal(folder: &Path) -> String {
    let error = refused(on(folder));
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("error: "), "{error}");
    error
}

fn cut(file: &Path, length: impl FnOnce(u64) -> u64) {
    let file = File::options().write(true).open(file).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

#[tokio::test]
async fn a_damaged_or_missing_ledger_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(&mut on(folder.path()));
    deposit(&stack, "d1").await;
    stop(&mut stack);
    let changes: [(Change, &str); 6] = [
        (|ledger| cut(ledger, |length| length / 2), "is damaged ("),
        (|ledger| cut(ledger, |length| length - 4_096), "is damaged ("),
        (
            |ledger| {
                let file = File::options().write(true).open(ledger).unwrap();
                let middle = file.metadata().unwrap().len() / 2 / 4_096 * 4_096;
                file.write_all_at(&[0xa5; 4_096], middle).unwrap();
            },
            "is damaged (",
        ),
        (
            |ledger| File::options().write(true).open(ledger).unwrap().write_all_at(&[0; 100], 0).unwrap(),
            "is damaged (",
        ),
        (|ledger| cut(ledger, |_| 0), "is missing or empty"),
        (|ledger| std::fs::remove_file(ledger).unwrap(), "is missing or empty"),
    ];
    for (number, (change, expected)) in changes.into_iter().enumerate() {
        let other = changed(folder.path(), |folder| change(&folder.join(LEDGER)));
        let error = refusal(other.path());
        assert!(error.contains(expected), "{number}: {error}");
    }
    // Only Redis' data are left.
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("redis")).unwrap();
    copy(&folder.path().join("redis"), &other.path().join("redis"));
    assert!(refusal(other.path()).contains("is missing or empty"));

    let stack = Stack::start(&mut on(folder.path()));
    assert_eq!(balance(&stack).await, 100);
}

/// A database with these statements instead of the ledger.
fn database(folder: &Path, statements: &str) {
    let database = rusqlite::Connection::open(folder.join(LEDGER)).unwrap();
    database.execute_batch(statements).unwrap();
}

#[tokio::test]
async fn a_ledger_of_another_program_or_of_a_newer_version_is_refused_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(&mut on(folder.path()));
    deposit(&stack, "d1").await;
    stop(&mut stack);
    let newer = changed(folder.path(), |folder| {
        database(folder, "UPDATE _config SET value = '1000' WHERE key = 'schema_version'");
    });
    let foreign = tempfile::tempdir().unwrap();
    database(foreign.path(), "CREATE TABLE note (text)");
    for (folder, expected) in [(newer, "newer"), (foreign, "is the database of another program")] {
        let before = std::fs::read(folder.path().join(LEDGER)).unwrap();
        let error = refusal(folder.path());
        assert!(error.contains(expected), "{error}");
        assert!(std::fs::read(folder.path().join(LEDGER)).unwrap() == before, "{expected}: the ledger was changed");
    }
}

/// Starts that fail and ends that are cut off leave files behind that look like damage.
#[tokio::test]
async fn a_sound_ledger_is_never_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = 0;
    for (round, killed_after_ms) in [0, 1, 2, 4, 8, 16, 32, 64].into_iter().enumerate() {
        let mut stack = Stack::start(&mut on(folder.path()));
        for number in 0..30 {
            deposit(&stack, &format!("d{round}-{number}")).await;
            expected += 100;
        }
        assert_eq!(balance(&stack).await, expected);
        if round % 2 == 0 {
            // The kill meets the end at different steps.
            stack.signal(Signal::TERM);
            std::thread::sleep(Duration::from_millis(killed_after_ms));
        }
        let _ = stack.child.kill();
        stack.wait();
        stack.all_gone();
        let mut without_redis = on(folder.path());
        without_redis.env("HONGBAO_REDIS_SERVER", "/nonexistent/redis-server");
        assert!(refused(without_redis).starts_with("error: no redis-server or valkey-server was found"));
    }
    // Redis may forget everything: the ledger has it.
    std::fs::remove_dir_all(folder.path().join("redis")).unwrap();
    let stack = Stack::start(&mut on(folder.path()));
    assert_eq!(balance(&stack).await, expected);
}
