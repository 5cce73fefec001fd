use redis::{Connection, RedisResult, cmd};

use super::{Client, Design, fill_lists};
use crate::rush::{Got, Rush};

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
