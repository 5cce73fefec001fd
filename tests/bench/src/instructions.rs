//! Instructions that the server executes for one call of a script, with one user. Valgrind counts them, so other load on the machine
//! does not change them. Each figure is the difference of two runs, one of which also made these calls.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use redis::{Client, Connection, cmd};
use shared::redis::test_server::{free_port, poll};
use shared::redis::{fields, server_program};

use crate::BoxError;
use crate::fast_path::{CALLS, GRAB, of_lua_queue, of_ours, pipelined};
use crate::heat::server_of;
use crate::ours::Engine;

const FOLDER: &str = "target/bench/callgrind";

/// The calls that a run makes, one kind after the other.
const RUNS: [(&str, &[&str]); 4] =
    [("none", &[]), ("winners", &["winner"]), ("repeats", &["winner", "winner"]), ("losers", &["winner", "loser"])];

/// Prints the instructions of a call for each kind of user, of this engine's script and of lua-queue's.
pub async fn run(dynamodb_url: &str) -> Result<(), BoxError> {
    let mut table = 0;
    let mut lines = Vec::new();
    for scheme in ["one user a call", "lua-queue"] {
        let mut counts = Vec::new();
        for (name, kinds) in RUNS {
            let server = Server::start(&format!("{scheme} {name}")).await?;
            let mut connection = server.client.get_connection()?;
            table += 1;
            let call = if scheme == "lua-queue" {
                of_lua_queue(&mut connection)?
            } else {
                let engine = Engine::new(&server.url, dynamodb_url, &format!("instructions{table}"), "redis").await?;
                of_ours(&engine, &mut connection, &fields::embed(GRAB)).await?
            };
            for kind in kinds {
                pipelined(&mut connection, (0..CALLS).map(|n| call(n, format!("{kind}-{n:06}"))))?;
            }
            counts.push(server.end(connection)?);
        }
        let [none, winners, repeats, losers] = counts[..] else { unreachable!("a count for each run") };
        let each = |more: u64, less| more.checked_sub(less).ok_or("more calls took fewer instructions");
        let [winner, repeat, loser] =
            [each(winners, none)?, each(repeats, winners)?, each(losers, winners)?].map(|all| all / u64::from(CALLS));
        lines.push(format!("  {scheme:16} {winner:>9} {repeat:>9} {loser:>9}"));
    }
    println!("Instructions of the server for a call:\n  {:16} {:>9} {:>9} {:>9}", "", "winner", "repeat", "loser");
    println!("{}", lines.join("\n"));
    Ok(())
}

/// A server under Valgrind.
struct Server {
    process: Child,
    counts: PathBuf,
    url: String,
    client: Client,
}

impl Server {
    async fn start(name: &str) -> Result<Self, BoxError> {
        std::fs::create_dir_all(FOLDER)?;
        let program = server_program::find().ok_or("there is no Redis or Valkey")?;
        let (counts, port) = (Path::new(FOLDER).join(format!("{name}.out")), free_port());
        let process = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("valgrind can't be started ({error}): run scripts/install-tools.sh valgrind"))?;
        let url = format!("redis://127.0.0.1:{port}");
        let client = Client::open(&*url)?;
        poll("the server under Valgrind", async || client.get_connection().ok()).await;
        eprintln!("{name}: {}", server_of(&client)?);
        Ok(Self { process, counts, url, client })
    }

    /// Ends the server. Returns all instructions that it has executed.
    fn end(mut self, mut connection: Connection) -> Result<u64, BoxError> {
        // It closes the connection in place of an answer.
        let _: Result<(), _> = cmd("SHUTDOWN").arg("NOSAVE").exec(&mut connection);
        self.process.wait()?;
        let counts = std::fs::read_to_string(&self.counts)?;
        let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
        Ok(total.ok_or("Valgrind has counted nothing")?.trim().parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
