//! The engine's Lua scripts without a server: Redis' own version of Lua, over a model of the commands that the scripts use.
//!
//! It is for tests and sandboxes that need thousands of hot stores, a clock of their own, or a store that misbehaves on purpose.
//! `tests/it/scripts/redis_model.rs` sends the same random commands and scripts to this model, to Redis and to Valkey, and compares
//! the answers.
//!
//! What it leaves out: it has one database, does not replicate and counts no memory. A test says when the memory is full. Then each command
//! that grows is refused, where a server lets a script go on after its first write. A hash shows its fields in the order of their
//! names, where a server may show any order.

mod commands;
mod keyspace;
mod script;

use keyspace::Call;

pub use keyspace::{Key, Keyspace};
pub use script::Source;

/// A server's error: a code, such as `WRONGTYPE` or `ERR`, and a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The first word of the answer.
    pub code: String,
    /// The rest.
    pub detail: String,
}

impl Refusal {
    fn new(code: &str, detail: impl Into<String>) -> Self {
        Self { code: code.to_owned(), detail: detail.into() }
    }

    fn err(detail: impl Into<String>) -> Self {
        Self::new("ERR", detail)
    }

    /// The error whose text a server sends, `CODE the rest`.
    fn read(text: &str) -> Self {
        let text = text.strip_prefix('-').unwrap_or(text);
        let (code, detail) = text.split_once(' ').unwrap_or(("ERR", text));
        Self::new(code, detail)
    }
}

/// An answer, or the server's error.
pub type Answer = Result<redis::Value, Refusal>;

impl Keyspace {
    /// Runs a command at this time of the server's clock, in microseconds since the epoch.
    pub fn command(&mut self, now_us: u64, arguments: &[&[u8]]) -> Answer {
        let call = Call { now_us, ..Call::default() };
        commands::run(self, call, arguments)
    }

    /// Runs a script, as EVAL does.
    pub fn script(&mut self, now_us: u64, source: &Source, keys: &[&[u8]], arguments: &[&[u8]]) -> Answer {
        script::run(self, now_us, source, keys, arguments)
    }
}
