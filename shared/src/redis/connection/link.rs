use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, cmd, pipe};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::call::Call;
use crate::lock;

/// A connection, shared by all calls.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    shared: Arc<Shared>,
}

struct Shared {
    /// When it last served a call, or began.
    used: Mutex<FreezeAwareInstant>,
    /// The task that moves its bytes. It ends with the last use of the connection: a mute one would keep it for long.
    _driver: JoinSet<()>,
}

impl Link {
    pub(super) fn new(connection: MultiplexedConnection, driver: impl Future<Output = ()> + Send + 'static) -> Self {
        let shared = Shared { used: Mutex::new(FreezeAwareInstant::now()), _driver: JoinSet::from_iter([driver]) };
        Self { connection, shared: Arc::new(shared) }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Notes that it has served a call.
    pub(super) fn served(&self) {
        *lock(&self.shared.used) = FreezeAwareInstant::now();
    }

    pub(super) fn idle(&self) -> Duration {
        lock(&self.shared.used).elapsed()
    }

    /// The server's answer to `call`, which is executed once.
    pub(super) async fn answer(&mut self, call: &Call, asking: bool) -> RedisResult<Value> {
        match self.query(&call.command, asking).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => match call.with_source() {
                Some(eval) => self.query(&eval, asking).await,
                None => Err(error),
            },
            answer => answer,
        }
    }

    async fn query(&mut self, command: &Cmd, asking: bool) -> RedisResult<Value> {
        if !asking {
            return command.query_async(&mut self.connection).await;
        }
        // Both at once: another call in between would use up the permission.
        let mut both = pipe();
        both.cmd("ASKING").ignore().add_command(command.clone()).ignore_errors();
        let mut answers: Vec<RedisResult<Value>> = both.query_async(&mut self.connection).await?;
        answers.pop().unwrap_or_else(|| Err(io::Error::other("no answer came").into()))
    }

    /// Whether the server answers within this time, whatever it says.
    pub(super) async fn is_alive(&mut self, within: Duration) -> bool {
        let ping = cmd("PING");
        let answer = timeout(within, self.query(&ping, false)).await;
        answer.is_ok_and(|answer| answer.err().is_none_or(|error| matches!(error.kind(), ErrorKind::Server(_))))
    }
}

/// A point in time by two clocks, so that it also counts the time in which Lambda froze the process.
///
/// A frozen function's monotonic clock may stand still while its peers give it up. The wall clock may be set back. The longer of
/// the two times counts.
#[derive(Clone, Copy)]
struct FreezeAwareInstant {
    monotonic: Instant,
    wall: SystemTime,
}

impl FreezeAwareInstant {
    fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    fn elapsed(self) -> Duration {
        self.monotonic.elapsed().max(self.wall.elapsed().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_says_longer_counts() {
        let now = FreezeAwareInstant::now();
        let hour = Duration::from_hours(1);
        let frozen = FreezeAwareInstant { wall: now.wall - hour, ..now };
        assert!(frozen.elapsed() >= hour);
        let set_back = FreezeAwareInstant { wall: now.wall + hour, ..now };
        assert!(set_back.elapsed() < hour);
    }
}
