use std::sync::Arc;

use redis::{Arg, Cmd, ToRedisArgs, cmd};

use crate::redis::keys;

/// A Lua script, hashed once. Make one of each and keep it.
#[derive(Clone, Debug)]
pub struct Script {
    code: Arc<str>,
    hash: String,
}

impl Script {
    /// The script with this source.
    #[must_use]
    pub fn new(code: impl Into<Arc<str>>) -> Self {
        let code = code.into();
        let hash = redis::Script::new(&code).get_hash().to_owned();
        Self { code, hash }
    }

    /// A call of the script. A cluster routes it by the first of `keys`, so all of them share one hash tag, and there is
    /// at least one: `ElastiCache` Serverless refuses a script without keys.
    #[must_use]
    pub fn call<K: AsRef<[u8]>>(&self, keys: &[K]) -> Call {
        let mut command = cmd("EVALSHA");
        command.arg(&self.hash).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        Call { command, code: Some(Arc::clone(&self.code)) }
    }
}

/// What one call sends: a script with its keys and arguments, or a simple command. It may be executed twice, so it must be
/// idempotent.
#[derive(Clone)]
pub struct Call {
    pub(super) command: Cmd,
    /// A script's source, for a server that does not know its hash yet.
    code: Option<Arc<str>>,
}

impl Call {
    /// Appends an argument. Bytes pass as they are.
    #[must_use]
    pub fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.command.arg(arg);
        self
    }

    /// The number of its arguments, with the command's name.
    pub(in crate::redis) fn argument_count(&self) -> usize {
        self.command.args_iter().count()
    }

    /// The source of the script that it calls; none if it calls no script.
    pub const fn source(&self) -> Option<&Arc<str>> {
        self.code.as_ref()
    }

    fn each_argument(&self) -> impl Iterator<Item = &[u8]> {
        // A command of these has no cursor.
        self.command.args_iter().map(|argument| if let Arg::Simple(bytes) = argument { bytes } else { &[] })
    }

    /// A command with its arguments.
    pub fn arguments(&self) -> Vec<&[u8]> {
        self.each_argument().collect()
    }

    /// A script's keys, and its arguments.
    pub fn keys_and_arguments(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        // The name of the command, the script's hash, the number of keys.
        let mut rest = self.arguments().split_off(2);
        let count = rest.remove(0);
        let count = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
        let arguments = rest.split_off(count);
        (rest, arguments)
    }

    /// The cluster slot of its first key: a script's comes after its hash and the number of keys, another command's is its first
    /// argument. None: it has no key.
    pub(super) fn slot(&self) -> Option<u16> {
        self.each_argument().nth(if self.code.is_some() { 3 } else { 1 }).map(keys::slot)
    }

    /// The call with the script's source in place of its hash; none if it calls no script.
    ///
    /// EVAL rather than SCRIPT LOAD: it needs one round trip, and leaves the script in the server's cache.
    pub(super) fn with_source(&self) -> Option<Cmd> {
        let mut eval = cmd("EVAL");
        eval.arg(self.code.as_deref()?).arg(&self.arguments()[2..]);
        Some(eval)
    }
}

impl From<Cmd> for Call {
    fn from(command: Cmd) -> Self {
        Self { command, code: None }
    }
}
