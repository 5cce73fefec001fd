//! The program `hongbao` as a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running local stack. Dropped, it is killed and takes its Redis along.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// The address of the API.
    pub url: String,
    /// The address of its own Redis.
    pub redis_url: Option<String>,
    /// The address of its own `DynamoDB`.
    pub dynamodb_url: Option<String>,
}

/// A program of the same build, which lies in this program's folder.
///
/// # Panics
/// If it is missing.
pub fn beside(name: &str) -> Command {
    let program = std::env::current_exe().unwrap().with_file_name(name);
    assert!(program.is_file(), "{} is missing: make builds it together with this program", program.display());
    Command::new(program)
}

impl Program {
    /// Starts `command`, which is `hongbao dev` with its arguments, and waits until it serves. Returns the exit status if it ends
    /// instead.
    pub fn start(command: &mut Command) -> Result<Self, ExitStatus> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The first block has the addresses.
        let welcome: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let address = |what: &str| {
            let line = welcome.iter().find(|line| line.contains(what))?;
            Some(line.rsplit(' ').next()?.to_owned())
        };
        let Some(url) = address("ready at") else { return Err(child.wait().unwrap()) };
        Ok(Self { url, redis_url: address("Redis runs at"), dynamodb_url: address("DynamoDB runs at"), child })
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(mut self) -> ExitStatus {
        let process = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(process, Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }

    /// Resident memory of the process, in MB.
    pub fn resident_mb(&self) -> u64 {
        resident_mb(self.child.id())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resident memory of a process, in MB.
pub fn resident_mb(process: u32) -> u64 {
    let ps = Command::new("ps").args(["-o", "rss=", "-p", &process.to_string()]).output().unwrap();
    String::from_utf8(ps.stdout).unwrap().trim().parse::<u64>().unwrap() / 1024
}
