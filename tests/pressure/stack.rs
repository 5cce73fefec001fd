//! The local stack as a process of its own, so that its memory is not mixed with that of the client.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use std::io::{BufRead, BufReader};

/// A running local stack without files.
pub struct Stack {
    child: Child,
    /// The address of the API.
    pub url: String,
    /// The address of its Redis.
    pub redis_url: String,
    /// The address of its `DynamoDB`.
    pub dynamodb_url: String,
}

impl Stack {
    /// Starts the program `local` in this program's folder.
    pub fn start() -> Self {
        let program = std::env::current_exe().unwrap().with_file_name("local");
        assert!(Path::new(&program).exists(), "{} is missing: make pressure builds it", program.display());
        let arguments = ["--port", "0", "--ephemeral", "--settle-every", "0s"];
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut address = |what: &str| {
            let line = lines.find(|line| line.contains(what)).unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        };
        let url = address("ready at");
        let (redis_url, dynamodb_url) = (address("Redis runs at"), address("DynamoDB runs at"));
        Self { child, url, redis_url, dynamodb_url }
    }

    /// Resident memory of the process, in MB.
    pub fn resident_mb(&self) -> u64 {
        resident_mb(self.child.id())
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // Killed, it takes its Redis along.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resident memory of a process, in MB.
pub fn resident_mb(process: u32) -> u64 {
    let ps = Command::new("ps").args(["-o", "rss=", "-p", &process.to_string()]).output().unwrap();
    String::from_utf8(ps.stdout).unwrap().trim().parse::<u64>().unwrap() / 1024
}
