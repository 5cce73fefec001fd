use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex};

use redis::{ErrorKind, ServerErrorKind, Value, make_extension_error};
use redis_model::{Answer, Keyspace, Refusal};

use crate::domain::{PartId, UserId};
use crate::lock;
use crate::ports::Clock;
use crate::redis::{Call, PartKeys, RedisError, RedisStore, Server, holds};

/// A hot store in memory. It runs the scripts that ship.
pub type MemoryHot = RedisStore<MemoryServer>;

/// A Redis server in memory, with its own clock. Each call is one step.
pub struct MemoryServer {
    clock: Arc<dyn Clock>,
    keys: Mutex<Keyspace>,
}

impl MemoryServer {
    /// An empty server.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, keys: Mutex::default() }
    }

    /// All that it holds now. It costs little: the values are shared until they change.
    pub fn snapshot(&self) -> Keyspace {
        lock(&self.keys).clone()
    }

    /// Restores an earlier state.
    pub fn restore(&self, earlier: &Keyspace) {
        lock(&self.keys).clone_from(earlier);
    }

    /// Restores only the selected keys.
    pub fn restore_some(&self, earlier: &Keyspace, is_selected: impl Fn(&[u8]) -> bool) {
        lock(&self.keys).restore(earlier, is_selected);
    }

    /// Whether it refuses what may need more memory.
    pub fn set_full(&self, is_full: bool) {
        lock(&self.keys).is_full = is_full;
    }

    /// Runs a command, also one that no script runs.
    ///
    /// # Errors
    /// The command is refused.
    pub fn command(&self, arguments: &[&str]) -> Answer {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        lock(&self.keys).command(self.now_us(), &arguments)
    }

    /// The fields of the hash of a part, by their names; empty if there is none.
    pub fn part(&self, part: PartId) -> BTreeMap<String, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let keys = lock(&self.keys);
        keys.hash(PartKeys::of(part).part.as_bytes()).map(|(name, value)| (text(name), text(value))).collect()
    }

    /// The holds of a part, each with its user.
    pub fn holds(&self, part: PartId) -> Vec<(u32, UserId)> {
        holds(&self.part(part)).map(|entry| (entry.hold.slip, entry.hold.user)).collect()
    }

    /// The free slips of a part.
    pub fn free(&self, part: PartId) -> Vec<u32> {
        let (name, keys) = (PartKeys::of(part).free, lock(&self.keys));
        let slips = keys.list(name.as_bytes()).map(String::from_utf8_lossy);
        slips.filter_map(|slip| slip.parse().ok()).collect()
    }

    /// Whether a part is in the queue of pending parts.
    pub fn is_pending(&self, part: PartId) -> bool {
        let keys = PartKeys::of(part);
        self.command(&["ZSCORE", &keys.pending, &keys.name]).is_ok_and(|score| score != Value::Nil)
    }

    fn now_us(&self) -> u64 {
        self.clock.now().ms() * 1_000
    }

    fn answer(&self, call: &Call) -> Result<Value, RedisError> {
        let arguments = call.arguments();
        let mut keys = lock(&self.keys);
        let answer = match call.source() {
            None => keys.command(self.now_us(), &arguments),
            Some(source) => {
                let (names, arguments) = call.keys_and_arguments();
                keys.script(self.now_us(), source, &names, &arguments)
            }
        };
        answer.map_err(refused)
    }
}

/// The error that a client makes of a server's.
fn refused(refusal: Refusal) -> RedisError {
    let Refusal { code, detail } = refusal;
    let error = if code == "ERR" {
        (ErrorKind::Server(ServerErrorKind::ResponseError), "refused", detail).into()
    } else {
        make_extension_error(code, Some(detail))
    };
    RedisError::in_memory(error)
}

impl Server for MemoryServer {
    fn run(&self, call: &Call) -> impl Future<Output = Result<Value, RedisError>> + Send {
        ready(self.answer(call))
    }

    fn is_cluster(&self) -> bool {
        false
    }
}

impl fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryServer").field("keys", &*lock(&self.keys)).finish_non_exhaustive()
    }
}

impl MemoryHot {
    /// An empty hot store in memory, which goes by this clock.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Self {
        Self::new(MemoryServer::new(clock))
    }
}
