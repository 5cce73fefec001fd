//! Designs whose clients send commands one by one, and PING to compare them with.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Connection, RedisResult, Script, cmd};

use super::{Client, Design, fill_lists};
use crate::rush::{Got, Rush};

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/take.lua")));
static UNLOCK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/unlock.lua")));

/// A counter of the slips that are left, and a lock per user. The amount is drawn afterwards.
#[derive(Default)]
pub struct LockCounter {
    /// Numbers for its slips, which have none.
    next: AtomicU64,
}

impl LockCounter {
    fn left(client: &mut Client, counter: &str) -> RedisResult<i64> {
        client.ask(cmd("DECRBY").arg(counter).arg(0))
    }

    /// Takes a slip. The caller holds the lock.
    fn take(&self, client: &mut Client, counter: &str, packet: usize, user: &str) -> RedisResult<Got> {
        let grabbed = grabbed(packet);
        if Self::left(client, counter)? < 0 || client.ask(cmd("SISMEMBER").arg(&grabbed).arg(user))? {
            return Ok(Got::Nothing);
        }
        let _: i64 = client.run(&TAKE, &[&grabbed, counter], user)?;
        Ok(Got::Slip(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Design for LockCounter {
    fn name(&self) -> &'static str {
        "lock-counter"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        (0..rush.packets).try_for_each(|packet| cmd("SET").arg(counter(packet)).arg(rush.slips).exec(redis))
    }

    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got> {
        let counter = counter(packet);
        if Self::left(client, &counter)? <= 0 {
            return Ok(Got::Nothing);
        }
        let (lock, token) = (format!("lock:{packet}:{user}"), client.token());
        if !client.lock(&lock, token)? {
            return Ok(Got::Nothing);
        }
        let got = self.take(client, &counter, packet, user)?;
        let _: i64 = client.run(&UNLOCK, &[&lock], &token.to_string())?;
        Ok(got)
    }
}

fn counter(packet: usize) -> String {
    format!("counter:{packet}")
}

fn grabbed(packet: usize) -> String {
    format!("grabbed:{packet}")
}

/// A list of slips, popped under one lock per packet. A client without the lock tries again at once.
pub struct PureQueue;

fn queue(packet: usize) -> String {
    format!("queue:{packet}")
}

impl Design for PureQueue {
    fn name(&self) -> &'static str {
        "pure-queue"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        fill_lists(redis, rush, queue, |slip| slip.to_string())
    }

    fn grab(&self, client: &mut Client, packet: usize, _user: &str) -> RedisResult<Got> {
        let lock = format!("lock:{packet}");
        while !client.lock(&lock, 1)? {}
        let slip: Option<u64> = client.ask(cmd("RPOP").arg(queue(packet)))?;
        let _: i64 = client.ask(cmd("DEL").arg(&lock))?;
        Ok(slip.map_or(Got::Nothing, Got::Slip))
    }
}

/// Not a design: PING instead of a grab. No client with one command in flight per connection can be faster.
pub struct Ping;

impl Design for Ping {
    fn name(&self) -> &'static str {
        "PING"
    }

    fn fill(&self, _redis: &mut Connection, _rush: &Rush) -> RedisResult<()> {
        Ok(())
    }

    fn grab(&self, client: &mut Client, _packet: usize, _user: &str) -> RedisResult<Got> {
        let _: String = client.ask(&cmd("PING"))?;
        Ok(Got::Nothing)
    }
}
