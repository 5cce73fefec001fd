//! The published designs, each with its faults.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Connection, RedisResult, Script, cmd};

use crate::BoxError;
use crate::clients::Grabs;
use crate::rush::{Got, Rush};

/// A design whose clients are threads, each with one connection and one command in flight.
pub trait Design: Sync {
    /// Its name in the report.
    fn name(&self) -> &'static str;

    /// Puts the packets of a rush into an empty Redis.
    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()>;

    /// One grab.
    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got>;
}

/// A thread's connection, which counts its round trips.
pub struct Client {
    redis: Connection,
    calls: u64,
    /// The client's number, which no other client has.
    number: u64,
}

impl Client {
    /// The client with this number, over a connection of its own.
    #[must_use]
    pub const fn new(redis: Connection, number: u64) -> Self {
        Self { redis, calls: 0, number }
    }

    /// Round trips so far.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// A value that only this client writes, and only once.
    fn token(&self) -> u64 {
        (self.number << 40) | self.calls
    }

    fn ask<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> RedisResult<T> {
        self.calls += 1;
        command.query(&mut self.redis)
    }

    fn run(&mut self, script: &Script, keys: &[&str], argument: &str) -> RedisResult<i64> {
        self.calls += 1;
        let mut invocation = script.arg(argument);
        for key in keys {
            invocation.key(*key);
        }
        invocation.invoke(&mut self.redis)
    }

    /// `SET key value NX PX 3000`: whether the caller has the lock now.
    fn lock(&mut self, key: &str, value: u64) -> RedisResult<bool> {
        Ok(self.ask::<Option<String>>(cmd("SET").arg(key).arg(value).arg("NX").arg("PX").arg(3_000))?.is_some())
    }
}

/// Writes a list of slips per packet, numbered from 1, in pieces of bounded size.
fn fill_lists(
    redis: &mut Connection,
    rush: &Rush,
    key: impl Fn(usize) -> String,
    slip: impl Fn(u32) -> String,
) -> RedisResult<()> {
    for packet in 0..rush.packets {
        for piece in (1..=rush.slips).collect::<Vec<_>>().chunks(1_000) {
            let slips: Vec<String> = piece.iter().copied().map(&slip).collect();
            cmd("LPUSH").arg(key(packet)).arg(slips).exec(redis)?;
        }
    }
    Ok(())
}

const LUA_QUEUE: &str = include_str!("lua_queue.lua");

/// Slips as JSON in a list; a script moves one to another list, once per user. The client sends its text each time.
pub struct LuaQueue;

impl LuaQueue {
    /// The keys of a packet: free slips, consumed slips, map of users.
    fn keys(packet: usize) -> [String; 3] {
        ["hongBaoList", "hongBaoConsumedList", "hongBaoConsumedMap"].map(|key| format!("{key}:{packet}"))
    }

    /// Reads the script's answer. It is nil for losers, and for winners who ask again.
    fn got(answer: Option<&str>) -> Got {
        // {"userId":"…","id":17,"money":…}: the fields come in any order.
        let id = answer.and_then(|slip| slip.split("\"id\":").nth(1));
        let id = id.and_then(|rest| rest.split([',', '}']).next()?.parse().ok());
        id.map_or(Got::Nothing, Got::Slip)
    }
}

impl Design for LuaQueue {
    fn name(&self) -> &'static str {
        "lua-queue"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        let slip = |id| format!("{{\"id\":{id},\"money\":{}}}", id % 200 + 1);
        fill_lists(redis, rush, |packet| Self::keys(packet)[0].clone(), slip)
    }

    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got> {
        let answer: Option<String> =
            client.ask(cmd("EVAL").arg(LUA_QUEUE).arg(4).arg(&Self::keys(packet)).arg(user))?;
        Ok(Self::got(answer.as_deref()))
    }
}

/// lua-queue with this engine's client: it calls the script by its hash, pipelined over one connection.
pub struct LuaQueuePipelined {
    redis: redis::Client,
    connection: shared::redis::Connection,
    script: shared::redis::Script,
}

impl LuaQueuePipelined {
    /// A client of a Redis.
    pub fn new(config: &shared::redis::RedisConfig) -> Result<Self, BoxError> {
        Ok(Self {
            redis: redis::Client::open(config.url.clone())?,
            connection: shared::redis::Connection::new(config)?,
            script: shared::redis::Script::new(LUA_QUEUE),
        })
    }
}

impl Grabs for LuaQueuePipelined {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        LuaQueue.fill(&mut self.redis.get_connection()?, rush)?;
        Ok(())
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let [free, consumed, map] = LuaQueue::keys(packet);
        let call = self.script.call(&[free.as_str(), &consumed, &map, user]);
        let answer: Option<String> = self.connection.run(&call).await?;
        Ok(LuaQueue::got(answer.as_deref()))
    }
}

/// As published: the caller ignores what this returns.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('sadd', KEYS[1], ARGV[1]) == 1 then return redis.call('decr', KEYS[2]) end
         return -1",
    )
});
/// The guard that its author names beside it: the counter never falls below zero.
static TAKE_GUARDED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if tonumber(redis.call('get', KEYS[2])) <= 0 then return -2 end
         if redis.call('sadd', KEYS[1], ARGV[1]) == 1 then return redis.call('decr', KEYS[2]) end
         return -1",
    )
});
/// Releases a lock, if it is the caller's.
static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
         return 0",
    )
});

/// Sets a counter of the slips per packet.
fn fill_counters(redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
    (0..rush.packets).try_for_each(|packet| cmd("SET").arg(format!("counter:{packet}")).arg(rush.slips).exec(redis))
}

/// A counter of the slips that are left, and a lock per user. The amount is drawn afterwards.
pub struct LockCounter {
    /// Whether the script looks at the counter first.
    is_guarded: bool,
    /// Numbers for its slips, which have none.
    next: AtomicU64,
}

impl LockCounter {
    /// As published, or with the guard.
    pub const fn new(is_guarded: bool) -> Self {
        Self { is_guarded, next: AtomicU64::new(0) }
    }

    /// Takes a slip. The caller holds the lock.
    fn take(&self, client: &mut Client, counter: &str, packet: usize, user: &str) -> RedisResult<Got> {
        let grabbed = format!("grabbed:{packet}");
        let left: i64 = client.ask(cmd("DECRBY").arg(counter).arg(0))?;
        if left < 0 || client.ask(cmd("SISMEMBER").arg(&grabbed).arg(user))? {
            return Ok(Got::Nothing);
        }
        let script = if self.is_guarded { &TAKE_GUARDED } else { &TAKE };
        if client.run(script, &[&grabbed, counter], user)? < 0 && self.is_guarded {
            return Ok(Got::Nothing);
        }
        Ok(Got::Slip(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Design for LockCounter {
    fn name(&self) -> &'static str {
        if self.is_guarded { "lock-counter, guarded" } else { "lock-counter" }
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        fill_counters(redis, rush)
    }

    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got> {
        let counter = format!("counter:{packet}");
        let left: i64 = client.ask(cmd("DECRBY").arg(&counter).arg(0))?;
        let (lock, token) = (format!("lock:{packet}:{user}"), client.token());
        if left <= 0 || !client.lock(&lock, token)? {
            return Ok(Got::Nothing);
        }
        let got = self.take(client, &counter, packet, user)?;
        client.run(&UNLOCK, &[&lock], &token.to_string())?;
        Ok(got)
    }
}

/// A counter that is read first, a set of users, and a count-down without a check.
#[derive(Default)]
pub struct NoLock {
    next: AtomicU64,
}

impl Design for NoLock {
    fn name(&self) -> &'static str {
        "no-lock"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        fill_counters(redis, rush)
    }

    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got> {
        let counter = format!("counter:{packet}");
        let left: i64 = client.ask(cmd("GET").arg(&counter))?;
        if left <= 0 || !client.ask::<bool>(cmd("SADD").arg(format!("grabbed:{packet}")).arg(user))? {
            return Ok(Got::Nothing);
        }
        client.ask::<i64>(cmd("DECR").arg(&counter))?;
        Ok(Got::Slip(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

/// The user's earlier result, a counter, a lock per user, a list. It also records claims elsewhere, for which nobody waits.
pub struct CheckLockPop;

impl Design for CheckLockPop {
    fn name(&self) -> &'static str {
        "check-lock-pop"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        fill_lists(redis, rush, |packet| format!("queue:{packet}"), |slip| slip.to_string())?;
        fill_counters(redis, rush)
    }

    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got> {
        let (result, counter) = (format!("result:{packet}:{user}"), format!("counter:{packet}"));
        if let Some(slip) = client.ask::<Option<u64>>(cmd("GET").arg(&result))? {
            return Ok(Got::Slip(slip));
        }
        let lock = format!("lock:{user}");
        if client.ask::<i64>(cmd("GET").arg(&counter))? <= 0 || !client.lock(&lock, 1)? {
            return Ok(Got::Nothing);
        }
        // As published: if the list is empty, the lock stays until its time is over.
        let slip: Option<u64> = client.ask(cmd("RPOP").arg(format!("queue:{packet}")))?;
        let Some(slip) = slip else { return Ok(Got::Nothing) };
        client.ask::<i64>(cmd("DECR").arg(&counter))?;
        client.ask::<String>(cmd("SET").arg(&result).arg(slip))?;
        client.ask::<i64>(cmd("DEL").arg(&lock))?;
        Ok(Got::Slip(slip))
    }
}

/// A list of slips, popped under one lock per packet. A client without the lock tries again at once.
pub struct PureQueue;

impl Design for PureQueue {
    fn name(&self) -> &'static str {
        "pure-queue"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        fill_lists(redis, rush, |packet| format!("queue:{packet}"), |slip| slip.to_string())
    }

    fn grab(&self, client: &mut Client, packet: usize, _user: &str) -> RedisResult<Got> {
        let lock = format!("lock:{packet}");
        while !client.lock(&lock, 1)? {}
        let slip: Option<u64> = client.ask(cmd("RPOP").arg(format!("queue:{packet}")))?;
        let _: i64 = client.ask(cmd("DEL").arg(&lock))?;
        Ok(slip.map_or(Got::Nothing, Got::Slip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_read_whatever_the_order_of_its_fields() {
        assert_eq!(LuaQueue::got(Some("{\"userId\":\"a\",\"id\":17,\"money\":3}")), Got::Slip(17));
        assert_eq!(LuaQueue::got(Some("{\"money\":3,\"id\":17}")), Got::Slip(17));
        assert_eq!(LuaQueue::got(None), Got::Nothing);
    }
}
