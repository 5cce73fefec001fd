//! The published designs, each with its faults.

mod lua_queue;
mod pipelined;
mod published;

use redis::{Connection, RedisResult, Script};

pub use lua_queue::LuaQueue;
pub use pipelined::LuaQueuePipelined;
pub use published::{LockCounter, Ping, PureQueue};

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

    fn run<T: redis::FromRedisValue>(&mut self, script: &Script, keys: &[&str], user: &str) -> RedisResult<T> {
        self.calls += 1;
        let mut invocation = script.arg(user);
        for key in keys {
            invocation.key(*key);
        }
        invocation.invoke(&mut self.redis)
    }

    /// `SET key value NX PX 3000`: whether the caller has the lock now.
    fn lock(&mut self, key: &str, value: u64) -> RedisResult<bool> {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("NX").arg("PX").arg(3_000);
        Ok(self.ask::<Option<String>>(&set)?.is_some())
    }
}

/// Writes a list of slips per packet, numbered from 1, in pieces of bounded size.
fn fill_lists(
    redis: &mut Connection,
    rush: &Rush,
    key: impl Fn(usize) -> String,
    slip: impl Fn(u32) -> String,
) -> RedisResult<()> {
    const PIECE: u32 = 1_000;
    for packet in 0..rush.packets {
        let mut first = 1;
        while first <= rush.slips {
            let last = rush.slips.min(first + PIECE - 1);
            let slips: Vec<String> = (first..=last).map(&slip).collect();
            redis::cmd("LPUSH").arg(key(packet)).arg(slips).exec(redis)?;
            first = last + 1;
        }
    }
    Ok(())
}
