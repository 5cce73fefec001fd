use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Connection, RedisResult, Script, cmd};

use super::{Client, Design};
use crate::rush::{Got, Rush};

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/take.lua")));
static TAKE_GUARDED: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/take_guarded.lua")));
static UNLOCK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/unlock.lua")));

/// A counter of the slips that are left, and a lock per user. The amount is drawn afterwards.
pub struct LockCounter {
    /// Whether the script checks the counter before it counts down.
    pub guarded: bool,
    /// Numbers for its slips, which have none.
    pub next: AtomicU64,
}

impl LockCounter {
    /// As published, or with the guard that the publication mentions.
    #[must_use]
    pub fn new(guarded: bool) -> Self {
        Self { guarded, next: AtomicU64::new(0) }
    }

    fn left(client: &mut Client, counter: &str) -> RedisResult<i64> {
        client.ask(cmd("DECRBY").arg(counter).arg(0))
    }

    /// Takes a slip. The caller holds the lock.
    fn take(&self, client: &mut Client, counter: &str, packet: usize, user: &str) -> RedisResult<Got> {
        let grabbed = grabbed(packet);
        if Self::left(client, counter)? < 0 || client.ask(cmd("SISMEMBER").arg(&grabbed).arg(user))? {
            return Ok(Got::Nothing);
        }
        if self.guarded {
            let left: i64 = client.run(&TAKE_GUARDED, &[&grabbed, counter], user)?;
            if left < 0 {
                return Ok(Got::Nothing);
            }
        } else {
            let _: i64 = client.run(&TAKE, &[&grabbed, counter], user)?;
        }
        Ok(Got::Slip(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Design for LockCounter {
    fn name(&self) -> &'static str {
        if self.guarded { "lock-counter, guarded" } else { "lock-counter" }
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        fill_counters(redis, rush)
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

/// The same without a lock, and without a check of the counter afterwards.
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
        let counter = counter(packet);
        if client.ask::<i64>(cmd("GET").arg(&counter))? <= 0 {
            return Ok(Got::Nothing);
        }
        if client.ask::<i64>(cmd("SADD").arg(grabbed(packet)).arg(user))? == 0 {
            return Ok(Got::Nothing);
        }
        let _: i64 = client.ask(cmd("DECR").arg(&counter))?;
        Ok(Got::Slip(self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

fn counter(packet: usize) -> String {
    format!("counter:{packet}")
}

fn grabbed(packet: usize) -> String {
    format!("grabbed:{packet}")
}

fn fill_counters(redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
    (0..rush.packets).try_for_each(|packet| cmd("SET").arg(counter(packet)).arg(rush.slips).exec(redis))
}
