//! The local stack as a process of its own, so that its memory is not mixed with that of the client.

use tests::program::{Program, beside};

/// A running local stack without files, and without runs of settle of its own.
pub struct Stack {
    program: Program,
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
        Self::start_with(&[])
    }

    /// Starts it with more flags.
    pub fn start_with(flags: &[&str]) -> Self {
        let mut command = beside("local");
        command.args(["--port", "0", "--ephemeral", "--settle-every", "0s"]).args(flags);
        let program = Program::start(&mut command);
        let program = program.unwrap_or_else(|status| panic!("the local stack ended: {status}"));
        let address = |address: &Option<String>| address.clone().unwrap();
        Self {
            url: program.url.clone(),
            redis_url: address(&program.redis_url),
            dynamodb_url: address(&program.dynamodb_url),
            program,
        }
    }

    /// Resident memory of the process, in MB.
    pub fn resident_mb(&self) -> u64 {
        self.program.resident_mb()
    }
}
