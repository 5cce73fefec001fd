use redis::{Connection, RedisResult, cmd};

use super::{Client, Design, fill_lists};
use crate::rush::{Got, Rush};

/// The user's earlier result, a counter, a lock per user, a list. The check stands outside the lock.
///
/// It also records claims elsewhere, asynchronously. This is left out here, because nobody waits for it.
pub struct CheckLockPop;

fn queue(packet: usize) -> String {
    format!("queue:{packet}")
}

fn counter(packet: usize) -> String {
    format!("counter:{packet}")
}

impl Design for CheckLockPop {
    fn name(&self) -> &'static str {
        "check-lock-pop"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        fill_lists(redis, rush, queue, |slip| slip.to_string())?;
        (0..rush.packets).try_for_each(|packet| cmd("SET").arg(counter(packet)).arg(rush.slips).exec(redis))
    }

    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got> {
        let result = format!("result:{packet}:{user}");
        if let Some(slip) = client.ask::<Option<u64>>(cmd("GET").arg(&result))? {
            return Ok(Got::Slip(slip));
        }
        let counter = counter(packet);
        if client.ask::<i64>(cmd("GET").arg(&counter))? <= 0 {
            return Ok(Got::Nothing);
        }
        let lock = format!("lock:{user}");
        if !client.lock(&lock, 1)? {
            return Ok(Got::Nothing);
        }
        let slip: Option<u64> = client.ask(cmd("RPOP").arg(queue(packet)))?;
        // As published: if the list is empty, the lock stays until its timeout.
        let Some(slip) = slip else { return Ok(Got::Nothing) };
        let _: i64 = client.ask(cmd("DECR").arg(&counter))?;
        let _: String = client.ask(cmd("SET").arg(&result).arg(slip))?;
        let _: i64 = client.ask(cmd("DEL").arg(&lock))?;
        Ok(Got::Slip(slip))
    }
}
