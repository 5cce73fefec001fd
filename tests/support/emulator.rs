//! Functions' programs under the Lambda runtime interface emulator, which runs on Linux only.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use shared::redis::test_server::{free_port, poll};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// A function's program under an emulator of its own.
#[derive(Debug)]
pub struct Function {
    program: PathBuf,
    emulator: Child,
    address: SocketAddr,
    client: reqwest::Client,
    /// The emulator takes one event at a time.
    running: Mutex<()>,
    dir: TempDir,
}

impl Function {
    /// Starts `program` with these variables, and those that [`planted`] lets through.
    pub async fn start(program: PathBuf, variables: &[(&str, &str)]) -> Self {
        let dir = TempDir::new().unwrap();
        let log = || File::options().append(true).create(true).open(dir.path().join("log")).unwrap();
        let [address, runtime_api] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let emulator = Command::new(emulator())
            .args(["--runtime-interface-emulator-address", &address.to_string()])
            .args(["--runtime-api-address", &runtime_api.to_string()])
            .arg(&program)
            .env_clear()
            .envs(planted())
            .envs(variables.iter().copied())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log())
            .stderr(log())
            // Terminal signals reach only the tests, which then stop this process.
            .process_group(0)
            .spawn()
            .unwrap();
        let (client, running) = (reqwest::Client::new(), Mutex::new(()));
        let mut function = Self { program, emulator, address, client, running, dir };
        poll("the emulator", async || {
            assert_eq!(function.emulator.try_wait().unwrap(), None, "it ended: {}", function.log());
            TcpStream::connect(address).await.ok()
        })
        .await;
        function
    }

    /// The log of the function and the emulator.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// The function's answer to an event.
    pub async fn invoke(&self, event: &[u8]) -> Value {
        let _running = self.running.lock().await;
        let url = format!("http://{}/2015-03-31/functions/function/invocations", self.address);
        let answer = self.client.post(url).body(event.to_vec()).send().await;
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}: {}", self.program.display(), self.log()));
        let text = answer.text().await.unwrap();
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}: {text} {}", self.program.display(), self.log()))
    }

    /// The id of the function's process.
    pub fn process(&self) -> Option<u32> {
        descendants(self.emulator.id()).into_iter().find(|process| {
            std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|program| program == self.program)
        })
    }

    /// Stops the function's process as Lambda freezes an environment between two calls.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process().expect("a running function");
        kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // Orphans can't be found by their parent any more, so the descendants are listed first.
        let children = descendants(self.emulator.id());
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
        for child in children {
            if let Some(child) = i32::try_from(child).ok().and_then(Pid::from_raw) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
    }
}

/// The tests' own variables, by which somebody plants faults: crash points, or mistakes in the code that a variable switches on.
pub fn planted() -> impl Iterator<Item = (String, String)> {
    std::env::vars().filter(|(name, _)| name.starts_with("HONGBAO_"))
}

/// All descendants of a process.
fn descendants(process: u32) -> Vec<u32> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // "id (name) state parent …", where a name may contain anything.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        if parent.and_then(|parent| parent.parse().ok()) == Some(process) {
            all.push(id);
            all.extend(descendants(id));
        }
    }
    all
}

fn emulator() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/aws-lambda-rie");
    assert!(program.is_file(), "{} is missing: run `scripts/install-tools.sh rie` first", program.display());
    program.canonicalize().unwrap()
}
